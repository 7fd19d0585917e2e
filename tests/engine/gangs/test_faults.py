"""Gangs under faults: what stays after one, and how soon a gang is tried again."""

from __future__ import annotations

import pytest

from tests.engine.gangs.test_gangs import HeldWorld, hold_all, names


def hold_again(world: HeldWorld) -> None:
    world.ended.clear()
    hold_all(world, ["a0", "a1"])


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
        world.engine.gangs.end("this replica ends")
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
    assert world.engine.gangs.statuses() == []
    world.create(*names("a", 3))
    hold_again(world)
