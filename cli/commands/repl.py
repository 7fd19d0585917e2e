"""`placet repl`: an interactive session about a cluster and its policies."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace

from cli.command import CommandError, Exit, given_path, input_lines
from cli.repl.commands import cluster_summary, loaded
from cli.repl.conversation import answer_lines, print_replies
from cli.repl.session import ClusterOrigin, FindingsError, ReplSession
from cli.sources import (
    add_cluster_arguments,
    chosen_flag,
    is_live,
    names_cluster,
    opened,
    warn_of,
    whole,
)
from cli.version import version
from cli.world import add_data_argument, read_data, warn_without_rows
from engine.cache.cluster_copy import NO_DATA, ClusterDocuments, DataText
from engine.program.tables import TableSpec
from grammar.messages.diagnostics import UserError

EXAMPLES = """\
examples:
  placet repl
  placet repl --cluster cluster.json policies/
  placet repl --context test policies/
  echo 'node.free["cpu"]' | placet repl --cluster cluster.json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files",
        metavar="FILE",
        nargs="*",
        type=given_path,
        help="a policy file, or a folder of them",
    )
    parser.add_argument(
        "--cluster",
        metavar="SNAPSHOT",
        action="append",
        type=given_path,
        help="the output of `kubectl get nodes,pods,replicasets -A -o json` (or yaml); may be "
        "repeated",
    )
    add_data_argument(parser)
    add_cluster_arguments(parser, live_namespace=False)


def run(args: argparse.Namespace) -> int:
    session = ReplSession()
    try:
        validation = session.load(args.files) if args.files else None
    except FindingsError as error:
        print_replies(error.findings)
        return Exit.ERROR
    if args.cluster and (flag := chosen_flag(args)) is not None:
        raise CommandError(f"--cluster does not work with {flag}", "leave out one of them")
    if args.cluster:
        session.open(ClusterOrigin.files(args.cluster, read_data(args)))
    elif is_live(args, ("files",)) and (chosen_flag(args) is not None or names_cluster()):
        open_live(session, args)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return Exit.OK if answer_lines(session, input_lines()) else Exit.FINDINGS
    print(f"placet {version()}: `:help` lists the commands, Ctrl-D leaves")
    if validation is not None:
        print_replies(loaded(session, validation))
    if session.cluster is not None:
        print(cluster_summary(session))
    # This import is slow too, and a pipe does not need it.
    from cli.repl.terminal import converse  # noqa: PLC0415

    converse(session)
    return Exit.OK


def open_live(session: ReplSession, args: argparse.Namespace) -> None:
    """Reads the cluster of the kubeconfig.

    Where no flag asks for it, a session begins without a cluster if it cannot be read. Raises
    CommandError.
    """

    def read() -> ClusterDocuments:
        with opened(args) as live:
            found = live.read("")
        documents = whole(found)
        warn_of(found.lacks)
        return replace(documents, data=given)

    def rows(tables: Sequence[TableSpec]) -> Mapping[str, DataText]:
        lacking = [table for table in tables if table.name not in given]
        if not lacking:
            return NO_DATA
        with opened(args) as live:
            read, failed = live.data(lacking)
        warn_without_rows(lacking, given, read, failed)
        return read

    try:
        given = read_data(args)
        session.open(ClusterOrigin((), read, rows))
    except UserError as error:
        if chosen_flag(args) is not None:
            raise
        print(f"no cluster is loaded: {error.message}", file=sys.stderr)
        if error.hint:
            print(f"  = help: {error.hint}", file=sys.stderr)
