"""Tallies: pods counted by node, kept up to date event by event, for shares, spreads and limits.

A count is a sum of ones: a tally adds up what each pod adds, which is one, or an amount in
thousandths. The cache owns tallies. A tally lives until so many others were used later that it is
dropped.
"""

from __future__ import annotations

import heapq
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from operator import methodcaller
from typing import NamedTuple

from engine.errors import EngineError
from engine.objects.peer import Peer
from engine.objects.remembered import Remembered, bytes_of
from grammar.values.time import NEVER

# The least recently used tally above this number is dropped. It is counted again on demand.
_MOST = 4096
# A reader that is more changes behind than this has to read the whole tally again.
_MOST_CHANGES = 256
# The least recently used census above this number is dropped.
_MOST_CENSUSES = 256
# The unfinished tallies that are kept.
_MOST_UNFINISHED = 64
# The bytes of the kinds of pods of which the tallies to follow are kept.
_MOST_KINDS = 16 << 20
# A heap is made anew when it has more than this many entries beyond twice the needed ones.
_MOST_STALE = 1024
# The most that a pod adds, and that sums rise to: more than any bound. Two of them fit 64 bits.
FULL = 2**61

# What a pod adds to a tally: 0 if it does not count, else one, also as True, or its amount.
Adds = Callable[[Peer], int]
# Whether pods with the labels of this one may count at all.
MayCount = Callable[[Peer], bool]
# The same, and the moment in nanoseconds from which on it may add something else.
AddsUntil = Callable[[Peer], tuple[int, int]]


class Scope(NamedTuple):
    """The pods that a tally may count: all, or the pods of a namespace, or of a workload in it.

    `workload` is the uid of a root controller.
    """

    namespace: str | None = None
    workload: str | None = None

    def holds(self, pod: Peer) -> bool:
        if self.workload is not None and (
            pod.workload is None or pod.workload.uid != self.workload
        ):
            return False
        return self.namespace is None or pod.namespace == self.namespace


_ANYWHERE = Scope()


class Tally:
    """The pods of a scope for which `counts` is not 0, added up.

    `nodes` has the sum on each node, `placed` is their sum, and `waiting` has the keys of the pods
    without a node. `placed_of` and `waiting_of` have the numbers of pods of each workload, by its
    uid. `version` rises by one with each change of `nodes`. `may_count` is false of pods that it
    need not follow; None where all pods of the scope may count.
    """

    __slots__ = (
        "_changes",
        "_counts",
        "may_count",
        "nodes",
        "placed",
        "placed_of",
        "version",
        "waiting",
        "waiting_of",
    )

    def __init__(self, counts: Adds, may_count: MayCount | None = None) -> None:
        self._counts = counts
        self.may_count = may_count
        self.nodes: Counter[str] = Counter()
        self.placed = 0
        self.waiting: set[str] = set()
        self.placed_of: dict[str, int] = {}
        self.waiting_of: dict[str, int] = {}
        self.version = 0
        self._changes: deque[tuple[str, int]] = deque(maxlen=_MOST_CHANGES)

    def continue_with(self, counts: Adds) -> None:
        """Counts with an equal function from now on, whose evaluations another call waits for."""
        self._counts = counts

    def since(self, version: int) -> Iterator[tuple[str, int]] | None:
        """The changes of `nodes` since a version; None if they are not kept any more."""
        count = self.version - version
        if count > len(self._changes):
            return None
        return islice(self._changes, len(self._changes) - count, None)

    def added(self, _key: str, pod: Peer, counts: Adds) -> int:
        """What a pod adds that the tally has. `counts` is equal to the function of the tally."""
        return counts(pod)

    def without(self, gone: Iterable[tuple[str, Peer]], counts: Adds) -> Tally:
        """The tally as if some of its pods were not there. `counts` as in `added`."""
        left = Tally(counts)
        left.nodes, left.placed, left.waiting = self.nodes.copy(), self.placed, self.waiting.copy()
        left.placed_of, left.waiting_of = self.placed_of.copy(), self.waiting_of.copy()
        for key, pod in gone:
            if amount := self.added(key, pod, counts):
                left._take(key, pod, amount)
        return left

    def leaves(self, key: str, pod: Peer) -> None:
        if amount := self._counts(pod):
            self._take(key, pod, amount)

    def arrives(self, key: str, pod: Peer) -> None:
        if amount := self._counts(pod):
            self._put(key, pod, amount)

    def _take(self, key: str, pod: Peer, amount: int) -> None:
        if not pod.nodeName:
            if key in self.waiting:
                self.waiting.discard(key)
                _add(self.waiting_of, pod, -1)
            return
        _add(self.placed_of, pod, -1)
        if self.nodes[pod.nodeName] == amount:
            del self.nodes[pod.nodeName]
        else:
            self.nodes[pod.nodeName] -= amount
        self._changed(pod.nodeName, -amount)

    def _put(self, key: str, pod: Peer, amount: int) -> None:
        if not pod.nodeName:
            if key not in self.waiting:
                self.waiting.add(key)
                _add(self.waiting_of, pod, 1)
            return
        _add(self.placed_of, pod, 1)
        self.nodes[pod.nodeName] += amount
        self._changed(pod.nodeName, amount)

    def _changed(self, node: str, by: int) -> None:
        self.placed += by
        self.version += 1
        self._changes.append((node, by))


