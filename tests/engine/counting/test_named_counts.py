"""Named counts: what rules read of a `count`, as pods come, are on their way, get ready and end."""

from __future__ import annotations

import math
from typing import Any

import pytest

from engine.cache.cache import Cache
from engine.decision.preemption import Victims
from engine.decision.verdict import Feasible
from engine.engine import Engine
from engine.errors import BriefWaitError
from engine.objects.peer import key_of
from engine.program.program import FilterProgram
from tests.support.builders import node, pod, raw
from tests.support.engines import (
    CODEC,
    Known,
    Silent,
    cache_of,
    peer_of,
    programs_of,
    registry_of,
)

ZONES = {"a-1": "a", "a-2": "a", "b-1": "b"}


def zones() -> Cache:
    return cache_of([node(name, zone) for name, zone in ZONES.items()])


def engine_of(rules: str, cache: Cache) -> Engine:
    text = f"cluster policy p {{ for pods where pod.priority >= 0 {rules} }}"
    return Engine(registry_of(text), Known(cache), CODEC, Silent())


def passing(engine: Engine, body: dict[str, Any]) -> list[str]:
    verdicts = engine.filter(raw(body), list(ZONES), None, math.inf)
    return [n for n, verdict in zip(ZONES, verdicts, strict=True) if isinstance(verdict, Feasible)]


READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


def test_pending_pods_of_higher_priority() -> None:
    cache = zones()
    engine = engine_of(
        """count larger = pending pods where peer.priority > pod.priority
        filter "wait" { require larger == 0 }""",
        cache,
    )
    low, high = pod("low", priority=1), pod("high", priority=5)
    cache.put_pod(peer_of(low))
    assert passing(engine, low) == list(ZONES)
    cache.put_pod(peer_of(high))
    assert passing(engine, low) == []
    assert passing(engine, high) == list(ZONES)
    cache.put_pod(peer_of(pod("high", priority=5, on="a-1")))
    engine.in_flight.forget(peer_of(high).uid)
    assert passing(engine, low) == list(ZONES)
    gated = pod("gated", priority=9)
    gated["spec"]["schedulingGates"] = [{"name": "wait"}]
    cache.put_pod(peer_of(gated))
    assert passing(engine, low) == list(ZONES)


@pytest.mark.parametrize(
    "clause",
    [
        'limit "l" when queued > 0 { all pods where true per node at most 0 strict }',
        'share "s" when queued > 0 { all pods where true on nodes where true at most 0 strict }',
    ],
)
def test_a_clause_that_applies_while_pods_wait(clause: str) -> None:
    cache = zones()
    engine = engine_of(f"count queued = pending pods where true {clause}", cache)
    waits = pod("waits")
    asked = pod("asked")
    for is_waiting in (False, True, False, True):
        if is_waiting:
            cache.put_pod(peer_of(waits))
        else:
            cache.remove_pod("default/waits")
        engine.in_flight.forget(peer_of(asked).uid)
        assert passing(engine, asked) == ([] if is_waiting else list(ZONES))


def test_a_score_that_applies_while_pods_wait() -> None:
    cache = zones()
    engine = engine_of(
        """count queued = pending pods where true
        score "first" weight 1 when queued > 0 { value node.name == "a-1" ? 100 : 0 }
        score "always" weight 1 { value 50 }""",
        cache,
    )
    for wanted in ([5, 5, 5], [8, 3, 3]):
        scores = engine.prioritize(raw(pod("asked")), list(ZONES), None, math.inf)
        assert scores is not None
        assert list(scores) == wanted
        cache.put_pod(peer_of(pod("waits")))


def test_a_strict_clause_applies_if_pods_on_their_way_may_make_it_apply() -> None:
    cache = zones()
    engine = engine_of(
        """count batch = all pods where peer.labels["app"] == "batch"
        limit "once there is batch" when batch > 0 {
          all pods where peer.labels["app"] == "web" per node at most 0 strict
        }""",
        cache,
    )
    web, batch = pod("web", labels={"app": "web"}), pod("batch", labels={"app": "batch"})
    assert passing(engine, web) == list(ZONES)
    engine.in_flight.forget(peer_of(web).uid)
    assert passing(engine, batch) == list(ZONES)
    assert passing(engine, web) == []


def test_ready_pods_of_a_group() -> None:
    cache = zones()
    engine = engine_of(
        """group zone by node.zone
        count up per zone = ready pods where peer.labels["app"] == "db"
        filter "near" { require up >= 1 }""",
        cache,
    )
    db = pod("db", on="a-1", labels={"app": "db"})
    cache.put_pod(peer_of(db))
    assert passing(engine, pod("web")) == []
    cache.put_pod(peer_of(db | {"status": READY}))
    assert passing(engine, pod("web")) == ["a-1", "a-2"]
    deleted = db["metadata"] | {"deletionTimestamp": "2026-11-21T12:00:00Z"}
    cache.put_pod(peer_of(db | {"status": READY, "metadata": deleted}))
    assert passing(engine, pod("web")) == []


