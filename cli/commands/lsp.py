"""Command `lsp`: a language server for editors, on standard input and output."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from functools import partial

from cli.cluster_warnings import ClusterWarnings
from cli.command import CommandError, Exit, given_path
from cli.language_server.files import Effects, Warn
from cli.language_server.server import PolicyServer
from cli.repl.session import ClusterOrigin, ReplSession
from cli.repl.terminal import SessionSamples
from cli.version import version
from cli.world import add_cluster_argument
from engine.explanation.effects import EffectOfPolicy, effects_of
from grammar.messages.diagnostics import UserError
from policies.loader import Search
from policies.validation import Validation

# The pods that are asked about while an author waits.
_MOST_PODS = 100

EXAMPLES = """\
examples:
  placet lsp
  placet lsp --cluster cluster.json policies/
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "paths",
        metavar="PATH",
        nargs="*",
        type=given_path,
        help="a policy file or a folder of them, with policies that `use` may name; the files in "
        "the folder of an open text are always known",
    )
    add_cluster_argument(parser)


def run(args: argparse.Namespace) -> int:
    if sys.stdin.isatty():
        hint = "the page Editors of the documentation has the lines for each editor"
        raise CommandError("`placet lsp` answers an editor, which starts it itself", hint)
    for problem in Search(args.paths).problems:
        raise CommandError(problem.message, problem.hint)
    session = ReplSession()
    if args.cluster:
        session.open(ClusterOrigin.files(args.cluster))
    samples = SessionSamples(session)
    server = PolicyServer(
        session.schema, args.paths, samples, _warn(session), _effects(session), version()
    )
    server.run()
    return Exit.OK


def _warn(session: ReplSession) -> Warn:
    """What is to be said of the cluster of a session, if it has one, in the time of a keystroke."""
    if session.cluster is None:
        return lambda validation: validation
    return partial(ClusterWarnings(session.cluster, session.codec).added, quick=True)


def _effects(session: ReplSession) -> Effects:
    """What policies do in the cluster of a session, in the time in which an editor shows it."""
    cluster = session.cluster
    if cluster is None:
        return lambda _: {}

    def found(validation: Validation) -> Mapping[str, EffectOfPolicy]:
        try:
            known = effects_of(validation, cluster, session.codec, _MOST_PODS)
        except UserError:
            return {}
        return {each.policy: each for each in known}

    return found
