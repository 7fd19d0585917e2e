"""CountClauses: the shares, spreads and limits that apply to the pods of one shape.

Strict clauses leave headroom on some nodes and reject the others; clauses with a weight give points
instead. CountClauses belong to the plan for a pod shape and live as long as it does.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import lru_cache, reduce
from operator import or_

import numpy as np
from msgspec import structs

from engine.cache.node_table import NodeRows, NodeTable, Snapshot
from engine.cache.pods_excluding import KnownPods
from engine.cache.tallies import Adding, Scope
from engine.counting.bounds import ON, GroupCounts, points, share_bounds, target, wanted_on
from engine.counting.groups import CountGroups, CountHeadroom, KeptCounts, same_groups
from engine.counting.in_flight_pods import GroupIds
from engine.counting.mutual_limits import MutualLimit
from engine.counting.pod_counter import PodCounter, by_workload, surplus
from engine.objects.peer import Peer, Workload
from engine.program.frame import Evaluation, Term
from engine.program.pod_shape import pod_values
from engine.program.program import BoundProgram, CountClause, CountProgram, applies
from grammar.messages.texts import named

# ---- floors

# A pod that a floor cannot get at all weighs more than all pods that it can get.
UNMET = 1_000_000
# A search for the best places of pods ends after so many steps, with the best that it has found.
_MOST_STEPS = 100
# A cell has one bit of an integer for each share; further shares stand alone.
_MOST_SHARES = 60


def judged_together(strict: Sequence[CountGroups]) -> Iterator[list[CountGroups]]:
    """The strict shares of each policy that count the same pods, where there are several."""
    found: dict[object, list[CountGroups]] = {}
    for groups in strict:
        count, peers = groups.clause.count, groups.clause.count.peers
        if groups.clause.groups_are == "sides":
            of = (
                peers.where,
                peers.everywhere,
                peers.namespaces,
                peers.placed,
                peers.replicas,
                peers.revision,
            )
            key = (count.policy, count.terminating, groups.pod_values, of)
            found.setdefault(key, []).append(groups)
    yield from (shares[:_MOST_SHARES] for shares in found.values() if len(shares) > 1)


class Floors:
    """Floors: the strict shares of one policy that count the same pods, judged together.

    A share with a lower bound is a floor. One floor alone is a ceiling of the other nodes. Several
    need more: what each has to get comes out of the same replicas, and a node can be on several
    shares. So a pod may go to a node as long as the pods that are left can still meet every floor
    that they could meet before, within the ceilings. Nodes on the same shares make a cell.
    """

    def __init__(self, shares: Sequence[CountGroups]) -> None:
        self.shares = shares
        self._sides: list[GroupIds] = []
        self._ids: GroupIds = np.empty(0, np.int32)
        self._cells: tuple[int, ...] = ()
        self._with_nodes: tuple[int, ...] = ()
        self._kept = KeptCounts(adds_amounts=False)

    def judge(
        self,
        counter: PodCounter,
        rows: NodeRows,
        found: dict[CountGroups, tuple[GroupCounts, CountHeadroom]],
    ) -> None:
        """Closes the nodes on which the pod would not leave enough pods for every floor.

        `found` has the counts and the headroom of each share by itself. The floor that lacks most
        closes them. Raises DeadlineExceededError and ExpensivePolicyError.
        """
        self._update()
        first, cells, time = self.shares[0], self._cells, counter.context.time
        settled, afloat = counter.in_cells(first, self._kept, self._ids, len(cells))
        counts = [found[share][0] for share in self.shares]
        bits = range(len(self.shares))
        placed = list(zip(cells, settled.tolist(), strict=True))
        on = [sum(n for cell, n in placed if cell >> bit & 1) for bit in bits]
        bounds = [share_bounds(s.clause, of) for s, of in zip(self.shares, counts, strict=True)]
        low, high = zip(*bounds, strict=True)
        pods = PodsToPlace(
            wanted=min(each.total for each in counts),
            placed=int(settled.sum()),
            afloat=afloat,
            own=counts[0].own,
            low=low,
            high=high,
            on=tuple(on),
            most=tuple(int(each.high[ON]) for each in counts),
            cells=self._with_nodes,
        )
        time.charge(first.clause.count.policy)
        try:
            opened = pods.open_cells(cells, time.check)
            hopeful = pods.hopeful().open_cells(cells, time.check)
            short = pods.are_short(cells, opened)
        finally:
            time.rest()
        lacking = self.shares[max(bits, key=lambda bit: low[bit] - on[bit])]
        of, headroom = found[lacking]
        ids = self._ids[rows]
        found[lacking] = (
            of,
            structs.replace(
                headroom,
                open=headroom.open & np.array(opened)[ids],
                hopeful=headroom.hopeful & np.array(hopeful)[ids],
                groups=ids,
                roomy=np.zeros(len(ids), np.bool_) if short else headroom.roomy,
                wait=len(ids) if short else headroom.wait,
                in_one_group=short,
            ),
        )

    def _update(self) -> None:
        """The cells, and the position of the cell of each row."""
        sides = [share.ids for share in self.shares]
        known = len(sides) == len(self._sides)
        if known and all(one is other for one, other in zip(sides, self._sides, strict=True)):
            return
        cells = np.zeros(len(sides[0]), np.int64)
        for number, side in enumerate(sides):
            cells += (side == ON).astype(np.int64) << number
        # Row 0 is no node, and on no share. A floor without a node may get some, as where a pool
        # scales from zero, and its pods wait for these. They are on wider shares, too.
        with_nodes = np.unique(cells[1:]).tolist()
        taken = reduce(or_, with_nodes, 0)
        floors = (n for n, share in enumerate(self.shares) if share.clause.bound.kind != "at most")
        all_of = [frozenset(share.clause.conditions) for share in self.shares]
        without = [
            sum(1 << n for n, wider in enumerate(all_of) if wider <= all_of[number])
            for number in floors
            if not taken >> number & 1
        ]
        self._with_nodes = (*with_nodes, *without)
        found, ids = np.unique(cells, return_inverse=True)
        self._sides, self._cells = sides, tuple(found.tolist())
        self._ids = ids.astype(np.int32)


def by_replicas(clauses: Iterable[CountClause]) -> bool:
    """Whether a share among them is relative to the pods that the workload of a pod wants."""
    return any(each.kind == "share" and each.count.peers.replicas for each in clauses)


def of_unknown_size(workloads: Iterable[Workload]) -> str:
    """What to say of workloads whose wanted replicas a share needs and nobody knows, if any."""
    titles = sorted({each.title for each in workloads})
    names, want = named([f"`{each}`" for each in titles], 3), "want" + "s" * (len(titles) == 1)
    return names and f"how many pods {names} {want} is not known, so those that are there count"


@dataclass(frozen=True, slots=True)
class PodsToPlace:
    """The pods that some shares count, without the asked pod, and what the shares want.

    `wanted` is the number of pods of which the shares are parts, with the asked pod, `placed` that
    of the pods whose cell is known, and `afloat` that of the pods in flight that may end in several
    cells. `own` is what the asked pod adds. Of each share, `low` and `high` are the bounds, `on`
    the pods that are on its nodes for certain, and `most` the pods that may be. `cells` are the
    cells that have or may get a node: one bit for each share that its nodes are on.
    """

    wanted: int
    placed: int
    afloat: int
    own: int
    low: tuple[int, ...]
    high: tuple[int, ...]
    on: tuple[int, ...]
    most: tuple[int, ...]
    cells: tuple[int, ...]

    def hopeful(self) -> PodsToPlace:
        """The same if no pod in flight ends on the nodes of a share."""
        return replace(self, afloat=0, most=self.on)

    def open_cells(self, cells: Sequence[int], check: Callable[[], None]) -> list[bool]:
        """Whether the asked pod may go to each of these cells.

        It may go there if no more is unmet after it than before. Raises what `check` raises.
        """
        if not self.own:
            return [True] * len(cells)
        before, left = self._shortfall(), self._left()
        found = []
        for cell in cells:
            check()
            after = shortfall(*self._with(cell, cell), self.cells, max(0, left))
            found.append(after <= before and (left >= 0 or self._holds(cell)))
        return found

    def are_short(self, cells: Sequence[int], opened: Sequence[bool]) -> bool:
        """Whether the pod has to end in one cell: the others have room only as long as it does."""
        if not self.own:
            return False
        pairs = zip(cells, opened, strict=True)
        taken = reduce(or_, (cell for cell, is_open in pairs if is_open), 0)
        lost = shortfall(*self._with(0, taken), self.cells, max(0, self._left()))
        return lost > self._shortfall()

    def _shortfall(self) -> int:
        """What cannot be met at best, before the asked pod has a place."""
        return shortfall(*self._with(0, 0), self.cells, max(0, self._left() + 1))

    def _with(self, helped: int, taken: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The needs and the room of each share, with one pod more on some of the shares."""
        bits = range(len(self.low))
        return (
            tuple(max(0, self.low[b] - self.on[b] - (helped >> b & 1)) for b in bits),
            tuple(max(0, self.high[b] - self.most[b] - (taken >> b & 1)) for b in bits),
        )

    def _left(self) -> int:
        """The pods that are wanted and have no place, without the asked one.

        It is negative where there are more pods than are wanted.
        """
        return self.wanted - self.placed - self.afloat - self.own

    def _holds(self, cell: int) -> bool:
        """Whether the floors hold however the pods go that are not wanted any more."""
        bits = range(len(self.low))
        if any(self.low[bit] and cell >> bit & 1 for bit in bits):
            return True
        # pods on other nodes + this pod <= pods that a floor leaves for other nodes
        there = self.placed + self.afloat + self.own
        return all(there - self.on[bit] <= self.wanted - self.low[bit] for bit in bits)


