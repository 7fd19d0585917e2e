"""Tallies: pods counted by node, kept up to date event by event, for shares, spreads and limits.

A count is a sum of ones: a tally adds up what each pod adds, which is one, or an amount in
thousandths. The cache owns tallies. A tally lives until others that were used later need its place:
there is a bound of their number, of the bytes of what their functions and names keep alive, and of
the entries of all of them, which rises with the number of pods.
"""

from __future__ import annotations

import heapq
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from engine.cache.census import Census
from engine.errors import EngineError
from engine.objects.peer import Peer, PeerReads, values_at
from engine.objects.remembered import Remembered, bytes_of
from grammar.values.time import NEVER

# The least recently used tally above one of these bounds is dropped: of their number, of their
# bytes, and of their entries, such as a node with pods. It is counted again on demand.
_MOST, MOST_BYTES = 4096, 24 << 20
_MOST_ENTRIES, _ENTRIES_OF_A_POD = 250_000, 4
# Between two sums of the entries of all tallies.
_KEPT_PER_SUM = 64
# A reader that is more changes behind than this has to read the whole tally again.
_MOST_CHANGES = 256
# The least recently used census above this number is dropped.
_MOST_CENSUSES = 256
# The counts that are kept unfinished, and the pods and kinds that they have still to count.
_MOST_BEGUN, _MOST_LEFT = 64, 2_000_000
# The pods that a first count takes between two looks at the clock.
_PODS_PER_LOOK, _KINDS_PER_LOOK = 512, 64
# A heap is made anew when it has more than this many entries beyond twice the needed ones.
_MOST_STALE = 1024
# The most that a pod adds, and that sums rise to: more than any bound. Two of them fit 64 bits.
FULL = 2**61

# Raises an EngineError when there is no time left.
Check = Callable[[], None]
# About the bytes that the functions and the name of a tally keep alive.
Size = Callable[[], int]
# What a pod adds to a tally: 0 if it does not count, else one, also as True, or its amount.
Adds = Callable[[Peer], int]
# The same, and the moment in nanoseconds from which on it may add something else.
AddsUntil = Callable[[Peer], tuple[int, int]]


