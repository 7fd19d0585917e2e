"""Gangs under faults: what stays after one, and how soon a gang is tried again."""

from __future__ import annotations

from typing import Any

import pytest

from engine.errors import BriefWaitError
from engine.fairness import MOST_HELD
from grammar.clauses.gang import MOST_MEMBERS
from tests.engine.gangs.test_gangs import HeldWorld, World, hold_all, in_racks, names
from tests.support import builders
from tests.support.engines import node_of


def hold_again(world: HeldWorld) -> None:
    world.ended.clear()
    hold_all(world, ["a0", "a1"])


def test_a_held_member_does_not_move_while_another_scheduler_asks() -> None:
    """Its first call is about that node still, and the others are no members of a gang begun."""
    world = in_racks(["a1", "a2", "b1", "b2"], "2")
    world.create(*names("m", 3))
    assert world.place("m0")
    assert world.ask("m0") == ["a1"]
    world.now += 0.1
    assert str(world.ask("m0")).endswith("given up: no node is left for m0")
    assert str(world.ask("m1")).endswith("given up: no node is left for m0")
    assert (world.on(), set(world.ended)) == ({}, {"m0"})
    world.ended.clear()
    world.now += 1.1
    assert [world.place(name) for name in names("m", 3)] == [True, True, False]
    assert world.ended == dict.fromkeys(names("m", 3), "")


def test_a_node_where_a_member_is_held_has_not_refused_it() -> None:
    """The next scheduler asks about it and waits with the first one; then the time is over."""
    world = in_racks(["a1", "a2", "b1", "b2"], "2")
    world.create(*names("m", 3))
    assert world.place("m0")
    assert world.ask("m0") == ["a1"]
    world.now += 61
    world.gangs.give_up(world.pods["m0"]["metadata"]["uid"])
    world.now += 1.1
    assert world.ask("m0") == ["a1"]


def test_a_third_scheduler_asks_about_a_held_member() -> None:
    """The second one has joined its call, so the member has taken its place."""
    world = in_racks(["a1", "a2", "b1", "b2"], "2")
    world.create(*names("m", 3))
    assert world.place("m0")
    for _ in range(3):
        world.now += 0.1
        assert world.ask("m0") == ["a1"]
        world.gangs.joined(world.pods["m0"]["metadata"]["uid"])
    assert [world.place(name) for name in ("m1", "m2")] == [True, False]
    assert world.ended == dict.fromkeys(names("m", 3), "")


def test_an_edit_of_another_policy_gives_no_gang_up() -> None:
    """A file is compiled anew as a whole; the clause means the same."""
    world = HeldWorld()
    other = 'policy q in namespace "shop" { filter "any" { require node.name != "" } }'
    world.adopt(f"{other}\n{world.text}")
    assert world.ended == {}
    assert world.place("a2") is False
    assert world.ended == {"a0": "", "a1": "", "a2": ""}


@pytest.mark.parametrize("times", [1, 5])
def test_the_pause_after_a_fault_of_others_does_not_grow(times: int) -> None:
    world = HeldWorld()
    for _ in range(times):
        world.gangs.end("this replica ends")
        assert isinstance(world.ask("a0"), str)
        world.now += 1.01
        hold_again(world)
    assert set(world.on()) == {"a0", "a1"}


def test_the_pause_after_a_hold_in_vain_doubles() -> None:
    world = HeldWorld()
    for seconds in (1.0, 2.0, 4.0):
        world.later(61)
        world.now += seconds - 0.01
        assert isinstance(world.ask("a0"), str)
        world.now += 0.02
        hold_again(world)


def test_a_gang_whose_members_are_all_gone_begins_anew() -> None:
    """Pods with the name of an earlier gang have not been held in vain."""
    world = HeldWorld()
    for _ in range(4):
        world.later(61)
        world.now += 20
        hold_again(world)
    world.later(61)
    for name in names("a", 3):
        world.delete(name)
    world.later(2)
    assert world.gangs.statuses() == []
    world.create(*names("a", 3))
    hold_again(world)


def released(count: int = 3) -> World:
    """A gang whose Bindings are on their way: nobody knows yet whether there are any."""
    world = World({"n1": "8"})
    world.create(*names("a", count + 1), members=count)
    for name in names("a", count):
        world.place(name)
    assert len(world.on()) == count
    return world


