"""`python -m tests.recorder`: writes the digests of all worlds, compares them, or shows a world.

python -m tests.recorder --compare tests/golden/answers.json
python -m tests.recorder --show strict-007 --placet OTHER/.venv/bin/placet
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from tests.recorder import record


def main(argv: list[str]) -> int:
    """Ends with 1 if a world is not as it was recorded."""
    parser = argparse.ArgumentParser(prog="python -m tests.recorder", description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--write", metavar="FILE", type=Path, help="write a digest for each world")
    what.add_argument("--compare", metavar="FILE", type=Path, help="say which worlds differ")
    what.add_argument("--show", metavar="WORLD", help="print the answers in one world")
    parser.add_argument(
        "--placet",
        metavar="PATH",
        type=Path,
        default=Path(sys.executable).with_name("placet"),
        help="the command to record (default: the one beside this Python)",
    )
    parser.add_argument("--only", nargs="+", default=[], help="worlds, or how their names begin")
    parser.add_argument("--jobs", metavar="N", type=int, default=2, help="so many at a time")
    args = parser.parse_args(argv)
    lots = record.lots([args.show] if args.show else args.only)
    if not lots:
        sys.stderr.write("there is no such world here\n")
        return 2
    records = record.play(args.placet.absolute(), lots, args.jobs)
    if args.show:
        for step in (step for steps in records.values() for step in steps):
            sys.stdout.write(f"{json.dumps(step, sort_keys=True)}\n")
        return 0
    found = record.digests(records)
    if args.write:
        # What was not played stays as it is there.
        before = record.read(args.write) if args.only and args.write.exists() else {}
        record.write(args.write, before | found)
        return 0
    different = record.differences(record.read(args.compare), found)
    for world in different:
        sys.stdout.write(f"{world} differs\n")
    sys.stdout.write(f"{len(found) - len(different)} of {len(found)} worlds are as recorded\n")
    return 1 if different else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
