"""Fair shares: no namespace displaces another."""

from __future__ import annotations

from engine.fairness import FairQueue, FairShares, in_turns


def test_owners_take_turns_by_name() -> None:
    items = ["b1", "a1", "a2", "a3", "c1", "b2"]
    turns = [list(turn) for turn in in_turns(items, lambda item: item[0])]
    assert turns == [["a1", "b1", "c1"], ["a2", "b2"], ["a3"]]


def taken(shares: FairShares, owner: str) -> int:
    """What an owner has after it took one by one what it may."""
    while shares.has_room(owner):
        shares.add(owner, 1)
    return shares.of(owner)


def test_the_only_owner_has_a_half_and_others_find_room() -> None:
    shares = FairShares(1000)
    assert [taken(shares, each) for each in ("a", "b", "c")] == [500, 250, 125]
    assert shares.taken == 875
    shares.add("a", -300)
    assert taken(shares, "c") == 275


def test_no_two_owners_leave_nothing_for_a_third() -> None:
    shares = FairShares(1000)
    while shares.has_room("a") or shares.has_room("b"):
        for each in ("a", "b"):
            shares.add(each, shares.has_room(each))
    assert shares.of("a") == shares.of("b") == 333
    assert shares.has_room("c", 150)


def test_a_queue_gives_turns_and_takes_from_who_has_most() -> None:
    queue = FairQueue[str](4)
    for each in ("a1", "a2", "a3", "a4", "a5", "b1"):
        queue.put(each[0], each)
    assert sorted(queue) == ["a3", "a4", "a5", "b1"]
    assert [queue.take() for _ in range(len(queue))] == ["b1", "a3", "a4", "a5"]
    assert not queue