def test_readiness_alone_evaluates_no_node_anew() -> None:
    cache = zones()
    db = pod("db", on="a-1")
    cache.put_pod(peer_of(db))
    before = cache.snapshot().table.versions.copy()
    cache.put_pod(peer_of(db | {"status": READY}))
    assert cache.snapshot().table.versions.tolist() == before.tolist()


def test_pods_that_ended_on_a_node() -> None:
    cache = zones()
    engine = engine_of(
        """count failed per node = ended pods
          where peer.phase == "Failed" && peer.labels["app"] == pod.labels["app"]
        filter "elsewhere" { require failed < 2 }""",
        cache,
    )
    web = pod("web", labels={"app": "web"})
    for number in range(2):
        gone = pod(f"w{number}", on="a-1", phase="Failed", labels={"app": "web"})
        cache.put_pod(peer_of(gone))
        cache.put_pod(peer_of(gone))
        cache.remove_pod(key_of(peer_of(gone)))
    cache.put_pod(peer_of(pod("other", on="b-1", phase="Failed", labels={"app": "x"})))
    cache.put_pod(peer_of(pod("done", on="b-1", phase="Succeeded", labels={"app": "web"})))
    assert passing(engine, web) == ["a-2", "b-1"]


def test_a_sum_has_the_type_of_its_amount() -> None:
    cache = zones()
    engine = engine_of(
        """count used per node = sum peer.requests["cpu"] of all pods where true
        filter "half" { require used <= 0.5 * node.allocatable["cpu"] }""",
        cache,
    )
    cache.put_pod(peer_of(pod("one", "shop", cpu="5", on="a-1")))
    assert passing(engine, pod("web")) == ["a-2", "b-1"]


def test_pods_are_those_of_the_namespace() -> None:
    """Pods of two namespaces that are alike to the rule read two numbers."""
    cache = zones()
    engine = engine_of('count here = pods where true filter "few" { require here < 1 }', cache)
    cache.put_pod(peer_of(pod("one", "shop", on="a-1")))
    assert passing(engine, pod("web", "shop")) == []
    assert passing(engine, pod("web")) == list(ZONES)
    assert passing(engine, pod("web", "shop")) == []


def test_pods_on_their_way_count_wherever_they_may_end() -> None:
    cache = zones()
    engine = engine_of(
        'count here per node = pods where true filter "one" { require here < 1 }', cache
    )
    assert passing(engine, pod("one")) == list(ZONES)
    with pytest.raises(BriefWaitError, match="in-flight"):
        passing(engine, pod("two"))
    cache.put_pod(peer_of(pod("one", on="a-1")))
    engine.in_flight.forget(peer_of(pod("one")).uid)
    assert passing(engine, pod("two")) == ["a-2", "b-1"]


def test_a_bound_that_reads_a_count() -> None:
    """Team a may use 4 CPUs, and what team b leaves of 4. Nothing is believed too early."""
    cache = zones()
    rules = """count borrowed = sum peer.requests["cpu"] of all pods where peer.namespace == "b"
      limit "team a" when pod.namespace == "a" {
        sum peer.requests["cpu"] of all pods where peer.namespace == "a"
        per cluster at most "8" - borrowed strict
      }"""
    engine = engine_of(rules, cache)
    assert passing(engine, pod("b", "b", cpu="3")) == list(ZONES)
    # It may be placed, so there are 5 left.
    with pytest.raises(BriefWaitError, match="in-flight"):
        passing(engine, pod("a1", "a", cpu="6"))
    assert passing(engine, pod("a1", "a", cpu="5")) == list(ZONES)


def test_a_bound_that_a_count_raises_is_not_believed_early() -> None:
    cache = zones()
    rules = """count servers = all pods where peer.namespace == "b"
      limit "clients" when pod.namespace == "a" {
        all pods where peer.namespace == "a" per cluster at most servers strict
      }"""
    engine = engine_of(rules, cache)
    server = pod("b", "b")
    passing(engine, server)
    with pytest.raises(BriefWaitError, match="in-flight"):
        passing(engine, pod("a", "a"))
    cache.assume(peer_of(server), "a-1", math.inf)
    engine.in_flight.forget(peer_of(server).uid)
    with pytest.raises(BriefWaitError, match="in-flight"):
        passing(engine, pod("a", "a"))
    cache.confirm("b/b", peer_of(server).uid)
    assert passing(engine, pod("a", "a")) == list(ZONES)


def test_two_counts_are_taken_at_their_worst_each() -> None:
    cache = zones()
    rules = """count plus = all pods where peer.namespace == "b"
      count minus = all pods where peer.namespace == "c"
      limit "clients" when pod.namespace == "a" {
        all pods where peer.namespace == "a" per cluster at most 1 + plus - minus strict
      }"""
    engine = engine_of(rules, cache)
    for name in ("b", "c"):
        passing(engine, pod("one", name))
    with pytest.raises(BriefWaitError, match="in-flight"):
        passing(engine, pod("a", "a"))
    cache.put_pod(peer_of(pod("one", "b", on="a-1")))
    engine.in_flight.forget(peer_of(pod("one", "b")).uid)
    assert passing(engine, pod("a", "a")) == list(ZONES)


