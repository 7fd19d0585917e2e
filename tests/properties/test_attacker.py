"""Hostile policies that the checks let through, in an engine that serves others too."""

from __future__ import annotations

import time
from contextlib import suppress
from functools import cache

import pytest

from engine.decision.preemption import Victims
from engine.errors import EngineError, ExpensivePolicyError
from engine.program.policy_time import (
    CALL_SECONDS,
    NAMESPACE_SECONDS,
    NAMESPACE_SHARE,
    DecisionTime,
    PolicyTimes,
)
from grammar.tree.source import Source
from policies.validation import check_source
from tests.support.attacker import KINDS, HostilePolicy, hostile_policies
from tests.support.builders import node, pod, raw
from tests.support.engines import SCHEMA, Silent, cache_of, engine_over, peer_of

SEED = 7
NAMES = [f"n{number}" for number in range(20)]
OTHER = 'policy other in namespace "b" { filter "f" { require node.name != "n0" } }'
# Of processor time: for a look at the clock that comes late, on a machine with other things to do.
GRACE = 0.15


@cache
def accepted(kind: str) -> HostilePolicy | None:
    """The first policy of a kind that is not refused."""
    made = (each for each in hostile_policies(SEED, 8 * len(KINDS)) if each.kind == kind)
    return next(filter(is_accepted, made), None)


def is_accepted(hostile: HostilePolicy) -> bool:
    file = check_source(Source("hostile.policy", hostile.policy("a")), SCHEMA)
    return not any(found.severity == "error" for found in file.diagnostics)


def test_most_kinds_are_let_through() -> None:
    """An attacker whose policies are all refused shows nothing."""
    assert sum(accepted(kind) is not None for kind in KINDS) >= len(KINDS) - 3


@pytest.mark.parametrize("kind", KINDS)
def test_pods_of_other_namespaces_do_not_notice(kind: str) -> None:
    """Calls about their pods take no longer; the hostile policy gets its share of the time."""
    hostile = accepted(kind)
    if hostile is None:
        pytest.skip("all of this kind are refused")
    clock = time.process_time
    pods = [pod(f"p{number}", "a", on=NAMES[number % 20]) for number in range(40)]
    cache = cache_of([node(name) for name in NAMES], pods)
    times = PolicyTimes(clock, clock, lambda _: None, lambda *_: None, lambda: len(NAMES))
    text = f"{hostile.policy('a')}\n{OTHER}"
    engine = engine_over(text, cache, Silent(), time=DecisionTime(clock, policies=times))
    victims = {
        name: Victims([pods[n]["metadata"].get("uid", "")], 0) for n, name in enumerate(NAMES)
    }
    began, spent = clock(), 0.0
    for number in range(15):
        asked = raw(pod(f"hostile-{number}", "a", labels={"app": "web"}))
        before = clock()
        with suppress(EngineError):
            engine.filter(asked, NAMES, None, clock() + 5)
        with suppress(EngineError):
            engine.prioritize(asked, NAMES, None, clock() + 5)
        with suppress(EngineError):
            engine.preempt(asked, victims, clock() + 5)
        with suppress(ExpensivePolicyError):
            cache.put_pod(peer_of(pod(f"p{number}", "b", on="n1")))
        spent += clock() - before
        assert clock() - before < 4 * CALL_SECONDS + GRACE
        before = clock()
        decided = engine.filter(raw(pod(f"b{number}", "b")), NAMES, None, clock() + 5)
        assert int((decided.codes == 0).sum()) == len(NAMES) - 1
        assert clock() - before < GRACE
    elapsed = clock() - began
    assert spent < NAMESPACE_SECONDS + NAMESPACE_SHARE * elapsed + 15 * GRACE / 3
