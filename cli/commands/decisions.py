"""Command `decisions`: the last decisions of the running Placet, and new ones as they come."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence

import msgspec

from cli.command import CommandError, Exit
from cli.console import put, put_document, put_item
from cli.flag_table import OUTPUT, flags_of
from cli.replicas import replica_layout, replicas
from cli.replicas.replicas import Replica
from cli.sources import pod_namespace

# Who follows looks for decisions this often.
_LOOK_SECONDS = 0.5
EXAMPLES = """\
examples:
  placet decisions
  placet decisions shop/web-1
  placet decisions shop/web-1 node-3
  placet decisions --follow
  placet decisions --url http://127.0.0.1:12346
"""


ARGUMENTS = flags_of(f"""
  [POD]
    NAMESPACE/NAME, or the name alone if it is unique
  [NODE]
    only what was said of this node
  -f --follow
    show decisions as they are made, until Ctrl-C
{replicas.NAMESPACES}{OUTPUT}{replicas.PLACET}
""")


def run(args: argparse.Namespace) -> int:
    if args.follow and args.node is not None:
        raise CommandError("--follow shows no nodes", "leave out NODE")
    if args.pod is not None and args.namespace is not None:
        namespace = pod_namespace(args)
        args.pod = f"{namespace}/{args.pod.rpartition('/')[2]}"
    return asyncio.run(_run(args, replicas.target(args)))


async def _run(args: argparse.Namespace, target: replicas.ReplicaTarget) -> int:
    async with replicas.replicas(target) as found:
        if args.follow:
            return await _follow(found, args.pod, args.namespace, args.output)
        if args.pod is None:
            answers, errors = await replicas.ask_all(found, lambda r: r.decisions(args.namespace))
            listings = [answer for _, answer in answers]
            if args.output:
                put_document(replicas.document(listings), args.output)
            else:
                put(replica_layout.listings(listings))
            return replicas.end(errors)
        details, failures = await replicas.last_decisions(found, args.pod)
        if args.output:
            put_document(replicas.document(details), args.output)
        else:
            newest, *others = details
            put(replica_layout.head(newest, (newest.replica or "") if len(found) > 1 else ""))
            if args.node is None:
                put(replica_layout.every_node(newest))
            else:
                put(replica_layout.one_node(newest, args.node))
            for other in others:
                print(f"replica {other.replica} was asked at {other.at}")
        return replicas.end(failures)


async def _follow(
    found: Sequence[Replica], pod: str | None, namespace: str | None, form: str | None
) -> int:
    """Prints decisions until a replica does not answer, which raises CommandError."""
    several = len(found) > 1
    await asyncio.gather(
        *(_follow_one(each, pod, namespace, form, several=several) for each in found)
    )
    return Exit.OK


async def _follow_one(
    replica: Replica, pod: str | None, namespace: str | None, form: str | None, *, several: bool
) -> None:
    last = (await replica.decisions()).number
    while True:
        await asyncio.sleep(_LOOK_SECONDS)
        found = await replica.decisions(after=last)
        missed = found.number - last - len(found.decisions)
        if missed > 0:
            print(f"{missed} decisions of {replica.name} are not shown", file=sys.stderr)
        last = found.number
        for one in reversed(found.decisions):
            if pod is not None and pod not in (one.pod, one.pod.partition("/")[2]):
                continue
            if namespace is not None and one.pod.partition("/")[0] != namespace:
                continue
            if form:
                put_item({"replica": replica.name, **msgspec.to_builtins(one)}, form)
            else:
                put([replica_layout.line(one, replica.name if several else "")])
