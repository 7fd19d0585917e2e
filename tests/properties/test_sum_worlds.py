"""In small worlds no strict bound of a sum is passed, and no pod that fits waits for ever."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from engine.decision.registry import Registry
from grammar.values.quantity import Quantity
from tests.support.builders import Object, node, pod
from tests.support.engines import CODEC, registry_of
from tests.support.examples import examples
from tests.support.worlds import World

WORLDS = examples(24)
STEPS = 800
ZONE = "topology.kubernetes.io/zone"
SCOPES = {"node": "per node", "domain": "per domain node.zone", "cluster": "per cluster"}


def rule(scope: str, most: int) -> Registry:
    return registry_of(
        f'cluster policy p {{ limit "l" {{ sum peer.requests["cpu"] of all pods where true'
        f" {SCOPES[scope]} at most {most} strict }} }}"
    )


def thousandths(each: Object) -> int:
    requests = each["spec"]["containers"][0].get("resources", {}).get("requests", {})
    return Quantity.parse(requests.get("cpu", "0")).nanos // 10**6


def sums(nodes: list[Object], scope: str, pods: list[Object]) -> Counter[str]:
    """What is on each node, in each zone or in the cluster: the plain model."""
    zones = {each["metadata"]["name"]: each["metadata"]["labels"][ZONE] for each in nodes}
    found = Counter[str]()
    for each in pods:
        name = each["spec"]["nodeName"]
        found[{"node": name, "domain": zones[name], "cluster": ""}[scope]] += thousandths(each)
    return found


def groups(nodes: list[Object], scope: str) -> set[str]:
    names = {each["metadata"]["name"]: each["metadata"]["labels"][ZONE] for each in nodes}
    return {"node": set(names), "domain": set(names.values()), "cluster": {""}}[scope]


def played(seed: int, scope: str, most: int, amounts: list[str], nodes: list[Object]) -> World:
    """A world that was played to its end, and in which the bound was never passed."""

    def broken(bound: list[Object]) -> str | None:
        found = sums(nodes, scope, bound)
        return str(found) if max(found.values()) > most * 1000 else None

    pods = [pod(f"p{number}", cpu=cpu) for number, cpu in enumerate(amounts)]
    world = World(seed, rule(scope, most), CODEC, nodes, pods, broken)
    world.play(STEPS)
    return world


def cluster(random: Random) -> list[Object]:
    zones = random.randint(1, 3)
    return [node(f"n{number}", f"z{number % zones}") for number in range(random.randint(2, 5))]


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("seed", range(WORLDS))
def test_a_burst_of_equal_sizes_fills_exactly(seed: int, scope: str) -> None:
    random = Random(seed)
    nodes, most = cluster(random), random.randint(1, 6)
    each = random.choice((250, 500, 1000, 1500))
    slots = most * 1000 // each * len(groups(nodes, scope))
    count = min(slots + random.randint(0, 4), 16)
    world = played(seed, scope, most, [f"{each}m"] * count, nodes)
    assert len(world.server.bound()) == min(count, slots)


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("seed", range(WORLDS))
def test_no_pod_of_a_mixed_burst_that_fits_waits(seed: int, scope: str) -> None:
    random = Random(seed)
    nodes, most = cluster(random), random.randint(1, 6)
    amounts = [f"{random.choice((1, 250, 999, 1000, 2500, 4000))}m" for _ in range(12)]
    world = played(seed, scope, most, amounts, nodes)
    bound = world.server.bound()
    there = sums(nodes, scope, bound)
    free = max(most * 1000 - there[group] for group in groups(nodes, scope))
    waiting = [o for o in world.server.objects.values() if not o["spec"].get("nodeName")]
    assert len(bound) + len(waiting) == len(amounts)
    assert min(map(thousandths, waiting), default=free + 1) > free
