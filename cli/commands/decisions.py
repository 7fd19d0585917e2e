"""Command `decisions`: the last decisions of the running Placet."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterator, Sequence

from cli.console import Part, put_answer
from cli.flag_table import OUTPUT, flags_of
from cli.replicas import replica_layout, replicas
from cli.sources import pod_namespace
from engine.explanation.document import PodDecision

EXAMPLES = """\
examples:
  placet decisions
  placet decisions shop/web-1
  placet decisions shop/web-1 node-3
  placet decisions --url http://127.0.0.1:12346
"""


ARGUMENTS = flags_of(f"""
  [POD]
    NAMESPACE/NAME, or the name alone if it is unique
  [NODE]
    only what was said of this node
{replicas.NAMESPACES}{OUTPUT}{replicas.PLACET}
""")


def run(args: argparse.Namespace) -> int:
    if args.pod is not None and args.namespace is not None:
        namespace = pod_namespace(args)
        args.pod = f"{namespace}/{args.pod.rpartition('/')[2]}"
    return asyncio.run(_run(args, replicas.target(args)))


async def _run(args: argparse.Namespace, target: replicas.ReplicaTarget) -> int:
    async with replicas.replicas(target) as found:
        if args.pod is None:
            answers, errors = await replicas.ask_all(found, lambda r: r.decisions(args.namespace))
            listings = [answer for _, answer in answers]
            known = replicas.document(listings)
            put_answer(known, args.output, replica_layout.listings(listings))
            return replicas.end(errors)
        details, failures = await replicas.last_decisions(found, args.pod)
        parts = _parts(details, args.node, several=len(found) > 1)
        put_answer(replicas.document(details), args.output, parts)
        return replicas.end(failures)


def _parts(details: Sequence[PodDecision], node: str | None, *, several: bool) -> Iterator[Part]:
    """The newest decision, on all nodes or one, and when the other replicas were asked."""
    newest, *others = details
    yield from replica_layout.head(newest, (newest.replica or "") if several else "")
    if node is None:
        yield from replica_layout.every_node(newest)
    else:
        yield from replica_layout.one_node(newest, node)
    for other in others:
        yield f"replica {other.replica} was asked at {other.at}"