class _Held(NamedTuple):
    """What a pod adds until a moment, in nanoseconds."""

    pod: Peer
    amount: int
    until: int


class TimedTally(Tally):
    """A tally of pods that may add something else with the time alone.

    It keeps what a pod adds whose amount may change with the time, until the amount may change, and
    knows whose moment comes first. `now` is the moment at which all of it is true, in nanoseconds.
    It only rises.

    INVARIANT: a pod that is not kept adds the same from `now` on, whenever that is asked.
    """

    __slots__ = ("_adds", "_due", "_held", "now")

    def __init__(self, adds: AddsUntil, now: int) -> None:
        """`adds` answers for its moment, `now`. So does every later function."""
        super().__init__(lambda pod: self._adds(pod)[0])
        self._adds = adds
        self.now = now
        self._held: dict[str, _Held] = {}
        # By moment. It has pods, too, that are not kept any more, or until another moment.
        self._due: list[tuple[int, str]] = []

    def continue_at(self, adds: AddsUntil, now: int) -> None:
        """Continues with the function of a later moment."""
        self._adds, self.now = adds, now

    def catch_up(self) -> None:
        """Evaluates the pods whose moment has come.

        Raises what the function raises, and continues at the next call.
        """
        while self._due and self._due[0][0] <= self.now:
            until, key = self._due[0]
            held = self._held.get(key)
            if held is None or held.until != until:
                heapq.heappop(self._due)
                continue
            amount, until = self._adds(held.pod)
            heapq.heappop(self._due)
            if amount != held.amount:
                if held.amount:
                    self._take(key, held.pod, held.amount)
                if amount:
                    self._put(key, held.pod, amount)
            self._hold(key, held.pod, amount, until)

    def added(self, key: str, pod: Peer, counts: Adds) -> int:
        held = self._held.get(key)
        return held.amount if held is not None else counts(pod)

    def leaves(self, key: str, pod: Peer) -> None:
        if amount := self.added(key, pod, self._counts):
            self._take(key, pod, amount)
        self._held.pop(key, None)

    def arrives(self, key: str, pod: Peer) -> None:
        amount, until = self._adds(pod)
        if amount:
            self._put(key, pod, amount)
        self._hold(key, pod, amount, until)

    def _hold(self, key: str, pod: Peer, amount: int, until: int) -> None:
        if until == NEVER:
            self._held.pop(key, None)
            return
        self._held[key] = _Held(pod, amount, until)
        heapq.heappush(self._due, (until, key))
        if len(self._due) > 2 * len(self._held) + _MOST_STALE:
            self._due = [(held.until, key) for key, held in self._held.items()]
            heapq.heapify(self._due)


def _add(numbers: dict[str, int], pod: Peer, by: int) -> None:
    """Adds to the number of the pod's workload, and drops a number that is zero."""
    if pod.workload is None:
        return
    uid = pod.workload.uid
    number = numbers.get(uid, 0) + by
    if number:
        numbers[uid] = number
    else:
        numbers.pop(uid, None)


@dataclass(slots=True)
class PodGroup:
    """The pods with one key: one of them, and how many are on each node.

    `version` rises with each change of `nodes`.
    """

    sample: Peer
    nodes: Counter[str] = field(default_factory=Counter)
    version: int = 0

    def add(self, node: str, by: int) -> None:
        self.nodes[node] += by
        if not self.nodes[node]:
            del self.nodes[node]
        self.version += 1


class Census:
    """The pods of a scope that are on nodes, in groups: by what `key_of` says of each.

    `generation` rises when a group comes or goes.
    """

    __slots__ = ("_key_of", "generation", "groups")

    def __init__(self, key_of: Callable[[Peer], Hashable]) -> None:
        self._key_of = key_of
        self.groups: dict[Hashable, PodGroup] = {}
        self.generation = 0

    def without(self, gone: Iterable[Peer]) -> Census:
        """The census as if some of its pods were not there. Groups without them are shared."""
        left = Census(self._key_of)
        left.groups = self.groups.copy()
        copied = set()
        for pod in gone:
            if not pod.nodeName or (known := left.groups.get(key := self._key_of(pod))) is None:
                continue
            if key not in copied:
                copied.add(key)
                left.groups[key] = PodGroup(known.sample, known.nodes.copy(), -1)
            left.leaves(pod)
        return left

    def leaves(self, pod: Peer) -> None:
        if pod.nodeName:
            group = self.groups[key := self._key_of(pod)]
            group.add(pod.nodeName, -1)
            if not group.nodes:
                del self.groups[key]
                self.generation += 1

    def arrives(self, pod: Peer) -> None:
        if pod.nodeName:
            key = self._key_of(pod)
            if (group := self.groups.get(key)) is None:
                group = self.groups[key] = PodGroup(pod)
                self.generation += 1
            group.add(pod.nodeName, 1)


