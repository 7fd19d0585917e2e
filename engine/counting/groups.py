"""Count groups: the groups of nodes that a count clause compares, and the pods in each of them.

A count is a sum of ones. A clause may add up an amount instead. Then the sums, the bounds, and what
the asked pod adds are in thousandths, and the rules are the same. The asked pod is the pod that
kube-scheduler asks about.

A share has two sides as its groups. A spread has domains; a limit has nodes, domains, or the whole
cluster. A CountGroups belongs to one clause and one pod shape, and lives as long as the plan for
that shape. GroupCounts and Headroom are of one call.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, assert_never

import msgspec
import numpy as np
import numpy.typing as npt

from engine.cache.node_table import UNKNOWN_ROW, NodeRows, NodeTable
from engine.cache.tallies import FULL, Adding, Scope, Tally
from engine.counting.bounds import (
    LARGEST,
    OFF,
    ON,
    Bounds,
    Counts,
    GroupCounts,
    Mask,
    bounds_every_group,
    number_of,
    number_of_bound,
    open_or_hopeful,
    with_room_for_another,
)
from engine.counting.in_flight_pods import GroupIds
from engine.counting.node_groups import CallGroups, OnTheWay, Ways, ways_of
from engine.objects import eligibility
from engine.objects.peer import ENDED, Peer, Workload
from engine.objects.request_pod import RequestPod
from engine.program.columns import Freshness, grown
from engine.program.frame import Evaluation, Frame, Report
from engine.program.operations import added
from engine.program.policy_time import CallTime
from engine.program.program import CountClause, LimitingProgram, everywhere
from grammar.tree.clause_parts import NodeSet, PodState
from grammar.values.errors import EvaluationError, MissingError
from grammar.values.time import NEVER

# The group of a node that is in none: it has no value for the domain, or for the bound.
OUTSIDE = -1
# The tallies of a clause whose counts by group are kept: of all pods, and of a few revisions.
_MOST_KEPT = 3


# The nodes that a spread counts for a pod, by its `nodes`; None where it counts every node.
_COUNTED: Mapping[NodeSet, Callable[[object, object], bool] | None] = {
    "eligible": eligibility.is_eligible,
    "selected": eligibility.matches_affinity,
    "all": None,
}


class Headroom(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """The headroom of a strict clause: where it allows the pod, in the order of the rows.

    `rule` has the clause's name and message. `open` marks the nodes whose group has headroom for
    certain, `hopeful` the nodes whose group would have headroom if every in-flight pod ended
    elsewhere. `groups` has the group of each node. On a `roomy` node a second pod like this one
    fits, too, if this one goes there. It is None where an offer takes no place for which others
    wait; else so many of them `wait`. `in_one_group` says that the clause holds only if all that is
    offered is in one group.
    """

    rule: LimitingProgram
    open: Mask
    hopeful: Mask
    groups: GroupIds
    roomy: Mask | None = None
    wait: int = 0
    in_one_group: bool = False


class CountHeadroom(Headroom, frozen=True, eq=False, kw_only=True):
    """The headroom of a clause that counts pods.

    `names` has the number of the group of each domain, by the type and the value of the domain;
    None where groups are no domains.
    """

    clause: CountClause
    counts: GroupCounts
    names: Mapping[Hashable, int] | None = None


@dataclass(slots=True)
class _GroupSums:
    """What is in each group, of one version of a tally, for these groups and rows."""

    version: int
    ids: GroupIds
    rows: Mapping[str, int]
    counts: Counts


class KeptCounts:
    """Counts that are kept: what tallies have in each group, updated by what has changed."""

    def __init__(self, *, adds_amounts: bool) -> None:
        self._adds_amounts = adds_amounts
        self._kept: dict[Tally, _GroupSums] = {}

    def count(self, tally: Tally, table: NodeTable, ids: GroupIds, size: int) -> Counts:
        """What a tally has in each of so many groups; `ids` has the group of each row."""
        if tally.whole is not None and (fewer := tally.since(0)) is not None:
            # It is for this call alone, so what is kept is of the whole.
            counts = self.count(tally.whole, table, ids, size)
            if not self._adds_amounts or (counts < FULL).all():
                _add_on_nodes(counts, fewer, table, ids)
                return counts
        kept = self._kept.get(tally)
        changes: Iterable[tuple[str, int]] | None = None
        if (
            kept is not None
            and kept.ids is ids
            and kept.rows is table.rows
            and len(kept.counts) == size
        ):
            changes = tally.since(kept.version)
        if changes is None or kept is None:
            counts = np.zeros(size, np.int64)
            if tally not in self._kept and len(self._kept) >= _MOST_KEPT:
                del self._kept[next(iter(self._kept))]
            kept = self._kept[tally] = _GroupSums(0, ids, table.rows, counts)
            changes = tally.nodes.items()
        counts = kept.counts
        _add_on_nodes(counts, changes, table, ids)
        kept.version = tally.version
        if self._adds_amounts and (counts == FULL).any():
            # What is beyond it was not added, so it cannot be taken away either.
            del self._kept[tally]
        return counts.copy()


def _add_on_nodes(
    counts: Counts, changes: Iterable[tuple[str, int]], table: NodeTable, ids: GroupIds
) -> None:
    """Adds what is more or less on nodes to what is in their groups."""
    for node, by in changes:
        group = ids[table.rows.get(node, UNKNOWN_ROW)]
        if group >= 0:
            counts[group] = min(counts.item(group) + by, FULL)


# ---- the pods that count

# Both have labels, a namespace and a deletion timestamp.
CountedPod = Peer | RequestPod


class PodChange(NamedTuple):
    """A pod that counts otherwise than the cache has it on a node.

    In each of the groups it adds `high` to the pods that may be there, `low` to those that are.
    """

    pod: Peer
    groups: GroupIds
    high: int
    low: int


# How a pod is in a group: on a node of it for certain, or it may end there. A pod that is `guessed`
# is on the node, but nobody knows on which part of it.
Presence = Literal["bound", "guessed", "in flight", "nominated"]
PRESENCES: tuple[Presence, ...] = ("bound", "guessed", "in flight", "nominated")


class Counted(Protocol):
    """A thing that is counted, a clause or a named count, with what is kept between calls.

    `pod_values` are the values that are read of a known pod, and `kept` what tallies had in its
    groups.
    """

    @property
    def pod_values(self) -> Hashable | None: ...
    @property
    def kept(self) -> KeptCounts: ...


class PodInGroup(NamedTuple):
    """A pod that a clause counts, by `namespace/name`, and how it is in its group."""

    key: str
    presence: Presence


class CountContext(msgspec.Struct, frozen=True, eq=False):
    """The context of a count: the pod in question, and what rules about peers read of it.

    `peer` decodes the pod as other pods see it (BadObjectError). `root` is its root controller,
    None if not known. `shape` identifies all that rules read of the pod; `frame` may be of another
    pod of that shape, and nothing but counting uses it. `report` is told of pods without an amount,
    also later, by tallies. `exempts` says which pods no policy governs.
    """

    pod: RequestPod
    peer: Callable[[], Peer]
    frame: Frame
    time: CallTime
    root: Workload | None
    shape: Hashable
    report: Report
    exempts: Callable[[Peer], bool] = lambda _: False


class Membership(NamedTuple):
    """A membership: the pods that a clause counts.

    `adding` tests a pod, or gives its part of a sum. `scope` is where the pods can be (None: only
    the pod in question), and `name` identifies that for tallies (None: do not keep). `by_labels`
    says the same where labels are enough to tell, else it is None.
    `of_pod` is the part of the name that the pod in question has.
    """

    adding: Adding
    scope: Scope | None
    name: Hashable
    by_labels: Callable[[CountedPod], int] | None
    of_pod: Hashable = None

    def inside(self, pod: Peer) -> int:
        """What a pod adds, wherever it is."""
        return self.adding.of(pod) if self.scope is not None and self.scope.holds(pod) else 0


def is_in(pod: CountedPod, state: PodState) -> bool:
    """Whether a pod is in a state."""
    if not isinstance(pod, Peer):
        return False
    if state == "ended":
        return pod.phase in ENDED
    if pod.deletionTimestamp is not None:
        return False
    return pod.ready if state == "ready" else not pod.nodeName and not pod.is_gated


# ---- numbers of bounds that read groups of nodes

# The version of what was never evaluated.
_UNKNOWN = -1


class GroupNumbers:
    """Group numbers: the number of each count group of a clause, where it reads groups of nodes.

    A bound such as `at most 0.66 * zone.allocatable["cpu"]` changes when nodes of the zone do. Pods
    on their way may make a strict bound stricter or easier. So it is worked out with all of them
    where they may end, and with none of them, and the strictest number counts: nothing is passed
    wherever they end, as long as the bound only rises or only falls with what it reads. Of several
    named counts each is taken in both ways, beside each way of the others.

    `bounds` are the numbers, LARGEST for a group without a node. `eased` are those of a strict
    clause if no pod on its way ends anywhere, None where that makes no difference. `failed` marks
    the groups for which there is no number; the last item, of nodes in no group, is False.
    """

    def __init__(self, clause: CountClause) -> None:
        count = clause.count
        assert count.number is not None, "the clause has a bound that is computed"
        self._clause, self._count = clause, count
        self._number: Callable[[Frame], object] = count.number
        # Each node is a group of its own, and its number may read the node.
        self._of_nodes = clause.groups_are == "nodes"
        self._ways: tuple[tuple[OnTheWay, Ways], ...] = ()
        self._owner: object = None
        # For these groups and rows: a row of each group, and the groups.
        self._there: tuple[GroupIds, Mapping[str, int], NodeRows, GroupIds] | None = None
        self._versions: npt.NDArray[np.int64] = np.empty(0, np.int64)
        # The moments from which on numbers may be others, with the time or as rows of tables become
        # stale, and the time of the last call.
        self._last = -NEVER
        self._until: npt.NDArray[np.int64] = np.empty(0, np.int64)
        self._found: list[Bounds] = []
        self.bounds: Bounds = np.empty(0, np.int64)
        self.eased: Bounds | None = None
        self.failed: Mask = np.zeros(1, np.bool_)

    def update(self, ids: GroupIds, size: int, table: NodeTable, evaluation: Evaluation) -> None:
        """Works out the numbers that have changed. Raises DeadlineExceededError.

        `ids` has the group of each row, of so many.
        """
        frame, count, time = evaluation.frame(), self._count, evaluation.time
        groups, gone = frame.groups, frame.gone
        assert isinstance(groups, CallGroups), "a call has groups where a policy reads them"
        ways = ways_of(groups, count.groups, strict=count.weight is None)
        if ways != self._ways or len(self._versions) != size or self._owner is not table.owner:
            self._ways, self._owner = ways, table.owner
            self._versions = np.full(size, _UNKNOWN)
            self._until = np.full(size, NEVER)
            self._found = [np.full(size, LARGEST) for _ in ways]
            self.failed = np.zeros(size + 1, np.bool_)
            self._combine()
        rows, there = self._groups_of(table, ids)
        versions = self._versions_of(groups, ways, table)[rows]
        if (now := evaluation.now()) < self._last:
            # The clock was set back.
            self.forget()
        self._last = now
        changed = np.flatnonzero((versions != self._versions[there]) | (self._until[there] <= now))
        if not len(changed):
            return
        time.charge(count.policy)
        # What pods leave when they are evicted is not given back here.
        frame.gone = ()
        try:
            for done, number in enumerate(changed.tolist()):
                if done and not done % count.nodes_per_look:
                    time.check()
                group, row = int(there[number]), int(rows[number])
                frame.node, frame.until = table.nodes[row], NEVER
                self._evaluate(group, groups, frame, evaluation)
                self._versions[group], self._until[group] = versions[number], frame.until
        finally:
            frame.groups, frame.gone = groups, gone
        time.rest()
        self._combine()

    def forget(self) -> None:
        """Has every number be worked out anew."""
        self._versions[:] = _UNKNOWN

    def _groups_of(self, table: NodeTable, ids: GroupIds) -> tuple[NodeRows, GroupIds]:
        """A row of each group that has a node, and the number of the group."""
        last = self._there
        if last is None or last[0] is not ids or last[1] is not table.rows:
            # Rows of nodes that are gone may still have a group.
            known = np.sort(np.fromiter(table.rows.values(), np.intp, len(table.rows)))
            there, at = np.unique(ids[known], return_index=True)
            last = ids, table.rows, known[at[there >= 0]], there[there >= 0]
            self._there = last
        return last[2], last[3]

    def _versions_of(
        self, groups: CallGroups, ways: Sequence[tuple[OnTheWay, Ways]], table: NodeTable
    ) -> npt.NDArray[np.int64]:
        """The version of what the number of each row's group depends on."""
        reads = self._count.groups
        # The number is the same for all nodes of a group, so theirs do not matter.
        found: npt.NDArray[np.int64] = table.versions if self._of_nodes else 0 * table.versions
        every = {way for way, others in ways} | {way for _, others in ways for _, way in others}
        for way in sorted(every):
            of_way = groups.counting(way)
            versioned = of_way.with_versions(reads.digests, table, reads_pods=reads.pods)
            found = found + versioned.versions - table.versions
        return found

    def _evaluate(
        self, group: int, groups: CallGroups, frame: Frame, evaluation: Evaluation
    ) -> None:
        self.failed[group] = False
        for way, found in zip(self._ways, self._found, strict=True):
            frame.groups = groups.counting(*way)
            try:
                found[group] = number_of_bound(self._clause, self._number(frame))
            except EvaluationError as error:
                evaluation.report(self._count.policy, self._count.name, error)
                self.failed[group] = True
                found[group] = LARGEST
                return

    def _combine(self) -> None:
        if len(self._found) == 1:
            self.bounds, self.eased = self._found[0].copy(), None
            return
        is_floor = self._clause.bound.kind == "at least"
        worst, best = (np.maximum, np.minimum) if is_floor else (np.minimum, np.maximum)
        self.bounds, self.eased = worst.reduce(self._found), best.reduce(self._found)


