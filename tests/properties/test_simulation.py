"""In small clusters of all kinds no node is over-full, and policies hold for every pod placed."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from random import Random

import pytest

from engine.cache.node_table import NodeWithPods, Snapshot
from engine.objects.eligibility import matches_affinity, tolerates
from engine.simulation.result import result
from grammar.values.quantity import Quantity
from tests.support.books import examples
from tests.support.builders import Object, node, pod, raw
from tests.support.engines import CODEC, NOW, checked, snapshot_of
from tests.support.oracle import Oracle
from tests.support.simulated import simulation

WORLDS = examples(120)
POLICIES = """\
policy web {
  for pods where pod.labels["app"] == "web"
  filter "room" { require node.free["memory"] - pod.requests["memory"] >= "1Gi" }
  filter "few" { require node.pods.filter(p, p.labels["app"] == "web").size() < 3 }
  score "zone" weight 2 { value node.zone == "a" }
  score "pack" weight 1 { value node.usage["cpu"] range 0 .. 1 }
}
policy cards {
  for pods where pod.requests["nvidia.com/gpu"] > "0"
  weight 200
  score "fill" weight 1 { value node.usage["nvidia.com/gpu"] range 0 .. 1 }
}
cluster policy guard {
  for pods where pod.labels["app"] != "db"
  filter "databases" { require !node.pods.exists(p, p.labels["app"] == "db") }
}
"""


def nodes(random: Random) -> list[Object]:
    found = []
    for i in range(random.randint(1, 7)):
        resources = {"nvidia.com/gpu": str(random.randint(0, 4))} if random.random() < 0.4 else {}
        made = node(
            f"n-{i}",
            random.choice("ab"),
            cpu=random.choice(("500m", "2", "4", "7500m")),
            memory=random.choice(("1Gi", "4Gi", "9Gi")),
            pods=random.choice(("0", "3", "110")),
            resources=resources,
            labels={"cap": random.choice(("spot", "od"))},
            unschedulable=random.random() < 0.1,
        )
        if random.random() < 0.3:
            effect = random.choice(("NoSchedule", "PreferNoSchedule"))
            made["spec"]["taints"] = [{"key": "team", "value": "x", "effect": effect}]
        found.append(made)
    return found


def pods(random: Random, prefix: str, count: int, on: Sequence[Object] = ()) -> list[Object]:
    found = []
    for i in range(count):
        made = pod(
            f"{prefix}-{i}",
            cpu=random.choice((None, "0", "100m", "333m", "1", "3")),
            memory=random.choice((None, "64Mi", "1Gi", "2Gi")),
            labels={"app": random.choice(("web", "db", "batch", "batch"))},
            on=random.choice(on)["metadata"]["name"] if on else None,
        )
        requests = made["spec"]["containers"][0].setdefault("resources", {"requests": {}})
        if random.random() < 0.3:
            requests["requests"]["nvidia.com/gpu"] = str(random.randint(0, 3))
        if random.random() < 0.2:
            made["spec"]["nodeSelector"] = {"cap": random.choice(("spot", "od"))}
        if random.random() < 0.2:
            made["spec"]["tolerations"] = [{"key": "team", "operator": "Exists"}]
        found.append(made)
    return found


def placed(item: Object, where: str) -> Object:
    made = copy.deepcopy(item)
    made["spec"]["nodeName"] = where
    return made


def refused(item: Object, view: NodeWithPods, oracle: Oracle, known: set[str]) -> str:
    """Why the pod may not be on the node, by plain rules, one at a time; empty where it may.

    Nothing is said of a device that is not `known`: no node has it, or a node has it unseen.
    """
    asked = CODEC.pod(raw(item))
    assert view.free is not None
    for resource, wanted in {**asked.requests, "pods": Quantity.parse("1")}.items():
        is_device = "/" in resource and resource not in known
        if wanted.nanos and view.free[resource] < wanted and not is_device:
            return resource
    if view.spec.unschedulable or not tolerates(asked, view):
        return "taint"
    if not matches_affinity(asked, view):
        return "affinity"
    verdict = oracle.verdict({"pod": asked, "node": view, "now": NOW})
    return "" if verdict is None else f"policy {verdict}"


@pytest.mark.parametrize("seed", range(WORLDS))
def test_pods_are_where_they_may_be_and_pending_where_they_may_be_nowhere(seed: int) -> None:
    random = Random(seed)
    cluster = nodes(random)
    there = pods(random, "old", random.randint(0, 4), cluster)
    queue = pods(random, "new", random.randint(1, 25))
    oracle = Oracle(checked(POLICIES))
    done = result(simulation(cluster, queue, POLICIES, there=there))
    for item, outcome in zip(queue, done.pods, strict=True):
        views = snapshot_of(cluster, there).nodes
        known = {resource for view in views.values() for resource in view.allocatable}
        # Another scheduler gave a pod such a device on a node that does not show it.
        for view in views.values():
            known -= (view.requested or {}).keys() - view.allocatable.keys()
        why = {name: refused(item, view, oracle, known) for name, view in views.items()}
        if (where := outcome.node) is not None:
            assert why[where] == ""
            there.append(placed(item, where))
        else:
            reasons = outcome.reasons
            assert "" not in why.values(), why
            assert sum(reasons.values()) >= len(cluster)
            by_policy = sum(text.startswith("policy") for text in why.values())
            assert by_policy == sum(n for r, n in reasons.items() if "web:" in r or "guard:" in r)
    over = over_full(snapshot_of(cluster, there), {p["metadata"]["name"] for p in queue})
    assert [each for each in over if "/" not in each or each.partition(": ")[2] in known] == []


def over_full(found: Snapshot, new: set[str]) -> list[str]:
    """Nodes with less than nothing left, of a resource that a new pod on them asks for."""
    return [
        f"{name}: {resource}"
        for name, view in found.nodes.items()
        for resource, left in (view.free or {}).items()
        if left.nanos < 0
        and any(p.name in new and p.requests[resource].nanos for p in view.pods or ())
    ]


@pytest.mark.parametrize("seed", range(5))
def test_the_same_again_is_the_same(seed: int) -> None:
    random = Random(seed)
    cluster, queue = nodes(random), pods(random, "p", 20)
    first, second = (list(simulation(cluster, queue, POLICIES).run()) for _ in range(2))
    assert first == second
    shuffled = random.sample(cluster, len(cluster))
    assert list(simulation(shuffled, queue, POLICIES).run()) == first
