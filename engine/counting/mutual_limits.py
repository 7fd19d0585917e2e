"""Mutual limits: the pods that are there already, and whose limits keep other pods out.

A limit is about the pods that it governs. A mutual one also holds for them once they are there: a
pod that arrives must not break their bound, whether the limit governs it or not. The pods there are
in groups by what the limit reads of them, so that its rules are evaluated once for each two groups.
A MutualLimit belongs to a registry and lives as long as it does.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np

from engine.cache.census import Census, CensusGroup
from engine.cache.node_table import UNKNOWN_ROW, NodeRows, NodeTable
from engine.cache.tallies import Scope
from engine.counting.bounds import Counts, GroupCounts, Mask
from engine.counting.groups import CountGroups, CountHeadroom, PodChange, PodInGroup, Presence
from engine.counting.in_flight_pods import GroupIds
from engine.counting.pod_counter import PodCounter
from engine.objects.peer import Peer, key_of, placed_pod, reads_of_kind, values_at
from engine.objects.remembered import Remembered, bytes_of
from engine.objects.request_pod import BYPASS, Namespace
from engine.program.frame import MEMO_BYTES, CheckDeadline, Evaluate, Evaluation, Frame, unlimited
from engine.program.program import CountClause, Program
from grammar.values.errors import EvaluationError
from grammar.values.sizes import STEPS

# What a group takes in a search.
_SAMPLE_BYTES = 128

# What a limit reads of a pod: its namespace, what `pods where` reads of a pod that is there, the
# rest of what it reads of such a pod, and what `pods where` reads of a pod that it counts.
_Key = tuple[str, Hashable, Hashable, Hashable]
# What a limit reads of a pod that it counts: its namespace, and what `pods where` reads.
_CountedKey = tuple[str, Hashable]


@dataclass(frozen=True, slots=True)
class _Look:
    """One look at the pods that are there.

    `ids` has the group of nodes of each row, below `size`. `changes` are the pods that count
    otherwise than the cache has them.
    """

    counter: PodCounter
    table: NodeTable
    ids: GroupIds
    size: int
    changes: Sequence[PodChange]
    check: CheckDeadline


@dataclass(slots=True)
class _FoundGroups:
    """The groups of a census that were found for something, each with one of its pods, or the rest.

    `examined` is the number of groups that were looked at, of those that have `arrived`. Either the
    groups that were found or the `others` may be None: then they are the rest.
    """

    arrived: Sequence[tuple[Hashable, Peer]]
    samples: dict[Hashable, Peer] | None
    others: dict[Hashable, Peer] | None
    examined: int = 0

    def examine(self, wanted: Callable[[Peer], bool]) -> None:
        """Looks at the groups that are left. What was examined is kept when it raises."""
        while self.examined < len(self.arrived):
            key, sample = self.arrived[self.examined]
            into = self.samples if wanted(sample) else self.others
            if into is not None:
                into[key] = sample
            self.examined += 1
        if self.samples is not None and self.others is not None:
            if len(self.samples) <= len(self.others):
                self.others = None
            else:
                self.samples = None

    def __len__(self) -> int:
        return len(self.samples or ()) + len(self.others or ())


@dataclass(frozen=True, slots=True)
class _Placed:
    """Placed pods of a group, by groups of nodes: of one version, for these ids and rows."""

    group: CensusGroup
    version: int
    ids: GroupIds
    rows: Mapping[str, int]
    groups: GroupIds
    numbers: Counts


class MutualLimit:
    """One mutual limit of a policy, and the pods that it governs wherever they are.

    `ahead` are the policies that govern a pod in place of this one if they select it, as far as
    that can be told of a pod that is there.
    """

    def __init__(self, program: Program, clause: CountClause, ahead: Sequence[Program]) -> None:
        assert clause.mutual is not None, "it is mutual"
        assert clause.bound.amount is not None, "a check refuses other bounds"
        self.program = program
        self.clause = clause
        self._most = int(clause.bound.amount)
        self._ahead = ahead
        where = clause.count.peers.where
        assert where is not None, "a check refuses a mutual limit without `pods where`"
        self._where = where
        self._everywhere = clause.count.peers.everywhere
        # The scopes of the pods that it governs, and of the pods that it counts.
        self._scope = Scope(program.namespace)
        self._reach = Scope(None if self._everywhere else program.namespace)
        counts, applies = clause.mutual.counts, clause.mutual.applies
        selects = [p.selects_by for p in (program, *ahead) if p.selects_by is not None]
        self._reads_namespace = any(r.namespace for r in (counts, applies, *selects))
        rest = applies.pod.union({("annotations", BYPASS)}, *(s.pod for s in selects))
        self._reads = reads_of_kind(rest.union(counts.pod, counts.peer))
        counting, governing = values_at(counts.pod), values_at(rest)
        counted = values_at(counts.peer)

        def key(pod: Peer) -> _Key:
            return pod.namespace, counting(pod), governing(pod), counted(pod)

        self._key = key
        self._counted_key: Callable[[Peer], _CountedKey] = lambda pod: (pod.namespace, counted(pod))
        self._groups = CountGroups(clause)
        self._namespaces: Mapping[str, Namespace] = {}

        def owner(_: object) -> str:
            # So no namespace has more for many limits.
            return program.namespace or ""

        # Results by what they depend on.
        self._governed: Remembered[_Key, bool] = Remembered(owner=owner)
        self._counted: Remembered[tuple[str, Hashable, _CountedKey], bool]
        self._counted = Remembered(owner=owner)
        self._found: Remembered[Hashable, _FoundGroups] = Remembered(
            size=lambda name, found: bytes_of(name) + _SAMPLE_BYTES * len(found), owner=owner
        )
        self._placed: Remembered[Hashable, _Placed] = Remembered(
            size=lambda key, it: bytes_of(key) + it.groups.nbytes + it.numbers.nbytes, owner=owner
        )

    def reaches(self, namespace: str) -> bool:
        """Whether it keeps pods of a namespace out: a policy of a namespace only its own."""
        return self.program.namespace in (None, namespace)

    def headroom(
        self, counter: PodCounter, table: NodeTable, rows: NodeRows, evaluation: Evaluation
    ) -> CountHeadroom:
        """The nodes where no pod that is there, or may end there, keeps the asked pod out.

        Raises DeadlineExceededError and ExpensivePolicyError; what was evaluated is kept.
        """
        self._groups.update(table, evaluation)
        time = evaluation.time
        time.charge(self.clause.count.policy)
        closed, certain = self._closed(self._look(counter, table, time.check_within))
        time.rest()
        ids = self._groups.ids[rows]
        # Nobody shares the domain of a node without one.
        outside = ids < 0
        opened, hopeful = ~closed[ids] | outside, ~certain[ids] | outside
        high, low = closed.astype(np.int64), certain.astype(np.int64)
        counts = GroupCounts(high, low, own=0)
        return CountHeadroom(
            rule=self.clause.count,
            clause=self.clause,
            open=opened,
            hopeful=hopeful,
            groups=ids,
            counts=counts,
        )

    def keepers(
        self, counter: PodCounter, table: NodeTable, row: int, evaluation: Evaluation
    ) -> list[PodInGroup]:
        """The pods that keep the asked pod off a node, by name.

        It is for people: it looks at every pod.
        """
        self._groups.update(table, evaluation)
        look = self._look(counter, table, unlimited)
        group = int(look.ids[row])
        if group < 0:
            return []
        pods, peer = counter.pods, counter.context.peer()
        there = self._census(self._scope, look)
        full = {
            key
            for key, sample in self._keeping(there, peer, look).items()
            if self._is_full(sample, group, look)
        }
        changed = {key_of(change.pod) for change in look.changes}
        found = [
            PodInGroup(key, "bound")
            for key, pod in pods.within(self._scope)
            if pod.nodeName
            and look.ids[table.rows.get(pod.nodeName, UNKNOWN_ROW)] == group
            and self._key(pod) in full
            and key not in changed
        ]
        nominated = {key_of(pod) for pod in pods.nominated.values()}
        for change in look.changes:
            pod = change.pod
            if change.high >= 0 and group in change.groups and self._key(pod) in full:
                is_nominated = key_of(pod) in nominated and not pod.nodeName
                presence: Presence = "nominated" if is_nominated else "in flight"
                found.append(PodInGroup(key_of(pod), presence))
        return sorted(found)

    def _is_full(self, sample: Peer, group: int, look: _Look) -> bool:
        """Whether a group of nodes has as many pods as a pod like the sample allows beside it."""
        if self._most == 0:
            return True
        high, _ = self._number(sample, look)
        return bool(high[group] + 1 > self._most)

    def _look(self, counter: PodCounter, table: NodeTable, check: CheckDeadline) -> _Look:
        if self._reads_namespace:
            namespaces = {each.name: each for each in counter.pods.namespaces()}
            if namespaces != self._namespaces:
                self._namespaces = namespaces
                self._governed.clear()
                self._counted.clear()
                self._found.clear()
        ids = self._groups.ids
        size = int(ids.max(initial=0)) + 1
        return _Look(counter, table, ids, size, counter.changes(ids), check)

    # ---- which groups of nodes are closed

    def _closed(self, look: _Look) -> tuple[Mask, Mask]:
        """The groups that some pod there may keep closed, and the groups that one does keep."""
        peer = look.counter.context.peer()
        there = self._census(self._scope, look)
        closed, certain = np.zeros((2, look.size), np.bool_)
        if self._most and not (possible := self._possible(look)).any():
            return closed, certain
        keeping = self._keeping(there, peer, look)
        if not keeping:
            return closed, certain
        if self._most == 0:
            high, low = self._sums(there, keeping, look)
            return high > 0, low > 0
        # What it counts depends on the first two parts of a key alone.
        alike: dict[_CountedKey, dict[Hashable, Peer]] = {}
        for key, sample in keeping.items():
            alike.setdefault(self._key(sample)[:2], {})[key] = sample
        for samples in alike.values():
            here = self._sums(there, samples, look)
            if not (possible & (here[0] > 0)).any():
                continue
            number = self._number(next(iter(samples.values())), look)
            # A pod is there that counts this number of pods, and the asked pod comes, too.
            closed |= (here[0] > 0) & (number[0] + 1 > self._most)
            certain |= (here[1] > 0) & (number[1] + 1 > self._most)
            possible &= ~certain
            if not possible.any():
                break
        return closed, certain

    def _census(self, scope: Scope, look: _Look) -> Census:
        return look.counter.pods.tallies.census(self, scope, self._key, look.check, self._reads)

    def _possible(self, look: _Look) -> Mask:
        """The groups with so many pods that a pod there may count as many as it allows."""
        high = self._every(look)
        for change in look.changes:
            if change.high > 0:
                high[change.groups] += change.high
        possible: Mask = high + 1 > self._most
        return possible

    def _every(self, look: _Look) -> Counts:
        """The number of pods in each group of nodes that a pod there may count."""
        high, every = np.zeros(look.size, np.int64), self._census(self._reach, look).every
        if every is not None:
            placed = self._in_groups((self._reach, "every"), every, look)
            np.add.at(high, placed.groups, placed.numbers)
        return high

    def _keeping(self, there: Census, peer: Peer, look: _Look) -> Mapping[Hashable, Peer]:
        """The groups of pods that the limit governs, and for which it counts the peer.

        Groups of pods in flight are among them.
        """

        def keeps(sample: Peer) -> bool:
            return self._governs(sample, look) and self._counts(sample, peer, look)

        name = ("keeping", self._counted_key(peer))
        known = self._examined(name, there, keeps, keeps_others=False)
        assert known.samples is not None, "it keeps no others"
        found = {key: pod for key, pod in known.samples.items() if key in there.groups}
        for change in look.changes:
            if (
                change.high > 0
                and self._scope.holds(change.pod)
                and (key := self._key(change.pod)) not in found
                and keeps(change.pod)
            ):
                found[key] = change.pod
        return found

    def _number(self, pod: Peer, look: _Look) -> tuple[Counts, Counts]:
        """The pods that the limit counts for a pod that is there: at most, and at least.

        In each group of nodes.
        """
        where, frame = self._where, self._frame(pod, look)

        def counts(sample: Peer) -> bool:
            if not self._everywhere and sample.namespace != pod.namespace:
                return False
            frame.peer = sample
            return _holds(where, frame)

        counted, name = self._census(self._reach, look), ("counting", self._key(pod)[:2])
        known = self._examined(name, counted, counts, keeps_others=True)
        if known.samples is not None:
            high = self._placed_in(counted, known.samples, look)
        else:
            # Most of them count.
            high = self._every(look) - self._placed_in(counted, known.others or {}, look)
        low = high.copy()
        for change in look.changes:
            if self._reach.holds(change.pod) and self._counts(pod, change.pod, look):
                high[change.groups] += change.high
                low[change.groups] += change.low
        return high, low

    def _examined(
        self, name: Hashable, census: Census, wanted: Callable[[Peer], bool], *, keeps_others: bool
    ) -> _FoundGroups:
        """The groups for which a function is true, all of them examined."""
        known = self._found.get(name)
        if known is None or known.arrived is not census.arrived:
            known = _FoundGroups(census.arrived, {}, {} if keeps_others else None)
        if known.examined < len(known.arrived):
            try:
                known.examine(wanted)
            finally:
                self._found.put(name, known)
        return known

    def _sums(
        self, census: Census, keys: Mapping[Hashable, Peer], look: _Look
    ) -> tuple[Counts, Counts]:
        """The number of pods with these keys in each group of nodes: at most, and at least."""
        high = self._placed_in(census, keys, look)
        low = high.copy()
        for change in look.changes:
            if self._scope.holds(change.pod) and self._key(change.pod) in keys:
                high[change.groups] += change.high
                low[change.groups] += change.low
        return high, low

    def _placed_in(self, census: Census, keys: Iterable[Hashable], look: _Look) -> Counts:
        """The number of pods with these keys that the cache has in each group of nodes."""
        high = np.zeros(look.size, np.int64)
        placed = [self._in_groups(k, g, look) for k in keys if (g := census.groups.get(k))]
        if placed:
            groups = np.concatenate([each.groups for each in placed])
            numbers = np.concatenate([each.numbers for each in placed])
            np.add.at(high, groups, numbers)
        return high

    def _in_groups(self, key: Hashable, group: CensusGroup, look: _Look) -> _Placed:
        known, rows = self._placed.get(key), look.table.rows
        if (
            known is not None
            and known.group is group
            and known.version == group.version
            and known.ids is look.ids
            and known.rows is rows
        ):
            return known
        ids = look.ids[look.table.find(list(group.nodes))]
        numbers = np.fromiter(group.nodes.values(), np.int64, len(group.nodes))
        inside = ids >= 0
        found = _Placed(group, group.version, look.ids, rows, ids[inside], numbers[inside])
        return self._placed.put(key, found)

    # ---- what the rules say

    def _governs(self, pod: Peer, look: _Look) -> bool:
        """Whether the policy governs a pod that is there, and the limit applies to it."""
        known = self._governed.get(key := self._key(pod))
        if known is None:
            known = self._governed.put(key, self._is_governed(pod, look))
        return known

    def _is_governed(self, pod: Peer, look: _Look) -> bool:
        if look.counter.context.exempts(pod):
            return False
        frame, when = self._frame(pod, look), self.clause.count.when
        selects = (p.select for p in self._ahead if p.namespace in (None, pod.namespace))
        if any(select is None or _holds(select, frame) for select in selects):
            return False
        own = self.program.select
        if own is not None and not _holds(own, frame):
            return False
        return when is None or _holds(when.evaluate, frame)

    def _counts(self, pod: Peer, peer: Peer, look: _Look) -> bool:
        """Whether the limit counts a peer for a pod that is there."""
        if not self._everywhere and peer.namespace != pod.namespace:
            return False
        namespace, counting, *_ = self._key(pod)
        key = namespace, counting, self._counted_key(peer)
        known = self._counted.get(key)
        if known is None:
            frame = self._frame(pod, look)
            frame.peer = peer
            known = self._counted.put(key, _holds(self._where, frame))
        return known

    def _frame(self, pod: Peer, look: _Look) -> Frame:
        """The frame in which a pod that is there is the pod; each evaluation has its own."""
        look.check()
        frame = copy(look.counter.context.frame)
        frame.pod, frame.node = placed_pod(pod), None
        frame.namespaceObject = self._namespaces.get(pod.namespace)
        frame.memo, frame.room, frame.check = {}, MEMO_BYTES, look.check
        return frame


def _holds(rule: Evaluate, frame: Frame) -> bool:
    frame.reserve = STEPS
    # Each evaluation takes a step, so that many of them look at the clock.
    frame.burn(1)
    try:
        return rule(frame) is True
    except EvaluationError:
        return False
