"""Gangs that wait and are asked about again and again: what is remembered, and what ends that."""

from __future__ import annotations

import gc
import re
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import permutations
from statistics import median
from typing import Any

import pytest

from engine.decision.plan import Plan
from engine.engine import Engine
from engine.errors import DeadlineExceededError
from engine.objects.remembered import Memory
from engine.objects.request_pod import RequestPod
from engine.program.policy_time import DecisionTime, PolicyTimes
from tests.engine.gangs.test_gangs import World, names
from tests.support import builders
from tests.support.engines import CODEC, Known, node_of, registry_of

FULL = "policy p: together: 2 of 3 members fit"


def steps(count: int, *, at_once: bool, gated: int) -> int:
    """The steps of Python of a call about each of so many members, created before or meanwhile.

    Besides, so many members are gated.
    """
    world, taken = World({"n1": "1"}), 0
    world.create(*names("g", gated), members=500, spec={"schedulingGates": [{"name": "x"}]})
    if at_once:
        world.create(*names("a", count), members=500)

    def step(*_: object) -> None:
        nonlocal taken
        taken += 1

    for name in names("a", count):
        if not at_once:
            world.create(name, members=500)
        sys.setprofile(step)
        world.ask(name)
        sys.setprofile(None)
    return taken


def test_members_that_wait_keep_no_plans_that_others_have_forgotten(
    memory_of: Callable[[int], Memory],
) -> None:
    """A plan takes far more than what is counted for a member."""
    memory = memory_of(1 << 20)
    world = World({"n1": "1"}, clauses='filter "f" { require pod.labels["x"] != node.name }')
    for name in names("a", 200):
        world.create(name, labels={"x": name}, members=500)
        world.ask(name)
    gc.collect()
    kept = [each for each in gc.get_objects() if type(each) is Plan and each.where == "shop"]
    assert sum(each.bytes for each in kept) < memory.most


def test_what_no_call_was_about_counts_where_the_gang_has_room_now() -> None:
    """A member that nobody has asked about yet says a larger number than all others."""
    world = World({"n1": "1"})
    world.create(*names("a", 48), members=40)
    assert world.ask("a0") == "policy p: together: 1 of 40 members fit"
    world.create("late", members=60)
    world.create("new", members=40)
    world.cache.put_node(node_of(builders.node("n2", cpu="200")))
    world.now += 0.6
    assert world.ask("new") == "policy p: together: 50 of 60 members exist"


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("gated", [0, 1])
def test_a_gang_is_created_in_linear_time(*, at_once: bool, gated: int) -> None:
    taken = [steps(count, at_once=at_once, gated=gated) for count in (100, 200)]
    assert taken[1] < 2.4 * taken[0]


