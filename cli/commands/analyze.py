"""Command `analyze`: the clauses that keep a pod pending, and what would help."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import msgspec

from cli.command import OUTPUT, POD, POD_FILE, RUNNING, WORLD, CommandError, Exit, flags_of
from cli.console import put, put_document
from cli.explanation import analysis, beginning, head
from cli.sources import asked_pod, asker_of, question_namespace, source_of
from cli.world import World, decided, explained

if TYPE_CHECKING:
    from cli.live import LiveCluster

EXAMPLES = """\
examples:
  placet analyze -n shop web-1
  placet analyze shop/web-1 --cluster cluster.json --policies policies/
  placet analyze --pod-file pod.yaml --cluster cluster.json --policies policies/
"""


QUESTION = flags_of(f"{POD}{POD_FILE}{OUTPUT}")
ARGUMENTS = (*QUESTION, *flags_of(f"{WORLD}{RUNNING}"))


def run(args: argparse.Namespace) -> int:
    if args.pod is None and args.pod_file is None:
        raise CommandError("no pod is given", "give either POD or --pod-file FILE")
    with source_of(args) as source:
        world = source.world(question_namespace(args, source.live))
        return ask(args, world, source.live)


def ask(args: argparse.Namespace, world: World, live: LiveCluster | None = None) -> int:
    pod = asked_pod(args, world.cluster, live)
    asker, events = asker_of(args, pod, live)
    found = explained(world, pod, asker=asker)
    if args.output is not None:
        put_document(found, args.output)
    else:
        body = msgspec.json.decode(pod.body)
        put(beginning(found.cause, body, events, found.notInForce))
        put(head(decided(found)))
        put(analysis(found))
    return Exit.FINDINGS if live is None and world.policies.broken else Exit.OK
