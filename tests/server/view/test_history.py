"""The history: what is kept of the numbers of a week, in memory and in a file."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

import pytest

from engine.decision.journal import Journal
from server.view.history import History, HistoryError, HistoryFile, SeriesRing
from server.view.overview import Overview
from server.view.samples import SampledNumbers
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


def history(path: Path | None, clock: Clock, numbers: Mapping[str, float]) -> History:
    async def sample() -> Mapping[str, float]:
        return dict(numbers)

    return History("placet-0", sample, path, LOG, clock)


async def taken(found: History, clock: Clock, number: int) -> None:
    for _ in range(number):
        await found.take()
        clock.now += MINUTE


async def test_a_restart_keeps_the_numbers(tmp_path: Path) -> None:
    file, clock, numbers = tmp_path / "history", Clock(), {"waiting pods": 3.0}
    first = history(file, clock, numbers)
    await taken(first, clock, 3)
    first.close()
    numbers |= {"full shop/web: zone": 75.0}
    second = history(file, clock, numbers)
    await taken(second, clock, 1)
    listed = second.listed(1)
    assert listed.kept
    assert [series.name for series in listed.series] == ["full shop/web: zone", "waiting pods"]
    assert listed.series[0].numbers == [None, None, None, 75]
    assert listed.series[1].numbers == [3, 3, 3, 3]
    assert [at - listed.times[0] for at in listed.times] == [0, 60, 120, 180]
    second.close()


async def test_without_a_file_the_numbers_begin_with_the_replica() -> None:
    clock = Clock()
    found = history(None, clock, {"waiting pods": 1.0})
    await taken(found, clock, 90)
    assert not found.listed(1).kept
    assert len(found.listed(1).times) == 60
    assert len(found.listed(2).times) == 90


async def test_a_damaged_end_is_left_out_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file, clock = tmp_path / "history", Clock()
    first = history(file, clock, {"waiting pods": 1.0})
    await taken(first, clock, 3)
    first.close()
    whole = file.read_bytes()
    for damaged in (whole[:-3], whole[:-2] + b"xx", whole + b"\xff" * 100):
        file.write_bytes(damaged)
        caplog.clear()
        second = history(file, clock, {"waiting pods": 2.0})
        kept = len(second.listed(1).times)
        assert kept == (3 if damaged.startswith(whole) else 2)
        assert f"is damaged after {kept} samples" in caplog.text
        clock.now += MINUTE
        await taken(second, clock, 1)
        second.close()
        third = history(file, clock, {})
        assert len(third.listed(1).times) == kept + 1
        third.close()


def test_a_file_of_others_is_not_touched(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("something else")
    with pytest.raises(HistoryError, match="is no history of Placet"):
        history(file, Clock(), {})
    assert file.read_text() == "something else"
    with pytest.raises(HistoryError, match="cannot open"):
        history(tmp_path / "nowhere" / "history", Clock(), {})
    large = tmp_path / "large"
    large.write_bytes(b"placet history 1\n")
    with large.open("r+b") as grown:
        grown.truncate((64 << 20) + 1)
    with pytest.raises(HistoryError, match="is no history of Placet"):
        history(large, Clock(), {})


def test_two_processes_do_not_share_a_file(tmp_path: Path) -> None:
    file = tmp_path / "history"
    first = history(file, Clock(), {})
    with pytest.raises(HistoryError, match="is the history of another process"):
        history(file, Clock(), {})
    first.close()
    history(file, Clock(), {}).close()


def test_a_file_is_written_anew(tmp_path: Path) -> None:
    """It then has what the memory has, and stays that of this process."""
    path, ring = tmp_path / "history", SeriesRing(most=10)
    file = HistoryFile.open(path, ring, LOG)
    for at in range(30):
        ring.add(at, {"waiting pods": float(at)})
        file.append(ring.sample(len(ring.times) - 1))
    before = path.stat().st_size
    file.rewrite([ring.sample(index) for index in range(10)])
    assert path.stat().st_size < before / 2
    file.append(ring.sample(9))
    with pytest.raises(HistoryError, match="another process"):
        HistoryFile.open(path, SeriesRing(), LOG)
    file.close()
    again = SeriesRing()
    HistoryFile.open(path, again, LOG).close()
    assert list(again.times) == list(range(20, 30))


def test_the_memory_is_bounded() -> None:
    ring = SeriesRing(most=100)
    for at in range(1_000):
        ring.add(at, {f"series {at // 10}": 1.0, "waiting pods": float(at % 7)})
    times, series = ring.listed(0)
    assert (len(times), times[0]) == (100, 900)
    assert len(series) <= 128
    assert all(len(each.numbers) == 100 for each in series)


def test_many_samples_become_few_points() -> None:
    """The largest number stands for those beside it, so that no peak is lost."""
    ring = SeriesRing()
    for at in range(7_200):
        ring.add(at, {"waiting pods": 99.0 if at == 5_003 else 1.0})
    times, (series,) = ring.listed(0)
    assert len(times) == 720
    assert series.numbers[500] == 99
    assert series.numbers.count(1) == 719


async def test_a_sample_has_the_numbers_of_its_minute() -> None:
    limit = 'limit "all" { all pods where true per cluster at most 4 strict }'
    text = f'policy web in namespace "shop" {{ {limit} }}'
    pods = [pod("a", "shop", on="n"), pod("b", "shop")]
    cache = cache_of([node("n")], pods)
    known = {f"shop/{each['metadata']['name']}": raw(each) for each in pods}
    parts = Parts(
        Journal(), cluster=Cluster(text, engine_over(text, cache), known, state=Known(cache))
    )
    overview = Overview(
        "r", parts.engine, parts.cluster.state, explainer_of(parts), states_of(parts)
    )
    rejected, calls = {("web", "all"): 5}, {"filter": [(0.01, 10.0), (float("inf"), 10.0)]}
    samples = SampledNumbers(Known(cache), overview, lambda: rejected, calls.copy)
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
    found = history(None, clock, {**numbers, "rejected shop/web-2: a": 1.0})
    await taken(found, clock, 1)
    own = [each.name for each in found.listed(1, "shop/web").series]
    assert own == ["full shop/web: b", "rejected shop/web: a"]


async def test_a_file_that_is_almost_full_keeps_its_newer_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.view.history.MOST_FILE", (16 << 10) + 400)
    clock = Clock()
    found = history(tmp_path / "history", clock, {"rejected nodes": 1.0})
    await taken(found, clock, 30)
    found.close()
    again = history(tmp_path / "history", clock, {})
    assert 5 <= len(again.listed(1).times) < 30
    again.close()
