"""Command `repl`: an interactive session about a cluster and its policies."""

from __future__ import annotations

import argparse
import sys
from functools import partial

from cli.command import CONTEXT, WORLD, Exit, flags_of, input_lines
from cli.render import print_error, put_findings
from cli.repl.conversation import FindingsError, ReplSession, answer_lines, put_loaded
from cli.sources import chosen_flag, is_live, names_cluster, source_of
from cli.version import version
from grammar.messages.diagnostics import UserError

EXAMPLES = """\
examples:
  placet repl
  placet repl --cluster cluster.json --policies policies/
  placet repl --context test --policies policies/
  echo 'node.free["cpu"]' | placet repl --cluster cluster.json
"""


ARGUMENTS = flags_of(f"""
{WORLD}
a running cluster:
{CONTEXT}
""")


def run(args: argparse.Namespace) -> int:
    # There is a cluster: that of files, or one that is named.
    is_named = chosen_flag(args) is not None or names_cluster()
    has_cluster = bool(args.cluster) or (is_live(args) and is_named)
    source = partial(source_of, args) if has_cluster else None
    session = ReplSession(args.policies, source)
    try:
        files = session.reload()
    except FindingsError as error:
        put_findings(error.findings)
        return Exit.ERROR
    except UserError as error:
        if args.policies or args.cluster or chosen_flag(args) is not None:
            raise
        # A session that nobody asked to have a cluster does without one.
        print_error(f"no cluster is loaded: {error.message}", error.hint)
        session, files = ReplSession(), []
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return Exit.OK if answer_lines(session, input_lines()) else Exit.FINDINGS
    print(f"placet {version()}: `:help` lists the commands, Ctrl-D leaves")
    put_loaded(session, files)
    # This import is slow too, and a pipe does not need it.
    from cli.repl.terminal import converse  # noqa: PLC0415

    converse(session)
    return Exit.OK
