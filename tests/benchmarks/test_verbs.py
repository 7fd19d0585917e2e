"""Latency of filter and prioritize over HTTP: against others, and as what is known grows."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

import pytest

from tests.benchmarks import shop
from tests.benchmarks.extenders import bare_aiohttp, built_peer, go_peer
from tests.benchmarks.live import PREFIX, watching
from tests.benchmarks.offers import KeepAlive, Latency, Offers, keep_alive, latencies
from tests.benchmarks.results import AtMost, Record, Target
from tests.e2e.placet import placet

# Pods are asked about in turns of one of each shape, after all that is kept has been worked out.
BLOCK, WARM = shop.SHAPES, 3 * shop.SHAPES
PODS_A_NODE = 3
FEW, MANY = 15_000, 150_000
EVENTS_A_SECOND, BUSY_SECONDS = 500, 6

pytestmark = pytest.mark.bench


@pytest.fixture(scope="module")
def peer() -> Path:
    """Return the Go extender's program; without it there is nobody to compare with."""
    program = built_peer()
    if program is None:
        pytest.skip("the Go extender is not built, and there is no Go to build it")
    return program


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Keep the garbage collector of whoever asks out of what is measured."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@contextmanager
def served(folder: Path, nodes: int, *, teams: int = 1) -> Iterator[KeepAlive]:
    """Serve a snapshot by the policies of so many teams."""
    folder.mkdir(exist_ok=True)
    cluster = shop.snapshot(folder / "cluster.json", nodes, PODS_A_NODE * nodes)
    policies = shop.policies(folder / "policies", teams)
    with placet(folder, policies, f"--cluster={cluster}") as server:
        server.wait_ready()
        with keep_alive(server.port, PREFIX) as connection:
            yield connection


@contextmanager
def written_in_go(folder: Path, program: Path, *flags: str) -> Iterator[KeepAlive]:
    """Serve the same snapshot by what is written in Go."""
    cluster = f"-snapshot={folder / 'cluster.json'}"
    with go_peer(program, folder, cluster, *flags) as port, keep_alive(port) as connection:
        yield connection


def _names(nodes: int) -> list[str]:
    return [f"n{number}" for number in range(nodes)]


def _both(
    record: Record,
    what: str,
    found: dict[str, Latency],
    target: Target | None,
    most: Target | None = None,
) -> None:
    mine, others = found["placet"], found["go"]
    detail = f"Placet {mine}; Go {others}: filter and prioritize of a pod"
    record(f"{what}: Placet / Go, p50", mine.half / others.half, target, detail)
    record(f"{what}: Placet / Go, p99", mine.most / others.most, most or target, detail)


@pytest.mark.parametrize(
    ("nodes", "half", "most", "pods"),
    [
        (500, AtMost(1.2), AtMost(1.4), 1600),
        (5_000, AtMost(0.7), AtMost(0.7), 800),
        (20_000, None, None, 200),
    ],
)
def test_names(
    nodes: int,
    half: Target | None,
    most: Target | None,
    pods: int,
    peer: Path,
    tmp_path: Path,
    record: Record,
) -> None:
    """kube-scheduler names the nodes; pods of 20 shapes."""
    with (
        served(tmp_path, nodes) as mine,
        written_in_go(tmp_path, peer) as others,
    ):
        offers = Offers(shop.asked_pods(), _names(nodes))
        contestants = {"placet": mine, "go": others}
        found = latencies(contestants, offers, pods, block=BLOCK, warm=WARM)
    _both(record, f"{nodes:,} names", found, half, most)


def test_whole_nodes(peer: Path, tmp_path: Path, record: Record) -> None:
    """kube-scheduler sends the nodes themselves."""
    nodes = 1_000
    with (
        served(tmp_path, nodes) as mine,
        written_in_go(tmp_path, peer) as others,
    ):
        whole = shop.whole_nodes(nodes)
        offers = Offers(shop.asked_pods(), _names(nodes), whole)
        contestants = {"placet": mine, "go": others}
        found = latencies(contestants, offers, 40, block=10, warm=20)
    size = sum(map(len, whole)) / nodes / 1000
    _both(record, f"{nodes:,} whole nodes of {size:.0f} kB", found, AtMost(0.2))


