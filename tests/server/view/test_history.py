"""The history: what is kept of the numbers of a week, in memory and in a file."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

import server.view.history
from engine.decision.journal import Journal
from policies.disk import Disk
from server.view.history import History, SampledNumbers
from server.view.overview import Overview
from tests.support.builders import node, pod, raw
from tests.support.engines import Known, cache_of, engine_over
from tests.support.view_server import Cluster, Parts, explainer_of, states_of

LOG = logging.getLogger("placet")
MINUTE = 60


class Clock:
    """A clock that the test sets."""

    now = 1_764_000_000.0

    def __call__(self) -> float:
        return self.now


def history(path: Path | None, clock: Clock) -> History:
    return History("placet-0", path, LOG, clock)


async def taken(found: History, clock: Clock, number: int, numbers: Mapping[str, float]) -> None:
    await found.read()
    for _ in range(number):
        await found.take(numbers)
        clock.now += MINUTE


WAITING = {"waiting pods": 1.0}


async def test_a_restart_keeps_the_numbers(tmp_path: Path) -> None:
    file, clock = tmp_path / "history", Clock()
    first = history(file, clock)
    await taken(first, clock, 3, {"waiting pods": 3.0})
    second = history(file, clock)
    await taken(second, clock, 1, {"waiting pods": 3.0, "full shop/web: zone": 75.0})
    listed = second.listed(1)
    assert listed.kept
    assert [*listed.series] == ["full shop/web: zone", "waiting pods"]
    assert listed.series["full shop/web: zone"] == [None, None, None, 75]
    assert listed.series["waiting pods"] == [3, 3, 3, 3]
    assert [at - listed.times[0] for at in listed.times] == [0, 60, 120, 180]


async def test_without_a_file_the_numbers_begin_with_the_replica() -> None:
    clock = Clock()
    found = history(None, clock)
    await taken(found, clock, 90, WAITING)
    assert not found.listed(1).kept
    assert len(found.listed(1).times) == 60
    assert len(found.listed(2).times) == 90


async def test_a_damaged_file_is_left_out_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file, clock = tmp_path / "history", Clock()
    first = history(file, clock)
    await taken(first, clock, 3, WAITING)
    whole = file.read_bytes()
    bomb = whole[:17] + zlib.compress(bytes(129 << 20))
    for damaged in (b"", bomb, whole[:-3], whole[:-2] + b"xx", whole[:25] + b"xx" + whole[27:]):
        file.write_bytes(damaged)
        caplog.clear()
        second = history(file, clock)
        await second.read()
        assert len(second.listed(1).times) == 0
        assert "is damaged: it begins anew" in caplog.text
        await taken(second, clock, 1, WAITING)
        third = history(file, clock)
        await third.read()
        assert len(third.listed(1).times) == 1


async def test_on_a_full_disk_the_last_whole_one_stays(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What could not be written comes with the next one that can."""
    file, clock = tmp_path / "history", Clock()
    first = history(file, clock)
    await taken(first, clock, 3, WAITING)
    whole = file.read_bytes()
    full = tmp_path / "history.new"
    full.symlink_to("/dev/full")
    await taken(first, clock, 1, WAITING)
    assert caplog.messages == ["the history cannot be written: no space left on device"]
    assert file.read_bytes() == whole
    assert not full.is_symlink()
    os.mkfifo(full)
    await taken(first, clock, 1, WAITING)
    assert caplog.messages[1:] == ["the history cannot be written: no such device or address"]
    await taken(first, clock, 1, WAITING)
    again = history(file, clock)
    await again.read()
    assert len(again.listed(1).times) == 6


@pytest.mark.parametrize("silent", ["contents", "_opened"])
async def test_a_silent_disk_holds_up_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, silent: str
) -> None:
    """What could not be read or written is, as soon as it answers."""
    file, clock, answers = tmp_path / "history", Clock(), threading.Event()
    await taken(history(file, clock), clock, 3, WAITING)
    found = history(file, clock)
    if silent == "_opened":
        await found.read()
    monkeypatch.setattr(found, "_disk", Disk(0.05, 0.05))
    work = getattr(server.view.history, silent)

    def blocks(*args: object, **more: object) -> object:
        answers.wait(60)
        return work(*args, **more)

    monkeypatch.setattr(f"server.view.history.{silent}", blocks)
    began = time.monotonic()
    await taken(found, clock, 2, WAITING)
    assert time.monotonic() - began < 30
    assert len(found.listed(1).times) == (2 if silent == "contents" else 5)
    assert caplog.text.count("the file system does not answer") == 2 - (silent == "contents")
    answers.set()
    while True:
        await taken(found, clock, 1, WAITING)
        again = history(file, clock)
        await again.read()
        if (samples := len(again.listed(1).times)) > 5:
            break
    assert again.listed(1).times == found.listed(1).times
    assert samples == len(found.listed(1).times)


@pytest.mark.process
def test_the_end_of_the_process_does_not_wait_for_a_silent_disk(tmp_path: Path) -> None:
    began = time.monotonic()
    run = [sys.executable, "-c", ENDS, str(tmp_path / "history")]
    assert subprocess.run(run, check=True, capture_output=True, text=True).stdout == "written\n"
    assert time.monotonic() - began < 30