class Scope(NamedTuple):
    """The scope of a tally: all pods, or the pods of a namespace, or of a workload in it.

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


class Adding(NamedTuple):
    """What pods add to a tally: what `adds` says if the pod `takes` part, and else nothing.

    `adds` says the same of pods with equal values at the paths of `reads`. Without these, each pod
    is asked about.
    """

    adds: Adds
    takes: Callable[[Peer], int] = lambda _: 1
    reads: PeerReads | None = None

    def of(self, pod: Peer) -> int:
        return self.takes(pod) and self.adds(pod)


class Tally:
    """A tally: the pods of a scope that add something, added up.

    `nodes` has the sum on each node, `placed` is their sum, `waiting` has the keys of the pods
    without a node, `queued` is the sum of these, and `idle` the number of those that are idle.
    `placed_of` and `waiting_of` have the numbers of pods of each workload, by its uid. `version`
    rises with each change of `nodes`. `whole` is the tally of which this is a part, since its
    version 0; None for most. `bytes` is the size of what the functions and the name keep.
    """

    def __init__(self, adding: Adding, size: int = 0) -> None:
        self.adding = adding
        self.nodes: Counter[str] = Counter()
        self.placed = self.queued = self.idle = 0
        self.waiting: set[str] = set()
        self.placed_of: dict[str, int] = {}
        self.waiting_of: dict[str, int] = {}
        self.version = 0
        self.bytes = size
        self.whole: Tally | None = None
        self._changes: deque[tuple[str, int]] = deque(maxlen=_MOST_CHANGES)

    @property
    def entries(self) -> int:
        """How many things it has a number of, or knows."""
        return sum(map(len, (self.nodes, self.waiting, self.placed_of, self.waiting_of)))

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
        left = Tally(Adding(counts))
        left.whole = self
        left.nodes, left.placed, left.waiting = self.nodes.copy(), self.placed, self.waiting.copy()
        left.queued, left.idle = self.queued, self.idle
        left.placed_of, left.waiting_of = self.placed_of.copy(), self.waiting_of.copy()
        for key, pod in gone:
            if amount := self.added(key, pod, counts):
                left._move(key, pod, amount, -1)
        return left

    def leaves(self, key: str, pod: Peer) -> None:
        if amount := self.added(key, pod, self.adding.of):
            self._move(key, pod, amount, -1)

    def arrives(self, key: str, pod: Peer) -> None:
        if amount := self.adding.of(pod):
            self._move(key, pod, amount, 1)

    def all_arrive(self, pods: Mapping[str, Peer]) -> None:
        """Adds pods of one kind. Raises what the functions raise, and then none is added."""
        if not (amount := self.adding.adds(next(iter(pods.values())))):
            return
        nodes = [p.nodeName for p in pods.values() if p.nodeName and self.adding.takes(p)]
        for node, number in Counter(nodes).items():
            self.nodes[node] += amount * number
        self.placed += amount * len(nodes)
        if nodes:
            _add(self.placed_of, next(iter(pods.values())), len(nodes))
        # Who has read an earlier version reads all of it again.
        self.version += 1 + _MOST_CHANGES
        for key, pod in pods.items() if len(nodes) < len(pods) else ():
            if not pod.nodeName:
                self.move(key, pod, amount, 1)

    def move(self, key: str, pod: Peer, amount: int, by: int) -> None:
        """Adds a pod of a kind that adds an amount, if it takes it; or takes it away: `by` -1."""
        if self.adding.takes(pod):
            self._move(key, pod, amount, by)

    def _move(self, key: str, pod: Peer, amount: int, by: int) -> None:
        """Adds a pod and what it adds, or takes them away if `by` is -1."""
        amount *= by
        if not (node := pod.nodeName):
            if (key in self.waiting) == (by < 0):
                self.waiting ^= {key}
                self.queued += amount
                self.idle += by * pod.is_idle
                _add(self.waiting_of, pod, by)
            return
        _add(self.placed_of, pod, by)
        self.nodes[node] += amount
        if not self.nodes[node]:
            del self.nodes[node]
        self.placed += amount
        self.version += 1
        self._changes.append((node, amount))


class _Held(NamedTuple):
    """An amount that is held: what a pod adds until a moment, in nanoseconds."""

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

    def __init__(
        self, adds: AddsUntil, now: int, size: int = 0, basis: Sequence[object] = ()
    ) -> None:
        """`adds` answers for its moment, `now`. So does every later function.

        `basis` is what they read beside pods and the time.
        """
        super().__init__(Adding(lambda pod: self._adds(pod)[0]), size)
        self._adds = adds
        self.now = now
        self.basis = basis
        self._held: dict[str, _Held] = {}
        # By moment. It has pods, too, that are not kept any more, or until another moment.
        self._due: list[tuple[int, str]] = []

    @property
    def entries(self) -> int:
        return super().entries + len(self._due)

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
                    self._move(key, held.pod, held.amount, -1)
                if amount:
                    self._move(key, held.pod, amount, 1)
            self._hold(key, held.pod, amount, until)

    def added(self, key: str, pod: Peer, counts: Adds) -> int:
        held = self._held.get(key)
        return held.amount if held is not None else counts(pod)

    def leaves(self, key: str, pod: Peer) -> None:
        super().leaves(key, pod)
        self._held.pop(key, None)

    def arrives(self, key: str, pod: Peer) -> None:
        amount, until = self._adds(pod)
        if amount:
            self._move(key, pod, amount, 1)
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


# A kind: a namespace, and what counts read of its pods.
Kind = tuple[str, Hashable]
# With more paths than this whole fields are compared.
_MOST_PATHS = 32
# Groups of fewer pods than this are of no use, unless there are few of them.
_FEWEST_ALIKE, _FEW_GROUPS = 4, 4


class AlikePods:
    """The pods of a namespace in groups of one kind: with equal values at the paths of `reads`.

    Of each group a count looks at one pod, whatever else pods have of their own. Pods of different
    workloads are of different kinds. `groups` is None once there are too many for their pods.
    """

    bytes = 0

    def __init__(self, namespace: str, reads: PeerReads, coming: int = 0) -> None:
        """`coming` is about the number of pods that it is told next."""
        if len(reads) > _MOST_PATHS:
            reads = frozenset(path[:1] for path in reads)
        self.reads = reads | {("workload", "uid")}
        self.groups: dict[Kind, dict[str, Peer]] | None = {}
        self.count, self._coming = 0, coming
        self._namespace, self._values = namespace, values_at(self.reads)

    def tells(self, reads: PeerReads) -> bool:
        """Whether pods of one kind have equal values at these paths."""
        return all(path in self.reads or path[:1] in self.reads for path in reads)

    @property
    def is_outgrown(self) -> bool:
        """Whether so many pods came that groups may be of use now."""
        return self.groups is None and self.count > 2 * self._coming

    def arrives(self, key: str, pod: Peer) -> Kind:
        kind = self._namespace, self._values(pod)
        self.count += 1
        if self.groups is not None:
            self.groups.setdefault(kind, {})[key] = pod
            pods = max(self.count, self._coming)
            if len(self.groups) > _FEW_GROUPS + pods // _FEWEST_ALIKE:
                self.groups, self._coming = None, pods
        return kind

    def leaves(self, key: str, pod: Peer) -> Kind:
        kind = self._namespace, self._values(pod)
        self.count -= 1
        if self.groups is not None:
            del (group := self.groups[kind])[key]
            if not group:
                del self.groups[kind]
        return kind


_Key = tuple[Scope, Hashable]
# The tallies that follow pods of one kind, with what each of these adds if it is known.
_Followers = Sequence[tuple[_Key, Tally, int | None]]


@dataclass(frozen=True, slots=True)
class _Begun:
    """A count that was begun and is not finished, with the pods that are left to count.

    These are all pods of some kinds, other pods by key, and before them the pods that it has
    counted and that have `gone`.
    """

    made: Tally | Census | AlikePods
    kinds: dict[Kind, None] = field(default_factory=dict)
    pods: dict[str, Peer] = field(default_factory=dict)
    gone: deque[tuple[str, Peer]] = field(default_factory=deque)

    def leaves(self, key: str, pod: Peer, kind: Kind | None) -> None:
        if kind not in self.kinds and self.pods.pop(key, None) is None:
            self.gone.append((key, pod))

    def arrives(self, key: str, pod: Peer, kind: Kind | None) -> None:
        if kind not in self.kinds:
            self.pods[key] = pod


class Tallies:
    """The tallies that are in use, by scope and name.

    `spaces` are the pods to count, by key in each namespace; their owner tells every change. The
    functions of tallies, and `check`, may raise an EngineError if there is no time left. A count
    that was interrupted continues at the next use where it was, and so does a tally that had no
    time to follow an event.
    """

    def __init__(self, spaces: Mapping[str, Mapping[str, Peer]]) -> None:
        self._spaces = spaces
        self._used: OrderedDict[_Key, Tally] = OrderedDict()
        # Of those in use: their bytes, and about their entries. How many have been kept ever.
        self._bytes = self._entries = self._kept = 0
        self._within: dict[Scope, dict[Hashable, Tally]] = {}
        self._begun: OrderedDict[_Key, _Begun] = OrderedDict()
        self._censuses: OrderedDict[_Key, Census] = OrderedDict()
        # By kind of pod; empty after a tally has come or gone.
        self._followers: Remembered[Kind, _Followers] = Remembered(
            size=lambda kind, known: bytes_of(kind) + 72 * len(known)
        )
        # By namespace; made when it is first needed.
        self.alike: dict[str, AlikePods] = {}

    def get(
        self,
        name: Hashable,
        scope: Scope,
        adding: Adding,
        check: Check = lambda: None,
        size: Size = lambda: 0,
    ) -> Tally:
        """The tally of this name and scope, counted if it is not kept yet.

        `name` identifies the functions, which must return the same for equal pods. Raises what
        these raise. `size` is that of the name and the functions.
        """
        of = scope, name
        tally = self._used.get(of)
        if tally is None:
            begun = self._begun.get(of)
            begun = begun or self._begin(of, Tally(adding, size()), check, adding.reads)
            made = begun.made
            assert isinstance(made, Tally), "a census has other names"
            # Equal functions, whose evaluations this call waits for.
            made.adding = adding
            self._finish(of, begun, check)
            return self._keep(of, made)
        self._used.move_to_end(of)
        return tally

    def timed(
        self,
        name: Hashable,
        scope: Scope,
        adds: AddsUntil,
        now: int,
        check: Check = lambda: None,
        size: Size = lambda: 0,
        basis: Sequence[object] = (),
    ) -> Tally:
        """The same for pods that may add something else with the time alone, as it is `now`.

        `adds` answers for this moment, which is in nanoseconds. It reads no more than the pod, the
        time and the `basis`: with another one, all is counted anew.
        """
        of = scope, name
        tally = self._used.get(of)
        if isinstance(tally, TimedTally) and tally.now <= now and tally.basis == basis:
            tally.continue_at(adds, now)
            tally.catch_up()
            self._used.move_to_end(of)
            return tally
        if tally is not None:
            # The clock was set back, or the basis is another one.
            self._drop(of)
        begun = self._begun.get(of)
        made = begun.made if begun is not None else None
        if not isinstance(made, TimedTally) or made.now > now or made.basis != basis:
            begun = self._begin(of, made := TimedTally(adds, now, size(), basis), check)
        assert begun is not None, "it was begun"
        made.continue_at(adds, now)
        self._finish(of, begun, check)
        self._keep(of, made)
        made.catch_up()
        return made

    def census(
        self,
        name: Hashable,
        scope: Scope,
        key_of: Callable[[Peer], Hashable],
        check: Check = lambda: None,
        reads: PeerReads | None = None,
    ) -> Census:
        """The census of this name and scope, made if it is not kept yet.

        `key_of` reads the pod alone, and must return the same for pods that are equal at the paths
        of `reads`; without these for equal pods. Raises what `check` raises.
        """
        of = scope, name
        found = self._censuses.get(of)
        if found is None:
            begun = self._begun.get(of) or self._begin(of, Census(key_of), check, reads)
            assert isinstance(begun.made, Census), "a tally has other names"
            self._finish(of, begun, check)
            found = self._censuses[of] = begun.made
            if len(self._censuses) > _MOST_CENSUSES:
                self._censuses.popitem(last=False)
        self._censuses.move_to_end(of)
        return found

    def group(self, as_in: Mapping[str, AlikePods]) -> None:
        """Groups pods of empty namespaces as they come: as in another cluster, before a count."""
        self.alike = {name: AlikePods(name, a.reads, a.count) for name, a in as_in.items()}

    def leaves(self, key: str, pod: Peer) -> None:
        kind = None
        if (alike := self.alike.get(pod.namespace)) is not None:
            kind = alike.leaves(key, pod)
        for (scope, _), census in self._censuses.items():
            if scope.holds(pod):
                census.leaves(key, pod)
        for (scope, _), begun in self._begun.items():
            if scope.holds(pod):
                begun.leaves(key, pod, kind)
        for of, tally, adds in self._following(pod, kind):
            try:
                tally.leaves(key, pod) if adds is None else tally.move(key, pod, adds, -1)
            except EngineError:
                self._set_back(of).gone.append((key, pod))
        if pod.namespace not in self._spaces:
            self.alike.pop(pod.namespace, None)
            for begun in self._begun.values():
                for kind in [kind for kind in begun.kinds if kind[0] == pod.namespace]:
                    del begun.kinds[kind]

    def arrives(self, key: str, pod: Peer) -> None:
        if not (self._used or self._begun or self._censuses or self.alike):
            return
        name, kind = pod.namespace, None
        if name not in self.alike and len(self._spaces.get(name, ())) <= 1:
            # The first pod of a namespace takes no time to group.
            self.alike[name] = AlikePods(name, self._reads_in(name))
        if (alike := self.alike.get(name)) is not None:
            groups, kind = alike.groups, alike.arrives(key, pod)
            if groups is not alike.groups:
                self._forget_kinds()
        for (scope, _), census in self._censuses.items():
            if scope.holds(pod):
                census.arrives(key, pod)
        for (scope, _), begun in self._begun.items():
            if scope.holds(pod):
                begun.arrives(key, pod, kind)
        for of, tally, adds in self._following(pod, kind):
            try:
                tally.arrives(key, pod) if adds is None else tally.move(key, pod, adds, 1)
            except EngineError:
                self._set_back(of).pods[key] = pod

    def _set_back(self, of: _Key) -> _Begun:
        """Has a tally that had no time for an event be finished at its next use."""
        return self._add(of, _Begun(self._drop(of)))

    def _begin(
        self, of: _Key, made: Tally | Census, check: Check, reads: PeerReads | None = None
    ) -> _Begun:
        """Begins a first count: of kinds of pods if these are enough to tell, else of pods."""
        scope = of[0]
        begun, every = _Begun(made), self._spaces.keys()
        for name in every if scope.namespace is None else every & {scope.namespace}:
            space = self._spaces[name]
            groups = None if reads is None else self._alike_by(name, reads, check).groups
            if groups is None:
                begun.pods.update((key, pod) for key, pod in space.items() if scope.holds(pod))
            else:
                held = (kind for kind, g in groups.items() if scope.holds(next(iter(g.values()))))
                begun.kinds.update(dict.fromkeys(held))
        return self._add(of, begun)

    def _add(self, of: _Key, begun: _Begun) -> _Begun:
        self._begun[of] = begun
        self._begun.move_to_end(of)
        kept = self._begun.values()
        while len(kept) > 1 and (
            len(kept) > _MOST_BEGUN
            or sum(len(each.pods) + len(each.kinds) for each in kept) > _MOST_LEFT
            or sum(each.made.bytes for each in kept) > MOST_BYTES
        ):
            self._begun.popitem(last=False)
        return begun

    def _alike_by(self, name: str, reads: PeerReads, check: Check) -> AlikePods:
        """The pods of a namespace by all of these values, and those that others read."""
        known, of = self.alike.get(name), (Scope(name), AlikePods)
        if known is None or not known.tells(reads) or known.is_outgrown:
            begun = self._begun.get(of)
            made = begun and begun.made
            earlier = [each.reads for each in (known, made) if isinstance(each, AlikePods)]
            reads = reads.union(self._reads_in(name), *earlier)
            if begun is None or not isinstance(made, AlikePods) or not made.tells(reads):
                made = AlikePods(name, reads, len(self._spaces[name]))
                begun = self._add(of, _Begun(made, pods={**self._spaces[name]}))
            self._finish(of, begun, check)
            self.alike[name] = made
            if known is not None:
                self._followers.clear()
                self._forget_kinds()
        return self.alike[name]

    def _forget_kinds(self) -> None:
        """Has counts begin anew: what they have still to count was kept as other kinds."""
        for of in [of for of, begun in self._begun.items() if begun.kinds]:
            del self._begun[of]

    def _reads_in(self, name: str) -> PeerReads:
        """What tallies of a namespace and of all namespaces read of its pods."""
        scopes = (self._within.get(scope, {}) for scope in (_ANYWHERE, Scope(name)))
        read = (each.adding.reads for known in scopes for each in known.values())
        return frozenset().union(*(paths for paths in read if paths))

    def _finish(self, of: _Key, begun: _Begun, check: Check) -> None:
        """Counts to the end. A count that is interrupted has all of its pods as before."""
        made, kinds, pods, gone = begun.made, begun.kinds, begun.pods, begun.gone
        self._begun.move_to_end(of)
        while gone:
            made.leaves(*gone[0])
            gone.popleft()
        for looks, kind in enumerate([*kinds], 1):
            group = (self.alike[kind[0]].groups or {}).get(kind)
            if group and not isinstance(made, AlikePods):
                made.all_arrive(group)
            del kinds[kind]
            if not looks % _KINDS_PER_LOOK:
                check()
        for looks, key in enumerate([*pods], 1):
            made.arrives(key, pods[key])
            del pods[key]
            if not looks % _PODS_PER_LOOK:
                check()
        del self._begun[of]

    def _keep(self, of: _Key, tally: Tally) -> Tally:
        scope, name = of
        self._used[of] = tally
        self._within.setdefault(scope, {})[name] = tally
        self._followers.clear()
        self._bytes += tally.bytes
        self._entries += tally.entries
        self._kept += 1
        if not self._kept % _KEPT_PER_SUM:
            # They grow with the pods that come.
            self._entries = sum(each.entries for each in self._used.values())
        most = _MOST_ENTRIES + _ENTRIES_OF_A_POD * sum(map(len, self._spaces.values()))
        while len(self._used) > 1 and (
            len(self._used) > _MOST or self._bytes > MOST_BYTES or self._entries > most
        ):
            self._drop(next(iter(self._used)))
        return tally

    def _following(self, pod: Peer, kind: Kind | None) -> _Followers:
        """The tallies that a pod of this kind may add to: few of the tallies of its namespace."""
        known = None if kind is None else self._followers.peek(kind)
        if known is None:
            scopes = [_ANYWHERE, Scope(pod.namespace)]
            if pod.workload is not None:
                scopes.append(Scope(pod.namespace, pod.workload.uid))
            alike = self.alike.get(pod.namespace)
            known = [
                ((scope, name), tally, adds)
                for scope in scopes
                for name, tally in self._within.get(scope, {}).items()
                if (adds := _adds(tally, pod, alike)) != 0
            ]
            if kind is not None:
                self._followers.put(kind, known)
        return known

    def _drop(self, of: _Key) -> Tally:
        scope, name = of
        dropped = self._used.pop(of)
        self._bytes -= dropped.bytes
        self._entries -= dropped.entries
        del self._within[scope][name]
        self._followers.clear()
        if not self._within[scope]:
            del self._within[scope]
        return dropped


def _adds(tally: Tally, pod: Peer, alike: AlikePods | None) -> int | None:
    """What pods of its kind add to a tally; None if that is not known, or there is no time."""
    try:
        reads = tally.adding.reads
        is_told = reads is not None and alike is not None and alike.tells(reads)
        return tally.adding.adds(pod) if is_told else None
    except EngineError:
        return None