def test_nobody_comes_alone_while_it_is_not_known_whether_anybody_is_bound() -> None:
    world = released()
    with pytest.raises(BriefWaitError, match="its members are being bound"):
        world.ask("a3")


def test_a_gang_whose_bindings_have_all_failed_gathers_anew() -> None:
    world = released()
    for number, name in enumerate(names("a", 3)):
        if number:
            # The first one was told already that it is not bound.
            with pytest.raises(BriefWaitError):
                world.ask("a0")
        world.cache.forget(f"shop/{name}")
    world.ended.clear()
    assert world.place("a0")
    assert set(world.on()) == {"a0"}


def test_the_rest_comes_as_soon_as_one_member_is_bound_for_certain() -> None:
    world = released()
    world.cache.confirm("shop/a1", world.pods["a1"]["metadata"]["uid"])
    assert world.place("a3") is False


def test_a_quorum_stays_while_the_gang_gathers() -> None:
    """A workload may be scaled meanwhile: the others come as they come."""
    world = HeldWorld()
    world.create("a3", members=4)
    assert world.ask("a3") == "policy p: together: enough members have a place"
    assert world.place("a2") is False
    assert world.ended == {"a0": "", "a1": "", "a2": ""}


def test_a_gang_gathers_only_where_all_of_its_calls_may_be_held() -> None:
    world = World({"n1": "20"})
    world.engine.held.add("shop", MOST_MEMBERS - 5)
    world.create(*names("a", 3))
    world.create(*names("b", 3), job="b")
    hold_all(world, ["a0"])
    assert world.ask("b0") == "policy p: together: too many binds are held"
    assert world.told == [("gathering", "")]
    world.place("a1")
    world.place("a2")
    world.now += 1
    hold_all(world, ["b0"])


def test_a_namespace_alone_may_hold_the_largest_gang() -> None:
    assert MOST_MEMBERS == MOST_HELD // 2


def test_a_gang_of_which_not_all_may_be_held_never_gathers() -> None:
    world = World({"n1": "20"})
    world.create("a0", members=MOST_MEMBERS + 1)
    assert world.ask("a0") == "policy p: together: more than 500 members"


def test_a_gang_of_higher_priority_takes_the_places_of_a_held_one() -> None:
    world = World({"n1": "4"})
    world.create(*names("a", 4), members=4)
    hold_all(world, ["a0", "a1", "a2"])
    world.create(*names("b", 4), job="b", members=4, priority=10)
    assert "0 of 4 members fit" in world.ask("b0")
    assert world.ended["a0"] == (
        "policy shop/p: together: given up: a gang of higher priority needs its place"
    )
    world.now += 0.2
    hold_all(world, ["b0", "b1", "b2"])


def test_places_that_were_given_up_go_to_the_gang_for_which_they_were() -> None:
    """Also if kube-scheduler asks first about the other one again."""
    world = World({"n1": "4"})
    world.create(*names("a", 4), members=4)
    hold_all(world, ["a0", "a1", "a2"])
    world.create(*names("b", 4), job="b", members=4, priority=10)
    assert "0 of 4 members fit" in world.ask("b0")
    world.now += 1.1
    assert "0 of 4 members fit" in world.ask("a0")
    hold_all(world, ["b0", "b1", "b2"])
    assert [reason for _, reason in world.told if reason] == ["preempted"]


@pytest.mark.parametrize(("priority", "size"), [(0, 4), (10, 5)])
def test_a_held_gang_stays_where_that_would_not_help(priority: int, size: int) -> None:
    """The other one is not of higher priority, or it has not enough room without it either."""
    world = World({"n1": "4"})
    world.create(*names("a", 4), members=4)
    hold_all(world, ["a0", "a1", "a2"])
    world.create(*names("b", size), job="b", members=size, priority=priority)
    assert f"0 of {size} members fit" in world.ask("b0")
    assert world.ended == {}
    assert len(world.engine.in_flight) == 1