# Pods of one kind have the same namespace, the same workload, and the same object as labels.
_Kind = tuple[str, str, int]


def _kind(pod: Peer) -> _Kind:
    """The kind of a pod. It identifies the labels as long as they are kept."""
    return pod.namespace, "" if pod.workload is None else pod.workload.uid, id(pod.labels)


# Above this number of groups, groups of pods are not kept any more.
_MOST_GROUPS = 50_000


class AlikePods:
    """The pods of the cluster in groups of one kind.

    Of each group a first count looks at one pod. Equal labels that are two objects make two groups.
    """

    __slots__ = ("_groups", "is_of_use")

    def __init__(self, pods: Iterable[tuple[str, Peer]]) -> None:
        self._groups: dict[_Kind, dict[str, Peer]] = {}
        self.is_of_use = True
        for key, pod in pods:
            self.arrives(key, pod)

    def arrives(self, key: str, pod: Peer) -> None:
        if not self.is_of_use:
            return
        if (group := self._groups.get(of := _kind(pod))) is not None:
            group[key] = pod
        elif len(self._groups) < _MOST_GROUPS:
            self._groups[of] = {key: pod}
        else:
            self.is_of_use = False
            self._groups.clear()

    def leaves(self, key: str, pod: Peer) -> None:
        if not self.is_of_use:
            return
        group = self._groups[of := _kind(pod)]
        del group[key]
        if not group:
            del self._groups[of]

    def within(self, scope: Scope, may_count: MayCount) -> Iterator[tuple[str, Peer]]:
        """The pods of a scope that may count."""
        for group in self._groups.values():
            sample = next(iter(group.values()))
            if scope.holds(sample) and may_count(sample):
                yield from group.items()


_Key = tuple[Scope, Hashable]


class _Followers(NamedTuple):
    """The tallies that follow the pods of one kind, whose labels are kept for that."""

    labels: Mapping[str, str]
    tallies: Sequence[tuple[_Key, Tally]]


@dataclass(frozen=True, slots=True)
class _Unfinished:
    """A tally whose first count ran out of time, and the keys of the pods that it has counted."""

    tally: Tally
    seen: set[str] = field(default_factory=set)