def test_many_policies(tmp_path: Path, record: Record) -> None:
    """Fifty teams have policies, and one of them concerns the pod."""
    with (
        served(tmp_path / "many", 5_000, teams=50) as many,
        served(tmp_path / "one", 5_000) as one,
    ):
        offers = Offers(shop.asked_pods(), _names(5_000))
        contestants = {"many": many, "one": one}
        found = latencies(contestants, offers, 400, block=BLOCK, warm=WARM)
    ratio = found["many"].half / found["one"].half
    detail = f"5,000 names; 50: {found['many']}; 1: {found['one']}"
    record("50 policies / 1, p50", ratio, AtMost(1.3), detail)


def test_many_names(tmp_path: Path, record: Record) -> None:
    """The same cluster is asked about all of its nodes, and about a quarter of them."""
    with served(tmp_path, 20_000) as mine:
        found = {}
        for nodes in (5_000, 20_000):
            offers = Offers(shop.asked_pods(), _names(nodes))
            contestants = {"placet": mine}
            found[nodes] = latencies(contestants, offers, 200, block=BLOCK, warm=WARM)["placet"]
    ratio = found[20_000].half / found[5_000].half
    detail = f"20,000: {found[20_000]}; 5,000: {found[5_000]}"
    record("20,000 names / 5,000, p50", ratio, AtMost(4.5), detail)


def test_unselected_pod(tmp_path: Path, record: Record) -> None:
    """Of a pod that no policy selects, the names are sent back, and nothing is scored."""
    with ExitStack() as stack:
        mine = stack.enter_context(served(tmp_path, 5_000))
        bare = keep_alive(stack.enter_context(bare_aiohttp(tmp_path)))
        contestants = {"placet": mine, "bare": stack.enter_context(bare)}
        offers = Offers(shop.asked_pods(team="nobody"), _names(5_000))
        found = latencies(contestants, offers, 800, block=BLOCK, warm=WARM)
    detail = f"5,000 names; Placet {found['placet']}; parses nothing {found['bare']}"
    ratio = found["placet"].half / found["bare"].half
    record("no policy selects the pod: Placet / bare aiohttp, p50", ratio, AtMost(1.2), detail)


def test_many_pods(tmp_path: Path, record: Record) -> None:
    """The cluster that is watched has ten times as many pods."""
    with (
        watching(tmp_path / "many", 5_000, MANY) as many,
        watching(tmp_path / "few", 5_000, FEW) as few,
    ):
        offers = Offers(shop.asked_pods(), _names(5_000))
        contestants = {"many": many.connection, "few": few.connection}
        found = latencies(contestants, offers, 600, block=BLOCK, warm=WARM)
    ratio = found["many"].half / found["few"].half
    detail = f"5,000 names; {MANY:,}: {found['many']}; {FEW:,}: {found['few']}"
    record(f"{MANY:,} pods / {FEW:,}, p50", ratio, AtMost(1.1), detail)


def test_busy_cluster(tmp_path: Path, record: Record) -> None:
    """Pods come and go while others are asked about; what else the machine does hits both alike."""
    rounds = []
    with watching(tmp_path, 5_000, MANY) as mine:
        offers = Offers(shop.asked_pods(), _names(5_000))
        contestants = {"placet": mine.connection}
        latencies(contestants, offers, BLOCK, block=BLOCK, warm=WARM)
        for _ in range(3):
            idle = latencies(contestants, offers, 500, block=BLOCK, warm=BLOCK)["placet"]
            mine.churn(EVENTS_A_SECOND, BUSY_SECONDS)
            over = time.monotonic() + BUSY_SECONDS
            busy = latencies(contestants, offers, 500, block=BLOCK, warm=BLOCK)["placet"]
            rounds.append((idle, busy))
            time.sleep(max(0.0, over - time.monotonic()) + 1.0)
    listed = "; ".join(f"{idle} and {busy}" for idle, busy in rounds)
    detail = (
        f"5,000 names, {MANY:,} pods; idle, and {EVENTS_A_SECOND} events a second, three times:"
        f" {listed}; medians of the ratios"
    )
    most, half = (
        median(ratios)
        for ratios in (
            [busy.most / idle.most for idle, busy in rounds],
            [busy.half / idle.half for idle, busy in rounds],
        )
    )
    record("pods come and go / idle, p99", most, AtMost(2), detail)
    record("pods come and go / idle, p50", half, None, detail)
