"""Tallies of pods that may add something else with the time alone."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from engine.cache.tallies import Scope, Tallies, Tally, TimedTally
from engine.errors import DeadlineExceededError
from engine.objects.peer import Peer
from grammar.values.time import NEVER
from tests.support.builders import pod
from tests.support.engines import peer_of


def pods(count: int) -> dict[str, Peer]:
    return {f"default/p{i}": peer_of(pod(f"p{i}", on="n0")) for i in range(count)}


class Clock:
    """Counts a pod `p3` from the moment 3 on, and knows that."""

    def __init__(self) -> None:
        self.now = 0
        self.evaluated: list[str] = []
        self.fails_at = ""

    def adds(self, peer: Peer) -> tuple[int, int]:
        if peer.name == self.fails_at:
            raise DeadlineExceededError("too late")
        self.evaluated.append(peer.name)
        moment = int(peer.name[1:])
        return (1, NEVER) if self.now >= moment else (0, moment)


def test_a_pod_is_evaluated_once_more_when_its_moment_comes() -> None:
    clock, there, tallies = Clock(), pods(5), Tallies()
    for clock.now, evaluated, placed in ((0, 5, 1), (0, 0, 1), (2, 2, 3), (3, 1, 4), (9, 1, 5)):
        clock.evaluated.clear()
        tally = tallies.timed("t", Scope(), clock.adds, clock.now, there.items())
        assert (len(clock.evaluated), tally.placed) == (evaluated, placed)


def test_an_interrupted_evaluation_continues() -> None:
    clock, there, tallies = Clock(), pods(5), Tallies()
    tallies.timed("t", Scope(), clock.adds, 0, there.items())
    clock.now, clock.fails_at = 9, "p3"
    with pytest.raises(DeadlineExceededError):
        tallies.timed("t", Scope(), clock.adds, clock.now, there.items())
    clock.fails_at = ""
    assert tallies.timed("t", Scope(), clock.adds, clock.now, there.items()).placed == 5


def test_a_first_count_that_was_interrupted_continues_at_a_later_moment() -> None:
    clock, there, tallies = Clock(), pods(5), Tallies()
    clock.fails_at = "p3"
    with pytest.raises(DeadlineExceededError):
        tallies.timed("t", Scope(), clock.adds, clock.now, there.items())
    clock.now, clock.fails_at = 2, ""
    clock.evaluated.clear()
    assert tallies.timed("t", Scope(), clock.adds, clock.now, there.items()).placed == 3
    assert "p0" not in clock.evaluated


def test_pods_are_counted_anew_when_the_clock_is_set_back() -> None:
    clock, there, tallies = Clock(), pods(5), Tallies()
    for clock.now, placed in ((9, 5), (2, 3), (9, 5)):
        tally = tallies.timed("t", Scope(), clock.adds, clock.now, there.items())
        assert tally.placed == placed


def test_a_pod_leaves_with_what_it_added() -> None:
    clock, there, tallies = Clock(), pods(5), Tallies()
    tally = tallies.timed("t", Scope(), clock.adds, 0, there.items())
    clock.now = 4
    tallies.leaves("default/p4", there.pop("default/p4"))
    assert tally.placed == 1
    assert tallies.timed("t", Scope(), clock.adds, 9, there.items()).placed == 4


def test_pods_that_come_and_go_leave_nothing_behind() -> None:
    clock = Clock()
    tally = TimedTally(clock.adds, 0)
    peer = peer_of(pod("p1", on="n0"))
    for _ in range(10_000):
        tally.arrives("default/p", peer)
        tally.leaves("default/p", peer)
    assert len(tally._due) < 2000  # noqa: SLF001 - memory is what it is about
    assert not tally._held  # noqa: SLF001


def test_an_event_reaches_only_tallies_that_may_count_the_pod() -> None:
    """A tally for each of many apps: an event of a pod of one app is not for the others."""
    tallies, asked = Tallies(), list[str]()

    def of_app(app: str) -> Callable[[Peer], bool]:
        def counts(peer: Peer) -> bool:
            asked.append(app)
            return peer.labels["app"] == app

        return counts

    def tally_of(app: str) -> Tally:
        return tallies.get(app, Scope("default"), of_app(app), (), of_app(app))

    apps = ("a", "b", "c")
    kept = {app: tally_of(app) for app in apps}
    first, second = (peer_of(pod(name, on="n0", labels={"app": "b"})) for name in ("p0", "p1"))
    tallies.arrives("default/p0", first)
    asked.clear()
    for follow in (tallies.arrives, tallies.leaves, tallies.arrives):
        follow("default/p1", msgspec.structs.replace(second, labels=first.labels))
    assert set(asked) == {"b"}
    assert [kept[app].placed for app in apps] == [0, 2, 0]
    # A tally that comes later follows the same pods from then on.
    late = tallies.get("late", Scope(), lambda _: True, [("default/p0", first)])
    tallies.leaves("default/p0", first)
    assert (late.placed, kept["b"].placed) == (0, 1)


def test_a_tally_that_cannot_tell_follows_the_pod() -> None:
    """There was no time to find out whether a kind of pod may count."""
    tallies, times = Tallies(), [DeadlineExceededError("too late")]

    def may_count(_: Peer) -> bool:
        if times:
            raise times.pop()
        return False

    tally = tallies.get("t", Scope(), lambda _: True, (), may_count)
    tallies.arrives("default/p0", peer_of(pod("p0", on="n0")))
    assert tally.placed == 1
