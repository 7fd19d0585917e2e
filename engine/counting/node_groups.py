"""Node groups: the nodes of the cluster in groups, and what each group has, change by change.

A policy names the groups (`group rack by node.labels["rack"]`). KnownGroups belong to the
CallOpener and live as long as it does. A node that has changed is taken out of the sums of its
group and put in again; no other group is touched. A CallGroups is of one call.

Pods on their way count in every group where they may end (`worst`), where they probably end
(`predicted`), or nowhere (`bound`). Nor do pods that are only assumed on their nodes count in a
named count that is `certain`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count, product
from typing import Any, Generic, Literal, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from engine.cache.node_table import (
    UNKNOWN_ROW,
    NodeRows,
    NodeTable,
    NodeWithPods,
    Versions,
    is_ready,
)
from engine.counting.domains import Domains
from engine.counting.in_flight_pods import GroupIds, InFlightPod
from engine.objects.resources import add_amounts
from engine.program.columns import Freshness, grown
from engine.program.frame import Evaluation, Frame, GroupsOfCall, Report
from engine.program.node_groups import GroupSpec
from engine.program.program import GroupReads
from grammar.values.nodes import GroupOfNodes
from grammar.values.quantity import NANO, Quantity, Resources
from grammar.values.time import Timestamp

# Where pods on their way count.
OnTheWay = Literal["worst", "predicted", "bound", "certain"]
# How some named counts count pods on their way, by digest.
Ways = tuple[tuple[str, OnTheWay], ...]
Counts = npt.NDArray[np.int64]
T = TypeVar("T")

_OUTSIDE = -1
# So many groups without a node are kept.
_MOST_GONE = 1000


@dataclass(slots=True)
class _Members:
    """The members of one group: nodes by row, and what they have.

    `unknown` is the number of nodes whose pods are not known. `labels` counts the nodes with each
    label and value. An amount that is 0 stays as long as the group does.
    """

    value: object
    rows: set[int] = field(default_factory=set)
    ready: int = 0
    unknown: int = 0
    labels: Counter[tuple[str, str]] = field(default_factory=Counter)
    allocatable: dict[str, Quantity] = field(default_factory=dict)
    capacity: dict[str, Quantity] = field(default_factory=dict)
    requested: dict[str, Quantity] = field(default_factory=dict)

    def put(self, row: int, node: NodeWithPods) -> None:
        self.rows.add(row)
        self._add(node, 1)
        self.labels.update(node.labels.items())

    def take(self, row: int, node: NodeWithPods) -> None:
        self.rows.discard(row)
        self._add(node, -1)
        for label in node.labels.items():
            self.labels[label] -= 1
            if not self.labels[label]:
                del self.labels[label]

    def load(self, node: NodeWithPods, sign: int) -> None:
        """Adds what the pods of a node request, or takes it away."""
        if node.requested is None:
            self.unknown += sign
        else:
            add_amounts(self.requested, node.requested, sign)

    def _add(self, node: NodeWithPods, sign: int) -> None:
        self.ready += sign * is_ready(node)
        add_amounts(self.allocatable, node.allocatable, sign)
        add_amounts(self.capacity, (node.status and node.status.capacity) or {}, sign)
        self.load(node, sign)

    def made(self, nodes: Sequence[NodeWithPods | None]) -> GroupOfNodes:
        """The group as it is now; `nodes` are those of the table."""

        def members() -> Sequence[NodeWithPods]:
            found = [node for row in self.rows if (node := nodes[row]) is not None]
            return sorted(found, key=lambda node: node.name)

        count = len(self.rows)
        return GroupOfNodes(
            self.value,
            members,
            count,
            self.ready,
            {key: value for (key, value), times in self.labels.items() if times == count},
            Resources(self.allocatable),
            Resources(self.capacity),
            None if self.unknown else Resources(self.requested),
        )


class NodeGroups:
    """The groups of one specification. `ids` has the number of each row's group.

    `ids` is another array whenever any node is in another group. `changed` has the number of the
    last change of each group, and `reloaded` that of the requests of its pods; the last item is for
    nodes in no group. `last_change` is the greatest of these.
    """

    def __init__(self, spec: GroupSpec, numbers: Iterator[int] | None = None) -> None:
        """`numbers` are those of changes, in order; others may take some of them."""
        self.spec = spec
        self._numbers = count(1) if numbers is None else numbers
        self.last_change = 0
        self._start_over()

    def _start_over(self) -> None:
        frame = Frame(None, Timestamp.ZERO, slots=self.spec.slots)
        self._domains = Domains(self.spec.by, frame)
        self._fresh = Freshness()
        self._seen: list[NodeWithPods | None] = []
        self._members: list[_Members] = []
        self._made: list[GroupOfNodes | None] = []
        self._table: NodeTable | None = None
        self.ids: GroupIds = np.empty(0, np.int32)
        self.changed = np.zeros(1, np.int64)
        self.reloaded = np.zeros(1, np.int64)

    def __len__(self) -> int:
        return len(self._members)

    def update(self, table: NodeTable, check: Callable[[], None]) -> None:
        """Follows the nodes that have changed.

        `check` raises an EngineError when the time is over; the next call continues.
        """
        if self._table is table:
            return
        if len(self._members) > _MOST_GONE + 2 * len(table.nodes):
            # Most of the groups have no node any more.
            self._start_over()
        size = len(table.nodes)
        self._seen += [None] * (size - len(self._seen))
        ids = grown(self.ids, size, _OUTSIDE)
        ids = ids if ids is not self.ids else ids.copy()
        is_moved = len(ids) != len(self.ids)
        is_known = self._table is not None and self._table.rows is table.rows
        # The version of the row of a node that is gone stays.
        pairs = enumerate(zip(() if is_known else self._seen, table.nodes, strict=False))
        gone = [row for row, (seen, node) in pairs if seen is not None and node is None]
        try:
            for row in gone:
                is_moved |= self._follow(table, row, ids)
            for portion in self._fresh.stale(table, lambda: 0):
                for row in portion.tolist():
                    is_moved |= self._follow(table, row, ids)
                self._fresh.worked_out(table, portion)
                check()
        finally:
            if is_moved:
                self.ids = ids
        self._table = table

    def _follow(self, table: NodeTable, row: int, ids: GroupIds) -> bool:
        """Takes another state of a row. Returns whether it is in another group."""
        before, node = self._seen[row], None if row == UNKNOWN_ROW else table.nodes[row]
        old = int(ids[row])
        self._seen[row] = node
        # What a group is by may read the pods of a node, too.
        new = _OUTSIDE if node is None else self._domains.number(table, row)
        if before is not None and node is not None and new == old and _same_node(before, node):
            if old >= 0:
                self._members[old].load(before, -1)
                self._members[old].load(node, 1)
                self._touch(old, self.reloaded)
            return False
        for number in range(len(self._members), new + 1):
            self._members.append(_Members(self._domains.values[number]))
            self._made.append(None)
            # The last item stays that of no group.
            self.changed = np.insert(self.changed, -1, 0)
            self.reloaded = np.insert(self.reloaded, -1, 0)
        if before is not None and old >= 0:
            self._members[old].take(row, before)
        if node is not None and new >= 0:
            self._members[new].put(row, node)
        for group in {old, new}:
            self._touch(group, self.changed)
        ids[row] = new
        return old != new

    def _touch(self, group: int, versions: Versions) -> None:
        versions[group] = self.last_change = next(self._numbers)
        if group >= 0:
            self._made[group] = None

    def group(self, number: int) -> GroupOfNodes:
        """A group without pods on their way. The same object as long as it stays as it is."""
        made = self._made[number]
        if made is None:
            assert self._table is not None, "it is updated first"
            made = self._made[number] = self._members[number].made(self._seen)
        return made

    def node_of(self, number: int) -> NodeWithPods | None:
        """One of the nodes of a group; None if it has none any more."""
        return next((self._seen[row] for row in self._members[number].rows), None)


def _same_node(one: NodeWithPods, other: NodeWithPods) -> bool:
    """Whether two views differ in their pods alone."""
    return one.metadata is other.metadata and one.status is other.status and one.spec is other.spec


class _Arrivals:
    """Arrivals: what pods on their way add to the groups of one specification, by resource.

    It follows the pods in flight: a pod that is there for the second time costs a comparison.
    """

    def __init__(self, numbers: Iterator[int], *, predicted: bool) -> None:
        """`numbers` are those of changes, as for the groups."""
        self._numbers = numbers
        self._predicted = predicted
        self._ids: GroupIds | None = None
        self._counted: dict[str, tuple[InFlightPod, int, list[int], dict[str, int]]] = {}
        self._more: dict[int, dict[str, int]] = {}
        self._made: dict[int, tuple[GroupOfNodes, GroupOfNodes]] = {}
        self.reloaded = np.zeros(1, np.int64)
        self.last_change = 0

    def follow(self, groups: NodeGroups, pods: Sequence[InFlightPod]) -> None:
        if self._ids is not groups.ids:
            self._ids = groups.ids
            touched = set(self._more)
            self._counted, self._more = {}, {}
            self._touch(touched)
        if len(self.reloaded) < len(groups) + 1:
            self.reloaded = grown(self.reloaded, len(groups) + 1, 0).copy()
        there = {pod.uid: pod for pod in pods}
        for uid, (pod, row, *_) in list(self._counted.items()):
            if there.get(uid) is not pod or (self._predicted and pod.predicted != row):
                _, _, found, amounts = self._counted.pop(uid)
                self._change_by(found, amounts, -1)
        for uid, pod in there.items():
            if uid not in self._counted:
                self._add(uid, pod, groups.ids)

    def _add(self, uid: str, pod: InFlightPod, ids: GroupIds) -> None:
        row = pod.predicted if self._predicted else UNKNOWN_ROW
        ends = ids[[row]] if self._predicted else pod.groups(ids)
        found = [group for group in ends.tolist() if group >= 0]
        amounts = {"pods": NANO}
        if (peer := pod.pod) is not None:
            amounts |= {resource: each.nanos for resource, each in peer.requests.items()}
        self._counted[uid] = pod, row, found, amounts
        self._change_by(found, amounts, 1)

    def _change_by(self, groups: Sequence[int], amounts: Mapping[str, int], sign: int) -> None:
        for group in groups:
            more = self._more.setdefault(group, {})
            for resource, nanos in amounts.items():
                more[resource] = more.get(resource, 0) + sign * nanos
            if not more["pods"]:
                del self._more[group]
        self._touch(groups)

    def _touch(self, groups: Sequence[int] | set[int]) -> None:
        self.last_change = next(self._numbers)
        for group in groups:
            self.reloaded[group] = self.last_change
            self._made.pop(group, None)

    def group(self, groups: NodeGroups, number: int) -> GroupOfNodes:
        """A group with the pods on their way."""
        base = groups.group(number)
        if (more := self._more.get(number)) is None:
            return base
        made = self._made.get(number)
        if made is None or made[0] is not base:
            made = self._made[number] = base, base.requesting(more)
        return made[1]


@dataclass(slots=True)
class _Known:
    """The known groups of one specification, with the pods on their way in two ways."""

    groups: NodeGroups
    arrivals: Mapping[OnTheWay, _Arrivals]


class KnownGroups:
    """The groups of all specifications of a registry, by digest.

    INVARIANT: all take the numbers of their changes from one row. So the greatest number of a
    node's group rises with each change of the group, and when the node goes to another one.
    """

    def __init__(self, specs: Mapping[str, GroupSpec]) -> None:
        self._numbers = count(1)
        self._known = {digest: self._fresh(spec) for digest, spec in specs.items()}

    def adopt(self, specs: Mapping[str, GroupSpec]) -> None:
        """Takes other specifications; what is kept of equal ones stays."""
        known = self._known
        self._known = {
            digest: known[digest] if digest in known else self._fresh(spec)
            for digest, spec in specs.items()
        }

    def get(self, digest: str) -> _Known | None:
        return self._known.get(digest)

    def _fresh(self, spec: GroupSpec) -> _Known:
        arrivals: dict[OnTheWay, _Arrivals] = {
            "worst": _Arrivals(self._numbers, predicted=False),
            "predicted": _Arrivals(self._numbers, predicted=True),
        }
        return _Known(NodeGroups(spec, self._numbers), arrivals)


@dataclass(frozen=True)
class CountNumbers:
    """A named count, in each group of nodes. The group of each row is in `ids`.

    `changed` has the number of the last change of each group, the last item for nodes in no group.
    """

    ids: GroupIds
    values: Counts
    changed: Versions

    @cached_property
    def distinct(self) -> tuple[Counts, GroupIds]:
        """The different values, and for each row the place of its own among them, or OUTSIDE."""
        found, places = np.unique(self.values, return_inverse=True)
        at = places[self.ids] if len(places) else self.ids
        return found, np.where(self.ids < 0, _OUTSIDE, at).astype(np.int32)


class CountsOfCall(Protocol):
    """The named counts as one call sees them."""

    def numbers(self, digest: str, groups: CallGroups) -> CountNumbers | None:
        """A count in each group, None if it is not known. `groups` say which pods count.

        Raises EngineError.
        """
        ...

    def value(self, digest: str, found: CountNumbers, frame: Frame) -> object:
        """What expressions read of a count for the frame's node; None if it has none."""
        ...


