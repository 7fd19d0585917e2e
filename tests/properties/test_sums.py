"""Sums that tallies keep, event by event, equal those of the plain evaluator over all pods."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from random import Random
from typing import Any

import pytest

from engine.program.policy_compiler import compile_policy
from grammar.checker.policy_checker import Checked
from grammar.meaning.evaluator import evaluate
from grammar.tree.clauses import Limit
from grammar.values.errors import EvaluationError
from grammar.values.quantity import Quantity
from tests.engine.counting.helpers import Counting, Reports, counting_of
from tests.support.builders import Object, node, pod, raw
from tests.support.engines import CODEC, checked, peer_of
from tests.support.examples import examples

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
WHERE = ("true", 'peer.labels["app"] == pod.labels["app"]', 'peer.requests["cpu"] > "250m"')


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
    random = Random(seed)
    of = policy(random.choice(AMOUNTS), random.choice(WHERE))
    (clause,) = compile_policy(of).limits
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
        found = counting.count(clause, ASKED, report=Reports())
        wanted = {name: number for name, number in plain(of, pods).items() if name != "gone"}
        assert found.high == wanted
