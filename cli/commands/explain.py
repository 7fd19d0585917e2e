"""Command `explain`: the policies that apply to a pod, and why each node passes or fails."""

from __future__ import annotations

import argparse
import asyncio

from cli.asking import output, replicas
from cli.command import CommandError, Exit
from cli.console import put
from cli.explaining.explanation import explain
from cli.explaining.then_and_now import decision_now, then_and_now
from cli.explaining.views import every_node, head, one_node
from cli.world import add_arguments, add_pod_arguments, named_pod, read_world
from server.view_answers import DecisionDetail

EXAMPLES = """\
examples:
  placet explain shop/web-1 --cluster cluster.json --policies policies/
  placet explain shop/web-1 node-3 --cluster cluster.json --policies policies/
  placet explain --pod-file pod.yaml --cluster cluster.json --policies policies/
  placet explain shop/web-1 --cluster cluster.json --policies policies/ --decision
"""


def configure(parser: argparse.ArgumentParser) -> None:
    add_pod_arguments(parser)
    parser.add_argument(
        "node", metavar="NODE", nargs="?", help="only this node, with each part of each expression"
    )
    add_arguments(parser, required=False)
    parser.add_argument(
        "--decision",
        action="store_true",
        help="also show what the running Placet decided last, and what has changed since; it is "
        "found as `placet decisions` finds it",
    )
    parser.add_argument("--url", metavar="URL", help="with --decision: the view of this server")


def run(args: argparse.Namespace) -> int:
    _check_offline(args)
    if args.pod_file is not None and args.node is None:
        # With a file, the only positional argument is the node.
        args.pod, args.node = None, args.pod
    world = read_world(args)
    pod = named_pod(world.cluster, args.pod, args.pod_file)
    if args.node is not None:
        world.cluster.node(args.node)
    with world.cluster.asking(pod):
        found = explain(world, pod)
        put(head(world, found))
        if args.node is not None:
            put(one_node(world, found, args.node))
        else:
            put(every_node(world, found))
        if args.decision:
            then = asyncio.run(_last_decision(args, f"{pod.namespace}/{pod.name}"))
            put(["", *then_and_now(then, decision_now(world, pod))])
    return Exit.OK


def _check_offline(args: argparse.Namespace) -> None:
    if args.url is not None and not args.decision:
        raise CommandError("--url has no effect without --decision", "add --decision")
    if not args.cluster or not args.policies:
        missing = "are no policies" if args.cluster else "is no cluster"
        raise CommandError(f"there {missing}", "give --cluster SNAPSHOT and --policies PATH")


async def _last_decision(args: argparse.Namespace, pod: str) -> DecisionDetail:
    """What the running Placet decided last about a pod. Raises CommandError.

    It is found by the same kubeconfig as the cluster, where the command has one.
    """
    target = replicas.Target(
        replicas.checked(args.url) if args.url is not None else None,
        getattr(args, "kubeconfig", None),
        getattr(args, "context", None),
    )
    async with replicas.replicas(target) as found:
        details, errors = await replicas.last_decisions(found, pod)
    output.end(errors)
    return details[0]
