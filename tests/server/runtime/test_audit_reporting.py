"""Audit reporting: statuses of policies in audit mode, written once a minute."""

from __future__ import annotations

import math

import pytest
from msgspec.structs import replace

from engine.engine import Engine
from grammar.values.time import SECOND, Timestamp
from policies.resource import AuditStatus, Metadata, PolicyStatus
from server.runtime.policy_statuses import AuditStatuses
from tests.support.builders import controller, node, pod, raw
from tests.support.engines import engine_of, peer_of

pytestmark = pytest.mark.fake_clock
POLICY = """
policy web {
  mode audit
  for pods where pod.namespace == "shop"
  filter "gpu" { require node.name == pod.labels["wants"] }
}
"""
NAMES = ["n1", "n2"]
METADATA = Metadata("web", "shop", "u", 1)
WEB = controller("ReplicaSet", "web", "shop")


def ask(engine: Engine, name: str, wants: str = "n3", on: str = "") -> None:
    labels = {"wants": wants}
    engine.filter(raw(pod(name, "shop", labels=labels, owner=WEB)), NAMES, None, math.inf)
    if on:
        placed = peer_of(pod(name, "shop", on=on, labels=labels, owner=WEB))
        engine.audits.log.pod_changed(None, placed, 1)


def engine() -> Engine:
    return engine_of(POLICY, [node(name) for name in NAMES])


class Written:
    """The status of one policy, as a leader writes it."""

    def __init__(self, engine: Engine, status: PolicyStatus | None = None) -> None:
        self.status = status or PolicyStatus()
        self.seconds = 1000
        self._engine = engine
        at = lambda: Timestamp(self.seconds * SECOND)  # noqa: E731
        self._statuses = AuditStatuses(engine.audits.log, at)

    def write(self) -> AuditStatus:
        (program,) = self._engine.registry.programs
        audit = self._statuses.of(program, METADATA, self.status)
        assert audit is not None
        self.status = replace(self.status, observedGeneration=1, audit=audit)
        return audit


def test_numbers_are_written_at_most_once_a_minute() -> None:
    deciding = engine()
    written = Written(deciding)
    assert written.write().waitingPods == 0
    found = []
    for number in range(120):
        ask(deciding, f"web-{number}")
        written.seconds += 1
        found.append(written.write().waitingPods)
    assert sorted(set(found)) == [1, 61]
    assert len(written.status.audit.lastPods if written.status.audit else ()) == 10


def test_a_new_leader_goes_on_counting() -> None:
    first = engine()
    for number in range(3):
        ask(first, f"web-{number}")
    ask(first, "web-3", wants="n1", on="n2")
    before = Written(first).write()
    assert (before.waitingPods, before.workloads, before.elsewherePods) == (3, 1, 1)
    assert [each.pod for each in before.lastPods][:2] == ["shop/web-3", "shop/web-2"]
    assert before.lastPods[0].node == "n2"

    second = engine()
    written = Written(second, PolicyStatus(observedGeneration=1, audit=before))
    assert written.write() == before
    ask(second, "web-9")
    now = written.write()
    assert (now.waitingPods, now.since) == (4, before.since)
    assert [each.pod for each in now.lastPods] == [
        "shop/web-9",
        *(each.pod for each in before.lastPods),
    ]


def test_a_policy_that_is_enforced_has_no_audit() -> None:
    enforced = engine_of(POLICY.replace("mode audit", ""), [node(name) for name in NAMES])
    (program,) = enforced.registry.programs
    before = PolicyStatus(observedGeneration=1, audit=Written(engine()).write())
    assert AuditStatuses(enforced.audits.log).of(program, METADATA, before) is None
