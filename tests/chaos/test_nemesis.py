"""A random schedule of faults against a real control plane: bounds hold, and pods get placed.

`make chaos SEED=3 MINUTES=2 BIND=1 SHORTEN=1 REPAIR=1`: see CONTRIBUTING.md.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.chaos import schedule as schedules
from tests.chaos.nemesis import play
from tests.chaos.observer import Report
from tests.chaos.schedule import Schedule, shortened
from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import ControlPlane

pytestmark = pytest.mark.chaos

SEED, MINUTES = int(os.environ.get("SEED") or 1), float(os.environ.get("MINUTES") or 2)
BINDS, SHORTEN = os.environ.get("BIND") == "1", os.environ.get("SHORTEN") == "1"
REPAIRS = os.environ.get("REPAIR") == "1"
FILE = os.environ.get("SCHEDULE", "")


def test_nothing_sticks_and_nothing_overruns(stored: ControlPlane, tmp_path: Path) -> None:
    plan = (
        schedules.read(Path(FILE).read_text())
        if FILE
        else schedules.schedule(SEED, MINUTES, binds=BINDS, repairs=REPAIRS)
    )
    runs = 0

    def run(tried: Schedule) -> Report:
        nonlocal runs
        runs += 1
        folder = tmp_path / f"run-{runs}"
        folder.mkdir()
        report = play(stored, Cluster(stored, f"chaos-{runs}"), folder, tried, binds=BINDS)
        sys.stdout.write(f"run {runs}: {sum(map(len, tried))} actions, {report}\n")
        return report

    report = run(plan)
    if report.findings:
        found = plan[: report.phases]
        kind = report.findings[0].kind
        if SHORTEN:
            found = shortened(found, lambda each: kind in {f.kind for f in run(each).findings})
        file = tmp_path / "schedule.txt"
        file.write_text(schedules.text(found))
        sys.stdout.write(f"seed {SEED}; the schedule, also in {file}:\n{schedules.text(found)}\n")
    assert report.findings == []
