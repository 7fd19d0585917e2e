"""Decided effects: what policies did in the decisions that a journal keeps."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest

from engine.decision.after import AfterDecision
from engine.decision.journal import Journal
from engine.explanation.effects import DecidedEffect, DecidedEffects
from tests.support.builders import node, pod, raw
from tests.support.engines import engine_of

NAMES = ["n0", "n1", "n2"]
NODES = [node(name, labels={"disk": "ssd" if name == "n0" else "hdd"}) for name in NAMES]
NONE = DecidedEffect("SelectsNoPod", "selected none of the last 3 pods asked about")


def effects(policies: str, pods: int = 3) -> Mapping[str, DecidedEffect]:
    """The effects after decisions about so many pods of `web`."""
    journal = Journal()
    engine = engine_of(policies, NODES, after=AfterDecision(journal=journal))
    for number in range(pods):
        asked = raw(pod(f"p{number}", "shop", labels={"app": "web"}))
        decided = engine.filter(asked, NAMES, None, math.inf)
        kept = [name for name, code in zip(NAMES, decided.codes, strict=True) if not code]
        if kept:
            engine.prioritize(asked, kept, None, math.inf)
    return DecidedEffects(journal).of(engine.registry.programs)


WEB = 'for pods where pod.labels["app"] == "web"'


@pytest.mark.parametrize(
    ("clauses", "kind", "text"),
    [
        ('filter "a" { require node.labels["disk"] == "ssd" }', "", ""),
        (
            'filter "a" { require node.labels["disk"] == "sdd" }',
            "RejectsEveryNode",
            ", rejects all 3 nodes",
        ),
        ('score "a" weight 1 { value node.labels["disk"] == "ssd" }', "", ""),
        (
            'score "a" weight 1 { value node.labels["disk"] == "sdd" }',
            "SameScore",
            ", gives all nodes the same score",
        ),
        ('filter "a" { require node.ready }', "", ""),
    ],
)
def test_a_policy_that_makes_no_difference_says_so(clauses: str, kind: str, text: str) -> None:
    found = effects(f"policy web {{ {WEB} {clauses} }}")["web"]
    assert (found.kind, found.text) == (kind, f"selected 3 of the last 3 pods asked about{text}")
    assert found.clauses == (("a",) if kind == "RejectsEveryNode" else ())


def test_a_policy_that_selects_no_pod_says_so() -> None:
    none = 'for pods where pod.labels["app"] == "wep" filter "a" { require node.ready }'
    assert effects(f"policy none {{ {none} }}")["none"] == NONE


def test_a_policy_says_from_which_it_takes_pods_over() -> None:
    policies = f"""
    policy one {{ weight 200 {WEB} filter "a" {{ require node.ready }} }}
    policy two {{ weight 150 {WEB} filter "a" {{ require node.ready }} }}
    """
    found = effects(policies)
    assert found["one"].text == "selected 3 of the last 3 pods asked about, takes over 3 from two"
    assert found["two"].text == "selected 3 of the last 3 pods asked about, gives way to one for 3"


def test_nothing_is_said_before_the_first_decision() -> None:
    assert effects(f'policy web {{ {WEB} filter "a" {{ require node.ready }} }}', 0) == {}
