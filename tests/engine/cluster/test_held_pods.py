"""Held pods: the node that the API server shows of each, and what others have set."""

from __future__ import annotations

import asyncio

import pytest

from engine.cluster.events import PodEvent
from engine.errors import ApiError, ApiUnreachableError
from tests.engine.cluster.test_held_bindings import GANG, READY, WaitingWorld, failed, rest
from tests.support import builders
from tests.support.engines import node_of

pytestmark = pytest.mark.fake_clock


class ShownWorld(WaitingWorld):
    """A pod that is held, and what a leader shows of it each second."""

    def __init__(self, clauses: str = GANG) -> None:
        super().__init__(clauses)
        self.cache.put_node(node_of(builders.node("n1", cpu="4")))
        self.events: list[PodEvent] = []
        self.create("a")
        if clauses == GANG:
            self.create("b")

    def create(self, name: str, **fields: object) -> None:
        super().create(name, **fields)
        self.api.pods[f"shop/{name}"]["metadata"]["resourceVersion"] = "1"
        self.watch(name)

    async def show(self, seconds: float = 0.0, *, leads: bool = True) -> str | None:
        """The node that the API server shows of `a` after a look."""
        await rest(seconds)
        await self.binder.held.show(self.events.append, leads=leads)
        return self.shown

    @property
    def shown(self) -> str | None:
        found = self.api.pods["shop/a"]["status"].get("nominatedNodeName")
        assert isinstance(found, str | None)
        return found


@pytest.mark.parametrize("clauses", [GANG, READY])
async def test_a_pod_shows_its_node_while_it_is_held(clauses: str) -> None:
    world = ShownWorld(clauses)
    task = world.start("a")
    assert await world.show(1.0) is None, "most gangs are bound before"
    assert await world.show(1.5) == "n1"
    assert await world.show(1.0) == "n1"
    (event,) = world.events
    assert (event.reason, event.regarding.name) == ("Held", "a")
    what = "p: together: 1 of 2 members are here" if clauses == GANG else "not ready"
    assert event.note.endswith(f"its binding to node n1 waits: {what}"), event.note
    writes = [method for method, _ in world.api.requests].count("PATCH")
    assert writes == 1
    assert "given up" in await failed(task) or clauses == READY
    assert await world.show(leads=False) is None, "whoever has set it removes it"


async def test_what_a_bound_pod_shows_is_left() -> None:
    world = ShownWorld()
    tasks = [world.start("a")]
    await world.show(2.5)
    tasks.append(world.start("b"))
    await asyncio.gather(*tasks)
    assert await world.show() == "n1"
    assert [method for method, _ in world.api.requests].count("PATCH") == 1


@pytest.mark.parametrize("when", ["before", "after"])
async def test_what_another_component_has_set_stays(when: str) -> None:
    world = ShownWorld()
    if when == "before":
        world.api.pods["shop/a"]["status"]["nominatedNodeName"] = "other"
        world.watch("a")
    task = world.start("a")
    await world.show(2.5)
    if when == "after":
        pod = world.api.pods["shop/a"]
        pod["status"]["nominatedNodeName"], pod["metadata"]["resourceVersion"] = "other", "7"
    await failed(task)
    assert await world.show() == "other"
    assert await world.show() == "other"
    assert not world.binder.held.shown


@pytest.mark.parametrize(("manager", "left"), [("placet", None), ("kube-scheduler", "n1")])
async def test_a_new_leader_removes_what_the_last_one_has_shown(
    manager: str, left: str | None
) -> None:
    """That one was killed: kube-scheduler would keep the room of the pod."""
    world = ShownWorld()
    pod = world.api.pods["shop/a"]
    fields = {"manager": manager, "fieldsV1": {"f:status": {"f:nominatedNodeName": {}}}}
    pod["metadata"]["managedFields"], pod["status"]["nominatedNodeName"] = [fields], "n1"
    world.watch("a")
    assert await world.show(leads=False) == "n1"
    assert await world.show() == left
    if manager == "placet":
        world.watch("a")
        task = world.start("a")
        assert await world.show(2.5) == "n1"
        await failed(task)


async def test_an_old_version_and_a_follower_change_nothing() -> None:
    world = ShownWorld()
    task = world.start("a")
    assert await world.show(2.5, leads=False) is None
    world.api.pods["shop/a"]["metadata"]["resourceVersion"] = "5"
    assert await world.show() is None
    world.watch("a")
    assert await world.show() == "n1"
    await failed(task)


@pytest.mark.parametrize("fault", ["deaf", "lost", "forbidden", "broken"])
async def test_a_write_that_fails_delays_no_binding(fault: str) -> None:
    """It is tried again, also where nobody knows whether it was done."""
    world = ShownWorld()
    tasks = [world.start("a")]
    await rest(2.5)
    world.api.faults.append(fault)  # type: ignore[arg-type]
    with pytest.raises((ApiError, ApiUnreachableError)):
        await world.show()
    world.watch("a")
    assert await world.show() == "n1"
    tasks.append(world.start("b"))
    await asyncio.gather(*tasks)
    assert world.on("n1") | world.on("n2") == {"a", "b"}
    await world.show()
    assert not world.binder.held.shown


async def test_a_lost_answer_is_removed_when_the_gang_is_given_up() -> None:
    world = ShownWorld()
    task = world.start("a")
    await rest(2.5)
    world.api.faults.append("lost")
    with pytest.raises(ApiUnreachableError):
        await world.show()
    assert world.shown == "n1"
    await failed(task)
    assert await world.show() is None
