"""`placet repl`: an interactive session about a cluster and its policies."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import cast

from cli.command import CommandError, Exit, given_path, input_lines
from cli.render import print_error, put_findings
from cli.repl.commands import put_cluster, put_loaded
from cli.repl.conversation import answer_lines
from cli.repl.session import ClusterOrigin, FindingsError, ReplSession, WorldCommand
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
from cli.world import add_cluster_argument, add_data_argument, read_data, warn_without_rows
from engine.cache.cluster_copy import ClusterDocuments, DataText
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
    add_cluster_argument(parser)
    add_data_argument(parser)
    add_cluster_arguments(parser, live_namespace=False)


def asked(name: str) -> WorldCommand:
    """The command of this name; only those that a line asks for are imported."""
    return cast("WorldCommand", import_module(f"cli.commands.{name}"))


def run(args: argparse.Namespace) -> int:
    if args.cluster and (flag := chosen_flag(args)) is not None:
        raise CommandError(f"--cluster does not work with {flag}", "leave out one of them")
    session = ReplSession(asked, args.files, _origin(args))
    try:
        files = session.reload()
    except FindingsError as error:
        put_findings(error.findings)
        return Exit.ERROR
    except UserError as error:
        if args.files or args.cluster or chosen_flag(args) is not None:
            raise
        # A session that nobody asked to have a cluster does without one.
        print_error(f"no cluster is loaded: {error.message}", error.hint)
        session, files = ReplSession(asked), []
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return Exit.OK if answer_lines(session, input_lines()) else Exit.FINDINGS
    print(f"placet {version()}: `:help` lists the commands, Ctrl-D leaves")
    put_loaded(files)
    if session.cluster is not None:
        put_cluster(session)
    # This import is slow too, and a pipe does not need it.
    from cli.repl.terminal import converse  # noqa: PLC0415

    converse(session)
    return Exit.OK


def _origin(args: argparse.Namespace) -> ClusterOrigin | None:
    """Where the cluster comes from, if there is one."""
    if args.cluster:
        return ClusterOrigin.files(args.cluster, read_data(args))
    is_asked = is_live(args, ("files",)) and (chosen_flag(args) is not None or names_cluster())
    return live_origin(args) if is_asked else None


def live_origin(args: argparse.Namespace) -> ClusterOrigin:
    """The cluster of the kubeconfig."""
    given = read_data(args)

    def read() -> ClusterDocuments:
        with opened(args) as live:
            found = live.read("")
        documents = whole(found)
        warn_of(found.lacks)
        return documents

    def rows(tables: Iterable[TableSpec]) -> Mapping[str, DataText]:
        lacking = [table for table in tables if table.name not in given]
        if not lacking:
            return given
        with opened(args) as live:
            read, failed = live.data(lacking)
        warn_without_rows(lacking, given, read, failed)
        return {**read, **given}

    return ClusterOrigin(read, rows)
