"""The cost of following a cluster, beside a program with client-go's informers.

Each follows a cluster of its own that is made up, without TLS. The figures are processor time of
the whole process. A pod goes and comes back for every two events.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from statistics import median

import pytest

from tests.benchmarks import shop
from tests.benchmarks.extenders import informers
from tests.benchmarks.live import churn, flags_for, large_cluster, spent
from tests.benchmarks.results import AtMost, Record
from tests.e2e.placet import placet

NODES, PODS = 1_000, 5_000
START_NODES, START_PODS = 5_000, 150_000
READY_SECONDS = 300.0
ROUNDS, IDLE = 3, 30
# Events a second, and for how many seconds.
RATES, SECONDS = (100, 500), 10
BURST = 20_000
# How often, and for how long, one looks whether all events have been read.
_PART, _MOST = 1.0, 120

Contestant = Callable[[Path, str], AbstractContextManager[int]]

pytestmark = pytest.mark.bench


@contextmanager
def _placet(folder: Path, url: str, *flags: str) -> Iterator[int]:
    policies = shop.policies(folder / "policies")
    reach, lease = flags_for(folder, url)
    with placet(folder, policies, reach, *(flags or (lease,))) as server:
        server.wait_ready()
        if flags:
            server.wait_leading()
            # A new leader looks once at everything that it writes about.
            time.sleep(IDLE)
        yield server.process.child.pid


@contextmanager
def _with_lease(folder: Path, url: str) -> Iterator[int]:
    with _placet(folder, url, "--lease=kube-system/placet") as pid:
        yield pid


@contextmanager
def _informers(folder: Path, url: str) -> Iterator[int]:
    with informers(folder, url) as (process, _):
        yield process.child.pid


def _idle(pid: int) -> float:
    """Seconds of processor time a second while nothing happens, after some time to settle."""
    time.sleep(IDLE / 3)
    before = spent(pid)
    time.sleep(IDLE)
    return (spent(pid) - before) / IDLE


def _at_rate(pid: int, url: str, rate: int, idle: float) -> float:
    """Microseconds of an event."""
    before, began = spent(pid), time.perf_counter()
    churn(url, rate * SECONDS, rate)
    time.sleep(SECONDS)
    return _settled(pid, before, began, idle) / (rate * SECONDS) * 1e6


def _at_once(pid: int, url: str, idle: float) -> float:
    before, began = spent(pid), time.perf_counter()
    churn(url, BURST)
    return _settled(pid, before, began, idle) / BURST * 1e6


def _settled(pid: int, before: float, began: float, idle: float) -> float:
    """Seconds of processor time since then, once no more than that of idleness is used."""
    used = spent(pid)
    for _ in range(_MOST):
        time.sleep(_PART)
        last, used = used, spent(pid)
        if used - last <= (idle + 0.01) * _PART:
            return used - before - idle * (time.perf_counter() - began)
    raise AssertionError(f"the process was busy {_MOST * _PART} s after the last event")


def _figures(pid: int, url: str) -> dict[str, float]:
    idle = _idle(pid)
    return {
        "idle": idle * 1e3,
        **{f"{rate} events a second": _at_rate(pid, url, rate, idle) for rate in RATES},
        f"{BURST:,} events at once": _at_once(pid, url, idle),
    }


def test_events_beside_informers(tmp_path: Path, record: Record) -> None:
    """What an event takes, and what idleness takes, of three rounds in turn."""
    contestants: dict[str, Contestant] = {"placet": _placet, "informers": _informers}
    found: dict[str, list[dict[str, float]]] = {name: [] for name in contestants}
    for number in range(ROUNDS):
        for name, contestant in contestants.items():
            folder = tmp_path / f"{name}-{number}"
            folder.mkdir()
            with large_cluster(NODES, PODS) as url, contestant(folder, url) as pid:
                found[name].append(_figures(pid, url))
    for what in found["placet"][0]:
        mine, theirs = ([each[what] for each in found[name]] for name in contestants)
        both = f"{_listed(mine)} and {_listed(theirs)}"
        if what == "idle":
            record("idle, without a Lease", median(mine), AtMost(1), f"ms a second; {both}")
        else:
            ratios = [one / two for one, two in zip(mine, theirs, strict=True)]
            name = f"{what}: Placet / client-go's informers"
            record(name, median(ratios), AtMost(1.3), f"{_listed(ratios)}; {both} us an event")


def test_idle_with_a_lease(tmp_path: Path, record: Record) -> None:
    with large_cluster(NODES, PODS) as url, _with_lease(tmp_path, url) as pid:
        record("idle, with a Lease", _idle(pid) * 1e3, AtMost(1), "ms a second")


def test_start(tmp_path: Path, record: Record) -> None:
    """A large cluster, from the start of the process until it is ready."""
    taken, used = [], []
    for number in range(ROUNDS):
        folder = tmp_path / str(number)
        folder.mkdir()
        policies = shop.policies(folder / "policies")
        with large_cluster(START_NODES, START_PODS) as url:
            began = time.perf_counter()
            with placet(folder, policies, *flags_for(folder, url)) as server:
                server.process.wait_ready(server.is_ready, READY_SECONDS)
                taken.append(time.perf_counter() - began)
                used.append(spent(server.process.child.pid))
    detail = f"s: {_listed(taken)}; {_listed(used)} s of processor time"
    what = f"{START_NODES:,} nodes, {START_PODS:,} pods: ready"
    record(what, median(taken), AtMost(2.5), detail)


def _listed(figures: list[float]) -> str:
    return ", ".join(f"{each:.3g}" for each in figures)