class CountGroups:
    """The group of each node for one clause and one pod shape; re-evaluated where a node changes.

    `ids` has the group of each row, `counted` the same without the nodes that the clause does not
    count; each is another array whenever any group is another. `bounds` has the number of the bound
    of each group, None where it is a constant of the clause, and `eased` the same if no pod on its
    way ends anywhere; `min_domains` is the computed one of a spread. `sections` has the number of
    the value of `within` of each domain. `adds` is what each node adds to the nodes in use, by row.
    `has_lower_bound` says that it is a limit that wants pods in a group, but for the first one. For
    PodCounter: `pod_values` has what the `pods where` reads of a pod that is known, and `kept` the
    counts.

    A number that the clause computes is computed with the group of each node. A node for which
    that fails is in no group.

    With a `leader`, whose clause has the same groups, all that is of the groups is the leader's.
    """

    def __init__(
        self,
        clause: CountClause,
        pod_values: Hashable | None = None,
        leader: CountGroups | None = None,
    ) -> None:
        self.clause = clause
        self.pod_values = pod_values
        self._leader = leader
        # Of the nodes that the last update evaluated, and the number of updates.
        self._failures: list[EvaluationError] = []
        self._updates = 0
        self.ids: GroupIds = np.empty(0, np.int32)
        self.counted: GroupIds = self.ids
        self.adds: Counts = np.ones(0, np.int64)
        self._adds_of = clause.amount
        self.sections: GroupIds | None = None
        # The number of each value that domains are compared within, and those of the domains.
        self._within: dict[Hashable, int] = {}
        self._section_of: list[int] = []
        self.min_domains: float | None = None
        self.bounds: Bounds | None = None
        self.has_lower_bound = clause.needs_company
        self._size = 2 if clause.groups_are == "sides" else 0
        self._has_off = clause.groups_are in ("sides", "used places")
        self._is_counted = _COUNTED[clause.nodes]
        self._compute = None if clause.count.groups else clause.count.number
        self._numbers = GroupNumbers(clause) if clause.count.groups else None
        # The groups of rows, of all nodes and of counted ones, where the number of no group fails.
        self._whole: tuple[GroupIds, GroupIds] | None = None
        self.eased: Bounds | None = None
        self._compute_domains = clause.min_domains if callable(clause.min_domains) else None
        self._percent = clause.bound.percent
        self._bounds: Bounds = np.empty(0, np.float64 if self._percent else np.int64)
        self.bounds_every = bounds_every_group(clause)
        self._adds_amounts = clause.count.peers.amount is not None
        self.kept = KeptCounts(adds_amounts=self._adds_amounts)
        # Rows of tables become stale.
        timed = clause.count.time_dependent or bool(clause.count.tables)
        self._fresh = Freshness(time_dependent=timed)
        self._domains: dict[Hashable, int] = {}

    def update(self, table: NodeTable, evaluation: Evaluation) -> None:
        """Evaluates the nodes that have changed.

        Raises DeadlineExceededError and ExpensivePolicyError; finished portions are kept.
        """
        if self._leader is not None:
            self._follow(self._leader, table, evaluation)
            return
        if self._numbers is None:
            self._update_ids(table, evaluation)
            return
        masked = self.ids, self.counted
        if self._whole is not None:
            self.ids, self.counted = self._whole
        self._update_ids(table, evaluation)
        self._whole = self.ids, self.counted
        numbers = self._numbers
        numbers.update(self.ids, max(self._size, 1), table, evaluation)
        self.bounds, self.eased = numbers.bounds, numbers.eased
        if numbers.failed.any():
            ids, counted = (np.where(numbers.failed[i], OUTSIDE, i) for i in self._whole)
            self.ids = masked[0] if np.array_equal(masked[0], ids) else ids
            self.counted = masked[1] if np.array_equal(masked[1], counted) else counted

    def forget(self) -> None:
        """Forgets what was evaluated from tables."""
        self._fresh.forget()
        if self._numbers is not None:
            self._numbers.forget()

    def _update_ids(self, table: NodeTable, evaluation: Evaluation) -> None:
        """Finds the groups of the nodes that have changed."""
        portions = self._fresh.stale(table, evaluation.now)
        if not portions:
            return
        self._failures, self._updates = [], self._updates + 1
        size = len(table.nodes)
        ids = grown(self.ids, size, OUTSIDE).copy()
        counted = ids if self._is_counted is None else grown(self.counted, size, OUTSIDE).copy()
        time, count = evaluation.time, self.clause.count
        try:
            time.charge(count.policy)
            frame, report = evaluation.frame(), evaluation.report
            self.adds = grown(self.adds, size, 1)
            for portion in portions:
                found, until = [], self._fresh.moments(portion)
                for number, row in enumerate(portion.tolist()):
                    if number and not number % count.nodes_per_look:
                        time.check()
                    frame.until = NEVER
                    found.append(self._group(table, row, frame, report))
                    if until is not None:
                        until[number] = frame.until
                ids[portion] = found
                if self._is_counted is not None:
                    counts, pod = self._is_counted, frame.pod
                    pairs = zip(found, portion.tolist(), strict=True)
                    counted[portion] = [
                        group if group >= 0 and counts(pod, table.nodes[row]) else OUTSIDE
                        for group, row in pairs
                    ]
                self._fresh.worked_out(table, portion, until)
                time.check()
            time.rest()
        finally:
            if not np.array_equal(ids, self.ids):
                self.ids = ids
            if self._section_of:
                self.sections = np.array(self._section_of, np.int32)
            if self._is_counted is None:
                self.counted = self.ids
            elif not np.array_equal(counted, self.counted):
                self.counted = counted
            if self._compute is not None:
                groups = max(self._size, 1)
                self._bounds = grown(self._bounds, groups, LARGEST)
                self.bounds = self._bounds[:groups]

    def _follow(self, leader: CountGroups, table: NodeTable, evaluation: Evaluation) -> None:
        leader.update(table, evaluation)
        if self._updates == leader._updates:
            return
        count = self.clause.count
        for error in leader._failures:
            evaluation.report(count.policy, count.name, error)
        self._updates, self._size = leader._updates, leader._size
        self.sections, self.adds, self._domains = leader.sections, leader.adds, leader._domains
        self.ids, self.counted = leader.ids, leader.counted

    def count_of(self, tally: Tally, table: NodeTable) -> Counts:
        """What a tally has in each group. Earlier counts are updated by what has changed."""
        return self.kept.count(tally, table, self.counted, max(self._size, 1))

    def domains(self) -> Mask:
        """The groups that have a node that counts."""
        found = np.zeros(self._size, np.bool_)
        found[self.counted[self.counted >= 0]] = True
        return found

    def headroom(self, counts: GroupCounts, rows: NodeRows, *, alone: bool = True) -> CountHeadroom:
        """The room that the counts leave on these nodes.

        A share that is not `alone` leaves its lower bound to Floors.
        """
        ids = self.ids.take(rows)
        opened, hopeful_groups = open_or_hopeful(self.clause, counts, alone=alone)
        outside = ids < 0
        passes = self.clause.count.missing == "pass"
        if opened is hopeful_groups and not np.count_nonzero(outside):
            here = hopeful = np.ones(len(ids), np.bool_)
        else:
            here = opened[ids]
            hopeful = hopeful_groups[ids]
            here[outside] = hopeful[outside] = passes
        roomy = None
        # A pod that does not count takes no room, wherever it goes.
        if self.bounds_every and counts.own and counts.waits:
            roomy = with_room_for_another(self.clause, counts, alone=alone)[ids]
            roomy[outside] = passes
        return CountHeadroom(
            rule=self.clause.count,
            clause=self.clause,
            open=here,
            hopeful=hopeful,
            groups=ids,
            counts=counts,
            roomy=roomy,
            wait=counts.waits,
            names=self._domains or None,
        )

    def _group(self, table: NodeTable, row: int, frame: Frame, report: Report) -> int:
        view = table.nodes[row]
        if row == UNKNOWN_ROW or view is None:
            return OUTSIDE
        frame.node = view
        count = self.clause.count
        try:
            group = self._evaluated(row, frame)
        except EvaluationError as error:
            # A node that lacks the field is off the share, and has no domain.
            if not isinstance(error, MissingError):
                self._failures.append(error.with_traceback(None))
                report(count.policy, count.name, error)
            group = OFF if self._has_off else OUTSIDE
        if group >= 0:
            try:
                if self._adds_of is not None and group > OFF:
                    self.adds[row] = added(self._adds_of(frame))
                if self._compute is not None:
                    number = number_of_bound(self.clause, self._compute(frame))
                    if group >= len(self._bounds):
                        self._bounds = grown(self._bounds, 2 * group + 2, LARGEST)
                    if self.clause.groups_are == "sides":
                        # Both sides have the number, whether there is a node on each or not.
                        self._bounds[:] = number
                    else:
                        self._bounds[group] = number
                if self._compute_domains is not None:
                    self.min_domains = number_of(self._compute_domains(frame), percent=False)
            except EvaluationError as error:
                report(count.policy, count.name, error)
                return OUTSIDE
        return group

    def _evaluated(self, row: int, frame: Frame) -> int:
        clause = self.clause
        match clause.groups_are:
            case "sides":
                return ON if clause.place(frame) is True else OFF
            case "domains":
                beside = None if clause.within is None else clause.within(frame)
                return self._domain(clause.place(frame), beside)
            case "nodes":
                return self._own_group(row)
            case "used places":
                self._size = max(self._size, 1)
                if clause.among(frame) is not True:
                    return OFF
                if clause.place is everywhere:
                    return self._own_group(row)
                group = ON + self._domain(clause.place(frame))
                self._size = ON + len(self._domains)
                return group
            case "cluster":
                self._size = 1
                return 0
            case _:
                assert_never(clause.groups_are)

    def _own_group(self, row: int) -> int:
        self._size = max(self._size, row + 1)
        return row

    def _domain(self, value: object, beside: object = None) -> int:
        """The number of a domain. It stays the same, even while no node has the domain.

        The number differs for each value `beside` the domain, of what domains are compared within.
        """
        if not isinstance(value, str | int) or not isinstance(beside, str | int | None):
            raise EvaluationError("a domain is a string, an int or a bool")
        key: Hashable = type(value), value
        if beside is not None:
            key = tuple, (beside, value), type(beside), type(value)
        found = self._domains.setdefault(key, len(self._domains))
        if found == self._size and beside is not None:
            place = type(beside), beside
            self._section_of.append(self._within.setdefault(place, len(self._within)))
        self._size = len(self._domains)
        return found


def same_groups(clause: CountClause, other: CountClause) -> bool:
    """Whether two clauses are spreads with the same groups, and compute nothing for each group."""
    return (
        clause.kind == other.kind == "spread"
        and clause.place is other.place
        and clause.within is other.within
        and clause.nodes == other.nodes
        and all(c.count.number is None and not callable(c.min_domains) for c in (clause, other))
    )
