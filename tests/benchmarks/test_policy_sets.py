"""Many policies: what a start takes, and what an edit of one of them takes."""

from __future__ import annotations

import json
import time
import urllib.request
from functools import partial
from pathlib import Path

import pytest

from tests.benchmarks.live import flags_for, made_up, most_mib, spent
from tests.benchmarks.results import AtMost, Record
from tests.e2e.placet import placet
from tests.e2e.process import until

READY_SECONDS, SETTLED_SECONDS = 300.0, 300.0
# Seconds of rest, those that an edit has until its status is written, and those after it.
IDLE, EDIT, REST = 15, 60.0, 3
EDITS = 5
_SETTLED = 30

pytestmark = pytest.mark.bench


def _asked(url: str, method: str = "GET") -> object:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(urllib.request.Request(url, method=method)) as answer:  # noqa: S310 - ours
        return json.loads(answer.read())


def _are_written(url: str, number: int) -> bool:
    """Whether there is nothing more to write about so many policies."""
    before = _asked(f"{url}/statuses")
    time.sleep(_SETTLED)
    return before == _asked(f"{url}/statuses") and int(str(before)) >= number


def _has_more(url: str, before: object) -> bool:
    return _asked(f"{url}/statuses") != before


@pytest.mark.parametrize(
    ("number", "ready", "memory"), [(1_000, AtMost(8), None), (5_000, AtMost(30), AtMost(600))]
)
def test_policies(
    number: int, ready: AtMost, memory: AtMost | None, tmp_path: Path, record: Record
) -> None:
    """A namespace each."""
    with (
        made_up("policy_server", number) as url,
        placet(tmp_path, None, *flags_for(tmp_path, url)) as server,
    ):
        began, pid = time.perf_counter(), server.process.child.pid
        server.process.wait_ready(server.is_ready, READY_SECONDS)
        seconds, used = time.perf_counter() - began, spent(pid)
        assert len(server.policies()) == number
        what = f"{number:,} policies"
        record(f"{what}, ready", seconds, ready, f"s; {used:.1f} s of processor time")
        until(lambda: _are_written(url, number), SETTLED_SECONDS, server.process.tail)
        record(f"{what}, memory", most_mib(pid), memory, "MiB at most, statuses written")
        time.sleep(IDLE)
        before = spent(pid)
        time.sleep(IDLE)
        idle = (spent(pid) - before) / IDLE
        record(f"{what}, at rest", idle, None, "s of processor time a second")
        taken = []
        for _ in range(EDITS):
            before, began = spent(pid), time.perf_counter()
            written = _asked(f"{url}/statuses")
            _asked(f"{url}/edits", "POST")
            until(partial(_has_more, url, written), EDIT, server.process.tail)
            time.sleep(REST)
            rest = idle * (time.perf_counter() - began)
            taken.append(spent(pid) - before - rest)
        first, *others = taken
        listed = ", ".join(f"{each:.2f}" for each in others)
        detail = f"s of processor time: {first:.2f} with the process for checks started, {listed}"
        record(f"{what}, an edit of one", max(others), AtMost(0.3), detail)
