"""Workloads under strict counts, as their controllers create and replace pods, and nodes too."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.manifests import controller, node, owned_by, pod
from tests.e2e.stage import GOVERNED, Stage
from tests.e2e.waiting import until

pytestmark = pytest.mark.e2e

# There is no other replica, whose Lease would have to expire.
ALONE = "--lease=none"

ZONES = "abc"
SHARE = """
  share "on spot" {
    of replicas
    on nodes where node.labels["capacity"] == "spot"
    exactly 40%
    strict
  }
"""
SPREAD = '  spread "zones" { over node.zone skew at most 1 strict }'
LIMIT = """
  limit "two a node" { pods where peer.labels["app"] == "web" per node at most 2 strict }
"""


def stateful_set(namespace: str, replicas: int) -> dict[str, Any]:
    """Return a StatefulSet that wants so many pods."""
    made = controller("StatefulSet", "web", namespace)
    made["spec"] |= {"replicas": replicas, "serviceName": "web"}
    return made


def test_pods_of_a_stateful_set_come_one_by_one(cluster: Cluster, served: Stage) -> None:
    """Each is created when the one before has a node; a lost one comes back under its name."""
    cluster.create_nodes(
        node(f"{kind}-{number}", {"capacity": kind})
        for kind in ("spot", "steady")
        for number in range(2)
    )
    owner = cluster.create(stateful_set(cluster.namespace, 10))
    server = served.watch(SHARE, None, ALONE)
    server.wait_ready()
    served.schedule(server)
    names = [f"web-{number}" for number in range(10)]
    made = {name: owned_by(owner, pod(name, cluster.namespace, GOVERNED)) for name in names}
    for each in made.values():
        cluster.create_pods([each])
        cluster.wait_placed([each["metadata"]["name"]])

    def on_spot() -> int:
        return sum(to.startswith("spot-") for to in cluster.placements().values())

    assert on_spot() == 4
    for name in ("web-0", "web-5", "web-9"):
        cluster.delete_pod(name)
        cluster.create_pods([made[name]])
        cluster.wait_placed([name])
        assert on_spot() == 4
    assert server.compare()["count"] == 0


def test_rollout_with_a_surge_under_a_spread(cluster: Cluster, served: Stage) -> None:
    """Two new pods come before two old ones go; pods of both templates count."""
    cluster.create_nodes(
        node(f"n{number}", {"topology.kubernetes.io/zone": ZONES[number % 3]})
        for number in range(6)
    )
    deployment = cluster.create(controller("Deployment", "web", cluster.namespace))
    old, new = (
        cluster.create(
            owned_by(deployment, controller("ReplicaSet", f"web-{each}", cluster.namespace))
        )
        for each in ("old", "new")
    )
    server = served.watch(SPREAD, None, ALONE)
    server.wait_ready()
    served.schedule(server)

    def create(owner: dict[str, Any], numbers: range) -> list[str]:
        template = owner["metadata"]["name"]
        names = [f"{template}-{number}" for number in numbers]
        labels = {**GOVERNED, "pod-template-hash": template}
        cluster.create_pods(owned_by(owner, pod(name, cluster.namespace, labels)) for name in names)
        return names

    cluster.wait_placed(create(old, range(9)))
    assert skew(cluster) == 0
    for first in range(0, 9, 2):
        some = range(first, min(first + 2, 9))
        cluster.wait_placed(create(new, some))
        for number in some:
            cluster.delete_pod(f"web-old-{number}")

    assert len(cluster.placements()) == 9
    # Which old pods go is not for Placet to say: each step can leave one more between zones.
    assert skew(cluster) <= 1 + 2
    assert server.compare()["count"] == 0


def skew(cluster: Cluster) -> int:
    """Return how many more pods the fullest zone has than the emptiest."""
    zones = Counter(int(to[1:]) % 3 for to in cluster.placements().values())
    return max(zones.values()) - min(zones[number] for number in range(3))


def test_nodes_come_back_under_their_names(cluster: Cluster, served: Stage, tmp_path: Path) -> None:
    """Their pods are gone with them; the places are free again, and no more than there were."""
    nodes = {f"n{number}": node(f"n{number}") for number in range(4)}
    cluster.create_nodes(nodes.values())
    server = served.watch(LIMIT, None, ALONE)
    server.wait_ready()
    served.schedule(server)
    names = [f"web-{number}" for number in range(8)]
    cluster.create_pods(pod(name, cluster.namespace, GOVERNED) for name in names)
    where = cluster.wait_placed(names)
    for turn in range(3):
        lost = f"n{turn}"
        cluster.delete_node(lost)
        gone = [name for name, to in where.items() if to == lost]
        for name in gone:
            cluster.delete_pod(name)
        cluster.create_pods(pod(name, cluster.namespace, GOVERNED) for name in gone)
        for name in gone:
            cluster.wait_refused(name)
        cluster.create_nodes([nodes[lost]])
        where = cluster.wait_placed(names)
        assert set(Counter(where.values()).values()) == {2}
    until(lambda: server.compare()["count"] == 0, 30.0, server.process.tail)
