"""Reports of the leader about audits and drift, written and told again and again."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from msgspec.structs import replace

from engine.cluster.events import Events
from engine.drift.drift_document import DriftDocument
from engine.drift.repairs import Repairs
from engine.drift.survey import Survey
from engine.engine import Engine
from engine.errors import ApiError
from grammar.values.time import SECOND, Timestamp
from policies.resource import AuditStatus, Metadata, PolicyStatus
from server.capabilities.audit import AuditStatuses
from server.capabilities.capability import LedCluster
from server.capabilities.drift import DriftWatch, drifting_since
from tests.support.builders import controller, node, pod, raw
from tests.support.engines import Known, cache_of, engine_of, engine_over, node_of, peer_of

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


# ---- driftWatch: surveys while this replica leads, and what it says meanwhile


DRIFT_WATCHING_POLICY = """
policy web {
  for pods where true
  filter "ssd" { require node.labels["ssd"] == "yes" }
  filter "old" { require node.name != "n1" }
}
"""
DRIFT_WATCHING_WEB = controller("ReplicaSet", "web", replicas=1)


@dataclass
class Led:
    """A cluster of which this replica may lead, and whose API server may fail."""

    leads: bool = True
    failure: ApiError | None = None
    status: Mapping[str, Any] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.pod = pod("web-1", on="n1", owner=DRIFT_WATCHING_WEB)
        self.cache = cache_of([node("n1"), node("n2", labels={"ssd": "yes"})], [self.pod])
        clock = asyncio.get_running_loop().time
        engine = engine_over(DRIFT_WATCHING_POLICY, self.cache)
        metadata = {"name": "web", "uid": "1"}
        objects = {"web": json.dumps({"metadata": metadata, "status": self.status}).encode()}
        programs = {"web": engine.registry.programs[0], "other": engine.registry.programs[0]}
        survey = Survey(
            "me",
            engine,
            Known(self.cache),
            clock,
            drifting=lambda: drifting_since(programs, objects),
        )
        repairs = Repairs(self.cache, "off", clock)
        led = LedCluster(
            self,
            self.cache,
            self.cache.snapshot,
            lambda: objects,
            lambda: self.leads,
            Events(self, "a"),
            self._report,
        )
        self.watch = DriftWatch(survey, led, repairs)

    async def request(self, *_: object, **_more: object) -> bytes:
        if self.failure is not None:
            raise self.failure
        return raw(self.pod)

    def _report(self, _work: str, text: str) -> None:
        self.told.append(text)


async def test_the_leader_looks_again_and_again() -> None:
    led = Led()
    assert led.watch.document.problem == "no survey has ended yet"
    assert led.watch.by_policy() is None
    following = asyncio.create_task(led.watch.follow())
    await asyncio.sleep(1.0)
    (found,) = led.watch.document.pods
    assert (found.pod, [each.clause for each in found.clauses]) == (
        "default/web-1",
        ["ssd", "old"],
    )
    assert led.watch.by_policy() == {"web": {"filter": 1}}
    led.cache.put_node(node_of(node("n1", labels={"ssd": "yes"})))
    # Nobody waits for the next survey: no policy has a repair.
    await asyncio.sleep(28.0)
    assert len(led.watch.document.pods[0].clauses) == 2
    await asyncio.sleep(2.0)
    assert [each.clause for each in led.watch.document.pods[0].clauses] == ["old"]
    led.leads = False
    assert led.watch.document.problem == "another replica leads, and looks"
    assert led.watch.by_policy() is None
    await asyncio.sleep(30.0)
    led.leads = True
    assert led.watch.document == DriftDocument(replica="me", problem="no survey has ended yet")
    following.cancel()


async def test_an_api_server_that_fails_is_reported_and_asked_again() -> None:
    led = Led(failure=ApiError(500, "InternalError", "down"))
    following = asyncio.create_task(led.watch.follow())
    await asyncio.sleep(1.0)
    assert "down" in led.told[-1]
    assert led.watch.document.problem == "no survey has ended yet"
    led.failure = None
    await asyncio.sleep(5.0)
    assert (led.told[-1], len(led.watch.document.pods)) == ("", 1)
    following.cancel()


@pytest.mark.parametrize("state", ["True", "False"])
async def test_a_new_leader_knows_since_when_a_policy_has_drifted(state: str) -> None:
    since, text = "2026-11-21T10:00:00Z", ""
    condition = {"type": "Drifted", "status": state, "reason": "Drifted", "message": text}
    led = Led(status={"conditions": [{**condition, "lastTransitionTime": since}]})
    await led.watch.look()
    (pod,) = led.watch.document.pods
    assert {each.since == since for each in pod.clauses} == {state == "True"}
