"""Gang of one pod: the members that people see, and what they wait for."""

from __future__ import annotations

import pytest

from engine.gangs.gang import GangMember, GangOfPod
from tests.engine.gangs.test_gangs import World, names
from tests.support.builders import raw

RACKS = {f"n{number}": {"rack": f"r{number // 2}"} for number in range(4)}
PARTS = 'within node.labels["rack"] for at most 30s'


def world_of(count: int, members: int) -> World:
    """So many pods of one gang, and two racks of two nodes with room for two pods each."""
    world = World(dict.fromkeys(RACKS, "2"), PARTS, labels=RACKS)
    world.create(*names("a", count), members=members)
    return world


def gang(world: World, name: str, *, places: bool = False) -> GangOfPod:
    found = world.gang(name, places=places)
    assert found is not None
    return found


def test_it_waits_for_members_that_do_not_exist() -> None:
    found = gang(world_of(2, 3), "a0")
    assert (found.told.name, found.told.quorum, found.told.state) == ("shop/a", 3, "waiting")
    assert found.told.text == found.refusal == "2 of 3 members exist"
    assert found.allowed == ()
    assert found.told.members == [GangMember(f"shop/{name}", "waiting") for name in names("a", 2)]


def test_a_question_tries_nothing() -> None:
    world = world_of(3, 3)
    assert gang(world, "a0").told.state == "not tried"
    assert gang(world, "a0").allowed is None
    assert world.gangs.statuses() == []


def test_members_are_held_and_have_places() -> None:
    world = world_of(3, 3)
    (place,) = world.offered("a0")
    world.now += 2
    assert world.bind("a0", place)
    world.now += 10
    found = gang(world, "a0")
    assert (found.told.state, found.told.text) == ("gathering", "1 of 3 members are here")
    assert (found.told.seconds, found.allowed) == (12.0, (place,))
    kinds = {each.pod: (each.presence, each.seconds) for each in found.told.members}
    placed = ("placed", 0.0)
    assert kinds == {"shop/a0": ("held", 10.0), "shop/a1": placed, "shop/a2": placed}
    assert all(each.node for each in found.told.members)


def test_what_was_given_up_is_tried_again_after_a_while() -> None:
    world = world_of(2, 2)
    assert world.place("a0")
    world.now += 31
    world.gangs.review()
    text = "given up: 1 of 2 members came in time"
    assert world.ended == {"a0": f"policy shop/p: together: {text}"}
    found = gang(world, "a1")
    assert (found.told.state, found.told.text) == ("given up", text)
    assert found.told.againIn == pytest.approx(1.0)


def test_once_a_member_is_on_a_node_the_others_come_to_its_rack() -> None:
    world = world_of(3, 3)
    world.create("a0", on="n2")
    found = gang(world, "a1")
    assert (found.told.state, found.told.text) == ("begun", "1 of its members is on nodes")
    assert found.allowed == {"n2", "n3"}
    assert found.told.members[0] == GangMember("shop/a0", "bound", "n2")


def test_what_is_not_on_paper_is_said() -> None:
    term = {"topologyKey": "zone", "labelSelector": {}}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    world = world_of(1, 3)
    world.create("a1", spec={"affinity": {"podAntiAffinity": required}})
    claim = {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}
    world.create("a2", spec={"volumes": [claim]})
    call = world.engine.opened(raw(world.pods["a0"]))[0]
    said = ["pod anti-affinity (1 member)", "volume claims (1 member)"]
    assert world.gangs.not_on_paper(call) == said
    # kube-scheduler has checked those of a member that is held.
    assert world.place("a1")
    call = world.engine.opened(raw(world.pods["a0"]))[0]
    assert world.gangs.not_on_paper(call) == said[1:]


def test_a_command_places_the_gang_first() -> None:
    found = gang(world_of(4, 4), "a3", places=True)
    assert found.told.state == "fits"
    assert sorted(each.node for each in found.told.members) == ["n0", "n0", "n1", "n1"]
