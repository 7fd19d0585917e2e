"""Placet against extenders as people write them: latency of the verbs, in five rounds in turn.

All of them watch the same cluster. TopoLVM's extender takes part where `OTHERS` names a folder that
has it, as for `make others`: it has a rule of its own, about the capacity of nodes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

import pytest

from tests.benchmarks import shop
from tests.benchmarks.extenders import informers
from tests.benchmarks.live import watching
from tests.benchmarks.offers import KeepAlive, Latency, Offers, keep_alive, latencies, latency
from tests.benchmarks.results import Record
from tests.e2e.process import answers_ok, free_port, running

ROUNDS = 5
PODS_A_NODE = 3
WORDS = {"informers": "client-go's informers", "topolvm": "TopoLVM"}

pytestmark = pytest.mark.bench


@contextmanager
def _informers(folder: Path, url: str) -> Iterator[KeepAlive]:
    with informers(folder, url) as (_, port), keep_alive(port) as connection:
        yield connection


@contextmanager
def _topolvm(folder: Path) -> Iterator[KeepAlive | None]:
    """TopoLVM's extender, None where there is none."""
    program = Path(os.environ.get("OTHERS") or "/nowhere") / "topolvm"
    if not program.is_file():
        yield None
        return
    port = free_port()
    settings = folder / "topolvm.yaml"
    settings.write_text(f"listen: 127.0.0.1:{port}\ndefault-divisor: 1\n")
    command: list[str | Path] = [program, f"--config={settings}"]
    with running(command, folder / "topolvm.log", cwd=folder) as process:
        process.wait_ready(lambda: answers_ok(port, "/status"), 60)
        with keep_alive(port, paths={"filter": "predicate"}) as connection:
            yield connection


def _raced(
    contestants: Mapping[str, KeepAlive], offers: Offers, pods: int, *, block: int, warm: int
) -> dict[str, list[Latency]]:
    """What each contestant took in each round."""
    found: dict[str, list[Latency]] = {name: [] for name in contestants}
    for number in range(ROUNDS):
        first = block if number else warm
        for name, each in latencies(contestants, offers, pods, block=block, warm=first).items():
            found[name].append(each)
    return found


def _alone(connection: KeepAlive, offers: Offers, pods: int) -> Latency:
    """What one contestant takes that finds all nodes feasible, and says so in words of its own."""
    seconds = []
    for pod, names in [offers.next() for _ in range(pods)]:
        body = offers.body(pod, names)
        answers = [connection.post(verb, body) for verb in ("filter", "prioritize")]
        seconds.append(sum(answer.seconds for answer in answers))
    return latency(seconds)


def _told(
    record: Record, what: str, other: str, mine: Sequence[Latency], theirs: Sequence[Latency]
) -> None:
    pairs = list(zip(mine, theirs, strict=True))
    for word, ratios in (
        ("p50", [one.half / two.half for one, two in pairs]),
        ("p99", [one.most / two.most for one, two in pairs]),
    ):
        spread = ", ".join(f"{ratio:.2f}" for ratio in ratios)
        both = f"{mine[0]} and {theirs[0]} in the first round"
        detail = f"median of {ROUNDS} rounds: {spread}; {both}; filter and prioritize of a pod"
        record(f"{what}: Placet / {WORDS[other]}, {word}", median(ratios), None, detail)


@pytest.mark.parametrize(("nodes", "pods"), [(500, 400), (5_000, 160)])
def test_informers_and_names(nodes: int, pods: int, tmp_path: Path, record: Record) -> None:
    """kube-scheduler names the nodes (nodeCacheCapable); pods of 20 shapes."""
    with ExitStack() as stack:
        mine = stack.enter_context(watching(tmp_path, nodes, PODS_A_NODE * nodes))
        theirs = stack.enter_context(_informers(tmp_path / "go", mine.url))
        offers = Offers(shop.asked_pods(), [f"n{number}" for number in range(nodes)])
        contestants = {"placet": mine.connection, "informers": theirs}
        block = shop.SHAPES
        found = _raced(contestants, offers, pods, block=block, warm=3 * block)
    _told(record, f"{nodes:,} names, watched", "informers", found["placet"], found["informers"])


def test_informers_and_whole_nodes(tmp_path: Path, record: Record) -> None:
    """kube-scheduler sends the nodes themselves; TopoLVM's takes at most 10 MiB of them."""
    nodes = 400
    with ExitStack() as stack:
        mine = stack.enter_context(watching(tmp_path, nodes, PODS_A_NODE * nodes))
        theirs = stack.enter_context(_informers(tmp_path / "go", mine.url))
        whole, names = shop.whole_nodes(nodes), [f"n{number}" for number in range(nodes)]
        offers = Offers(shop.asked_pods(), names, whole)
        contestants = {"placet": mine.connection, "informers": theirs}
        found = _raced(contestants, offers, 20, block=10, warm=20)
        if (topolvm := stack.enter_context(_topolvm(tmp_path))) is not None:
            found["topolvm"] = [_alone(topolvm, offers, 20) for _ in range(ROUNDS)]
    size = sum(map(len, whole)) / nodes / 1000
    for other in WORDS.keys() & found.keys():
        what = f"{nodes:,} whole nodes of {size:.0f} kB, watched"
        _told(record, what, other, found["placet"], found[other])
