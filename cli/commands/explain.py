"""`placet explain`: which policies decide about a pod, and what they make of each node."""

from __future__ import annotations

import argparse

from cli.console import put
from cli.exits import Exit
from cli.explaining import explain
from cli.explanation_views import every_node, head, one_node
from cli.world import add_arguments, add_pod_arguments, asked_pod, read_world

_EXAMPLES = """\
examples:
  placet explain shop/web-1 --cluster cluster.json --policies policies/
  placet explain shop/web-1 node-3 --cluster cluster.json --policies policies/
  placet explain --pod-file pod.yaml --cluster cluster.json --policies policies/
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    add_pod_arguments(parser)
    parser.add_argument(
        "node", metavar="NODE", nargs="?", help="one node, with every part of every expression"
    )
    add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    if args.pod_file is not None and args.node is None:
        # The file takes the place of the first name, so what is left is the second.
        args.pod, args.node = None, args.pod
    world = read_world(args)
    pod = asked_pod(world.cluster, args.pod, args.pod_file)
    if args.node is not None:
        world.cluster.node(args.node)
    with world.cluster.asking(pod):
        found = explain(world, pod)
        put(head(world, found))
        if args.node is not None:
            put(one_node(world, found, args.node))
        else:
            put(every_node(world, found))
    return Exit.OK
