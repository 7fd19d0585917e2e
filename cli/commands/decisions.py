"""Command `decisions`: the last decisions of the running Placet."""

from __future__ import annotations

import argparse
import asyncio

from cli.console import put, put_document
from cli.flag_table import OUTPUT, flags_of
from cli.replicas import replica_layout, replicas
from cli.sources import pod_namespace

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
