"""Journal: it keeps the newest calls of each pod and their errors, within bounds."""

from __future__ import annotations

import math

import pytest

from engine.decision.journal import DecisionRecord, Journal
from engine.decision.preemption import Victims
from engine.decision.recent_answers import AfterDecision
from engine.decision.registry import Registry
from engine.engine import Engine
from engine.errors import EngineError
from grammar.values.time import Timestamp
from tests.support.builders import Object, node, pod, raw
from tests.support.engines import engine_of

POLICY = """
policy web {
  for pods where pod.labels["app"] == "web"
  filter "fast" { require node.labels["disk"] == "ssd" }
  score "roomy" weight 1 { value node.labels["disk"] == "ssd" }
}
"""
NODES = [node(f"n{i}", labels={"disk": "ssd" if i % 2 else "hdd"}) for i in range(4)]
NAMES = [f"n{i}" for i in range(4)]
AT = Timestamp.parse("2026-11-21T12:00:00Z")


def journalled(policies: str = POLICY, **bounds: int) -> tuple[Engine, Journal]:
    journal = Journal(**bounds, now=lambda: AT)
    return engine_of(policies, NODES, after=AfterDecision(journal=journal)), journal


def web(name: str) -> Object:
    return pod(name, "shop", labels={"app": "web"})


def ask(engine: Engine, name: str, names: list[str] = NAMES) -> None:
    engine.filter(raw(web(name)), names, None, math.inf)


def found(journal: Journal, name: str) -> DecisionRecord:
    record = journal.find("shop", name)
    assert record is not None
    return record


def test_a_decision_is_kept_with_its_nodes_policies_and_scores() -> None:
    engine, journal = journalled()
    ask(engine, "a", ["n3", "n2", "n1"])
    engine.prioritize(raw(web("a")), ["n3", "n1"], None, math.inf)
    record = found(journal, "a")
    assert (record.at, record.offered, record.error) == (AT, 3, "")
    assert record.policies.governing == "web"
    assert record.answered is not None
    assert record.scored is not None
    assert list(record.answered.nodes.names()) == ["n3", "n2", "n1"]
    assert (record.answered.codes == 0).tolist() == [True, False, True]
    assert list(record.scored.nodes.names()) == ["n3", "n1"]
    assert record.scored.points.tolist() == [10, 10]


def test_nodes_that_the_cache_has_not_are_kept_by_name() -> None:
    engine, journal = journalled()
    ask(engine, "a", ["n1", "unheard-of"])
    answered = found(journal, "a").answered
    assert answered is not None
    assert list(answered.nodes.names()) == ["n1", "unheard-of"]


def test_a_pod_that_no_policy_concerns_has_no_more_than_a_number_of_nodes() -> None:
    engine, journal = journalled()
    engine.filter(raw(pod("x", "shop")), NAMES, None, math.inf)
    record = found(journal, "x")
    assert (record.offered, record.answered, record.policies.governing) == (4, None, None)


def test_the_last_call_about_a_pod_is_the_one_that_is_kept() -> None:
    engine, journal = journalled()
    for names in (["n1"], ["n2"], ["n1", "n3"]):
        ask(engine, "a", names)
    assert (len(journal), found(journal, "a").offered) == (1, 2)


def test_what_was_scored_for_another_pod_of_the_name_is_not_kept() -> None:
    engine, journal = journalled()
    ask(engine, "a")
    other = web("a")
    other["metadata"]["uid"] = "another"
    engine.prioritize(raw(other), NAMES, None, math.inf)
    assert found(journal, "a").scored is None


def test_the_error_of_a_pod_that_is_rejected_again_and_again_stands_beside_its_reasons() -> None:
    engine, journal = journalled()
    for _ in range(3):
        ask(engine, "a", ["n0", "n2"])
    with pytest.raises(EngineError):
        ask(engine, "a", ["n0", "n2"])
    record = found(journal, "a")
    assert record.error
    assert record.answered is not None


