"""Policy first: pods wait until the policies that are older than them are in force."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from engine.decision.placement import ReplicaRole
from engine.enforced import EnforcedPolicies
from engine.errors import ApiUnreachableError, BriefWaitError
from engine.objects.request_pod import Exemptions, RequestPod, RequestPodReader
from grammar.values.time import SECOND, Timestamp
from server.runtime.policy_first import WAITS, PolicyFirst
from server.runtime.reloader import PolicyReloader
from server.supervisor import end
from tests.support.builders import CREATED, node, pod, raw
from tests.support.engines import CODEC, engine_of

pytestmark = pytest.mark.fake_clock
NOW = Timestamp.parse(CREATED)
NAME = "placementpolicies/shop/web"


def asked(name: str, revision: int, namespace: str = "shop") -> RequestPod:
    value = pod(name, namespace)
    value["metadata"]["resourceVersion"] = str(revision)
    return RequestPodReader(CODEC).read(raw(value))


@dataclass
class Cluster:
    """An API server with one policy of a generation, and the policies that are in force."""

    revision: int = 100
    generation: int = 2
    in_force: int = 1
    catches_up: int = 0
    is_gone: bool = False
    lists: list[str] = field(default_factory=list)

    async def request(self, method: str, path: str, **_: Any) -> bytes:
        assert method == "GET"
        if self.is_gone:
            raise ApiUnreachableError("gone")
        self.lists.append(path.rpartition("/")[2])
        metadata = {"name": "web", "namespace": "shop", "generation": self.generation}
        items = [{"metadata": metadata}] if path.endswith("/placementpolicies") else []
        listed = {"metadata": {"resourceVersion": str(self.revision)}, "items": items}
        return json.dumps(listed).encode()

    @property
    def enforced(self) -> EnforcedPolicies:
        manifest = SimpleNamespace(metadata=SimpleNamespace(generation=self.in_force))
        found = {NAME: SimpleNamespace(manifest=manifest)}
        return cast("EnforcedPolicies", SimpleNamespace(objects=found))

    async def catch_up(self) -> None:
        self.catches_up += 1
        if self.catches_up == 3:
            self.in_force = self.generation


@asynccontextmanager
async def following(first: PolicyFirst, cluster: Cluster) -> AsyncIterator[list[str]]:
    said: list[str] = []
    policies = cast("PolicyReloader", cluster)
    task = asyncio.create_task(first.follow(cluster, policies, lambda _, text: said.append(text)))
    try:
        yield said
    finally:
        await end(task)


async def test_a_pod_waits_until_an_older_policy_is_in_force() -> None:
    first, cluster = PolicyFirst(frozenset({"shop"}), lambda: NOW), Cluster()
    async with following(first, cluster):
        young = asked("a", 90)
        assert first.waiting(young) == WAITS
        await asyncio.sleep(0.08)
        assert cluster.in_force == 1
        assert first.waiting(young) == WAITS
        await asyncio.sleep(0.1)
        assert cluster.in_force == 2
        assert first.waiting(young) == ""
        assert first.waiting(asked("b", 100)) == ""
        assert first.waiting(asked("c", 101)) == WAITS, "a policy may have come meanwhile"
        assert cluster.lists == ["placementpolicies", "clusterplacementpolicies"]


async def test_other_pods_do_not_wait() -> None:
    first = PolicyFirst(frozenset({"shop"}), lambda: NOW)
    assert first.waiting(asked("a", 90, "far")) == ""
    later = Timestamp(NOW.nanos + 61 * SECOND)
    assert PolicyFirst(frozenset({"shop"}), lambda: later).waiting(asked("a", 90)) == ""


async def test_without_an_answer_the_reason_is_reported_and_pods_wait() -> None:
    first, cluster = PolicyFirst(frozenset({"shop"}), lambda: NOW), Cluster(is_gone=True)
    async with following(first, cluster) as said:
        assert first.waiting(asked("a", 90)) == WAITS
        await asyncio.sleep(0.1)
        assert said == ["cannot see which policies are older than new pods: gone"]
        assert first.waiting(asked("a", 90)) == WAITS


def test_filter_waits_but_not_for_an_exempt_pod() -> None:
    first = PolicyFirst(frozenset({"shop"}), lambda: NOW)
    exempt = Exemptions(frozenset({"shop"}))
    young = asked("a", 90).body
    engine = engine_of("", [node("n1")], role=ReplicaRole(hold=first.check))
    with pytest.raises(BriefWaitError, match="older than the pod"):
        engine.filter(young, ["n1"], None, math.inf)
    engine = engine_of("", [node("n1")], role=ReplicaRole(hold=first.check), exemptions=exempt)
    assert not engine.filter(young, ["n1"], None, math.inf).codes.any()
