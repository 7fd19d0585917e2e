"""A resource that only Placet counts, without a bindVerb, while Placet is restarted in a burst."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import ControlPlane
from tests.e2e.kube_scheduler import extender, kube_scheduler
from tests.e2e.manifests import node, pod
from tests.e2e.stage import GOVERNED, Stage
from tests.e2e.waiting import until
from tests.support.tcp_switch import tcp_switch

pytestmark = pytest.mark.e2e

RESOURCE = "placet.example/slots"
NODES, SLOTS = 4, 3
LIMIT = f"""
  limit "slots" {{
    sum peer.requests["{RESOURCE}"] of all pods where true
    per node
    at most int(node.annotations["slots"])
    strict
  }}
"""
# Pods that were on their way at the restart count everywhere for half a minute.
SECONDS = 150.0


def offering(name: str) -> dict[str, Any]:
    """A node with the amount that there is."""
    made = node(name)
    made["metadata"]["annotations"] = {"slots": str(SLOTS)}
    return made


def asking(name: str, namespace: str, amount: int) -> dict[str, Any]:
    made = pod(name, namespace, GOVERNED)
    resources = made["spec"]["containers"][0]["resources"]
    resources["requests"][RESOURCE] = str(amount)
    resources["limits"] = {RESOURCE: str(amount)}
    return made


def waiting_although_it_fits(amounts: Mapping[str, int], placed: Mapping[str, str]) -> list[str]:
    """The pods without a node for which some node has room."""
    there = sums(amounts, placed)
    free = SLOTS - min(there[f"n{number}"] for number in range(NODES))
    return [name for name, amount in amounts.items() if name not in placed and amount <= free]


def sums(amounts: Mapping[str, int], placed: Mapping[str, str]) -> Counter[str]:
    found = Counter[str]()
    for name, to in placed.items():
        found[to] += amounts[name]
    return found


@pytest.mark.parametrize(
    "sizes",
    [
        pytest.param([1] * 16, id="equal sizes"),
        pytest.param([1, 2, 3, 1, 2, 1, 3, 2, 1, 2, 1, 3], id="mixed sizes"),
    ],
)
def test_a_burst_fills_what_there_is(
    plane: ControlPlane, cluster: Cluster, served: Stage, tmp_path: Path, sizes: Sequence[int]
) -> None:
    """A bound pod stays, so a bound that holds at the end was never passed."""
    cluster.create_nodes(offering(f"n{number}") for number in range(NODES))
    amounts = {f"p{number}": amount for number, amount in enumerate(sizes)}
    server = served.watch(LIMIT)
    server.wait_ready()
    with tcp_switch([server.port]) as switch:
        entry = extender(f"http://127.0.0.1:{switch.port}", node_cache_capable=True)
        entry["managedResources"] = [{"name": RESOURCE, "ignoredByScheduler": True}]
        with kube_scheduler(plane, tmp_path, [entry]):
            pods = [asking(name, cluster.namespace, amount) for name, amount in amounts.items()]
            cluster.create_pods(pods[: len(pods) // 2])
            until(lambda: len(cluster.placements()) >= NODES - 1, SECONDS, server.process.tail)
            server.process.stop()
            cluster.create_pods(pods[len(pods) // 2 :])
            server = served.watch(LIMIT)
            switch.ports = (server.port,)
            server.wait_ready()
            until(
                lambda: not waiting_although_it_fits(amounts, cluster.placements()),
                SECONDS,
                lambda: f"{cluster.placements()}; {server.process.tail()}",
            )
            there = sums(amounts, cluster.placements())
    assert max(there.values()) <= SLOTS, there
    if set(sizes) == {1}:
        assert sum(there.values()) == NODES * SLOTS
