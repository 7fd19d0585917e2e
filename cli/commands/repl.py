"""`placet repl`: an interactive session about a cluster and its policies."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

from cli.command import Exit, version
from cli.repl.commands import cluster_summary, loaded
from cli.repl.conversation import answer_lines, print_replies
from cli.repl.session import FindingsError, Origin, Session

EXAMPLES = """\
examples:
  placet repl --cluster cluster.json policies/
  placet repl --kubeconfig ~/.kube/config
  echo 'node.free["cpu"]' | placet repl --cluster cluster.json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files",
        metavar="FILE",
        nargs="*",
        type=Path,
        help="a policy file, or a folder of them",
    )
    cluster = parser.add_mutually_exclusive_group()
    cluster.add_argument(
        "--cluster",
        metavar="SNAPSHOT",
        action="append",
        type=Path,
        help="the output of `kubectl get nodes,pods -A -o json` (or yaml); may be repeated",
    )
    cluster.add_argument(
        "--kubeconfig",
        metavar="FILE",
        type=Path,
        help="read the running cluster, once and at each `:reload`",
    )


def run(args: argparse.Namespace) -> int:
    session = Session()
    try:
        validation = session.load(args.files) if args.files else None
    except FindingsError as error:
        print_replies(error.findings)
        return Exit.ERROR
    if args.cluster:
        session.open(Origin.files(args.cluster))
    elif args.kubeconfig:
        # This import takes as long as all others together.
        from cli.live import read_running  # noqa: PLC0415

        session.open(Origin((), partial(read_running, args.kubeconfig)))
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return Exit.OK if answer_lines(session, sys.stdin) else Exit.FINDINGS
    print(f"placet {version()}: `:help` lists the commands, Ctrl-D leaves")
    if validation is not None:
        print_replies(loaded(session, validation))
    if session.cluster is not None:
        print(cluster_summary(session))
    # This import is slow too, and a pipe does not need it.
    from cli.repl.terminal import converse  # noqa: PLC0415

    converse(session)
    return Exit.OK
