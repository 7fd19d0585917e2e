"""Plays schedules against a simulated cluster: `python -m tests.chaos.simulated SEED MINUTES`.

It plays one without a bindVerb, and then one with it, unless `--bind` or `--no-bind` wants one of
them. `--repair` is for schedules with a policy that is repaired; a FILE has a schedule in place of
a seed's. The exit code is 1 if anything was found, and the schedule up to there is written to
standard output.
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
# Nobody waits, so there is more in a minute than on a real control plane.
_PHASES_A_MINUTE = 3


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.chaos.simulated", description=__doc__)
    parser.add_argument("seed", type=int)
    parser.add_argument("minutes", type=float)
    parser.add_argument("--bind", action=argparse.BooleanOptionalAction)
    parser.add_argument("--repair", action="store_true", help="a policy is repaired")
    parser.add_argument("--schedule", type=Path, metavar="FILE")
    parser.add_argument(
        "--seconds", type=float, default=math.inf, help="begin no phase after these of a processor"
    )
    parser.add_argument("--shorten", type=float, default=0.0, metavar="SECONDS")
    parser.add_argument("--verbose", action="store_true", help="write the logs of Placet")
    args = parser.parse_args()
    loop = install(args.seed)
    if args.verbose:
        logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s")
    # Only now: what it imports takes the time of the process as it is.
    play = import_module("tests.chaos.simulated.trials").play
    # It never waits, so this is also the time of a clock, unless others have the processors.
    spent = time.process_time

    def run(tried: schedules.Schedule, ends: float, *, binds: bool) -> Report:
        random.seed(args.seed)
        loop.begin()
        with tempfile.TemporaryDirectory() as folder:
            playing = play(
                tried, Path(folder), args.seed, binds=binds, is_over=lambda: spent() > ends
            )
            report: Report = loop.run_until_complete(playing)
        return report

    def shorter(found: schedules.Schedule, kind: str, *, binds: bool) -> schedules.Schedule:
        ends = spent() + args.shorten

        def fails(tried: schedules.Schedule) -> bool:
            findings = run(tried, math.inf, binds=binds).findings if spent() < ends else []
            return kind in {each.kind for each in findings}

        return shortened(found, fails, tries=_MOST_TRIES)

    modes = [False, True] if args.bind is None else [args.bind]
    for binds in modes:
        began = spent()
        plan = schedules.schedule(
            args.seed, args.minutes, binds=binds, repairs=args.repair, a_minute=_PHASES_A_MINUTE
        )
        if args.schedule is not None:
            plan = schedules.read(args.schedule.read_text())
        report = run(plan, began + args.seconds / len(modes), binds=binds)
        sys.stdout.write(f"{'with' if binds else 'without'} a bindVerb: {report}\n")
        sys.stdout.write(f"after {spent() - began:.0f} s of a processor\n")
        if report.findings:
            found = plan[: report.phases]
            if args.shorten:
                found = shorter(found, report.findings[0].kind, binds=binds)
            sys.stdout.write(schedules.text(found))
            return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