class CallGroups(GroupsOfCall):
    """The groups as one call sees them, with pods on their way counted as `on_the_way` says.

    So are the named counts, but for those that `others` says something else of, by digest.
    """

    def __init__(
        self,
        known: KnownGroups,
        table: NodeTable,
        in_flight: Callable[[], Sequence[InFlightPod]],
        check: Callable[[], None],
        on_the_way: OnTheWay = "worst",
        counts: Callable[[], CountsOfCall] | None = None,
        others: Ways = (),
    ) -> None:
        """`in_flight` are the other pods that may end on nodes of the table; it is called once."""
        self.table = table
        self._counts = counts
        self._opened: list[CountsOfCall] = []
        self._ways = others
        self._numbers: dict[str, CountNumbers | None] = {}
        self._known = known
        self._in_flight = in_flight
        self._arriving: list[Sequence[InFlightPod]] = []
        self._check = check
        self.on_the_way: OnTheWay = on_the_way
        self._others: dict[tuple[OnTheWay, Ways], CallGroups] = {(on_the_way, others): self}
        self._followed: dict[str, _Known | None] = {}

    @property
    def has_arrivals(self) -> bool:
        """Whether other pods are on their way."""
        return bool(self._others_in_flight())

    def counting(self, on_the_way: OnTheWay, others: Ways = ()) -> CallGroups:
        """The same groups with pods on their way counted in another way."""
        found = self._others.get((on_the_way, others))
        if found is None:
            given = self._known, self.table, self._in_flight, self._check
            found = CallGroups(*given, on_the_way, self._counts, others)
            found._others, found._opened = self._others, self._opened
            found._arriving = self._arriving
            self._others[on_the_way, others] = found
        return found

    def ways(self, counts: Sequence[str], *, strict: bool) -> Sequence[CallGroups]:
        reads = GroupReads(tuple(counts), tuple(counts))
        return [self.counting(*way) for way in ways_of(self, reads, strict=strict)]

    def _others_in_flight(self) -> Sequence[InFlightPod]:
        if not self._arriving:
            self._arriving.append(self._in_flight())
        return self._arriving[0]

    def number(self, digest: str, frame: Frame) -> object:
        found = self.numbers(digest)
        return None if found is None else self._counts_of_call().value(digest, found, frame)

    def _counts_of_call(self) -> CountsOfCall:
        if not self._opened:
            assert self._counts is not None, "there are counts"
            self._opened.append(self._counts())
        return self._opened[0]

    def numbers(self, digest: str) -> CountNumbers | None:
        """A named count in each group; None if it is not one of the call."""
        if self._counts is None:
            return None
        if digest not in self._numbers:
            plain = self.counting(dict(self._ways).get(digest, self.on_the_way))
            if plain is self:
                self._numbers[digest] = self._counts_of_call().numbers(digest, self)
            else:
                self._numbers[digest] = plain.numbers(digest)
        return self._numbers[digest]

    def grouped(self, digest: str) -> tuple[GroupIds, int]:
        """The number of the group of each row of the call's own table, and how many there are."""
        known = self._updated(digest)
        return (
            (np.empty(0, np.int32), 0) if known is None else (known.groups.ids, len(known.groups))
        )

    def of(self, digest: str, node: str) -> GroupOfNodes | None:
        known = self._updated(digest)
        if known is None:
            return None
        number = int(known.groups.ids[self.table.rows.get(node, UNKNOWN_ROW)])
        return self._group(known, number) if number >= 0 else None

    def ids(self, digest: str, table: NodeTable) -> GroupIds:
        """The number of the group of each row of a table, below 0 where it is in none.

        Of a named count the groups are the nodes with one value.
        """
        if (counted := self.numbers(digest)) is not None:
            return self._of_table(counted.distinct[1], table)
        known = self._updated(digest)
        if known is None:
            return np.full(len(table.nodes), _OUTSIDE, np.int32)
        return self._of_table(known.groups.ids, table)

    def version(self, digest: str) -> Hashable:
        """Something that is equal as long as no group changes."""
        if (counted := self.numbers(digest)) is not None:
            return int(counted.changed.max())
        if (known := self._updated(digest)) is None:
            return None
        arrivals = known.arrivals.get(self.on_the_way)
        last = arrivals.last_change if arrivals is not None else None
        return id(known), known.groups.last_change, last

    def states(self, digest: str) -> Iterator[tuple[object, NodeWithPods | None]]:
        """Each group, or value of a count, with a node of it, None without any."""
        if (counted := self.numbers(digest)) is not None:
            values, places = counted.distinct
            rows = np.fromiter(self.table.rows.values(), np.intp, len(self.table.rows))
            there, at = np.unique(places[rows], return_index=True)
            found = dict(zip(there.tolist(), rows[at].tolist(), strict=True))
            for place, value in enumerate(values.tolist()):
                yield value, self.table.nodes[found.get(place, UNKNOWN_ROW)]
        elif (known := self._updated(digest)) is not None:
            for number in range(len(known.groups)):
                yield self._group(known, number), known.groups.node_of(number)

    def with_versions(
        self, digests: Sequence[str], table: NodeTable, *, reads_pods: bool
    ) -> NodeTable:
        """The table with versions that also change when a group of the node does.

        With `reads_pods` they change with what is requested in the group, too.
        """
        versions = table.versions
        for digest in digests:
            if (counted := self.numbers(digest)) is not None:
                versions = versions + counted.changed[self._of_table(counted.ids, table)]
            if (known := self._updated(digest)) is None:
                continue
            of_group = known.groups.changed
            if reads_pods:
                of_group = np.maximum(of_group, known.groups.reloaded)
                if (arrivals := known.arrivals.get(self.on_the_way)) is not None:
                    last = len(of_group) - 1
                    of_group[:last] = np.maximum(of_group[:last], arrivals.reloaded[:last])
            versions = versions + of_group[self._of_table(known.groups.ids, table)]
        return NodeTable(table.owner, table.rows, table.nodes, versions, table.index, table.use)

    def _of_table(self, ids: GroupIds, table: NodeTable) -> GroupIds:
        """Group numbers by row of another table, which shows nodes as a request has them."""
        if table.owner is self.table.owner:
            return ids[: len(table.nodes)]
        found = np.full(len(table.nodes), _OUTSIDE, np.int32)
        rows = self.table.rows
        for name, row in table.rows.items():
            found[row] = ids[rows.get(name, UNKNOWN_ROW)]
        return found

    def _group(self, known: _Known, number: int) -> GroupOfNodes:
        arrivals = known.arrivals.get(self.on_the_way)
        if arrivals is None:
            return known.groups.group(number)
        return arrivals.group(known.groups, number)

    def _updated(self, digest: str) -> _Known | None:
        """The groups of a specification as they are now. Raises what `check` raises."""
        if digest not in self._followed:
            if (known := self._known.get(digest)) is not None:
                known.groups.update(self.table, self._check)
                if (arrivals := known.arrivals.get(self.on_the_way)) is not None:
                    arrivals.follow(known.groups, self._others_in_flight())
            self._followed[digest] = known
        return self._followed[digest]


