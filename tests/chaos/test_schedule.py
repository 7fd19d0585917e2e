"""Schedules: the same seed gives the same one, its text gives it back, and a part is one too."""

from collections import Counter

import pytest

from tests.chaos.schedule import (
    FAULTS,
    NODES,
    PHASE_SECONDS,
    REPAIR_SECONDS,
    TRIALS,
    WITH_BIND,
    Action,
    Schedule,
    length,
    read,
    schedule,
    shortened,
    text,
)


@pytest.mark.parametrize("seed", range(5))
def test_seed_decides(seed: int) -> None:
    assert schedule(seed, 2, binds=True) == schedule(seed, 2, binds=True)
    assert schedule(seed, 3, binds=True)[:2] == schedule(seed, 2, binds=True), (
        "more minutes only add phases"
    )
    assert schedule(seed, 2, binds=True) != schedule(seed + 1, 2, binds=True)


@pytest.mark.parametrize("seed", range(5))
def test_text_gives_the_schedule_back(seed: int) -> None:
    written = text(schedule(seed, 2, binds=True))
    assert text(read(written)) == written
    assert read("# of a run\n" + written) == read(written)


def test_every_fault_comes_before_any_comes_again() -> None:
    kinds = [each.kind for phase in schedule(1, 12, binds=True) for each in phase]
    assert {fault.split()[0] for fault in FAULTS} <= set(kinds)


@pytest.mark.parametrize("binds", [False, True])
def test_every_trial_comes_in_two_minutes_of_a_simulation(binds: bool) -> None:
    phases = schedule(1, 2, binds=binds, a_minute=3)
    tried = [e.values["name"] for phase in phases for e in phase if e.kind == "trial"]
    assert len(tried) == 12
    assert set(tried) == {*TRIALS, *(WITH_BIND if binds else ())}


def test_a_handover_begins_with_one_leader_and_has_somebody_who_sees_late() -> None:
    """Both kube-schedulers ask the leader alone, and then each Placet, unless it goes on."""
    goes_on = 0
    for phase in schedule(1, 30, binds=True)[1::3]:
        routes = [each.values for each in phase if each.kind == "route"]
        (leader,) = {each["among"] for each in routes[:2]}
        assert [each["scheduler"] for each in routes] == ["1", "2", "1", "2"]
        (then,) = {each["among"] for each in routes[2:]}
        late = {each.values["replica"] for each in phase if each.kind == "watch"}
        if then == "ab":
            assert late - {leader}, "the one that leads next"
        else:
            goes_on += 1
            assert (late, then) == ({leader}, leader)
            assert "bind" in {each.kind for each in phase}
    assert 0 < goes_on < 10


@pytest.mark.parametrize("seed", range(5))
def test_pods_wait_for_room_that_comes_at_the_end(seed: int) -> None:
    phase = schedule(seed, 3, binds=True)[2]
    created: Counter[str] = Counter()
    for each in phase:
        if each.kind == "create":
            created[each.values["app"]] += int(each.values["count"])
    assert created == {"limited": 30, "budget": 30, "summed": 30, "cards": 30}
    deleted = [each.at for each in phase if each.kind == "delete" and each.at > 0]
    closed = [each.at for each in phase if each.kind == "state"]
    faults = [each.at for each in phase if each.kind in {fault.split()[0] for fault in FAULTS}]
    assert len(deleted) == 8
    assert max(faults) < min(deleted)
    assert all(at < 1.0 or at > max(deleted) for at in closed), "nodes are closed all the time"


def test_actions_are_in_order_and_in_time() -> None:
    """Those that belong to an earlier one may come a little after the end."""
    for phase in schedule(3, 4, binds=True):
        times = [each.at for each in phase]
        assert times == sorted(times)
        assert times[-1] < PHASE_SECONDS + 10.0


def test_pods_of_an_action() -> None:
    assert Action.read("1.5 delete name=web-1 first=2 count=2").pods() == ["web-1-2", "web-1-3"]


def test_shortened_is_what_fails() -> None:
    """A fault that needs two actions, of different phases."""
    whole = schedule(1, 3, binds=True)
    first, last = whole[0][3], whole[2][5]

    def fails(tried: Schedule) -> bool:
        actions = [each for phase in tried for each in phase]
        return first in actions and last in actions

    assert shortened(whole, fails, tries=200) == [[first], [last]]


def test_shortening_ends() -> None:
    """After so many tries, with the shortest that has failed."""
    whole = schedule(1, 3, binds=True)
    tried: list[Schedule] = []

    def fails(each: Schedule) -> bool:
        tried.append(each)
        return True

    short = shortened(whole, fails, tries=4)

    assert len(tried) == 4
    assert short == tried[-1]


@pytest.mark.parametrize("seed", range(5))
def test_with_repairs_most_steady_nodes_become_spot_nodes(seed: int) -> None:
    found = schedule(seed, 12, binds=False, repairs=True)
    assert schedule(seed, 12, binds=False, repairs=True) == found
    assert text(read(text(found))) == text(found)
    for phase in found:
        moved = [each.values["name"] for each in phase if each.kind == "label"]
        assert 3 <= len(set(moved) & set(NODES[len(NODES) // 2 :])) <= 5
        assert length(phase) == REPAIR_SECONDS