@lru_cache(1024)
def shortfall(
    needs: tuple[int, ...], room: tuple[int, ...], cells: tuple[int, ...], pods: int
) -> int:
    """What cannot be met at best by so many pods on nodes of these cells.

    It is the number of pods that find no place within the room of each share, and `UNMET` for each
    pod that a share needs and does not get. Where the search is long, the number may be too large.
    """
    bits = range(len(needs))
    # The cells that help most come first, so that what is found first is mostly the best.
    useful = sorted(
        (cell for cell in cells if any(needs[bit] and cell >> bit & 1 for bit in bits)),
        key=lambda cell: (-sum(1 for bit in bits if needs[bit] and cell >> bit & 1), cell),
    )
    # Shares without a common cell get no pod together.
    apart = list[int]()
    for bit in bits:
        if not any(cell >> bit & 1 and cell >> other & 1 for cell in useful for other in apart):
            apart.append(bit)

    def unmet(needs: tuple[int, ...], room: tuple[int, ...], left: int) -> int:
        lacking = sum(max(0, needs[bit] - room[bit]) for bit in apart)
        wanted = sum(min(needs[bit], room[bit]) for bit in apart)
        return UNMET * max(lacking + max(0, wanted - left), max(needs) - left)

    least = pods - most_pods(room, cells, pods) + unmet(needs, room, pods)
    best, steps = UNMET * (sum(needs) + pods), 0

    def search(number: int, needs: tuple[int, ...], room: tuple[int, ...], left: int) -> None:
        nonlocal best, steps
        steps += 1
        if best == least or steps > _MOST_STEPS or unmet(needs, room, left) >= best:
            return
        if number == len(useful) or not any(needs):
            best = min(best, UNMET * sum(needs) + left - most_pods(room, cells, left))
            return
        on = [bit for bit in bits if useful[number] >> bit & 1]
        most = min(left, max(needs[bit] for bit in on), *(room[bit] for bit in on))
        for here in range(most, -1, -1):
            search(
                number + 1,
                tuple(max(0, n - here) if bit in on else n for bit, n in enumerate(needs)),
                tuple(r - here if bit in on else r for bit, r in enumerate(room)),
                left - here,
            )

    search(0, needs, room, pods)
    return best