def ways_of(
    groups: CallGroups, reads: GroupReads, *, strict: bool
) -> tuple[tuple[OnTheWay, Ways], ...]:
    """The ways to count pods on their way, of groups and of each named count, for a clause."""
    most: OnTheWay = "bound" if groups.on_the_way == "bound" else "worst"
    if not strict and most == "worst":
        return (("predicted", ()),)
    of_groups: Sequence[OnTheWay] = (
        (most, "certain")
        if len(reads.counts) < len(reads.digests) and reads.pods and most == "worst"
        else (most,)
    )
    of_counts: Sequence[OnTheWay] = (most, "certain")
    pairs = ([(digest, way) for way in of_counts] for digest in reads.counts)
    return tuple((way, others) for way in of_groups for others in product(*pairs))


def count_on_the_way(frame: Frame, on_the_way: OnTheWay) -> None:
    """Has what is evaluated in a frame count pods on their way in another way from now on."""
    if isinstance(frame.groups, CallGroups):
        frame.groups = frame.groups.counting(on_the_way)


@contextmanager
def counted_on_the_way(frame: Frame, on_the_way: OnTheWay) -> Iterator[None]:
    """The same for a while."""
    outer = frame.groups
    count_on_the_way(frame, on_the_way)
    try:
        yield
    finally:
        frame.groups = outer


