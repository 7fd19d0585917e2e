"""Tallies: pods that change with the time alone, and counts that run out of time."""

from __future__ import annotations

import gc
import math
import random
import tracemalloc
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import NoReturn

import msgspec
import pytest

from engine.cache.tallies import Adding, AlikePods, Scope, Tallies, Tally, TimedTally
from engine.errors import DeadlineExceededError
from engine.objects.peer import Peer, PeerReads
from grammar.values.time import NEVER
from tests.support.books import examples
from tests.support.builders import node, pod, raw
from tests.support.engines import cache_of, engine_over, peer_of


def pods(count: int) -> dict[str, Peer]:
    return {f"default/p{i}": peer_of(pod(f"p{i}", on="n0")) for i in range(count)}


OF_APP = frozenset({("labels", "app")})
NONE: Mapping[str, str] = {}


def by_app(adds: Callable[[Peer], int]) -> Adding:
    """For pods of which those with the same app add the same."""
    return Adding(adds, reads=OF_APP)


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
    clock, there = Clock(), pods(5)
    tallies = Tallies({"default": there})
    for clock.now, evaluated, placed in ((0, 5, 1), (0, 0, 1), (2, 2, 3), (3, 1, 4), (9, 1, 5)):
        clock.evaluated.clear()
        tally = tallies.timed("t", Scope(), clock.adds, clock.now)
        assert (len(clock.evaluated), tally.placed) == (evaluated, placed)


def test_a_pod_may_count_for_a_while() -> None:
    def adds(_: Peer) -> tuple[int, int]:
        return (0, 3) if now < 3 else (1, 5) if now < 5 else (0, NEVER)

    tallies, found = Tallies({"default": pods(2)}), list[int]()
    for now in (0, 2, 3, 4, 5, 9):
        found.append(tallies.timed("t", Scope(), adds, now).placed)
    assert found == [0, 0, 2, 2, 0, 0]


def test_an_interrupted_evaluation_continues() -> None:
    clock, there = Clock(), pods(5)
    tallies = Tallies({"default": there})
    tallies.timed("t", Scope(), clock.adds, 0)
    clock.now, clock.fails_at = 9, "p3"
    with pytest.raises(DeadlineExceededError):
        tallies.timed("t", Scope(), clock.adds, clock.now)
    clock.fails_at = ""
    assert tallies.timed("t", Scope(), clock.adds, clock.now).placed == 5


def test_a_first_count_that_was_interrupted_continues_at_a_later_moment() -> None:
    clock, there = Clock(), pods(5)
    tallies = Tallies({"default": there})
    clock.fails_at = "p3"
    with pytest.raises(DeadlineExceededError):
        tallies.timed("t", Scope(), clock.adds, clock.now)
    clock.now, clock.fails_at = 2, ""
    clock.evaluated.clear()
    assert tallies.timed("t", Scope(), clock.adds, clock.now).placed == 3
    assert "p0" not in clock.evaluated


def test_pods_are_counted_anew_when_the_clock_is_set_back() -> None:
    clock, there = Clock(), pods(5)
    tallies = Tallies({"default": there})
    for clock.now, placed in ((9, 5), (2, 3), (9, 5)):
        tally = tallies.timed("t", Scope(), clock.adds, clock.now)
        assert tally.placed == placed


def test_a_pod_leaves_with_what_it_added() -> None:
    clock, there = Clock(), pods(5)
    tallies = Tallies({"default": there})
    tally = tallies.timed("t", Scope(), clock.adds, 0)
    clock.now = 4
    tallies.leaves("default/p4", there.pop("default/p4"))
    assert tally.placed == 1
    assert tallies.timed("t", Scope(), clock.adds, 9).placed == 4


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
    there, asked = dict[str, Peer](), list[str]()
    tallies = Tallies({"default": there})

    def of_app(app: str) -> Callable[[Peer], bool]:
        def counts(peer: Peer) -> bool:
            asked.append(app)
            return peer.labels["app"] == app

        return counts

    def tally_of(app: str) -> Tally:
        return tallies.get(app, Scope("default"), by_app(of_app(app)))

    apps = ("a", "b", "c")
    kept = {app: tally_of(app) for app in apps}
    first, second = (peer_of(pod(name, on="n0", labels={"app": "b"})) for name in ("p0", "p1"))
    there["default/p0"] = first
    tallies.arrives("default/p0", first)
    asked.clear()
    for follow in (tallies.arrives, tallies.leaves, tallies.arrives):
        follow("default/p1", msgspec.structs.replace(second, labels=first.labels))
    assert not asked, "what pods of this kind add is known"
    assert [kept[app].placed for app in apps] == [0, 2, 0]
    # A tally that comes later follows the same pods from then on.
    late = tallies.get("late", Scope(), Adding(lambda _: True))
    tallies.leaves("default/p0", first)
    assert (late.placed, kept["b"].placed) == (0, 1)