@lru_cache(1024)
def most_pods(room: tuple[int, ...], cells: tuple[int, ...], pods: int) -> int:
    """The most of these pods that find a place on nodes of these cells within the room."""
    # A cell on fewer shares takes less room of others.
    ordered = sorted(cells, key=lambda cell: (cell.bit_count(), cell))
    best = steps = 0

    def search(number: int, room: tuple[int, ...], placed: int) -> None:
        nonlocal best, steps
        steps += 1
        best = max(best, placed)
        left = reduce(or_, ordered[number:], 0)
        more = sum(r for bit, r in enumerate(room) if left >> bit & 1)
        if number == len(ordered) or steps > _MOST_STEPS or placed + more <= best:
            return
        on = [bit for bit in range(len(room)) if ordered[number] >> bit & 1]
        most = min([pods - placed, *(room[bit] for bit in on)])
        for here in range(most, -1, -1):
            if best == pods:
                return
            search(
                number + 1,
                tuple(r - here if bit in on else r for bit, r in enumerate(room)),
                placed + here,
            )

    if 0 in ordered:
        return pods
    search(0, room, 0)
    return best


# ---- the clauses of one pod shape

# The search ends after so many pods if a side gets no more, as the other side of 100 % does.
_MOST_PODS = 100_000


# The groups that a clause shares with plans for other pods; None where it has its own.
Leaders = Callable[[CountClause], CountGroups | None]


