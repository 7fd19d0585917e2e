"""Bindings that wait: for a gang, or for a condition of a `bind` clause."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from engine.cluster.binding import BindClient, Binding
from engine.errors import EngineError, RefusedError, WaitingError
from tests.engine.cluster.test_binding import CODEC, World
from tests.support import builders
from tests.support.engines import gangs_of, node_of, registry_of

pytestmark = pytest.mark.fake_clock

GANG = """
  gang "together" {
    of pods by peer.labels["app"]
    at least 2
    for at most 20s
  }
"""
READY = """
  bind "ready" {
    wait until pod.annotations["ready"] == "true" && node.ready for at most 60s
    message "not ready"
  }
"""


class WaitingWorld(World):
    """The same, in which kube-scheduler's calls are clients that may end."""

    def __init__(self, clauses: str) -> None:
        super().__init__(clauses)
        self.cache.add_event_handler(gangs_of(self.engine).pod_changed)
        self.aside = 0

    def watch(self, name: str) -> None:
        body = builders.raw(self.api.pods[f"shop/{name}"])
        self.cache.put_pod(CODEC.peer(body), body=body)

    def start(self, name: str, ended: asyncio.Future[None] | None = None) -> asyncio.Task[None]:
        """Asks filter and then bind, as kube-scheduler does."""
        self.hear(name)
        answer = self.answers.find(f"uid-{name}")
        assert answer is not None
        node = next(each for each in ("n1", "n2") if answer.offers(each))
        binding = Binding("shop", name, f"uid-{name}", node)
        client = BindClient(ended, self.waiting)
        return asyncio.create_task(self.binder.bind(binding, self.clock() + 1.0, client))

    @contextmanager
    def waiting(self) -> Iterator[None]:
        self.aside += 1
        try:
            yield
        finally:
            self.aside -= 1

    def change(self, name: str, **annotations: str) -> None:
        self.api.pods[f"shop/{name}"]["metadata"]["annotations"] = annotations
        self.watch(name)

    def everywhere(self) -> set[str]:
        return self.on("n1") | self.on("n2")


async def rest(seconds: float = 0.01) -> None:
    await asyncio.sleep(seconds)


async def failed(task: asyncio.Task[None]) -> str:
    with pytest.raises(EngineError) as error:
        await task
    return str(error.value)


async def test_members_are_bound_when_all_are_there() -> None:
    world = WaitingWorld(GANG)
    world.create("a")
    world.create("b")
    first = world.start("a")
    await rest(5)
    assert (world.api.bindings, world.aside, world.everywhere()) == ([], 1, {"a"})
    second = world.start("b")
    await asyncio.gather(first, second)
    assert {each["metadata"]["name"] for each in world.api.bindings} == {"a", "b"}
    assert world.aside == 0


async def test_a_member_that_does_not_come_ends_the_wait_of_the_others() -> None:
    world = WaitingWorld(GANG)
    world.create("a")
    world.create("b")
    began = world.clock()
    text = await failed(world.start("a"))
    assert text == "policy p: together: given up: 1 of 2 members came in time"
    assert world.clock() - began == pytest.approx(20, abs=0.1)
    assert (world.api.bindings, world.everywhere()) == ([], set())


async def test_nobody_is_held_for_a_client_that_has_gone() -> None:
    world = WaitingWorld(GANG)
    world.create("a")
    world.create("b")
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    task = world.start("a", ended)
    await rest()
    ended.set_result(None)
    assert "kube-scheduler has ended a call of bind" in await failed(task)
    assert world.everywhere() == set()


async def test_a_call_of_the_next_scheduler_is_held_when_that_of_a_frozen_one_ends() -> None:
    """Both count as no call in flight, and the member stays held until both have ended."""
    world = WaitingWorld(GANG)
    world.create("a")
    world.create("b")
    frozen, next_one = (asyncio.get_running_loop().create_future() for _ in range(2))
    tasks = [world.start("a", frozen)]
    await rest()
    tasks.append(world.start("a", next_one))
    await rest()
    assert world.aside == 2
    frozen.set_result(None)
    await rest()
    assert not any(task.done() for task in tasks)
    next_one.set_result(None)
    for task in tasks:
        assert "kube-scheduler has ended a call of bind" in await failed(task)
    assert (world.aside, world.everywhere()) == (0, set())


async def test_calls_that_end_while_another_one_is_held_are_not_kept() -> None:
    """As of a next kube-scheduler whose requests end early."""
    world = WaitingWorld(GANG)
    world.create("a")
    world.create("b")
    first = world.start("a", asyncio.get_running_loop().create_future())
    await rest()
    for _ in range(20):
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        task = world.start("a", ended)
        await rest()
        ended.set_result(None)
        assert "kube-scheduler has ended a call of bind" in await failed(task)
    assert (world.aside, first.done()) == (1, False)
    await asyncio.gather(first, world.start("b"))
    assert world.everywhere() == {"a", "b"}


