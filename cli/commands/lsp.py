"""Command `lsp`: a language server for editors, on standard input and output."""

from __future__ import annotations

import argparse
import sys

from cli.command import SNAPSHOTS, CommandError, Exit, flags_of
from cli.language_server.server import PolicyServer
from cli.version import version
from engine.cache.cluster_copy import read_documents
from engine.objects.request_pod import ObjectCodec
from grammar.meaning.schema import load_schema
from policies.loader import Search

EXAMPLES = """\
examples:
  placet lsp
  placet lsp --cluster cluster.json policies/
"""


ARGUMENTS = flags_of(f"""
  [PATH...]
    a policy file or a folder of them, with policies that `use` may name; the files in the folder of
    an open text are always known
{SNAPSHOTS}
""")


def run(args: argparse.Namespace) -> int:
    if sys.stdin.isatty():
        hint = "the page Editors of the documentation has the lines for each editor"
        raise CommandError("`placet lsp` answers an editor, which starts it itself", hint)
    for problem in Search(args.paths).problems:
        raise CommandError(problem.message, problem.hint)
    codec = ObjectCodec(load_schema())
    cluster = read_documents(args.cluster).cluster(codec) if args.cluster else None
    PolicyServer(args.paths, cluster, codec, version()).run()
    return Exit.OK