class CountClauses:
    """The count clauses of one pod shape. `strict`: any of them is; `soft`: any has a weight.

    `need_workloads`: a strict one needs the workloads of pods. `mutual` are the limits of pods that
    are there already, which may keep the pod out. `own` is the number of strict clauses; their
    headrooms come first. `floors` are the policies and names of the strict shares with a lower
    bound.
    """

    def __init__(
        self,
        clauses: Sequence[CountClause],
        evaluation: Evaluation,
        mutual: Sequence[MutualLimit] = (),
        leaders: Leaders = lambda _: None,
    ) -> None:
        """`leaders` gives groups that are the same for other pods, where some are kept."""
        applying = [clause for clause in clauses if applies(clause.count, evaluation)]
        self.clauses = applying
        every = list[CountGroups]()
        for clause in applying:
            alike = (each for each in every if same_groups(each.clause, clause))
            values = _values(clause.count, evaluation)
            every.append(CountGroups(clause, values, next(alike, None) or leaders(clause)))
        self._strict = [each for each in every if each.clause.count.weight is None]
        self._soft = [each for each in every if each.clause.count.weight is not None]
        self.mutual = mutual
        self.strict = bool(self._strict) or bool(mutual)
        self._floors = [Floors(shares) for shares in judged_together(self._strict)]
        self._together = {share for floors in self._floors for share in floors.shares}
        self.own = len(self._strict)
        # Shares whose pods wait for some of the nodes until these have so many.
        bounded = (c.clause for c in self._strict if c.clause.bound.kind != "at most")
        floors = (clause.count for clause in bounded if clause.kind == "share")
        self.floors = frozenset((count.policy, count.name) for count in floors)
        self.need_workloads = any(each.clause.count.needs_workloads for each in self._strict)
        self.soft = bool(self._soft)

    def tables_changed(self, digests: AbstractSet[str]) -> None:
        """Has evaluated again what reads these tables: there are other ones now."""
        for groups in (*self._strict, *self._soft):
            if groups.clause.count.tables & digests:
                groups.forget()

    def headrooms(
        self, counter: PodCounter, table: NodeTable, rows: NodeRows, evaluation: Evaluation
    ) -> list[CountHeadroom]:
        """The headroom of each strict clause. Raises DeadlineExceededError."""
        found = {}
        # They read the most of pods, so that these are grouped once for all.
        mutual = [limit.headroom(counter, table, rows, evaluation) for limit in self.mutual]
        for groups in self._strict:
            groups.update(table, evaluation)
            counts = counter.count(groups.clause, groups, predicted=False)
            alone = groups not in self._together
            found[groups] = counts, groups.headroom(counts, rows, alone=alone)
        for floors in self._floors:
            floors.judge(counter, rows, found)
        own = [headroom for _, headroom in found.values()]
        return own + mutual

    def deletion_cost(self, counter: PodCounter, row: int) -> int | None:
        """The deletion cost of a pod that is about to be bound to a node; None: no share sets one.

        A share of 40 % fills up in the order off, off, on, off, on, and so on. Later pods of this
        order cost less, so the pods that are left after some deletions are the first pods of this
        order. A controller deletes pods of one revision, so each revision has an order of its own.

        It comes after `headrooms`, which has evaluated the node.
        """
        for groups in self._strict:
            clause, group = groups.clause, int(groups.ids[row])
            if not clause.bound.percent or group < 0:
                continue
            counts = counter.count(clause, groups, predicted=False, of_revision=True)
            if counts.own:
                bound = counts.bound_of(clause, group)
                return -_position(bound, int(counts.high[group]) + 1, on=group == ON)
        return None

    def terms(
        self, counter: PodCounter, table: NodeTable, rows: NodeRows, evaluation: Evaluation
    ) -> list[Term]:
        """The weight and the points per row of each other clause. Raises DeadlineExceededError."""
        found = []
        for groups in self._soft:
            groups.update(table, evaluation)
            count = groups.clause.count
            assert count.weight is not None, "it is not strict"
            given = points(groups.clause, counter.count(groups.clause, groups, predicted=True))
            ids = groups.ids[rows]
            missing = count.missing if isinstance(count.missing, int | float) else 0.0
            found.append((count.weight, np.where(ids < 0, missing, given[ids])))
        return found


