"""Plays schedules against a simulated cluster: `python -m tests.chaos.simulated SEED MINUTES`.

`--bind` is for a bindVerb, and `--repair` for schedules with a policy that is repaired; a FILE has
a schedule in place of a seed's. The exit code is 1 if anything was found, and the schedule up to
there is written to standard output.
"""

from __future__ import annotations

import argparse
import logging
import math
import random
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path

from tests.chaos import schedule as schedules
from tests.chaos.observer import Report
from tests.chaos.schedule import shortened
from tests.chaos.simulated.clock import install

_MOST_TRIES = 200


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.chaos.simulated", description=__doc__)
    parser.add_argument("seed", type=int)
    parser.add_argument("minutes", type=float)
    parser.add_argument("--bind", action="store_true")
    parser.add_argument("--repair", action="store_true", help="a policy is repaired")
    parser.add_argument("--schedule", type=Path, metavar="FILE")
    parser.add_argument(
        "--seconds", type=float, default=math.inf, help="begin no phase after these of a processor"
    )
    parser.add_argument("--shorten", type=float, default=0.0, metavar="SECONDS")
    parser.add_argument("--verbose", action="store_true", help="write the logs of Placet")
    args = parser.parse_args()
    loop = install()
    if args.verbose:
        logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s")
    random.seed(args.seed)
    plan = schedules.schedule(args.seed, args.minutes, binds=args.bind, repairs=args.repair)
    if args.schedule is not None:
        plan = schedules.read(args.schedule.read_text())
    # Only now: what it imports takes the time of the process as it is.
    play = import_module("tests.chaos.simulated.play").play
    # It never waits, so this is also the time of a clock, unless others have the processors.
    spent = time.process_time
    began = spent()

    def run(tried: schedules.Schedule, seconds: float = math.inf) -> Report:
        with tempfile.TemporaryDirectory() as folder:
            playing = play(
                tried,
                Path(folder),
                args.seed,
                binds=args.bind,
                is_over=lambda: spent() - began > seconds,
            )
            report: Report = loop.run_until_complete(playing)
        return report

    report = run(plan, args.seconds)
    sys.stdout.write(f"{report}\nafter {spent() - began:.0f} s of a processor\n")
    if not report.findings:
        return 0
    found, kind, ends = plan[: report.phases], report.findings[0].kind, spent() + args.shorten
    if args.shorten:

        def fails(tried: schedules.Schedule) -> bool:
            return spent() < ends and kind in {each.kind for each in run(tried).findings}

        found = shortened(found, fails, tries=_MOST_TRIES)
    sys.stdout.write(schedules.text(found))
    return 1


if __name__ == "__main__":
    raise SystemExit(main())