class PerGroup(Generic[T]):
    """A value per group: what a rule that reads one group and no node gives, while that stays.

    `made` makes an array of the values by number, of which the last one is for no group.
    """

    def __init__(
        self,
        reads: GroupReads,
        policy: str,
        evaluate: Callable[[Frame, Report], T],
        made: Callable[[list[T]], npt.NDArray[Any]],
    ) -> None:
        (self._digest,) = reads.digests
        self._policy, self._evaluate, self._made = policy, evaluate, made
        self._version: Hashable = None
        self._known: list[object] = []
        self._values: list[T] = []
        self._array: npt.NDArray[Any] = np.empty(0)

    def of(
        self, groups: CallGroups, table: NodeTable, rows: NodeRows, evaluation: Evaluation
    ) -> npt.NDArray[Any]:
        """What was made for the group of each row. Raises as an evaluation does."""
        time = evaluation.time
        time.charge(self._policy)
        version = groups.version(self._digest)
        if not self._values or version != self._version:
            frame = evaluation.frame()
            outer, frame.groups = frame.groups, groups
            try:
                self._evaluate_changed(groups, frame, evaluation)
            finally:
                frame.groups = outer
            self._version = version
            self._array = self._made(self._values)
        time.rest()
        return self._array[groups.ids(self._digest, table)[rows]]

    def _evaluate_changed(self, groups: CallGroups, frame: Frame, evaluation: Evaluation) -> None:
        known, values = list[object](), list[T]()
        for number, (group, node) in enumerate(groups.states(self._digest)):
            known.append(group)
            if number < len(self._known) and self._known[number] is group:
                values.append(self._values[number])
                continue
            evaluation.time.check()
            frame.node = node
            values.append(self._evaluate(frame, evaluation.report))
        frame.node = None
        values.append(self._evaluate(frame, evaluation.report))
        self._known, self._values = known, values


class GroupVersions:
    """Versions by group: tables for a memo whose rules read groups, where a group may change.

    Such a memo counts pods on their way in one way: versions of one tell nothing about another.
    """

    def __init__(self, reads: Sequence[GroupReads]) -> None:
        self.digests = tuple(dict.fromkeys(digest for each in reads for digest in each.digests))
        self._reads_pods = any(each.pods for each in reads)

    def table(self, table: NodeTable, evaluation: Evaluation) -> NodeTable:
        """A table with versions that also change with the groups, where there are `digests`."""
        groups = evaluation.frame().groups
        assert isinstance(groups, CallGroups), "a call has groups where a policy reads them"
        return groups.with_versions(self.digests, table, reads_pods=self._reads_pods)
