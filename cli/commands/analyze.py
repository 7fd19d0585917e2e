"""Command `analyze`: the clauses that keep a pod pending, and what would help."""

from __future__ import annotations

import argparse

from cli.command import Exit
from cli.console import put
from cli.explaining.analysis import analysis
from cli.explaining.explanation import explain
from cli.explaining.views import head
from cli.world import add_arguments, add_pod_arguments, named_pod, read_world

EXAMPLES = """\
examples:
  placet analyze shop/web-1 --cluster cluster.json --policies policies/
  placet analyze --pod-file pod.yaml --cluster cluster.json --policies policies/
"""


def configure(parser: argparse.ArgumentParser) -> None:
    add_pod_arguments(parser)
    add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    world = read_world(args)
    pod = named_pod(world.cluster, args.pod, args.pod_file)
    with world.cluster.asking(pod):
        found = explain(world, pod)
        put(head(world, found))
        put(analysis(world, found))
    return Exit.OK
