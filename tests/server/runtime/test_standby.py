"""Replicas with `--standby` behind a proxy that asks each of them, whether it is ready or not."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from types import SimpleNamespace
from typing import cast

import pytest

from engine.cluster.lease import LeaderGate, Lease
from server.runtime.cluster_runtime import ClusterRuntime
from server.supervisor import end
from tests.support.lease_api import LeaseApi

pytestmark = pytest.mark.fake_clock
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