def test_what_new_members_say_counts_at_once() -> None:
    """All members are read again where the gang may be whole, or larger."""
    world = World({"n1": "40"})
    for number, name in enumerate(names("a", 29), 1):
        world.create(name, members=30)
        there = re.search(r"(\d+) of 30 members exist", str(world.ask(name)))
        assert there is not None
        assert int(there[1]) in range(number - number // 8, number + 1)
    world.create("a29", members=31)
    assert world.ask("a29") == "policy p: together: 30 of 31 members exist"
    world.create("a30", members=31)
    assert world.ask("a30") == ["n1"]


def test_members_that_were_there_and_did_not_count_are_looked_at_at_once() -> None:
    """Two profiles of kube-scheduler ask about a gang: the second is known by the question."""
    world = World({"n1": "4"})
    for name in names("a", 4):
        spec = {"schedulerName": "batch"} if name in ("a2", "a3") else {}
        world.create(name, members=4, spec=spec)
    assert "2 of 4 members exist: 2 more of the scheduler `batch`" in world.ask("a0")
    assert "2 of 4 members exist: 2 more of the scheduler `batch`" in world.ask("a1")
    assert world.ask("a2") == ["n1"]
    assert world.woken() == {"a0", "a1", "a3"}


def full() -> World:
    """A gang of three, with room for two, that was refused."""
    world = World({"n1": "2"})
    world.create(*names("a", 3))
    assert {world.ask(name) for name in names("a", 3)} == {FULL}
    return world


def test_new_room_is_seen_after_a_pause() -> None:
    """At most half a second where attempts take no time."""
    world = full()
    world.cache.put_node(node_of(builders.node("n2", cpu="1")))
    assert world.ask("a0", "n1", "n2") == FULL
    world.now += 0.4
    assert world.ask("a0", "n1", "n2") == FULL
    world.now += 0.1
    assert world.ask("a0", "n1", "n2") != FULL


def exist(number: int) -> str:
    return f"policy p: together: {number} of 3 members exist"


@pytest.mark.parametrize(
    ("change", "answer"),
    [
        (lambda w: w.create("a2"), ["n1"]),
        (lambda w: w.delete("a1"), exist(1)),
        (lambda w: w.relabel("a1", {"job": "b"}), exist(1)),
        # Once one is on a node, the others come as they come.
        (lambda w: w.create("a2", on="n1"), ["n1"]),
        (lambda w: w.create("a0", "a1", members=2), ["n1"]),
    ],
    ids=["created", "deleted", "relabelled", "bound elsewhere", "other numbers"],
)
def test_a_change_of_a_pod_is_seen_at_once(change: Any, answer: object) -> None:
    world = World({"n1": "4"})
    world.create(*names("a", 2))
    assert {str(world.ask(name)) for name in names("a", 2)} == {exist(2)}
    change(world)
    assert world.ask("a0") == answer


def test_a_condition_of_a_member_changes_nothing() -> None:
    """kube-scheduler writes why a pod waits, and asks again because of that."""
    world = full()
    said = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": FULL}
    world.pods["a0"]["status"]["conditions"] = [said]
    world.watch("a0")
    assert world.ask("a0") == FULL
    assert world.ask("a1") == FULL


def test_edited_policies_are_asked_anew() -> None:
    world = full()
    world.engine.adopt(world.engine.registry.anew())
    world.now += 0.2
    assert world.ask("a0") == FULL


@pytest.mark.process
def test_what_a_gang_that_waits_costs() -> None:
    """Beside 500 that never fit, a call takes a quarter of the first one at most."""
    world = World({f"n{number}": "8" for number in range(30)}, "within node.name")
    pods = [(f"g{gang}-{n}", f"g{gang}") for gang in range(500) for n in range(2)]
    for name, job in pods:
        world.create(name, job=job, members=2, cpu="5")

    def seconds() -> float:
        taken = []
        for name, _ in pods:
            began = time.perf_counter()
            assert world.ask(name) != []
            taken.append(time.perf_counter() - began)
        return median(taken)

    first = seconds()
    assert min(seconds(), seconds()) < first / 4


def test_a_look_that_takes_too_long_is_left_to_filter() -> None:
    """kube-scheduler is to ask about one member now and then, and not about each of them."""
    world, tick = full(), 0.0004

    def clock() -> float:
        world.now += tick
        return world.now

    times = PolicyTimes(clock, lambda: world.now, lambda _: None, lambda *_: None, lambda: 1)
    time_of = DecisionTime(clock, policies=times)
    engine = Engine(
        registry_of(world.text), Known(world.cache), CODEC, world.observer, time=time_of
    )
    pods = [engine.looks.read(builders.raw(world.pods[name])) for name in names("a", 3)]

    def looked(pod: RequestPod) -> bool:
        """What looks say in the end: each one continues what the last one had no time for."""
        for _ in range(10):
            with suppress(DeadlineExceededError):
                return engine.looks.would_pass(pod)
        raise AssertionError("there is no end of looks")

    assert [looked(pod) for pod in pods] == [True, False, False]
    world.now += 10
    assert [looked(pod) for pod in pods] == [True, False, False]
    tick = 0.0
    world.now += 100
    assert [looked(pod) for pod in pods] == [False, False, False]


def test_a_member_that_waits_unchanged_need_not_be_looked_at() -> None:
    """That is told of what is known, without decoding its JSON, for ten seconds."""
    world = full()
    looks = world.engine.looks
    pod = looks.read(builders.raw(world.pods["a0"])).undecoded()
    world.now += 0.1
    assert looks.waits_unchanged(pod)
    assert not vars(pod).keys() & {"pod", "peer"}
    world.cache.put_node(node_of(builders.node("n2", cpu="1")))
    world.now += 0.4
    assert not looks.waits_unchanged(pod)
    assert looks.would_pass(pod)


def test_one_look_is_enough_for_all_members_of_a_gang() -> None:
    """The first look tries it; the others find that nothing has changed, so no pause follows."""
    world = full()
    looks = world.engine.looks
    pods = [looks.read(builders.raw(world.pods[name])) for name in names("a", 3)]
    world.now += 4
    for pod in pods:
        world.now += 0.9
        assert not any(map(looks.waits_unchanged, pods))
        assert not looks.would_pass(pod)
        world.now += 0.1
        assert all(map(looks.waits_unchanged, pods))
    world.cache.put_node(node_of(builders.node("n2", cpu="1")))
    assert len(world.offered("a0")) == 1
    assert not any(map(looks.waits_unchanged, pods))
    assert looks.would_pass(pods[2])


def test_other_policies_of_a_member_are_seen_by_looks() -> None:
    """Such as where its namespace has got another label; that is seen within ten seconds."""
    world = full()
    looks = world.engine.looks
    pod = looks.read(builders.raw(world.pods["a0"]))
    (gang,) = world.gangs.known
    gang.not_before = world.now + 1000
    assert looks.waits_unchanged(pod)
    world.now += 10
    assert not looks.waits_unchanged(pod)
    assert not looks.would_pass(pod)
    assert looks.waits_unchanged(pod)
    world.engine.adopt(world.engine.registry.anew())
    assert not looks.waits_unchanged(pod)
    world.engine.adopt(registry_of('policy other in namespace "else" { }'))
    assert looks.would_pass(pod)


@pytest.mark.parametrize("within", ["", 'within node.labels["rack"]'])
@pytest.mark.parametrize("bad", ["", "n1", "n1 n2", "n1 n2 n3", "n1 n2 n3 n4", "n3 n4", "n2 n4 n6"])
@pytest.mark.parametrize("every", [1.0, 2.5], ids=["soon", "late"])
def test_a_place_that_somebody_refuses_is_offered_last(within: str, bad: str, every: float) -> None:
    """A second extender rejects some nodes; each pod is asked about now and then."""
    nodes = [f"n{number}" for number in range(1, 9)]
    labels = {name: {"rack": str(number // 2)} for number, name in enumerate(nodes)}
    world = World(dict.fromkeys(nodes, "2"), f"{within} for at most 5s", labels=labels)
    world.create(*names("a", 4), members=4, cpu="1")
    calls = 0
    while len(world.on()) < 4:
        for name in {*names("a", 4)} - world.on().keys():
            calls += 1
            if isinstance(found := world.ask(name), list) and found[0] not in bad.split():
                world.bind(name, found[0])
        world.now += every
        world.gangs.review()
        assert calls < 40, world.told
    assert not set(world.on().values()) & set(bad.split())
    assert [reason for _, reason in world.told if reason] in (
        [],
        ["late"],
        ["refused"],
        ["refused"] * 3,
    )


@pytest.mark.parametrize("racks", [*permutations("xyz")], ids="".join)
def test_a_refused_place_is_given_up_for_the_rack_that_has_room(racks: Sequence[str]) -> None:
    """Whichever of them came first."""
    labels = {f"{rack}{number}": {"rack": rack} for rack in racks for number in "12"}
    cpus = {name: "1" if name.startswith("y") else "100m" for name in labels}
    world = World(cpus, 'within node.labels["rack"] for at most 60s', labels=labels)
    world.create("a0", "a1", members=2)
    assert world.place("a0")
    for _ in range(2):
        assert world.offered("a1")[0].startswith("y")
        world.now += 1
    for name in ("x1", "x2"):
        world.cache.put_node(node_of(builders.node(name, cpu="1", labels=labels[name])))
    assert "did not take node y" in world.ask("a1")
    assert world.told == [("gathering", ""), ("given up", "refused")]
    world.now += 20
    assert world.offered("a1")[0].startswith("x")


def test_a_place_that_was_refused_is_offered_again_where_no_other_value_has_room() -> None:
    """The rest of this one has room, but not for these pods."""
    nodes, only = {"x1": "1", "x2": "1", "x3": "4", "y1": "1"}, 'require node.name != "x3"'
    within, clause = 'within node.labels["rack"]', f'filter "f" {{ {only} message "not there" }}'
    world = World(nodes, within, clause, labels={name: {"rack": name[0]} for name in nodes})
    world.create("a0", "a1", members=2)
    assert world.place("a0")
    (node,) = world.offered("a1")
    world.now += 2
    assert world.offered("a1") == [node]
    assert world.told == [("gathering", "")]


def test_who_is_on_its_way_keeps_its_place() -> None:
    """Another member that did not take its place gets another one meanwhile."""
    world = World({"n1": "1", "n2": "1", "n3": "1"}, "for at most 60s")
    world.create("a0", "a1", members=2)
    (first,) = world.offered("a0")
    world.now += 2
    (second,) = world.offered("a1")
    (third,) = world.offered("a0")
    assert {first, second, third} == {"n1", "n2", "n3"}
    assert world.bind("a1", second)
    assert not world.bind("a0", third)


def test_members_that_did_not_come_are_woken_when_their_gang_is_tried_again() -> None:
    """Nobody looks at them: the last answer about them was a node."""
    world = World({"n1": "2"}, "for at most 5s")
    world.create("a0", "a1", members=2)
    for name in ("a0", "a1"):
        world.offered(name)
    world.woken()
    found = []
    for _ in range(10):
        world.now += 1
        world.gangs.review()
        found.append(world.woken())
    assert [second for second, names in enumerate(found, start=1) if names] == [2, 6]
    assert world.told[-1] == ("given up", "late")
    assert found[5] == {"a0", "a1"}
