"""Paper: where the members of a gang would go, tried before any of them is offered a node.

Members are placed one after another by the rules that kube-scheduler and Placet place them by: the
plugins of kube-scheduler, the filters and the strict counts of policies, and free resources. Each
pod that is placed counts for the next one. A Paper lives for one attempt.

NodeRoom has what nodes have left of each resource. It lives as long as Gangs do, and reads a node
again only after it has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from engine.cache.node_table import NodeRows, NodeTable, NodeWithPods
from engine.decision.placement import Placement
from engine.decision.plugin_filters import PluginFilters
from engine.decision.verb_call import VerbCall
from engine.objects.peer import Peer
from engine.objects.resources import MOST_AMOUNT, amount, needs
from engine.program.columns import Freshness, grown
from engine.program.frame import Floats

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class FreeColumns:
    """Free amounts of the nodes of one table; `take` and `give_back` change them for a placement.

    A node of which nothing is known has room for everything.
    """

    def __init__(self, free: Mapping[str, Ints]) -> None:
        self._free = free

    def capacity(self, needs: Mapping[str, int], rows: NodeRows) -> Ints:
        """How many pods with these needs each of the rows has room for."""
        found = np.full(len(rows), MOST_AMOUNT, np.int64)
        for name, need in needs.items():
            if name not in self._free:
                # No node has it, so an extender manages it, or no node will be offered.
                continue
            np.minimum(found, self._free[name][rows] // need, out=found)
        capacity: Ints = np.maximum(found, 0)
        return capacity

    def take(self, row: int, needs: Mapping[str, int], times: int = 1) -> None:
        for name, need in needs.items():
            if name in self._free:
                self._free[name][row] -= times * need

    def give_back(self, row: int, needs: Mapping[str, int]) -> None:
        self.take(row, needs, -1)


class NodeRoom:
    """Columns of what the nodes of the last table have left, in whole numbers by row."""

    def __init__(self) -> None:
        self._fresh = Freshness()
        self._free: dict[str, Ints] = {}

    def columns(
        self, table: NodeTable, resources: Iterable[str], check: Callable[[], None]
    ) -> FreeColumns:
        """Columns of these resources that the caller may change.

        `check` raises an EngineError when the time is over; the next call continues.
        """
        size = len(table.nodes)
        for portion in self._fresh.stale(table, lambda: 0):
            self._free = {name: grown(each, size, 0) for name, each in self._free.items()}
            for row in portion.tolist():
                self._read(row, table.nodes[row], size)
            self._fresh.worked_out(table, portion)
            check()
        wanted = {name: self._free[name].copy() for name in resources if name in self._free}
        return FreeColumns(wanted)

    def _read(self, row: int, node: NodeWithPods | None, size: int) -> None:
        for column in self._free.values():
            column[row] = 0
        if node is None:
            return
        has, requested = node.allocatable, node.requested
        if not has or requested is None:
            for column in self._free.values():
                column[row] = MOST_AMOUNT
            return
        for name in has:
            if name not in self._free:
                self._free[name] = np.zeros(size, np.int64)
            left = amount(name, has[name]) - amount(name, requested[name])
            self._free[name][row] = max(left, -MOST_AMOUNT)


# The scores of a pod on some rows of a table.
Suits = Callable[[VerbCall, NodeTable, NodeRows], Floats]


@dataclass(frozen=True, slots=True)
class Member:
    """Member to place: a pod. `only` are the rows that kube-scheduler asks about, None for all."""

    call: VerbCall
    needs: Mapping[str, int]
    only: NodeRows | None = None

    @classmethod
    def of(cls, call: VerbCall, only: NodeRows | None = None) -> Member:
        return cls(call, needs(call.pod.peer.requests), only)

    @property
    def uid(self) -> str:
        return self.call.pod.uid


@dataclass(slots=True)
class Paper:
    """Paper of one attempt: the places, and what they take.

    `ports` has the rows with a placed member that takes ports of its node: no two share one.
    """

    table: NodeTable
    free: FreeColumns
    placement: Placement
    plugins: PluginFilters
    suits: Suits
    check: Callable[[], None]
    ports: set[int] = field(default_factory=set)
    places: dict[str, int] = field(default_factory=dict)
    _masks: dict[tuple[int, object], Mask] = field(default_factory=dict)

    def stand(self, pod: Peer | None, row: int) -> None:
        """Takes what a pod of another gang takes there, which has its place on paper too."""
        if pod is not None:
            self.free.take(row, needs(pod.requests))
            if pod.hostPorts:
                self.ports.add(row)

    def leave(self, pod: Peer | None, row: int) -> None:
        """Gives back what a pod takes there, which is held and would be given up."""
        if pod is not None:
            self.free.give_back(row, needs(pod.requests))

    def capacity(self, members: Sequence[Member], rows: NodeRows) -> Ints:
        """How many of these members each row has room for at most."""
        names = set[str]().union(*(member.needs for member in members))
        least = {n: min(m.needs.get(n, 0) for m in members) for n in names}
        allowed = np.zeros(len(rows), np.bool_)
        for member in members:
            allowed |= self._allowed(member)[rows]
        found: Ints = np.where(
            allowed, self.free.capacity({n: need for n, need in least.items() if need}, rows), 0
        )
        return found

    def fitting(self, members: Sequence[Member], rows: NodeRows) -> int | None:
        """How many of the members would be placed on these rows; None if that has to be tried.

        It is known of members that are alike, and for which filters and resources alone decide.
        """
        first, *others = members
        kind, needs = self._kind(first), first.needs
        if any(self._kind(each) != kind or each.needs != needs for each in others):
            return None
        plan = first.call.plan
        if plan.counts.strict or plan.cards or first.call.pod.pod.hostPorts:
            return None
        allowed = self._allowed(first)
        if any(each.only is not None and not allowed[each.only].all() for each in members):
            # kube-scheduler offers a node that it would not for all that is known here.
            return None
        room = np.minimum(self.capacity([first], rows), len(members)).sum()
        return min(int(room), len(members))

    def fill(self, members: Sequence[Member], rows: NodeRows) -> int:
        """Places as many of the members on these rows as it can. Returns how many that are."""
        full = set[tuple[object, ...]]()
        placed = 0
        for member in members:
            self.check()
            # Where one pod had no place on any row, a pod that is alike has none either.
            kind = (*self._kind(member), tuple(sorted(member.needs.items())))
            if member.only is None and kind in full:
                continue
            row = self._choice(member, rows)
            if row is None:
                if member.only is None:
                    full.add(kind)
                continue
            self._take(member, row)
            placed += 1
        return placed

    def undo(self, members: Sequence[Member]) -> None:
        """Takes back the places of members."""
        for member in members:
            row = self.places.pop(member.uid, None)
            if row is not None:
                self.free.give_back(row, member.needs)
                self.placement.withdraw(member.call)
                self.ports.discard(row)

    def _choice(self, member: Member, rows: NodeRows) -> int | None:
        call = member.call
        there = rows if member.only is None else np.intersect1d(rows, member.only)
        room = self.free.capacity(member.needs, there)
        fits = room > 0
        if member.only is None:
            fits &= self._allowed(member)[there]
        if call.pod.pod.hostPorts and self.ports:
            fits &= ~np.isin(there, list(self.ports))
        there, room = there[fits], room[fits]
        if len(there):
            is_open = self.placement.open(call, there)
            there, room = there[is_open], room[is_open]
        if not len(there):
            return None
        if call.plan.scored and len(there) > 1:
            suits = self.suits(call, self.table, there)
            best = suits == suits.max()
            there, room = there[best], room[best]
        # Of equal nodes the fullest: what is left is of more use to the next gang.
        return int(there[int(np.argmin(room))])

    def _take(self, member: Member, row: int) -> None:
        self.places[member.uid] = row
        self.free.take(row, member.needs)
        self.placement.reserve(member.call, row)
        if member.call.pod.pod.hostPorts:
            self.ports.add(row)

    def _allowed(self, member: Member) -> Mask:
        """The rows that the filters of its policies and kube-scheduler's plugins allow."""
        call, table = member.call, self.table
        key = self._kind(member)
        if (known := self._masks.get(key)) is None:
            rows = np.fromiter(table.rows.values(), np.intp, len(table.rows))
            known = np.zeros(len(table.nodes), np.bool_)
            decided = call.plan.filters.decide(table, rows, call.evaluation)
            rows = rows[decided.codes == 0]
            known[rows] = self.plugins.allowed(call.pod, table, rows, self.check)
            self._masks[key] = known
        return known

    def _kind(self, member: Member) -> tuple[int, object]:
        """What pods have in common to which filters and plugins say the same."""
        return id(member.call.plan), self.plugins.kind(member.call.pod)