def test_a_limit_of_pods_in_a_state() -> None:
    cache = zones()
    rules = """limit "near" {
        ready pods where peer.labels["app"] == "db" per zone at least 1 strict
      }
      limit "not again" { ended pods where peer.phase == "Failed" per node at most 0 strict }"""
    engine = engine_of(rules, cache)
    cache.put_pod(peer_of(pod("db", on="a-1", labels={"app": "db"}) | {"status": READY}))
    cache.put_pod(peer_of(pod("x", on="a-2", phase="Failed")))
    assert passing(engine, pod("web")) == ["a-1"]


@pytest.mark.parametrize("state", ["ended", "ready"])
@pytest.mark.parametrize(
    ("limit", "without", "with_one"),
    [
        ("{0} pods where true per node at most 0", ZONES, ["a-2", "b-1"]),
        ("{0} pods where true per node at most 1", ZONES, ZONES),
        ("{0} pods where true per cluster at most 0", ZONES, []),
        ("{0} pods where true per zone at least 1", [], ["a-1", "a-2"]),
        ("{0} pods where true used node at most 1", ZONES, ZONES),
        ("{0} pods where true empty node at least 3", ZONES, ZONES),
        ("{0} pods where true per zone at most 0", ZONES, ["b-1"]),
        ('sum peer.requests["cpu"] of {0} pods where true per node at most 3', ZONES, ZONES),
        (
            'sum peer.requests["cpu"] of {0} pods where true per node at most 1',
            ZONES,
            ["a-2", "b-1"],
        ),
    ],
)
def test_a_pod_that_is_placed_is_in_no_state(
    state: str, limit: str, without: Any, with_one: Any
) -> None:
    """Neither the asked pod nor one on its way, nor one that a preemption makes room for."""
    cache, text = zones(), limit.format(state)
    engine = engine_of(f'group zone by node.zone limit "l" {{ {text} strict }}', cache)
    cache.put_pod(peer_of(pod("ahead") | {"status": {"nominatedNodeName": "a-2"}}))
    for name in ("one", "two"):
        assert passing(engine, pod(name, cpu="2")) == list(without)
    phase = {"phase": "Failed"} if state == "ended" else READY
    cache.put_pod(peer_of(pod("there", cpu="2", on="a-1") | {"status": phase}))
    assert passing(engine, pod("three", cpu="2")) == list(with_one)


def test_a_pod_that_runs_has_not_ended() -> None:
    """It is asked about once more, as by a repair: what is taken off is what counts."""
    cache = zones()
    rules = """count failed per node = ended pods where true
      filter "once" { require failed < 1 }
      limit "as often" { pods where true per node at most 1 + failed strict }"""
    engine = engine_of(rules, cache)
    runs = pod("runs", on="a-1")
    cache.put_pod(peer_of(runs))
    cache.put_pod(peer_of(pod("gone", on="a-1", phase="Failed")))
    assert passing(engine, runs) == ["a-2", "b-1"]
    engine.in_flight.forget(peer_of(runs).uid)
    assert passing(engine, pod("new")) == ["a-2", "b-1"]
    cache.assume(peer_of(pod("new")), "a-2", math.inf)
    engine.in_flight.forget(peer_of(pod("new")).uid)
    assert passing(engine, pod("newer")) == ["b-1"]


def test_a_rule_of_one_count_is_evaluated_for_each_value() -> None:
    """As a rule of one group is for each group; with other things of the node, for each node."""
    text = """cluster policy p {
      count c = pods where true
      count n per node = pods where true
      filter "alone" { require n + c < pod.priority }
      filter "with the node" { require n < size(node.name) }
      filter "of the cluster" { require c < 3 }
    }"""
    (program,) = programs_of(text)
    assert [clause.groups.alone for clause in program.of(FilterProgram)] == [False, False, False]
    (program,) = programs_of(text.replace("n + c", "n"))
    assert [clause.groups.alone for clause in program.of(FilterProgram)] == [True, False, False]


def test_victims_do_not_count() -> None:
    cache = zones()
    rules = """count here per node = pods where true filter "one" { require here < 1 }"""
    engine = engine_of(rules, cache)
    there = peer_of(pod("there", on="a-1", priority=0))
    cache.put_pod(there)
    body, proposed = raw(pod("web", priority=10)), {"a-1": Victims([there.uid], 0)}
    assert list(engine.preempt(body, proposed, math.inf)) == ["a-1"]
    cache.put_pod(peer_of(pod("stays", on="a-1", priority=100)))
    assert list(engine.preempt(body, proposed, math.inf)) == []
