"""Command `status`: what the running Placet is and knows."""

from __future__ import annotations

import argparse
import asyncio

from cli.console import add_output_argument, put, put_document
from cli.replicas import layout, replicas
from cli.replicas.replicas import Replica

EXAMPLES = """\
examples:
  placet status
  placet status --replica placet-0 -o json
  placet status --url http://127.0.0.1:12346
"""


def configure(parser: argparse.ArgumentParser) -> None:
    add_output_argument(parser, "json", "yaml")
    replicas.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    return asyncio.run(_run(args, replicas.target(args)))


async def _run(args: argparse.Namespace, target: replicas.ReplicaTarget) -> int:
    async with replicas.replicas(target) as found:
        answers, errors = await replicas.ask_all(found, Replica.status)
    found_status = [answer for _, answer in answers]
    if args.output:
        put_document(replicas.document(found_status), args.output)
    else:
        for number, each in enumerate(found_status):
            if number:
                print()
            put(layout.status(each))
    return replicas.end(errors)