CORDON = {"unschedulable": True}
TAINT = {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]}
LIKED = {"taints": [{"key": "example.com/old", "effect": "PreferNoSchedule"}]}


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        (CORDON, "node(s) were unschedulable"),
        (TAINT, "node(s) had untolerated taint {node.kubernetes.io/not-ready: }"),
        (LIKED, ""),
    ],
)
def test_a_node_that_is_closed_while_members_are_held(spec: dict[str, Any], why: str) -> None:
    world = HeldWorld()
    world.cache.put_node(node_of(builders.node("n1", cpu="4") | {"spec": spec}))
    world.gangs.review()
    text = f"policy shop/p: together: given up: a0 cannot go to node n1 now: {why}"
    assert world.ended == ({"a0": text, "a1": text} if why else {})


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"spec": CORDON}, "no node is left for LAST"),
        (
            {"metadata": {"name": "n2", "labels": {"rack": "y"}}},
            "the nodes of its members do not share the value of `within` any more",
        ),
    ],
)
def test_a_node_of_a_member_that_has_not_come_is_lost(change: dict[str, Any], reason: str) -> None:
    """kube-scheduler does not ask about it any more, and the others would be held in vain."""
    racks = {"n1": {"rack": "x"}, "n2": {"rack": "x"}}
    world = World({"n1": "2", "n2": "1"}, 'within node.labels["rack"]', labels=racks)
    world.create(*names("a", 3))
    world.ask("a0")
    (gang,) = world.gangs.known
    places = {gang.keys[uid].removeprefix("shop/"): node for uid, node in gang.places.items()}
    first, second, last = sorted(places, key=lambda name: (places[name], name))
    hold_all(world, [first, second])
    world.gangs.review()
    assert world.ended == {}
    made = builders.node("n2", cpu="1", labels={"rack": "x"})
    world.cache.put_node(node_of(made | change))
    world.gangs.review()
    text = f"policy shop/p: together: given up: {reason.replace('LAST', last)}"
    assert world.ended == {first: text, second: text}


def test_members_that_do_not_come_are_woken_again() -> None:
    """The first wake-up may have got lost on its way; those that are held need none."""
    world = HeldWorld()
    assert world.woken() == {"a1", "a2"}
    found = []
    for _ in range(20):
        world.later(1)
        found.append(world.woken())
    woken = [second for second, names in enumerate(found, start=1) if names]
    assert woken == [2, 6, 18]
    assert all(found[second - 1] == {"a2"} for second in woken)


def test_a_node_that_moves_to_another_rack() -> None:
    world = in_racks(("x1", "x2", "y1"), "1")
    world.create(*names("a", 3))
    assert world.ask("a0") == "policy p: together: 2 of 3 members fit, in x"
    world.now += 1
    world.cache.put_node(node_of(builders.node("y1", cpu="1", labels={"rack": "x"})))
    world.offered("a0")
    world.cache.put_node(node_of(builders.node("y1", cpu="1")))
    world.create(*names("b", 1), job="b", members=1)
    assert world.ask("b0") == "policy p: together: 0 of 1 members fit"


def test_the_largest_number_that_a_member_says_counts() -> None:
    """A pod with another number came from another gang; three of five must not go alone."""
    world = World({"n1": "8"})
    world.create(*names("a", 4), members=5)
    world.create("b0", members=3)
    world.create("c0", members=3, job="c")
    world.relabel("c0", {"job": "a"})
    world.delete("b0")
    world.delete("a3")
    assert world.ask("c0") == "policy p: together: 4 of 5 members exist"
    world.create("a3", members=5)
    assert world.place("c0")


def test_a_member_that_says_no_number_is_none() -> None:
    """It is rejected itself, so that the others would be held in vain."""
    world = World({"n1": "8"})
    world.create(*names("a", 3))
    del world.pods["a2"]["metadata"]["annotations"]
    world.watch("a2")
    assert world.ask("a0") == "policy p: together: 2 of 3 members exist"


def test_the_text_of_a_rejection_stays_while_a_number_changes() -> None:
    """kube-scheduler asks again whenever it changes; what people see elsewhere is the newest."""
    world = World({"n1": "2"})
    world.create(*names("a", 3))
    text = world.ask("a0")
    assert text == "policy p: together: 2 of 3 members fit"
    world.create("other", job="", on="n1")
    world.now += 10
    assert world.ask("a0") == text
    assert [gang.text for gang in world.gangs.known] == ["1 of 3 members fit"]
    world.now += 60
    assert world.ask("a0") == "policy p: together: 1 of 3 members fit"
