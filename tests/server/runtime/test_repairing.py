"""Repairer: a small cluster that drifts and is repaired, on a fake clock."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial

import pytest

from engine.drift.drift_document import RepairMode
from engine.errors import ApiError
from tests.support.builders import Object, node, raw
from tests.support.repaired import RepairedCluster, Workload, policies_of

pytestmark = pytest.mark.fake_clock
SPOT, OTHER = {"spot": "yes"}, {"spot": "no"}
SHARE = """
policy web {
  for pods where pod.labels["app"] == "web"
  repair at most 6 per minute
  share "spot" {
    pods where peer.labels["app"] == "web" on nodes where node.labels["spot"] == "yes"
    at most 40% strict
  }
}
"""
WEB = Workload("web", 10, available=9)


def nodes(others: str = "16") -> list[Object]:
    spot = [node(f"s{number}", labels=SPOT, cpu="16") for number in range(2)]
    return [*spot, node("d0", labels=OTHER, cpu=others)]


@asynccontextmanager
async def cluster(
    policies: str = SHARE,
    made: Iterable[Object] | None = None,
    workloads: Iterable[Workload] = (WEB,),
    mode: RepairMode = "on",
) -> AsyncIterator[RepairedCluster]:
    found = RepairedCluster(policies, nodes() if made is None else made, workloads, mode)
    try:
        yield found
    finally:
        found.stop()


async def until(found: RepairedCluster, holds: Callable[[], bool], seconds: float = 600) -> None:
    for _ in range(int(seconds)):
        if holds():
            return
        await found.run(1.0)
    raise AssertionError((found.on("web"), found.evictions, found.replicas[0].state()))


@pytest.mark.thorough
async def test_a_share_is_repaired_within_its_rate() -> None:
    async with cluster() as found:
        found.place("web", "s0", 5)
        found.place("web", "s1", 5)
        await until(found, lambda: found.on("web")["d0"] == 6)
        await found.run(600)
        assert len(found.evictions) == 6
        assert len({key for _, key in found.evictions}) == 6, "no pod is evicted twice"
        assert found.evictions[0][0] >= 60, "a term begins with a minute without evictions"
        assert found.most_in(60) <= 6
        assert (found.fewest["web"], found.most_on_way) == (9, 1), "the budget holds"
        state = found.replicas[0].state()
        assert (state.state, state.evicted, state.returned) == ("idle", 6, 0)


async def test_the_rate_is_kept() -> None:
    slow = SHARE.replace("6 per minute", "2 per minute")
    async with cluster(slow) as found:
        found.place("web", "s0", 10)
        await until(found, lambda: found.on("web")["d0"] == 6)
        assert found.most_in(60) == 2
        assert 60 <= found.evictions[0][0] <= 70
        assert found.evictions[-1][0] >= 60 + 120


@pytest.mark.thorough
async def test_the_rate_is_kept_over_an_edit() -> None:
    slow = SHARE.replace("6 per minute", "2 per minute")
    async with cluster(slow) as found:
        found.place("web", "s0", 10)
        await until(found, lambda: len(found.evictions) == 2)
        found.policies = policies_of(slow.replace("40%", "30%"))
        found.engine.adopt(found.policies.registry)
        await found.run(45)
        assert len(found.evictions) == 2
        await until(found, lambda: len(found.evictions) == 4, 30)
        assert found.most_in(60) == 2


async def test_several_at_once() -> None:
    text = SHARE.replace("6 per minute", "100 per minute, at most 3")
    async with cluster(text, workloads=[Workload("web", 10)]) as found:
        found.place("web", "s0", 10)
        await until(found, lambda: found.on("web")["d0"] == 6)
        assert 1 < found.most_on_way <= 3
        assert len(found.evictions) == 6


@pytest.mark.thorough
async def test_without_room_nothing_is_evicted_and_it_is_said() -> None:
    async with cluster(made=nodes()[:2]) as found:
        found.place("web", "s0", 10)
        await found.run(600)
        state = found.replicas[0].state()
        assert (found.evictions, state.state) == ([], "no place")
        assert state.text == "no other node would take them"
        # Room for one alone: the next one stays.
        found.put_node(node("d0", labels=OTHER, cpu="1"))
        await found.run(600)
        assert (len(found.evictions), found.on("web")["d0"]) == (1, 1)
        assert found.replicas[0].state().state == "no place"


@pytest.mark.thorough
async def test_a_budget_that_allows_nothing() -> None:
    async with cluster(workloads=[Workload("web", 10, available=10)]) as found:
        found.place("web", "s0", 10)
        await found.run(1200)
        state = found.replicas[0].state()
        assert (found.evictions, state.state, state.evicted) == ([], "waiting", 0)
        assert state.text == "a disruption budget does not allow it"
        assert 2 <= state.refused <= 12, "the pauses grow"


TWO_BUDGETS = "This pod has more than one PodDisruptionBudget"
TWO = """
policy web {
  for pods where pod.labels["app"] in ["web", "odd"]
  repair at most 60 per minute
  filter "spot" { require node.labels["spot"] == "no" }
}
"""


@pytest.mark.thorough
async def test_a_workload_that_cannot_be_evicted_does_not_hold_up_others() -> None:
    workloads = [Workload("web", 4), Workload("odd", 4)]
    async with cluster(TWO, workloads=workloads) as found:
        found.refusals["odd"] = ApiError(500, "InternalError", TWO_BUDGETS)
        for each in workloads:
            found.place(each.name, "s0", 4)
        await until(found, lambda: found.on("web")["d0"] == 4, 120)
        await found.run(600)
        state = found.replicas[0].state()
        assert (state.state, state.text) == (
            "waiting",
            f"the API server refuses it: {TWO_BUDGETS}",
        )
        assert (state.evicted, state.refused, state.stopped) == (4, 0, [])
        assert 2 <= state.failed <= 10, "the pauses grow"
        assert not any("odd" in key for _, key in found.evictions)


@pytest.mark.thorough
async def test_another_leader_goes_on_within_rate_and_budget() -> None:
    async with cluster(SHARE.replace("6 per minute", "3 per minute")) as found:
        found.place("web", "s0", 10)
        one, other = found.replicas
        for number in (1, 2, 3):
            await until(found, partial(_has_evicted, found, number), 80)
            one.leads, other.leads = other.leads, one.leads
        await until(found, lambda: found.on("web")["d0"] == 6, 200)
        await found.run(300)
        assert len({key for _, key in found.evictions}) == len(found.evictions) == 6
        assert found.most_in(60) <= 3
        assert (found.fewest["web"], found.most_on_way) == (9, 1)


def _has_evicted(found: RepairedCluster, pods: int) -> bool:
    return len(found.evictions) >= pods


CONTRADICTION = """
policy web {
  for pods where pod.labels["app"] == "web"
  repair at most 60 per minute
  limit "apart" { pods where peer.labels["app"] == "cache" per node at most 0 strict }
}
policy cache {
  for pods where pod.labels["app"] == "cache"
  repair at most 60 per minute
  limit "beside" { pods where peer.labels["app"] == "web" per node at least 1 strict }
}
"""


@pytest.mark.thorough
async def test_policies_that_contradict_each_other_do_not_oscillate_for_an_hour() -> None:
    workloads = [Workload("web", 2), Workload("cache", 2)]
    async with cluster(CONTRADICTION, workloads=workloads) as found:
        for each in workloads:
            found.place(each.name, "s0", 2)
        await found.run(3600)
        assert 0 < len(found.evictions) <= 12
        assert found.evictions[-1][0] < 1800, "after some returns nothing moves any more"
        states = [found.replicas[0].state(policy) for policy in ("web", "cache")]
        stopped = [state for state in states if state.state == "stopped"]
        assert stopped
        assert "break it again" in stopped[0].text


@pytest.mark.thorough
async def test_an_edit_begins_anew_after_a_stop() -> None:
    workloads = [Workload("web", 2), Workload("cache", 2)]
    async with cluster(CONTRADICTION, workloads=workloads) as found:
        for each in workloads:
            found.place(each.name, "s0", 2)
        await found.run(1800)
        edited = policies_of(CONTRADICTION.replace("60 per minute", "59 per minute"))
        found.policies = edited
        found.engine.adopt(edited.registry)
        await found.run(5)
        states = [found.replicas[0].state(policy) for policy in ("web", "cache")]
        assert not any(state.stopped for state in states)


FILTER = """
policy web {
  for pods where pod.labels["app"] == "web"
  repair at most 60 per minute
  filter "spot" { require node.labels["spot"] == "no" }
}
"""


@pytest.mark.process
async def test_pods_that_come_back_at_once_end_the_repair() -> None:
    """Their template names the node, so nobody ever sees them without one."""
    async with cluster(FILTER, workloads=[Workload("web", 4, more={"on": "s0"})]) as found:
        found.place("web", "s0", 4)
        await found.run(1200)
        state = found.replicas[0].state()
        assert (len(found.evictions), state.returned) == (2, 2)
        assert "came back to s0" in state.text


@pytest.mark.process
async def test_pods_that_another_scheduler_puts_back_end_the_repair() -> None:
    """Also while other policies are edited."""
    other = """
    policy other in namespace "b" {{
      repair at most {} per minute
      filter "x" {{ require node.ready }}
    }}
    """
    async with cluster(FILTER, workloads=[Workload("web", 4, more={"on": "s1"})]) as found:
        found.place("web", "s0", 4)
        for number in range(300):
            found.policies = policies_of(FILTER + other.format(number + 1))
            found.engine.adopt(found.policies.registry)
            await found.run(2)
        state = found.replicas[0].state()
        assert (state.returned, state.state) == (2, "stopped")
        assert len(found.evictions) <= 4, "as many as are placed before the next survey"


@pytest.mark.process
@pytest.mark.parametrize("known", [False, True])
async def test_a_slow_controller_hides_no_return(known: bool) -> None:
    """Its pods come after minutes, and how many it wants is known or not."""
    async with cluster(FILTER, workloads=[Workload("web", 4, more={"on": "s0"})]) as found:
        if not known:
            found.cache.remove_controller(found.workloads["web"].object["metadata"]["uid"])
        found.place("web", "s0", 4)
        for number in range(1, 3):
            await until(found, partial(_has_evicted, found, number))
            found.pause_control = True
            await found.run(90)
            found.pause_control = False
        await found.run(1800)
        state = found.replicas[0].state()
        assert (len(found.evictions), state.returned, state.state) == (2, 2, "stopped")


@pytest.mark.thorough
async def test_a_workload_of_unknown_size_that_makes_no_pod_anew_holds_nobody_up() -> None:
    workloads = [Workload("web", 4), Workload("odd", 4)]
    async with cluster(TWO, workloads=workloads) as found:
        found.cache.remove_controller(found.workloads["odd"].object["metadata"]["uid"])
        found.place("odd", "s0", 4)
        found.place("web", "d0", 4)
        await until(found, partial(_has_evicted, found, 1))
        found.workloads["odd"] = Workload("odd", 0)
        await found.run(5)
        found.place("web", "s0")
        found.scale("web", 5)
        await found.run(1200)
        assert "web" in found.evictions[-1][1]
        assert found.replicas[0].state().stopped == []


@pytest.mark.thorough
async def test_pods_that_were_moved_before_an_edit_have_not_returned() -> None:
    async with cluster() as found:
        found.place("web", "s0", 10)
        await until(found, lambda: found.on("web")["d0"] == 6)
        found.policies = policies_of(SHARE.replace('== "yes"', '!= "yes"'))
        found.engine.adopt(found.policies.registry)
        await until(found, lambda: found.on("web")["d0"] == 4, 180)
        state = found.replicas[0].state()
        assert (state.returned, state.stopped) == (0, [])


@pytest.mark.thorough
async def test_workloads_that_others_disturb_are_left_alone() -> None:
    async with cluster() as found:
        found.place("web", "s0", 10)
        await found.run(50)
        found.delete("default/web-1")
        await found.run(250)
        state = found.replicas[0].state()
        assert (found.evictions, state.state) == ([], "waiting")
        assert state.text == "others have deleted pods of its workload lately"
        await until(found, lambda: found.on("web")["d0"] == 6)
        assert found.evictions[0][0] >= 350


@pytest.mark.thorough
async def test_a_rollout_is_left_alone() -> None:
    """Pods of two templates are there until it has ended."""
    async with cluster() as found:
        hashes = [{"app": "web", "pod-template-hash": each} for each in "ab"]
        for number, labels in enumerate([hashes[0]] * 9 + [hashes[1]]):
            found.place("web", "s0")
            key = f"default/web-{number + 1}"
            found.relabel(key, labels)
        await found.run(300)
        state = found.replicas[0].state()
        assert (found.evictions, state.text) == ([], "its workload is being rolled out")
        for number in range(9):
            found.relabel(f"default/web-{number + 1}", hashes[1])
        await until(found, lambda: bool(found.evictions), 30)


@pytest.mark.thorough
async def test_nodes_that_are_drained_and_workloads_that_are_scaled() -> None:
    async with cluster() as found:
        found.place("web", "s0", 10)
        found.put_node(node("s0", labels=SPOT, cpu="16", unschedulable=True))
        await found.run(200)
        assert found.replicas[0].state().text == "its node is being drained"
        found.put_node(nodes()[0])
        found.pause_control = True
        found.scale("web", 11)
        await found.run(100)
        assert found.evictions == []
        assert found.replicas[0].state().text == "its workload is being scaled"


@pytest.mark.thorough
async def test_switches() -> None:
    off = {"metadata": {"annotations": {"placet.dev/repair": "off"}}}
    async with cluster(mode="dry-run") as found:
        found.place("web", "s0", 10)
        await found.run(200)
        state = found.replicas[0].state()
        assert (found.evictions, state.state) == ([], "dry run")
    async with cluster(mode="off") as found:
        found.place("web", "s0", 10)
        await found.run(200)
        assert (found.evictions, found.replicas[0].state().state) == ([], "off")
    async with cluster() as found:
        found.place("web", "s0", 10)
        found.objects["p.policy"] = raw(off)
        await found.run(200)
        state = found.replicas[0].state()
        assert (found.evictions, state.state) == ([], "off")
        assert state.text == "its annotation `placet.dev/repair` is `off`"
        found.objects.clear()
        await until(found, lambda: bool(found.evictions), 30)


@pytest.mark.thorough
async def test_pods_with_local_data_only_where_the_policy_says_so() -> None:
    local = {"spec": {"volumes": [{"name": "data", "emptyDir": {}}]}}
    workloads = [Workload("web", 10, more=local)]
    async with cluster(workloads=workloads) as found:
        found.place("web", "s0", 10)
        await found.run(200)
        assert found.evictions == []
        assert found.replicas[0].state().text == "it has local data"
    text = SHARE.replace("6 per minute", "6 per minute local data")
    async with cluster(text, workloads=workloads) as found:
        found.place("web", "s0", 10)
        await until(found, lambda: bool(found.evictions), 100)


@pytest.mark.thorough
async def test_a_replacement_that_finds_no_node_stops_the_repair() -> None:
    async with cluster() as found:
        found.place("web", "s0", 10)
        found.pause_schedule = True
        await until(found, lambda: bool(found.evictions), 100)
        await found.run(900)
        state = found.replicas[0].state()
        assert (len(found.evictions), state.state) == (1, "stopped")
        assert "has found no node in ten minutes" in state.text