class Tallies:
    """The tallies that are in use, by scope and name.

    The functions of tallies may raise an EngineError if their policy has no time left. A first
    count that was interrupted continues at the next use. A tally that cannot follow an event is
    dropped, and counted again when it is used.
    """

    def __init__(self) -> None:
        self._used: OrderedDict[_Key, Tally] = OrderedDict()
        self._within: dict[Scope, dict[Hashable, Tally]] = {}
        self._unfinished: OrderedDict[_Key, _Unfinished] = OrderedDict()
        self._censuses: OrderedDict[_Key, Census] = OrderedDict()
        # By kind of pod; empty after a tally has come or gone.
        self._followers: Remembered[_Kind, _Followers] = Remembered(
            _MOST_KINDS, lambda _, known: bytes_of(known.labels) + 64 * len(known.tallies)
        )
        # Made when it is first needed.
        self._alike: AlikePods | None = None

    def get(
        self,
        name: Hashable,
        scope: Scope,
        counts: Adds,
        pods: Iterable[tuple[str, Peer]],
        may_count: MayCount | None = None,
    ) -> Tally:
        """The tally of this name and scope, counted from `pods` if it is not kept yet.

        `name` identifies the function. `counts` must return the same for equal pods, and 0 where
        `may_count` is false of a pod with the same labels, namespace and workload. `pods` are the
        pods that the tallies follow. Raises what the functions raise.
        """
        of = scope, name
        tally = self._used.get(of)
        if tally is None:
            if may_count is not None:
                if self._alike is None:
                    self._alike = AlikePods(pods)
                if self._alike.is_of_use:
                    pods = self._alike.within(scope, may_count)
            unfinished = self._unfinished.pop(of, None) or _Unfinished(Tally(counts, may_count))
            unfinished.tally.continue_with(counts)
            return self._counted(of, unfinished, pods)
        self._used.move_to_end(of)
        return tally

    def timed(
        self,
        name: Hashable,
        scope: Scope,
        adds: AddsUntil,
        now: int,
        pods: Iterable[tuple[str, Peer]],
    ) -> Tally:
        """The same for pods that may add something else with the time alone, as it is `now`.

        `adds` answers for this moment, which is in nanoseconds.
        """
        of = scope, name
        tally = self._used.get(of)
        if isinstance(tally, TimedTally) and tally.now <= now:
            tally.continue_at(adds, now)
            tally.catch_up()
            self._used.move_to_end(of)
            return tally
        if tally is not None:
            # The clock was set back.
            self._drop(of)
        unfinished = self._unfinished.pop(of, None)
        begun = unfinished.tally if unfinished is not None else None
        if unfinished is None or not isinstance(begun, TimedTally) or begun.now > now:
            begun = TimedTally(adds, now)
            unfinished = _Unfinished(begun)
        begun.continue_at(adds, now)
        self._counted(of, unfinished, pods)
        begun.catch_up()
        return begun

    def census(
        self,
        name: Hashable,
        scope: Scope,
        key_of: Callable[[Peer], Hashable],
        pods: Iterable[Peer],
    ) -> Census:
        """The census of this name and scope, made of `pods` if it is not kept yet.

        `key_of` reads the pod alone, and must return the same for equal pods.
        """
        found = self._censuses.get((scope, name))
        if found is None:
            found = self._censuses[scope, name] = Census(key_of)
            for pod in pods:
                if scope.holds(pod):
                    found.arrives(pod)
            if len(self._censuses) > _MOST_CENSUSES:
                self._censuses.popitem(last=False)
        self._censuses.move_to_end((scope, name))
        return found

    def leaves(self, key: str, pod: Peer) -> None:
        if self._alike is not None:
            self._alike.leaves(key, pod)
        if self._censuses:
            for (scope, _), census in self._censuses.items():
                if scope.holds(pod):
                    census.leaves(pod)
        self._follow(methodcaller("leaves", key, pod), pod)
        for of, unfinished in list(self._unfinished.items()):
            if key in unfinished.seen:
                unfinished.seen.discard(key)
                try:
                    unfinished.tally.leaves(key, pod)
                except EngineError:
                    del self._unfinished[of]

    def arrives(self, key: str, pod: Peer) -> None:
        if self._alike is not None:
            self._alike.arrives(key, pod)
        if self._censuses:
            for (scope, _), census in self._censuses.items():
                if scope.holds(pod):
                    census.arrives(pod)
        self._follow(methodcaller("arrives", key, pod), pod)

    def _follow(self, event: Callable[[Tally], object], pod: Peer) -> None:
        """Has every tally of the pod follow an event; drops each tally that cannot."""
        failed = []
        for of, tally in self._following(pod):
            try:
                event(tally)
            except EngineError:
                failed.append(of)
        for dropped in failed:
            self._drop(dropped)

    def _counted(
        self, of: _Key, unfinished: _Unfinished, pods: Iterable[tuple[str, Peer]]
    ) -> Tally:
        """Counts to the end, and keeps the tally."""
        tally, seen, (scope, name) = unfinished.tally, unfinished.seen, of
        try:
            for key, pod in pods:
                if scope.holds(pod) and key not in seen:
                    tally.arrives(key, pod)
                    seen.add(key)
        except EngineError:
            self._unfinished[of] = unfinished
            if len(self._unfinished) > _MOST_UNFINISHED:
                self._unfinished.popitem(last=False)
            raise
        self._used[of] = tally
        self._within.setdefault(scope, {})[name] = tally
        self._followers.clear()
        while len(self._used) > _MOST:
            self._drop(next(iter(self._used)))
        return tally

    def _following(self, pod: Peer) -> Sequence[tuple[_Key, Tally]]:
        """The tallies that a pod of this kind may add to: few of the tallies of its namespace."""
        known = self._followers.peek(kind := _kind(pod))
        if known is None:
            scopes = [_ANYWHERE, Scope(pod.namespace)]
            if pod.workload is not None:
                scopes.append(Scope(pod.namespace, pod.workload.uid))
            found = [
                ((scope, name), tally)
                for scope in scopes
                for name, tally in self._within.get(scope, {}).items()
                if _follows(tally, pod)
            ]
            known = self._followers.put(kind, _Followers(pod.labels, found))
        return known.tallies

    def _drop(self, of: _Key) -> None:
        scope, name = of
        del self._used[of]
        del self._within[scope][name]
        self._followers.clear()
        if not self._within[scope]:
            del self._within[scope]


def _follows(tally: Tally, pod: Peer) -> bool:
    """Whether pods of this kind may add to a tally; also if there is no time to find out."""
    try:
        return tally.may_count is None or tally.may_count(pod)
    except EngineError:
        return True