ENDS = """
import asyncio, logging, os, pathlib, sys, threading
from server.view.history import History

reached = threading.Event()

def fsync(number):
    reached.set()
    threading.Event().wait(300)

os.fsync = fsync

async def main():
    found = History("placet-0", pathlib.Path(sys.argv[1]), logging.getLogger("placet"))
    writing = asyncio.create_task(found.follow(sample, lambda: None))
    while not reached.is_set():
        await asyncio.sleep(0.01)
    writing.cancel()
    print("written")

async def sample():
    return {}

asyncio.run(main())
"""


async def test_a_clock_that_is_set_back_loses_nothing(tmp_path: Path) -> None:
    """What is ahead of the clock is not shown, and comes back with its time."""
    file, clock = tmp_path / "history", Clock()
    first = history(file, clock)
    await taken(first, clock, 5, WAITING)
    clock.now += 30 * 86_400
    await taken(first, clock, 5, WAITING)
    clock.now -= 30 * 86_400
    again = history(file, clock)
    await taken(again, clock, 2, {"waiting pods": 2.0})
    assert next(iter(again.listed(1).series.values()))[-2:] == [2, 2]
    assert len(again.listed(1).times) == 7
    clock.now += 30 * 86_400
    assert len(again.listed(1).times) == 5


def state(path: Path) -> object:
    found = path.lstat()
    return found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns


def large(path: Path) -> None:
    with path.open("wb") as file:
        file.write(b"placet history 5\n")
        file.truncate((64 << 20) + 1)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda path: path.write_text("notes"), "it is no history"),
        (os.mkfifo, "it is not a regular file"),
        (Path.mkdir, "it is not a regular file"),
        (lambda path: path.symlink_to(path), "too many levels of symbolic links"),
        (large, "it has 67,108,865 bytes; the limit is 67,108,864"),
    ],
    ids=["others", "pipe", "folder", "loop", "large"],
)
async def test_what_is_no_history_is_left_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, make: Callable[[Path], object], why: str
) -> None:
    """And the numbers begin with the replica."""
    file, clock = tmp_path / "file", Clock()
    make(file)
    before = state(file)
    found = history(file, clock)
    await taken(found, clock, 2, WAITING)
    assert state(file) == before
    listed = found.listed(1)
    assert (listed.kept, listed.series["waiting pods"]) == (False, [1, 1])
    assert f"the history `{file}` is not read or written: {why}" in caplog.text


def test_the_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("server.view.history.MOST_SAMPLES", 100)
    clock = Clock()
    clock.now = 1_000.0
    found = history(None, clock)
    for at in range(1_000):
        found.add(at, {f"series {at // 10}": 1.0, "waiting pods": float(at % 7)})
    listed = found.listed(1)
    assert (len(listed.times), listed.times[0]) == (100, 900)
    assert len(listed.series) <= 128
    assert all(len(numbers) == 100 for numbers in listed.series.values())


def test_many_samples_become_few_points() -> None:
    """The largest number stands for those beside it, so that no peak is lost."""
    clock = Clock()
    clock.now = 7_199.0
    found = history(None, clock)
    for at in range(7_200):
        found.add(at, {"waiting pods": 99.0 if at == 5_003 else 1.0})
    listed = found.listed(2)
    (numbers,) = listed.series.values()
    assert len(listed.times) == 720
    assert numbers[500] == 99
    assert numbers.count(1) == 719


async def test_a_sample_has_the_numbers_of_its_minute() -> None:
    limit = 'limit "all" { all pods where true per cluster at most 4 strict }'
    text = f'policy web in namespace "shop" {{ {limit} }}'
    pods = [pod("a", "shop", on="n"), pod("b", "shop")]
    cache = cache_of([node("n")], pods)
    known = {f"shop/{each['metadata']['name']}": raw(each) for each in pods}
    parts = Parts(
        Journal(), cluster=Cluster(text, engine_over(text, cache), known, state=Known(cache))
    )
    overview = Overview(explainer_of(parts), states_of(parts))
    rejected, calls = {("web", "all"): 5}, {"filter": [(0.01, 10.0), (float("inf"), 10.0)]}
    samples = SampledNumbers(Known(cache), overview.fills, lambda: rejected, calls.copy)
    rejected[("web", "all")] = 12
    assert await samples.take() == {
        "waiting pods": 1,
        "rejected nodes": 7,
        "rejected web: all": 7,
        "full shop/web: all": 25,
    }
    calls["filter"] = [(0.01, 110.0), (float("inf"), 110.0)]
    found = await samples.take()
    assert (found["rejected nodes"], found["p99 filter"]) == (0, 0.0099)
    assert "rejected web: all" not in found


async def test_the_numbers_of_one_policy() -> None:
    numbers = {"rejected shop/web: a": 3.0, "full shop/web: b": 50.0, "rejected nodes": 3.0}
    clock = Clock()
    found = history(None, clock)
    await taken(found, clock, 1, {**numbers, "rejected shop/web-2: a": 1.0})
    own = [*found.listed(1, "shop/web").series]
    assert own == ["full shop/web: b", "rejected shop/web: a"]
