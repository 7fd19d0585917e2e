"""`placet repl`: expressions, clauses and questions about a cluster, line by line."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from cli.command import Exit, version
from cli.repl.commands import cluster_summary, loaded
from cli.repl.conversation import answer_all, tell
from cli.repl.session import Files, RefusedError, Session

_EXAMPLES = """\
examples:
  placet repl --cluster cluster.json policies/
  placet repl --kubeconfig ~/.kube/config
  echo 'node.free["cpu"]' | placet repl --cluster cluster.json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "files", metavar="FILE", nargs="*", type=Path, help="a policy file, or a folder of them"
    )
    cluster = parser.add_mutually_exclusive_group()
    cluster.add_argument(
        "--cluster",
        metavar="SNAPSHOT",
        action="append",
        type=Path,
        help="what `kubectl get nodes,pods -A -o json` (or yaml) wrote; may be given again",
    )
    cluster.add_argument(
        "--kubeconfig",
        metavar="FILE",
        type=Path,
        help="reads the cluster itself, once, and again with `:reload`",
    )


def run(args: argparse.Namespace) -> int:
    session = Session()
    typed = sys.stdin.isatty() and sys.stdout.isatty()
    try:
        validation = session.load(args.files) if args.files else None
    except RefusedError as refused:
        tell(refused.problems)
        return Exit.ERROR
    if args.cluster:
        session.open(Files(args.cluster))
    elif args.kubeconfig:
        # It takes as long to import as all the rest.
        from cli.live import ClusterOrigin  # noqa: PLC0415

        session.open(ClusterOrigin(args.kubeconfig))
    if not typed:
        return Exit.OK if answer_all(session, sys.stdin) else Exit.FINDINGS
    print(f"placet {version()}: `:help` lists the commands, Ctrl-D leaves")
    if validation is not None:
        tell(loaded(session, validation))
    if session.cluster is not None:
        print(cluster_summary(session))
    # So does this, which a pipe does not need.
    from cli.repl.terminal import converse  # noqa: PLC0415

    converse(session)
    return Exit.OK