def test_a_pod_that_a_count_keeps_off_every_node_has_what_was_counted() -> None:
    counted = 'pods where peer.labels["app"] == "web" per node at most 1 strict'
    limit = f'policy web in namespace "shop" {{ limit "one" {{ {counted} }} }}'
    labels = {"app": "web"}
    pods = [pod(f"{name}-0", "shop", on=name, labels=labels) for name in NAMES]
    journal = Journal(now=lambda: AT)
    ask(engine_of(limit, NODES, pods, after=AfterDecision(journal=journal)), "a")
    record = found(journal, "a")
    assert record.answered is not None
    assert not (record.answered.codes == 0).any()
    assert [counts.pods.tolist() for counts in record.counts] == [[0, 1, 1, 1, 1]]


def test_a_call_without_a_decision_has_its_error() -> None:
    engine, journal = journalled()
    ask(engine, "a")
    other = pod("a", "shop", labels={"app": "db"}) | {"spec": {"priority": "high"}}
    with pytest.raises(EngineError):
        engine.filter(raw(other), NAMES, None, math.inf)
    record = found(journal, "a")
    assert (record.answered, record.offered) == (None, 4)
    assert record.error


def test_policies_that_are_put_in_force_are_counted() -> None:
    engine, journal = journalled()
    ask(engine, "a")
    engine.adopt(Registry())
    ask(engine, "b")
    assert (found(journal, "a").generation, found(journal, "b").generation) == (1, 2)
    assert journal.generation == 2


def test_the_oldest_pods_are_forgotten() -> None:
    engine, journal = journalled(most_pods=3)
    for name in "abcad":
        ask(engine, name)
    assert [record.name for record in journal] == ["d", "a", "c"]


def test_what_is_kept_has_no_more_bytes_than_it_may() -> None:
    engine, journal = journalled(most_bytes=10_000)
    for i in range(100):
        ask(engine, f"p{i}")
        engine.prioritize(raw(web(f"p{i}")), NAMES, None, math.inf)
        assert journal.bytes <= 10_000
    assert 3 <= len(journal) <= 9
    kept = len(journal)
    ask(engine, "p99")
    assert len(journal) == kept


def test_the_policies_of_a_record_count_among_its_bytes() -> None:
    audited = [f"policy p{i} {{ mode audit for pods where true }}" for i in range(20)]
    engine, journal = journalled("\n".join([POLICY, *audited]), most_bytes=6_000)
    for name in "abcd":
        ask(engine, name)
    assert len(found(journal, "d").policies.digests) == 21
    assert [record.name for record in journal] == ["d", "c"]


def test_a_record_that_is_too_large_by_itself_is_kept_alone() -> None:
    engine, journal = journalled(most_bytes=1)
    ask(engine, "a")
    ask(engine, "b")
    assert [record.name for record in journal] == ["b"]


LIMIT = """
policy web {
  for pods where true
  limit "one" { pods where peer.labels["app"] == "web" per node at most 1 strict }
}
"""


def test_what_preempt_keeps_is_kept_beside_later_calls_of_filter() -> None:
    """kube-scheduler asks filter again as soon as the victims are gone."""
    journal = Journal(now=lambda: AT)
    there = pod("there", "shop", on="n1", labels={"app": "web"})
    engine = engine_of(LIMIT, NODES, [there], after=AfterDecision(journal=journal))
    asked = raw(pod("a", "shop", labels={"app": "web"}, priority=9))
    uid = there["metadata"]["uid"]
    engine.preempt(asked, {"n1": Victims([uid], 0), "n2": Victims([], 0)}, math.inf)
    record = found(journal, "a")
    assert (record.offered, record.answered) == (0, None)
    kept = record.preempted
    assert kept is not None
    assert (kept.at, kept.offered, kept.kept) == (AT.to_second(), 2, 1)
    engine.filter(asked, ["n1", "n2"], None, math.inf)
    record = found(journal, "a")
    assert (record.offered, record.preempted) == (2, kept)
    assert len(journal) == 1


def test_a_pod_of_the_same_name_begins_anew() -> None:
    journal = Journal(now=lambda: AT)
    engine = engine_of(LIMIT, NODES, [], after=AfterDecision(journal=journal))
    first = pod("a", "shop", labels={"app": "web"}, priority=9)
    engine.preempt(raw(first), {"n1": Victims([], 0)}, math.inf)
    assert found(journal, "a").preempted is not None
    second = pod("a", "shop", labels={"app": "web"})
    second["metadata"]["uid"] = "another"
    engine.filter(raw(second), ["n1"], None, math.inf)
    assert found(journal, "a").preempted is None
