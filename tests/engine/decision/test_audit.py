"""Audit: what a policy would have said is reported, and changes no answer."""

from __future__ import annotations

import math
from itertools import count
from typing import Any

from engine.decision.audit_log import MOST_OF_POLICY, MOST_WORKLOADS, AuditedClause
from engine.decision.verdict import Feasible
from engine.engine import Engine
from grammar.values.time import SECOND, Timestamp
from tests.support.builders import node, pod, raw
from tests.support.engines import Silent, engine_of, peer_of, registry_of

POLICY = """
policy web {
  mode audit
  for pods where pod.labels["app"] == "web"
  filter "n1" { require node.name == "n1" }
  limit "one a node" { pods where peer.labels["app"] == "web" per node at most 1 strict }
}
"""


def test_filters_and_counts_are_reported_and_nothing_is_rejected() -> None:
    names, labels, observer = ["n1", "n2", "n3"], {"app": "web"}, Silent()
    there = [pod(f"on-{name}", on=name, labels=labels) for name in names[:2]]
    engine = engine_of(POLICY, [node(name) for name in names], there, observer=observer)

    decided = engine.filter(raw(pod("asked", labels=labels)), names, None, math.inf)

    assert not decided.codes.any()
    assert observer.heard == [
        ("would reject", "web", "n1", 2),
        ("would reject", "web", "one a node", 2),
    ]


def audited(text: str, nodes: int = 3) -> tuple[Engine, list[str]]:
    names = [f"n{number}" for number in range(1, nodes + 1)]
    return engine_of(text, [node(name) for name in names], [], observer=Silent()), names


def ask(engine: Engine, names: list[str], name: str, **more: Any) -> None:
    engine.filter(raw(pod(name, labels={"app": "web"}, **more)), names, None, math.inf)


NOWHERE = """
policy web {
  mode audit
  for pods where pod.labels["app"] == "web"
  filter "gpu" { require node.name == "none" }
}
"""
ONLY_N1 = NOWHERE.replace("gpu", "n1").replace('"none"', '"n1"')


def test_a_pod_without_a_node_left_would_wait() -> None:
    engine, names = audited(NOWHERE)
    seconds = count(1_800_000_000)
    engine.audits.log.now = lambda: Timestamp(next(seconds) * SECOND)
    ask(engine, names, "a")
    ask(engine, names, "a")
    ask(engine, names, "b")
    audits = engine.audits.log.policies["web"]
    assert (audits.waiting, audits.workloads, audits.elsewhere) == (2, 2, 0)
    (second, first) = audits.pods
    assert (first.pod, first.clauses) == ("default/a", [AuditedClause("gpu", 3)])
    assert (first.wouldWait, first.offered, first.rejected) == (True, 3, 3)
    assert first.since < first.at
    assert (second.pod, second.since) == ("default/b", second.at)


def test_the_node_of_a_pod_tells_whether_it_was_rejected() -> None:
    engine, names = audited(ONLY_N1)
    log = engine.audits.log
    for name, on in (("a", "n1"), ("b", "n2")):
        ask(engine, names, name)
        assert not log.policies["web"].pods
        placed = peer_of(pod(name, on=on, labels={"app": "web"}))
        log.pod_changed(None, placed, 1)
    audits = log.policies["web"]
    assert [(each.pod, each.node) for each in audits.pods] == [("default/b", "n2")]
    assert (audits.waiting, audits.elsewhere) == (0, 1)
    assert [address for address, _ in log.of(placed.uid)] == ["web"]


def test_a_pod_that_enforced_policies_reject_is_not_that_of_an_audit() -> None:
    enforced = 'policy all { for pods where true filter "no" { require false } }'
    engine, names = audited(NOWHERE + enforced)
    ask(engine, names, "a")
    assert not engine.audits.log.policies["web"].pods


def test_a_node_that_is_held_back_is_one_of_those_that_are_left() -> None:
    """It passes, and is what an audited policy would leave, once it is enforced."""
    enforced = """
    policy all { for pods where true
      limit "one a node" { pods where true per node at most 1 strict }
      score "here" weight 1 { value node.name == "n2" }
    }
    """
    names, waiting = ["n1", "n2", "n3"], [pod(f"w{number}") for number in range(9)]
    engine = engine_of(ONLY_N1 + enforced, [node(name) for name in names], waiting)
    decided = engine.filter(raw(pod("a", labels={"app": "web"})), names, None, math.inf)
    assert [isinstance(verdict, Feasible) for verdict in decided] == [False, True, False]
    assert engine.audits.log.policies["web"].waiting == 0


def test_numbers_go_on_where_pods_are_forgotten() -> None:
    engine, names = audited(NOWHERE)
    for number in range(MOST_OF_POLICY + 5):
        ask(engine, names, f"pod-{number}")
    audits = engine.audits.log.policies["web"]
    assert (len(audits.pods), audits.waiting) == (MOST_OF_POLICY, MOST_OF_POLICY + 5)
    audits.go_on_from(Timestamp.parse(audits.since), 1000, 7, 600)
    assert (audits.waiting, audits.elsewhere, audits.workloads) == (1000, 7, 600)


def test_the_workloads_of_a_policy_displace_those_of_no_other() -> None:
    """A bound of all policies together would be one tenant's to fill."""
    other = NOWHERE.replace("policy web", "policy db").replace('"web"', '"db"')
    engine, names = audited(NOWHERE + other)
    for number in range(MOST_WORKLOADS + 5):
        ask(engine, names, f"pod-{number}")
    engine.filter(raw(pod("one", labels={"app": "db"})), names, None, math.inf)
    found = engine.audits.log.policies
    assert (found["web"].workloads, found["web"].waiting) == (MOST_WORKLOADS, MOST_WORKLOADS + 5)
    assert found["db"].workloads == 1


def test_another_version_of_a_policy_begins_anew() -> None:
    engine, names = audited(NOWHERE)
    ask(engine, names, "a")
    engine.adopt(engine.registry.anew())
    assert engine.audits.log.policies["web"].waiting == 1
    engine.adopt(registry_of(ONLY_N1))
    assert engine.audits.log.policies["web"].waiting == 0
    engine.adopt(registry_of(NOWHERE.replace("mode audit", "")))
    assert not engine.audits.log.policies