def _values(count: CountProgram, evaluation: Evaluation) -> Hashable | None:
    """What the clause reads of the pod to say which pods it counts."""
    if not count.peers.of_pod:
        return None
    evaluation.time.charge(count.policy)
    try:
        return pod_values(count.peers.of_pod, evaluation.frame())
    finally:
        evaluation.time.rest()


def _position(bound: BoundProgram, which: int, *, on: bool) -> int:
    """The position in the fill order, from 1, of the pod number `which` of one side."""
    selected = found = 0
    for position in range(1, _MOST_PODS):
        due = target(bound, position)
        found += (due > selected) is on
        selected = due
        if found == which:
            return position
    return _MOST_PODS


# ---- the counts of a policy, for its status


@dataclass(frozen=True, slots=True)
class PodCounts:
    """The counts of pods that a policy selects: all, those on the share, and its target.

    There is no target where it depends on the pod.

    `violations` is the number of pods beyond the bounds. Drift makes them, and rollouts leave them:
    decisions keep to the bounds.
    """

    matched: int
    placed: int | None = None
    target: int | None = None
    violations: int | None = None


@dataclass(eq=False, slots=True)
class ShareStatus:
    """The share of one policy, for its status alone; what was evaluated of nodes is kept.

    `counts` says which pods of the scope are selected; `name` identifies it.
    """

    _name: Hashable
    _scope: Scope
    _counts: Callable[[Peer], bool]
    _share: CountClause | None
    # There is no pod to compute a number with: only the sides count.
    _groups: CountGroups | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if (share := self._share) is not None:
            self._groups = CountGroups(replace(share, count=replace(share.count, number=None)))

    def count(self, pods: KnownPods, snapshot: Snapshot, evaluation: Evaluation) -> PodCounts:
        """The counts now. The frame has no pod: a share of this kind reads none.

        Raises DeadlineExceededError and ExpensivePolicyError; the next count continues.
        """
        tally = pods.tallies.get(self._name, self._scope, Adding(self._counts))
        placed = tally.placed
        matched = placed + len(tally.waiting)
        if self._share is None or self._groups is None:
            return PodCounts(matched)
        self._groups.update(snapshot.table, evaluation)
        rows = snapshot.table.find(list(tally.nodes))
        amounts = np.fromiter(tally.nodes.values(), np.int64, len(tally.nodes))
        on = int(amounts[self._groups.ids[rows] == ON].sum())
        if self._share.bound.amount is None:
            return PodCounts(matched, on)
        unwanted, _ = surplus(pods, by_workload(tally, placed=False))
        total = matched - unwanted
        wanted = wanted_on(self._share.bound, total, matched)
        # Too many on the share, except for `at least`; too many elsewhere, except for `at most`.
        over = max(0, on - wanted) if self._share.bound.kind != "at least" else 0
        short = max(0, placed - on - (matched - wanted))
        if self._share.bound.kind == "at most":
            short = 0
        return PodCounts(matched, on, wanted, over + short)
