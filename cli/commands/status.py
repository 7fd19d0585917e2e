"""Command `status`: what the running Placet is and knows."""

from __future__ import annotations

import argparse
from itertools import islice

from cli.console import put_answer
from cli.flag_table import OUTPUT, flags_of
from cli.replicas import replica_layout, replicas
from cli.replicas.replicas import Replica

EXAMPLES = """\
examples:
  placet status
  placet status --replica placet-0 -o json
  placet status --url http://127.0.0.1:12346
"""


ARGUMENTS = flags_of(f"{OUTPUT}{replicas.PLACET}")


def run(args: argparse.Namespace) -> int:
    found, errors = replicas.asked(args, Replica.status)
    parts = (part for each in found for part in ("", *replica_layout.status(each)))
    put_answer(replicas.document(found), args.output, islice(parts, 1, None))
    return replicas.end(errors)