async def test_the_next_scheduler_has_its_members_bound() -> None:
    world = WaitingWorld(GANG)
    world.create("a")
    world.create("b")
    frozen: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    tasks = [world.start("a", frozen)]
    await rest()
    tasks.append(world.start("a"))
    await rest()
    frozen.set_result(None)
    await asyncio.gather(*tasks, world.start("b"))
    assert world.everywhere() == {"a", "b"}


async def test_a_binding_that_fails_does_not_hold_back_the_others() -> None:
    """The API server has no answer for one member: it is bound as it comes."""
    world = WaitingWorld(GANG)
    world.create("a")
    world.create("b")
    first = world.start("a")
    await rest()
    world.api.faults.extend(["", "forbidden"])
    second = world.start("b")
    results = await asyncio.gather(first, second, return_exceptions=True)
    assert sum(isinstance(each, RefusedError) for each in results) == 1
    (left,) = {"a", "b"} - world.everywhere()
    await world.start(left)
    assert world.everywhere() == {"a", "b"}


async def test_a_release_that_binds_nobody_begins_anew() -> None:
    world = WaitingWorld(GANG)
    world.create("a")
    world.create("b")
    world.api.faults.extend(["forbidden", "forbidden"])
    tasks = world.start("a"), world.start("b")
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(each, RefusedError) for each in results)
    assert world.everywhere() == set()
    first = world.start("a")
    await rest()
    assert not first.done()
    await asyncio.gather(first, world.start("b"))


async def test_the_end_of_a_server_ends_all_waits() -> None:
    world = WaitingWorld(GANG + READY)
    world.create("a", annotations={"ready": "true"})
    world.create("b")
    tasks = [world.start("a"), world.start("b")]
    await rest()
    await asyncio.wait_for(world.binder.idle(), 1)
    for task in tasks:
        assert "this replica ends" in await failed(task)


async def test_a_binding_waits_until_its_condition_is_true() -> None:
    world = WaitingWorld(READY)
    world.create("a")
    task = world.start("a")
    await rest(30)
    assert (world.api.bindings, world.everywhere()) == ([], {"a"})
    world.change("a", ready="false")
    await rest()
    assert not task.done()
    world.change("a", ready="true")
    await task
    assert world.everywhere() == {"a"}


async def test_a_node_can_make_it_true() -> None:
    world = WaitingWorld(READY)
    world.create("a", annotations={"ready": "true"})
    for name in ("n1", "n2"):
        world.cache.put_node(node_of(builders.node(name, ready=False)))
    task = world.start("a")
    await rest(1)
    assert not task.done()
    for name in ("n1", "n2"):
        world.cache.put_node(node_of(builders.node(name)))
    await task


async def test_other_policies_can_end_the_wait() -> None:
    world = WaitingWorld(READY)
    world.create("a")
    task = world.start("a")
    await rest()
    world.engine.adopt(registry_of("cluster policy p { for pods where true }"))
    world.binder.review()
    await task


async def test_a_look_ends_the_gang_of_a_member_whose_node_is_gone() -> None:
    world = WaitingWorld(GANG)
    world.create("a")
    world.create("b")
    task = world.start("a")
    await rest()
    (node,) = (name for name in ("n1", "n2") if world.on(name))
    world.cache.remove_node(node)
    await rest(5)
    assert not task.done()
    world.binder.review()
    assert f"node {node} is gone" in await failed(task)


@pytest.mark.parametrize(
    ("happens", "text"),
    [
        (lambda _: None, "not ready: not true after 60 s"),
        (lambda w: w.cache.remove_node("n1"), "not ready: node n1 is gone"),
        (lambda w: w.cache.remove_pod("shop/a"), "not ready: the pod is gone"),
    ],
)
async def test_a_wait_in_vain(happens: Any, text: str) -> None:
    world = WaitingWorld(READY)
    world.create("a")
    task = world.start("a")
    await rest()
    happens(world)
    assert text in await failed(task)
    assert not any(pod.nodeName for pod in world.cache.every())


async def test_a_condition_comes_before_the_gang() -> None:
    """A member that is not ready does not count as held."""
    world = WaitingWorld(GANG + READY)
    world.create("a", annotations={"ready": "true"})
    world.create("b")
    first, second = world.start("a"), world.start("b")
    await rest(5)
    assert not first.done()
    assert not second.done()
    world.change("b", ready="true")
    await asyncio.gather(first, second)


async def test_only_so_many_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.engine.MOST_HELD", 2)
    world = WaitingWorld(READY)
    world.create("a")
    world.create("b")
    first = world.start("a")
    await rest()
    with pytest.raises(WaitingError, match="not ready: too many binds are held"):
        await world.start("b")
    world.change("a", ready="true")
    await first
