"""Pods that no policy decides about: of some namespaces, and those that say so themselves."""

from __future__ import annotations

import math

import pytest

from engine.cache.cache import Cache
from engine.cache.node_table import Snapshot
from engine.decision.preemption import Victims
from engine.decision.registry import Registry
from engine.engine import Engine
from engine.errors import EngineError, NotSyncedError, RefusedError
from engine.objects.request_pod import BYPASS, NO_EXEMPTIONS, SYSTEM_NAMESPACES, Exemptions
from tests.support.builders import node, pod, raw
from tests.support.engines import CODEC, Silent, cache_of, engine_of, engine_over, registry_of

USUAL = Exemptions(SYSTEM_NAMESPACES, by_annotation=True)
NAMES = ["n1", "n2"]
NODES = [node(name) for name in NAMES]
NEVER = """
cluster policy a {
  filter "never" { require node.name == "" }
  bind "nowhere" { require node.name == "" }
  score "name" weight 1 { value size(node.name) }
  preempt "nobody" { protect pods where victim.name != "" }
}
"""
ONE = """
cluster policy a {
  limit "one" { all pods where peer.labels["app"] == "web" per cluster at most 1 strict }
}
"""
WEB = {"app": "web"}
PLAIN = raw(pod("a", "shop", labels=WEB))
SYSTEM = raw(pod("dns", "kube-system", labels=WEB))


def bypassing(reason: str, name: str = "b") -> bytes:
    return raw(pod(name, "shop", labels=WEB, annotations={BYPASS: reason}))


def exempting(text: str, exemptions: Exemptions = USUAL) -> Engine:
    victim = pod("victim", "shop", on="n1")
    victim["metadata"]["uid"] = "victim"
    cache = cache_of(NODES, [victim])
    return engine_over(text, cache, exemptions=exemptions)


def passes(engine: Engine, asked: bytes) -> bool:
    return not engine.filter(asked, NAMES, None, math.inf).codes.any()


@pytest.mark.parametrize("asked", [SYSTEM, bypassing("the disk is full")], ids=["system", "bypass"])
def test_nothing_stands_in_its_way(asked: bytes) -> None:
    engine = exempting(NEVER)
    assert passes(engine, asked)
    assert engine.prioritize(asked, NAMES, None, math.inf) is None
    victims = {"n1": Victims(["victim"], 0)}
    assert engine.preempt(asked, victims, math.inf) == victims
    assert engine.admit(asked, "n1", math.inf).deletion_cost is None


@pytest.mark.parametrize(
    ("asked", "exemptions"),
    [
        (PLAIN, USUAL),
        (bypassing(""), USUAL),
        (bypassing(" \n"), USUAL),
        (bypassing("please"), Exemptions(SYSTEM_NAMESPACES)),
        (SYSTEM, Exemptions(by_annotation=True)),
        (SYSTEM, NO_EXEMPTIONS),
    ],
    ids=["plain", "no reason", "blank reason", "not honoured", "other namespaces", "nobody"],
)
def test_policies_decide_about_all_others(asked: bytes, exemptions: Exemptions) -> None:
    engine = exempting(NEVER, exemptions)
    assert not passes(engine, asked)
    with pytest.raises(RefusedError):
        engine.admit(asked, "n1", math.inf)
    assert engine.preempt(asked, {"n1": Victims(["victim"], 0)}, math.inf) == {}


def test_pods_that_differ_in_nothing_else_are_told_apart() -> None:
    engine = exempting(NEVER)
    answers = [passes(engine, asked) for asked in (PLAIN, bypassing("x"), PLAIN, bypassing("x"))]
    assert answers == [False, True, False, True]


def test_who_is_exempt_counts_all_the_same() -> None:
    """On its way, and when it is there."""
    engine = exempting(ONE)
    assert passes(engine, SYSTEM)
    assert passes(engine, bypassing("x"))
    with pytest.raises(EngineError, match="waiting for in-flight pods"):
        engine.filter(PLAIN, NAMES, None, math.inf)


def test_a_bypass_is_told_with_its_reason_and_an_exempt_namespace_is_not() -> None:
    observer = Silent()
    engine = engine_of(NEVER, NODES, observer=observer, exemptions=USUAL)
    passes(engine, SYSTEM)
    passes(engine, bypassing(f" on call: {'x' * 500}"))
    in_system = raw(pod("c", "kube-system", annotations={BYPASS: "twice"}))
    passes(engine, in_system)
    [(what, name, _, reason)] = observer.heard
    assert (what, name, str(reason)[:12], len(str(reason))) == (
        "bypassed",
        "shop/b",
        "on call: xxx",
        200,
    )


class Unsynced:
    """A cluster that nobody has seen."""

    pods = Cache()

    def snapshot(self) -> Snapshot:
        raise NotSyncedError("not synced: nodes 0 so far")


@pytest.mark.parametrize("asked", [SYSTEM, bypassing("x")], ids=["system", "bypass"])
def test_it_need_not_wait_until_anything_is_known(asked: bytes) -> None:
    """What cannot be scheduled then may be what is missing."""
    for registry in (registry_of(ONE), Registry(complete=False)):
        engine = Engine(registry, Unsynced(), CODEC, Silent(), exemptions=USUAL)
        assert passes(engine, asked)
        assert engine.prioritize(asked, NAMES, None, math.inf) is None
        assert engine.admit(asked, "n1", math.inf).pod.name == CODEC.peer(asked).name
        victims = {"n1": Victims(["victim"], 0)}
        assert engine.preempt(asked, victims, math.inf) == victims
        with pytest.raises(NotSyncedError):
            engine.filter(PLAIN, NAMES, None, math.inf)
        with pytest.raises(NotSyncedError):
            engine.admit(PLAIN, "n1", math.inf)
