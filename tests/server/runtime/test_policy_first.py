"""Standing by: pods wait for policies that are older, and replicas for one that leads."""

from __future__ import annotations

import asyncio
import json
import math
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from engine.cluster.lease import LeaderGate, Lease
from engine.decision.placement import ReplicaRole
from engine.enforced import EnforcedPolicies
from engine.errors import ApiUnreachableError, BriefWaitError
from engine.objects.request_pod import Exemptions, RequestPod, RequestPodReader
from grammar.values.time import SECOND, Timestamp
from server.capabilities.capability import LedCluster, Site
from server.capabilities.policy_first import WAITS, PolicyFirst
from server.runtime.cluster_runtime import ClusterRuntime
from server.supervisor import end
from tests.support.builders import CREATED, node, pod, raw
from tests.support.engines import CODEC, engine_of
from tests.support.lease_api import LeaseApi

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
    # The looks that it takes until the check of the policy has a result.
    late: int = 0
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

    def enforced(self) -> EnforcedPolicies:
        manifest = SimpleNamespace(metadata=SimpleNamespace(generation=self.in_force))
        is_late = self.catches_up < self.late
        found = {NAME: SimpleNamespace(manifest=manifest, is_late=is_late)}
        return cast("EnforcedPolicies", SimpleNamespace(objects=found))

    async def catch_up(self) -> None:
        self.catches_up += 1
        if self.catches_up == 3:
            self.in_force = self.generation


@asynccontextmanager
async def following(first: PolicyFirst, cluster: Cluster) -> AsyncIterator[list[str]]:
    said: list[str] = []
    report = lambda _, text: said.append(text)  # noqa: E731
    led = cast("LedCluster", SimpleNamespace(api=cluster, report=report))
    task = asyncio.create_task(first.follow(cast("Site", cluster), led))
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


async def test_a_late_check_is_no_result() -> None:
    first = PolicyFirst(frozenset({"shop"}), lambda: NOW)
    cluster = Cluster(in_force=2, late=3)
    async with following(first, cluster):
        assert first.waiting(asked("a", 90)) == WAITS
        await asyncio.sleep(0.08)
        assert first.waiting(asked("a", 90)) == WAITS
        await asyncio.sleep(0.1)
        assert first.waiting(asked("a", 90)) == ""


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


# ---- replicas with `--standby` behind a proxy that asks each of them, whether it is ready or not


CALLS = 30


async def taken_over(_began: float) -> None:
    """A replica that takes over in three seconds, as one lists pods."""
    await asyncio.sleep(3)


@asynccontextmanager
async def replicas(
    api: LeaseApi, names: Sequence[str] = ("a", "b", "c")
) -> AsyncIterator[list[LeaderGate]]:
    """The gates of replicas, after they had time to choose a leader."""
    gates: list[LeaderGate] = []
    async with AsyncExitStack() as stack:
        for name in names:
            clock = asyncio.get_running_loop().time
            lease = Lease(api, ("kube-system", "placet"), name, clock=clock)
            leader = LeaderGate(lease, stands_by=True)
            for work in (lease.run(), leader.run(taken_over)):
                stack.push_async_callback(end, asyncio.create_task(work))
            gates.append(leader)
        await asyncio.sleep(10)
        yield gates


async def test_the_leader_stays_and_answers_its_calls() -> None:
    """However rarely it is its turn."""
    api, told, changes = LeaseApi(), Counter[str](), 0
    async with replicas(api) as gates:
        holder = api.holder
        for number in range(CALLS):
            told[gates[number % len(gates)].waiting()] += 1
            changes += api.holder != holder
            await asyncio.sleep(4)
    assert changes == 0
    standing_by = f"`{holder}` is the leader, and this replica stands by"
    assert told == {"": CALLS // 3, standing_by: CALLS // 3 * 2}


async def test_another_one_takes_over_from_a_leader_that_ends() -> None:
    """Nobody has to call it for that."""
    api = LeaseApi()
    async with AsyncExitStack() as stack:
        async with replicas(api, ["a"]) as first:
            others = await stack.enter_async_context(replicas(api, ["b", "c"]))
            assert api.holder == "a"
            assert first[0].waiting() == ""
        await asyncio.sleep(10)
        assert min(gate.waiting() for gate in others) == ""
        assert api.holder in ("b", "c")


@pytest.mark.parametrize("is_shared", [True, False])
def test_a_replica_that_is_cut_off_leaves_calls_of_other_hosts_to_another(
    *, is_shared: bool
) -> None:
    """One beside its kube-scheduler goes on: nobody else would be called."""
    lease = SimpleNamespace(is_cut_off=True, failure="nobody there", held=False)
    known = {"_lease": lease, "_is_shared": is_shared, "_is_standby": False}
    runtime = cast("ClusterRuntime", SimpleNamespace(snapshot=lambda: None, **known))
    failing = [each.failure for each in ClusterRuntime.checks(runtime) if each.failure]
    assert failing == (["nobody there"] if is_shared else [])
