"""Simulations by a running Placet: what they say of new pods is what kube-scheduler does then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.manifests import controller, node, owned_by, pod
from tests.e2e.stage import GOVERNED, Stage

pytestmark = pytest.mark.e2e

# No two nodes get the same pods: at most two on each, none on the last, and spot is half of them.
CLAUSES = """
  limit "two a node" { pods where peer.labels["app"] == "web" per node at most 2 strict }
  share "spot" {
    of all pods where peer.labels["app"] == "web"
    on nodes where node.labels["capacity"] == "spot"
    at most 50%
    strict
  }
  filter "web" when "pool" in node.labels {
    require node.labels["pool"] != "db" message "for databases"
  }
"""
TYPE = "node.kubernetes.io/instance-type"


def test_pods_go_where_the_answer_says(cluster: Cluster, served: Stage) -> None:
    spot = {"capacity": "spot", TYPE: "m5.large"}
    cluster.create_nodes(
        [
            node("spot-0", spot),
            node("spot-1", spot),
            node("steady", {"capacity": "steady", TYPE: "c5.large"}),
            node("db", {"pool": "db", "capacity": "steady"}),
        ]
    )
    server = served.watch(CLAUSES, None, "--lease=none")
    server.wait_ready()
    wanted = controller("ReplicaSet", "web", cluster.namespace)
    wanted["spec"]["replicas"] = 5
    owner = cluster.create(wanted)
    made = {
        name: owned_by(owner, pod(name, cluster.namespace, GOVERNED))
        for name in (f"web-{number}" for number in range(5))
    }
    question = {"pods": list(made.values())}
    alone = server.simulate(question)
    # Two on steady, and as many on spot.
    assert (alone["placed"], alone["pending"]) == (4, 1)
    assert on(alone) == {"steady": 2, "spot": 2}
    more = server.simulate({**question, "addNodes": [{"template": "c5.large", "count": 1}]})
    assert (more["added"], more["pending"]) == (["c5.large-new-1"], 0)
    assert server.compare()["differences"] == [], "nothing of it stays"

    served.schedule(server)
    # One after the other, as they were placed.
    for name, each in made.items():
        cluster.create_pods([each])
        if alone_node(alone, name) is None:
            condition = cluster.wait_refused(name)
            for reason in node_of(alone, name)["reasons"]:
                assert reason.partition(": ")[2] in condition["message"]
        else:
            cluster.wait_placed([name])
    placed = cluster.placements()
    assert kinds(placed) == on(alone)
    assert set(made) - set(placed) == {n for n in made if alone_node(alone, n) is None}

    cluster.create_nodes([node("c5.large-new-1", {"capacity": "steady", TYPE: "c5.large"})])
    cluster.wait_placed(list(made))
    assert kinds(cluster.placements()) == on(more)

    drained = server.simulate({"drain": ["steady"]})
    assert drained["summary"] == (
        "1 of 2 pods of 1 node finds no place: "
        + next(each["pod"] for each in drained["pods"] if each["node"] is None)
    )
    gone = [each["pod"].partition("/")[2] for each in drained["pods"]]
    cluster.kubectl("cordon", "steady")
    for name in gone:
        cluster.delete_pod(name)
    for name in gone:
        again = made[name]
        cluster.create_pods([again])
        if alone_node(drained, name) is None:
            cluster.wait_refused(name)
        else:
            assert cluster.wait_placed([name])[name] == alone_node(drained, name)


def node_of(answer: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """What is said of a pod."""
    found: Mapping[str, Any] = next(p for p in answer["pods"] if p["pod"].endswith(f"/{name}"))
    return found


def alone_node(answer: Mapping[str, Any], name: str) -> str | None:
    found: str | None = node_of(answer, name)["node"]
    return found


def on(answer: Mapping[str, Any]) -> Mapping[str, int]:
    return kinds({each["pod"]: each["node"] for each in answer["pods"] if each["node"]})


def kinds(placed: Mapping[str, str]) -> Mapping[str, int]:
    """The number of pods on each kind of node: which one of two alike is chosen is chance."""
    return Counter("spot" if name.startswith("spot") else "steady" for name in placed.values())
