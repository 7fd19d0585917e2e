"""What the shares, spreads and limits of one shape of pods allow, and what they prefer."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from engine.cache.node_table import NodeRows, NodeTable
from engine.counting.groups import (
    ON,
    CountGroups,
    GroupCounts,
    is_narrow,
    open_groups,
    points,
    target,
)
from engine.counting.pod_counter import PodCounter
from engine.program.frame import CheckDeadline, Floats, Frame, Report, Term
from engine.program.program import CountClause, ShareProgram
from grammar.clauses import Bound
from grammar.errors import EvaluationError, MissingError

Mask = npt.NDArray[np.bool_]


class Headroom(msgspec.Struct, frozen=True, eq=False):
    """Where a strict clause has room, in the order of the places asked about.

    `hopeful` is where it would have room if those on their way went elsewhere; `cells` tells which
    places are in one cell, and `numbers` has the pods in each cell.
    """

    clause: CountClause
    open: Mask
    hopeful: Mask
    cells: npt.NDArray[np.int32]
    numbers: GroupCounts

    @property
    def narrow(self) -> bool:
        """Whether a pod must be sent to one cell at a time."""
        return is_narrow(self.clause)


class CountClauses:
    """The count clauses that apply to pods of one shape."""

    def __init__(self, clauses: Sequence[CountClause], frame: Frame, report: Report) -> None:
        applying = [clause for clause in clauses if _applies(clause, frame, report)]
        self._strict = [CountGroups(c, report) for c in applying if c.count.weight is None]
        self._wishes = [CountGroups(c, report) for c in applying if c.count.weight is not None]

    @property
    def strict(self) -> bool:
        return bool(self._strict)

    @property
    def wishes(self) -> bool:
        """Whether any clause is best effort."""
        return bool(self._wishes)

    def rooms(
        self,
        census: PodCounter,
        table: NodeTable,
        places: NodeRows,
        frame: Callable[[], Frame],
        check: CheckDeadline,
    ) -> list[Headroom]:
        """Each strict clause in turn. Raises DeadlineExceededError."""
        found = []
        for cells in self._strict:
            cells.look(table, frame, check)
            numbers = census.take(cells.clause, cells, predicted=False)
            ids = cells.ids[places]
            opened = open_groups(cells.clause, numbers)
            outside = ids < 0
            if np.logical_and.reduce(opened) and not np.logical_or.reduce(outside):
                # Mostly a bound is not near.
                room = hopeful = np.ones(len(ids), np.bool_)
            else:
                passes = cells.clause.count.missing == "pass"
                room = opened[ids]
                hopeful = open_groups(cells.clause, numbers.hopeful())[ids]
                room[outside] = hopeful[outside] = passes
            found.append(Headroom(cells.clause, room, hopeful, ids, numbers))
        return found

    def terms(
        self,
        census: PodCounter,
        table: NodeTable,
        places: NodeRows,
        frame: Callable[[], Frame],
        check: CheckDeadline,
    ) -> list[Term]:
        """The weight of each clause that is best effort, and its points per place."""
        found = []
        for cells in self._wishes:
            cells.look(table, frame, check)
            count = cells.clause.count
            assert count.weight is not None, "it is best effort"
            given = points(cells.clause, census.take(cells.clause, cells, predicted=True))
            ids = cells.ids[places]
            missing = count.missing if isinstance(count.missing, int | float) else 0.0
            found.append((count.weight, np.where(ids < 0, missing, given[ids])))
        return found


def narrowed(rooms: Sequence[Headroom], feasible: Mask, suits: Floats, avoid: Mask) -> Mask:
    """Those of the feasible places that are in one cell of each narrow clause: the best one's.

    There is such a clause, and such a place. `suits` has our own scores. Places to `avoid` are
    taken only if there are no others.
    """
    narrow = [room for room in rooms if room.narrow]
    choice = feasible & ~avoid
    if not choice.any():
        choice = feasible
    best = int(np.argmax(np.where(choice, suits, -np.inf)))
    kept = feasible.copy()
    for room in narrow:
        kept &= room.cells == room.cells[best]
    return kept


def _applies(clause: CountClause, frame: Frame, report: Report) -> bool:
    when = clause.count.when
    if when is None:
        return True
    try:
        return when.evaluate(frame) is True
    except MissingError:
        return False
    except EvaluationError as error:
        report(clause.count.policy, clause.count.name, error)
        return False


# ---- Which pods of a share a ReplicaSet should delete first, so that the share stays whole.

# A side that has no slot any more, as the other one of 100 %, ends the search.
_MOST_SLOTS = 100_000


def deletion_cost(rooms: Sequence[Headroom]) -> int | None:
    """The cost of deleting a pod that is about to take its place, None where no share has one.

    `rooms` are of the one place that it takes. A share of 40 % fills up as off, off, on, off, on,
    and so on. Later slots cost less, so that those that are left when some are deleted are the
    first of that row.
    """
    for room in rooms:
        clause, numbers = room.clause, room.numbers
        cell = int(room.cells[0])
        if isinstance(clause, ShareProgram) and clause.bound.percent and numbers.own and cell >= 0:
            return -_slot(clause.bound, int(numbers.high[cell]) + 1, on=cell == ON)
    return None


def _slot(bound: Bound, which: int, *, on: bool) -> int:
    """The place in the row, from 1, of the so-manieth slot on one side."""
    selected = found = 0
    for place in range(1, _MOST_SLOTS):
        due = target(bound, place)
        found += (due > selected) is on
        selected = due
        if found == which:
            return place
    return _MOST_SLOTS