def test_a_tally_that_cannot_tell_follows_the_pod() -> None:
    """There was no time to find out whether a kind of pod may count."""
    tallies, times = Tallies({}), [DeadlineExceededError("too late")]

    def adds(_: Peer) -> bool:
        if times:
            raise times.pop()
        return True

    tally = tallies.get("t", Scope(), by_app(adds))
    tallies.arrives("default/p0", peer_of(pod("p0", on="n0")))
    assert tally.placed == 1


# ---- counts that run out of time

APPS = tuple({"app": app} for app in ("a", "b", "c"))


class Hurried:
    """Counts the pods of app `b`, a few at each call, as a policy without much time does."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.left = 0
        self.evaluated: list[str] = []

    def __call__(self, peer: Peer) -> bool:
        if not self.left:
            raise DeadlineExceededError("too late")
        self.left -= 1
        self.evaluated.append(peer.name)
        return peer.labels["app"] == "b"

    def check(self) -> None:
        if not self.left:
            raise DeadlineExceededError("too late")
        self.left -= 1


class Changing:
    """Pods of two namespaces, whose changes a Tallies is told of."""

    def __init__(self) -> None:
        self.spaces: dict[str, dict[str, Peer]] = {}
        self.tallies = Tallies(self.spaces)

    def put(
        self, namespace: str, number: int, node: str, app: int, labels: Mapping[str, str] = NONE
    ) -> None:
        made = peer_of(pod(f"p{number}", namespace, on=node))
        known = {**APPS[app], **labels} if labels else APPS[app]
        made = msgspec.structs.replace(made, labels=known)
        self.remove(namespace, number)
        self.spaces.setdefault(namespace, {})[f"{namespace}/p{number}"] = made
        self.tallies.arrives(f"{namespace}/p{number}", made)

    def remove(self, namespace: str, number: int) -> None:
        key, pods = f"{namespace}/p{number}", self.spaces.get(namespace, {})
        if (old := pods.pop(key, None)) is None:
            return
        if not pods:
            del self.spaces[namespace]
        self.tallies.leaves(key, old)

    def on_nodes(self, scope: Scope) -> Counter[str]:
        every = (peer for pods in self.spaces.values() for peer in pods.values())
        return Counter(p.nodeName for p in every if p.labels["app"] == "b" and scope.holds(p))


def finished(counts: Hurried, count: Callable[[], Tally], most: int) -> Tally:
    """The tally after so many calls at most."""
    for _ in range(most):
        counts.left = counts.most
        try:
            return count()
        except DeadlineExceededError:
            continue
    raise AssertionError("the count has no end")


@pytest.mark.parametrize("by_kind", [False, True])
def test_a_first_count_looks_at_each_pod_once_however_often_it_is_interrupted(
    by_kind: bool,
) -> None:
    there, counts = Changing(), Hurried(7)
    for number in range(100):
        there.put("default", number, "n0", 1 if by_kind else number % 3)
    adding = by_app(counts) if by_kind else Adding(counts)
    tally = finished(counts, lambda: there.tallies.get("t", Scope("default"), adding), 20)
    assert tally.nodes == there.on_nodes(Scope("default"))
    assert len(counts.evaluated) == (1 if by_kind else 100)


@pytest.mark.parametrize("ahead", [False, True], ids=["when needed", "ahead"])
def test_a_count_by_kinds_has_all_pods_of_all_groups(*, ahead: bool) -> None:
    there, counts = Changing(), Hurried(1000)
    if ahead:
        there.tallies.group({name: AlikePods(name, OF_APP) for name in ("default", "other")})
    for number in range(60):
        there.put("default" if number % 2 else "other", number, f"n{number % 3}", number % 7 % 3)
    for number, scope in enumerate((Scope(), Scope("default"), Scope("other"))):
        there.put("default", number, "n0", 1)
        counts.left = 10_000
        tally = there.tallies.get("t", scope, by_app(counts))
        assert tally.nodes == there.on_nodes(scope)


def test_pods_are_grouped_in_portions() -> None:
    there, counts = Changing(), Hurried(2)
    for number in range(3000):
        there.put("default", number, "n0", 1)
    for is_grouped in (False, False, True):
        counts.left = 1
        with suppress(DeadlineExceededError):
            there.tallies.get("t", Scope(), by_app(lambda _: 1), counts.check)
        assert ("default" in there.tallies.alike) == is_grouped


def test_groups_of_pods_that_have_hardly_anything_in_common_are_not_kept() -> None:
    there, counts = Changing(), Hurried(10_000)
    counts.left = 10_000
    for number in range(200):
        there.put("default", number, "n0", 1, {"app": "b" if number < 150 else str(number)})
    tally = there.tallies.get("t", Scope(), by_app(counts))
    assert len(counts.evaluated) == 51
    for number in range(200):
        there.put("default", number, "n1", 1, {"app": str(number) if number else "b"})
    there.tallies.get("u", Scope(), by_app(counts))
    assert tally.nodes == there.on_nodes(Scope())
    assert len(counts.evaluated) >= 200


def test_a_count_in_a_namespace_does_not_go_over_the_pods_of_others() -> None:
    class Others(dict[str, Peer]):
        def keys(self) -> NoReturn:
            raise AssertionError("nobody goes over these pods")

        __iter__ = items = values = keys

    there = {"default": pods(3), "other": Others(pods(3))}
    tallies = Tallies(there)
    for adding in (Adding(lambda _: 1), by_app(lambda _: 1)):
        assert tallies.get(adding, Scope("default"), adding).placed == 3


# What counts read: of each pod, or of those with equal labels, of which there are few or many.
READS: Sequence[PeerReads | None] = (
    None,
    OF_APP,
    OF_APP | {("labels", "u")},
    OF_APP | {("labels", str(number)) for number in range(40)},
)


@pytest.mark.parametrize("seed", range(examples(60)))
def test_a_count_is_right_after_any_events_and_interruptions(seed: int) -> None:
    chance, there = random.Random(seed), Changing()
    scopes = [Scope(), Scope("default"), Scope("other")]
    counts = {(scope, reads): Hurried(9) for scope in scopes for reads in READS}
    most = chance.choice((3, 100))

    def change() -> None:
        namespace, number = chance.choice(("default", "other")), chance.randrange(40)
        if chance.random() < 0.4:
            there.remove(namespace, number)
        else:
            node = chance.choice(("n0", "n1", ""))
            labels = {"u": str(chance.randrange(most))}
            there.put(namespace, number, node, chance.randrange(3), labels)

    def count(of: tuple[Scope, PeerReads | None]) -> Tally:
        scope, reads = of
        adding, check = Adding(counts[of], reads=reads), counts[of].check
        return there.tallies.get(reads, scope, adding, check)

    for _ in range(60):
        change()
    for _ in range(80):
        for _ in range(chance.randrange(4)):
            change()
        of = chance.choice(list(counts))
        # Some events find no time left, and some find enough.
        counts[of].left = chance.randrange(30)
        try:
            tally = count(of)
        except DeadlineExceededError:
            continue
        wanted = there.on_nodes(of[0])
        assert len(tally.waiting) == wanted.pop("", 0)
        assert tally.nodes == wanted


def test_a_tally_that_had_no_time_for_an_event_is_not_counted_anew() -> None:
    there, counts = Changing(), Hurried(1000)
    for number in range(100):
        there.put("default", number, "n0", number % 3)
    finished(counts, lambda: there.tallies.get("t", Scope(), Adding(counts)), 1)
    counts.left = 0
    for number in range(0, 100, 10):
        there.put("default", number, "n1", 1)
    counts.evaluated.clear()
    tally = finished(counts, lambda: there.tallies.get("t", Scope(), Adding(counts)), 1)
    assert tally.nodes == there.on_nodes(Scope())
    # Ten pods left, and ten arrived.
    assert len(counts.evaluated) == 20


def test_a_first_census_continues_where_it_was() -> None:
    there, counts, looked = Changing(), Hurried(1), list[str]()
    for number in range(2000):
        there.put("default", number, "n0", number % 3)

    def key_of(peer: Peer) -> str:
        looked.append(peer.name)
        return peer.labels["app"]

    for _ in range(10):
        counts.left = 1
        with suppress(DeadlineExceededError):
            census = there.tallies.census("c", Scope(), key_of, counts.check)
            break
    assert len(looked) == 2000
    assert {key: sum(group.nodes.values()) for key, group in census.groups.items()} == {
        "a": 667,
        "b": 667,
        "c": 666,
    }


def kept(tallies: Tallies, asked: int) -> list[int]:
    """Which of the tallies that were asked for last need not be counted again."""
    found: list[int] = []
    counted = 0

    def counts(_: Peer) -> int:
        nonlocal counted
        counted += 1
        return 1

    for name in reversed(range(asked)):
        tallies.get(name, Scope(), Adding(counts))
        if counted:
            break
        found.append(name)
    return found[::-1]


def test_tallies_whose_names_and_functions_keep_much_are_few() -> None:
    """As when a policy counts by an annotation of large pods, and somebody changes that."""
    tallies = Tallies({"default": pods(1)})
    for name in range(100):
        tallies.get(name, Scope(), Adding(lambda _: 1), size=lambda: 1 << 20)
    assert kept(tallies, 100) == list(range(76, 100)), "24 MiB of them"


def test_tallies_of_many_nodes_are_few() -> None:
    """They may have so many entries in all: 250,000, and four for each pod."""
    there = {f"default/p{i}": peer_of(pod(f"p{i}", on=f"n{i}")) for i in range(1000)}
    tallies = Tallies({"default": there})
    for name in range(300):
        tallies.get(name, Scope(), Adding(lambda _: 1))
    assert len(kept(tallies, 300)) == 254


def test_a_large_tally_is_kept_alone() -> None:
    tallies = Tallies({"default": pods(1)})
    tallies.get("other", Scope(), Adding(lambda _: 1))
    for _ in range(2):
        tallies.get(0, Scope(), Adding(lambda _: 1), size=lambda: 1 << 30)
    assert kept(tallies, 1) == [0]


def test_a_census_keeps_few_texts_of_groups_that_are_gone() -> None:
    """As when the labels of one pod are changed again and again."""
    tallies = Tallies({"default": {}})
    census = tallies.census("labels", Scope(), lambda peer: peer.labels["l"])
    for number in range(100):
        changed = peer_of(pod("p", on="n0", labels={"l": f"{number}" * 50_000}))
        tallies.arrives("default/p", changed)
        tallies.leaves("default/p", changed)
    assert not census.groups
    assert sum(len(str(key)) for key, _ in census.arrived) < 5_000_000


def test_counts_by_an_annotation_of_large_pods_leave_little() -> None:
    """One pod is asked about 150 times, each time with another annotation of 300 KB."""
    limit = (
        'limit "l" { pods where peer.labels[?"a"].orValue("") == pod.annotations["a"]'
        " per node at most 9 strict }"
    )
    engine = engine_over(f"cluster policy p {{ {limit} }}", cache_of([node("n0")], []))

    def ask(number: int) -> None:
        asked = pod("p", annotations={"a": f"{number}-" + "x" * 300_000})
        engine.filter(raw(asked), ["n0"], None, math.inf)

    ask(0)
    tracemalloc.start()
    try:
        for number in range(150):
            ask(number)
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 60 << 20
