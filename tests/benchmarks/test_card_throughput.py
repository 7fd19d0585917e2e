"""Throughput with cards: the pods a second of a real kube-scheduler, with cards given at bind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from engine.cards.node_cards import TAKEN, Taken, annotation
from tests.benchmarks.results import AtLeast, Record
from tests.benchmarks.test_throughput import LAST, Extender, own_plane, run_once
from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import ControlPlane
from tests.e2e.kube_scheduler import extender
from tests.e2e.manifests import node, pod
from tests.e2e.placet import placet

NODES, CARDS = 500, 8
ROUNDS = 10
HEAD = 'policy gpu { for pods where "milli" in pod.annotations'
WORDS = {"cards": "a cards clause", "headroom": "a headroom rule"}
POLICIES = {
    "cards": HEAD
    + """ cards "gpu" {
      on node int(node.labels["gpu-count"]) of {"milli": 1000}
      take {"milli": int(pod.annotations["milli"])}
      pick least card.free["milli"]
    } }""",
    "headroom": HEAD + ' filter "room" { require node.free["cpu"] >= pod.requests["cpu"] } }',
}

pytestmark = pytest.mark.bench


@pytest.fixture(scope="module")
def plane(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """Return a control plane of the benchmark's own."""
    with own_plane(pytestconfig, tmp_path_factory) as made:
        Cluster(made, "cards").create_nodes(
            node(f"n{number}", {"gpu-count": str(CARDS)}) for number in range(NODES)
        )
        yield made


def whole(count: int, namespace: str, name: str) -> Iterable[dict[str, Any]]:
    """Pods that take one card each."""
    for number in range(count):
        made = pod(f"{name}-{number}", namespace, cpu="10m")
        made["metadata"]["annotations"] = {"milli": "1000"}
        yield made


def bound(cards: int, namespace: str) -> Iterable[dict[str, Any]]:
    """Pods on so many cards, node by node."""
    for number, made in enumerate(whole(cards, namespace, "bound")):
        its = annotation({"gpu": Taken((number // NODES,), {"milli": 1000})})
        made["metadata"]["annotations"][TAKEN] = its
        made["spec"]["nodeName"] = f"n{number % NODES}"
        yield made


def served(plane: ControlPlane, name: str) -> Extender:
    """Placet with one of the policies; it binds."""

    @contextmanager
    def serve(folder: Path) -> Iterator[list[dict[str, Any]]]:
        policy = folder / "gpu.policy"
        policy.write_text(POLICIES[name])
        flags = f"--kubeconfig={plane.placet_kubeconfig}", "--lease=none", "--bind"
        with placet(folder, policy, *flags) as server:
            server.wait_ready()
            address = f"http://127.0.0.1:{server.port}"
            yield [extender(address, node_cache_capable=True, preempts=False, binds=True)]

    return serve


@pytest.mark.parametrize(
    ("percent", "pods", "target"), [(50, 400, AtLeast(0.9)), (95, 100, None)], ids=["half", "full"]
)
def test_throughput(
    percent: int,
    pods: int,
    target: AtLeast | None,
    plane: ControlPlane,
    tmp_path: Path,
    record: Record,
) -> None:
    """Whoever is first in one round is last in the next."""
    there = Cluster(plane, f"there-{percent}")
    there.create_pods(bound(NODES * CARDS * percent // 100, there.namespace))
    cluster = Cluster(plane, f"new-{percent}")
    warm = 50
    assert warm + pods + LAST <= NODES * CARDS * (100 - percent) // 100, "there is room for all"
    rounds = []
    for number in range(ROUNDS):
        rates = {}
        for name in sorted(POLICIES, reverse=bool(number % 2)):
            own = tmp_path / f"{name}-{number}"
            own.mkdir()
            with served(plane, name)(own) as entries:
                run = run_once(plane, cluster, own, entries, 100, warm, pods, whole)
            rates[name] = run.rate
        rounds.append(rates)
    there.delete_pods()
    ratios = [rates["cards"] / rates["headroom"] for rates in rounds]
    each = "; ".join(
        f"{WORDS[name]} {', '.join(f'{rates[name]:.0f}' for rates in rounds)}" for name in POLICIES
    )
    what = f"pods a second, {NODES} nodes, cards {percent} % full: cards / headroom rule"
    record(what, median(ratios), target, f"median of {ROUNDS} pairs: {each}")
