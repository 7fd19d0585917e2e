"""In small worlds no strict bound of a sum is passed, and no pod that fits waits for ever."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from random import Random
from typing import Any

import pytest

from engine.clauses.programs import compile_policy
from engine.decision.registry import Registry
from grammar.checker.policy_checker import Checked
from grammar.clauses.limit import Limit
from grammar.meaning.evaluator import evaluate
from grammar.values.errors import EvaluationError
from grammar.values.quantity import Quantity
from tests.engine.counting.helpers import Counting, Reports, counting_of
from tests.support.books import examples
from tests.support.builders import Object, node, pod, raw
from tests.support.engines import CODEC, checked, peer_of, registry_of
from tests.support.worlds import World

WORLDS = examples(24)
STEPS = 800
ZONE = "topology.kubernetes.io/zone"
SCOPES = {"node": "per node", "domain": "per zone", "cluster": "per cluster"}


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


# ---- sums that tallies keep, event by event, equal those of the plain evaluator over all pods


NODES = [node(f"n{number}") for number in range(3)]
ASKED = pod("asked", cpu="500m", labels={"app": "web", "slots": "2"})
AMOUNTS = (
    'peer.requests["cpu"]',
    'peer.requests["cpu"] + "1n"',
    'peer.requests["memory"] / 3',
    'int(peer.labels["slots"])',
    'double(peer.labels["slots"]) / 3.0',
    'peer.labels["app"] == "web" ? peer.requests["cpu"] : quantity(peer.labels["slots"])',
    "peer.priority",
    "slots",
)
WHERE = (
    "true",
    'peer.labels["app"] == pod.labels["app"]',
    'peer.requests["cpu"] > "250m"',
    'peer.requests["memory"] < "1Gi" || peer.requests["pods"] == "1"',
    'string(peer.requests["cpu"]) in ["1", "1500m"]',
    'peer.labels.size() == 1 || "slots" in peer.labels && peer.labels["slots"] != "7"',
    'peer.labels.exists(key, peer.labels[key] == "web") && peer.priority >= 0',
    'peer.name != "p1" && peer.labels["app"] != "db"',
)


def policy(amount: str, where: str) -> Checked:
    (found,) = checked(
        'cluster policy p { let slots = int(peer.labels["slots"]) * 2 '
        f'limit "l" {{ sum {amount} of all pods where {where} per node at most 9 strict }} }}'
    )
    return found


def plain(policy: Checked, pods: dict[str, Object]) -> Counter[str]:
    """What the pods add up to on each node, in thousandths rounded up for each pod."""
    (clause,) = (each for each in policy.policy.clauses if isinstance(each, Limit))
    assert clause.pods is not None
    where, added = clause.pods.where, clause.pods.amount
    assert where is not None
    assert added is not None
    found = Counter[str]()
    for made in pods.values():
        if (name := made["spec"].get("nodeName")) is None:
            continue
        variables = {"peer": peer_of(made), "pod": CODEC.pod(raw(ASKED))}
        try:
            if evaluate(where, variables, policy.environment) is not True:
                continue
            amount: Any = evaluate(added, variables, policy.environment)
        except EvaluationError:
            continue
        if isinstance(amount, Quantity):
            amount = Fraction(amount.nanos, 10**9)
        found[name] += max(0, math.ceil(Fraction(str(amount)) * 1000))
    return +found


def changed(random: Random, name: str) -> Object:
    """A pod with any of the amounts, or without them."""
    labels = {"app": random.choice(("web", "db"))}
    if random.random() < 0.7:
        labels["slots"] = random.choice(("0", "1", "2.5", "-3", "many", "7"))
    return pod(
        name,
        cpu=random.choice((None, "0", "1m", "250m", "1", "1.5")),
        memory=random.choice((None, "1", "1Gi")),
        on=random.choice((None, "n0", "n1", "n2", "gone")),
        labels=labels,
        priority=random.choice((None, -5, 3)),
    )


@pytest.mark.parametrize("seed", range(examples(200)))
def test_sums_equal_those_of_the_plain_evaluator(seed: int) -> None:
    """Those of several rules in turn, so that pods are grouped by more and more of their values."""
    random = Random(seed)
    rules = [policy(random.choice(AMOUNTS), random.choice(WHERE)) for _ in range(3)]
    clauses = [compile_policy(each).counts[0] for each in rules]
    counting: Counting = counting_of(NODES)
    pods: dict[str, Object] = {}
    for _ in range(12):
        name = f"p{random.randrange(6)}"
        if name in pods and random.random() < 0.3:
            del pods[name]
            counting.cache.remove_pod(f"default/{name}")
        else:
            pods[name] = changed(random, name)
            counting.cache.put_pod(peer_of(pods[name]))
        of, clause = random.choice([*zip(rules, clauses, strict=True)])
        found = counting.count(clause, ASKED, report=Reports())
        wanted = {name: number for name, number in plain(of, pods).items() if name != "gone"}
        assert found.high == wanted
