"""Audit reporting: statuses and PolicyReports of policies in audit mode, written once a minute."""

from __future__ import annotations

import asyncio
import json
import math
from dataclasses import dataclass, field
from typing import Any

import pytest
from msgspec.structs import replace

from engine.cluster.events import Regarding
from engine.cluster.policy_reports import AuditReport, PolicyReports
from engine.engine import Engine
from engine.errors import ApiError
from grammar.values.time import SECOND, Timestamp
from policies.resource import AuditStatus, Metadata, PolicyStatus
from server.runtime.audit_reporting import AuditReporter, AuditStatuses
from tests.support.builders import controller, node, pod, raw
from tests.support.engines import engine_of, peer_of
from tests.support.repaired import policies_of

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


@dataclass
class Cluster:
    """An API server with or without the kind PolicyReport."""

    has_kind: bool = True
    objects: dict[str, Any] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    async def request(
        self, method: str, path: str, *, body: bytes | None = None, content_type: str = "", **_: Any
    ) -> bytes:
        where, _mark, query = path.partition("?")
        self.asked.append(method)
        if not self.has_kind:
            raise ApiError(404, "NotFound", "the server could not find the requested resource")
        match method:
            case "GET":
                assert query == "labelSelector=app.kubernetes.io/managed-by%3Dplacet"
                items = [{"metadata": each["metadata"]} for each in self.objects.values()]
                return json.dumps({"items": items}).encode()
            case "PATCH":
                assert content_type == "application/apply-patch+yaml"
                assert query == "fieldManager=placet&force=true"
                self.objects[where] = json.loads(body or b"")
            case _:
                del self.objects[where]
        return b"{}"


OWNER = Regarding("placement-policy.scheduling.x-k8s.io/v1", "PlacementPolicy", "shop", "web", "u")
OBJECT = {
    "apiVersion": OWNER.api_version,
    "kind": OWNER.kind,
    "metadata": {"namespace": "shop", "name": "web", "uid": "u"},
}
PATH = "/apis/wgpolicyk8s.io/v1alpha2/namespaces/shop/policyreports/placet-placementpolicy-web"


async def test_a_report_has_the_pods_and_belongs_to_the_policy() -> None:
    deciding, cluster = engine(), Cluster()
    ask(deciding, "web-1")
    ask(deciding, "web-2", wants="n1", on="n2")
    reports = PolicyReports(cluster)
    pods = list(deciding.audits.log.policies["web"].pods.values())
    report = AuditReport(OWNER, "shop", pods)
    assert await reports.write([report], [OWNER])
    assert await reports.write([report], [OWNER])
    assert cluster.asked == ["GET", "PATCH", "GET"], "what has not changed is not written"

    found = cluster.objects[PATH]
    assert found["metadata"]["ownerReferences"][0]["uid"] == "u"
    assert found["summary"] == {"pass": 0, "fail": 1, "warn": 1, "error": 0, "skip": 0}
    first, second = found["results"]
    assert (first["result"], first["rule"], first["policy"]) == ("fail", "gpu", "shop/web")
    assert first["message"] == "the policy is in audit mode: it leaves the pod none of 2 nodes"
    assert first["resources"][0]["name"] == "web-1"
    assert first["properties"]["workload"] == "ReplicaSet/web"
    assert second["properties"]["node"] == "n2"


async def test_the_report_of_a_policy_goes_when_it_is_enforced() -> None:
    deciding, cluster = engine(), Cluster()
    ask(deciding, "web-1")
    report = AuditReport(OWNER, "shop", deciding.audits.log.policies["web"].pods.values())
    await PolicyReports(cluster).write([report], [OWNER])
    after_start = PolicyReports(cluster)
    await after_start.write([], [OWNER])
    assert PATH in cluster.objects, "nobody knows of these pods any more, and the audit goes on"
    await after_start.write([], [])
    assert not cluster.objects


async def test_without_the_kind_nothing_is_written() -> None:
    cluster = Cluster(has_kind=False)
    report = AuditReport(OWNER, "shop", [])
    assert not await PolicyReports(cluster).write([report], [OWNER])
    assert cluster.asked == ["GET"]


async def listed(cluster: Cluster, seconds: int) -> int:
    """How often a reporter has looked at the reports in the next seconds."""
    before = cluster.asked.count("GET")
    await asyncio.sleep(seconds)
    return cluster.asked.count("GET") - before


async def test_the_first_pod_of_a_policy_is_reported_soon_and_others_once_a_minute() -> None:
    deciding, cluster = engine(), Cluster()
    enforced = policies_of(POLICY)
    (name,) = enforced.programs
    reporter = AuditReporter(
        PolicyReports(cluster),
        deciding.audits.log,
        lambda: enforced,
        lambda: {name: raw(OBJECT)},
        lambda: True,
        lambda *_: None,
    )
    following = asyncio.create_task(reporter.follow())
    try:
        await asyncio.sleep(3)
        ask(deciding, "web-1", on="n2")
        await asyncio.sleep(3)
        assert len(cluster.objects[PATH]["results"]) == 1
        ask(deciding, "web-2", on="n2")
        assert await listed(cluster, 50) == 0
        assert len(cluster.objects[PATH]["results"]) == 1
        assert await listed(cluster, 60) == 1
        assert len(cluster.objects[PATH]["results"]) == 2
        enforced = policies_of(POLICY.replace("mode audit", ""))
        deciding.audits.log.adopted(enforced.registry.programs)
        await asyncio.sleep(3)
        assert not cluster.objects, "it is not in audit mode any more"
    finally:
        following.cancel()
