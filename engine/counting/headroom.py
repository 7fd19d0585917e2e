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

    `hopeful` is where it would have room if those on their way went elsewhere; `groups` tells which
    places are in one cell, and `group_counts` has the pods in each cell.
    """

    clause: CountClause
    open: Mask
    hopeful: Mask
    groups: npt.NDArray[np.int32]
    group_counts: GroupCounts

    @property
    def narrow(self) -> bool:
        """Whether a pod must be sent to one cell at a time."""
        return is_narrow(self.clause)


class CountClauses:
    """The count clauses that apply to pods of one shape."""

    def __init__(self, clauses: Sequence[CountClause], frame: Frame, report: Report) -> None:
        applying = [clause for clause in clauses if _applies(clause, frame, report)]
        self._strict = [CountGroups(c, report) for c in applying if c.count.weight is None]
        self._soft_counts = [CountGroups(c, report) for c in applying if c.count.weight is not None]

    @property
    def strict(self) -> bool:
        return bool(self._strict)

    @property
    def soft_counts(self) -> bool:
        """Whether any clause is best effort."""
        return bool(self._soft_counts)

    def headrooms(
        self,
        counter: PodCounter,
        table: NodeTable,
        rows: NodeRows,
        frame: Callable[[], Frame],
        check: CheckDeadline,
    ) -> list[Headroom]:
        """Each strict clause in turn. Raises DeadlineExceededError."""
        found = []
        for groups in self._strict:
            groups.look(table, frame, check)
            group_counts = counter.take(groups.clause, groups, predicted=False)
            ids = groups.ids[rows]
            opened = open_groups(groups.clause, group_counts)
            outside = ids < 0
            if np.logical_and.reduce(opened) and not np.logical_or.reduce(outside):
                # Mostly a bound is not near.
                headroom = hopeful = np.ones(len(ids), np.bool_)
            else:
                passes = groups.clause.count.missing == "pass"
                headroom = opened[ids]
                hopeful = open_groups(groups.clause, group_counts.hopeful())[ids]
                headroom[outside] = hopeful[outside] = passes
            found.append(Headroom(groups.clause, headroom, hopeful, ids, group_counts))
        return found

    def terms(
        self,
        counter: PodCounter,
        table: NodeTable,
        rows: NodeRows,
        frame: Callable[[], Frame],
        check: CheckDeadline,
    ) -> list[Term]:
        """The weight of each clause that is best effort, and its points per place."""
        found = []
        for groups in self._soft_counts:
            groups.look(table, frame, check)
            count = groups.clause.count
            assert count.weight is not None, "it is best effort"
            given = points(groups.clause, counter.take(groups.clause, groups, predicted=True))
            ids = groups.ids[rows]
            missing = count.missing if isinstance(count.missing, int | float) else 0.0
            found.append((count.weight, np.where(ids < 0, missing, given[ids])))
        return found


def narrowed(headrooms: Sequence[Headroom], feasible: Mask, suits: Floats, avoid: Mask) -> Mask:
    """Those of the feasible places that are in one cell of each narrow clause: the best one's.

    There is such a clause, and such a place. `suits` has our own scores. Places to `avoid` are
    taken only if there are no others.
    """
    narrow = [headroom for headroom in headrooms if headroom.narrow]
    choice = feasible & ~avoid
    if not choice.any():
        choice = feasible
    best = int(np.argmax(np.where(choice, suits, -np.inf)))
    kept = feasible.copy()
    for headroom in narrow:
        kept &= headroom.groups == headroom.groups[best]
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


def deletion_cost(headrooms: Sequence[Headroom]) -> int | None:
    """The cost of deleting a pod that is about to take its place, None where no share has one.

    `headrooms` are of the one node that it takes. A share of 40 % fills up as off, off, on, off,
    on, and so on. Later pods of this order cost less: those that are left when some are deleted
    are the first of it.
    """
    for headroom in headrooms:
        clause, group_counts = headroom.clause, headroom.group_counts
        group = int(headroom.groups[0])
        if (
            isinstance(clause, ShareProgram)
            and clause.bound.percent
            and group_counts.own
            and group >= 0
        ):
            return -_slot(clause.bound, int(group_counts.high[group]) + 1, on=group == ON)
    return None


def _slot(bound: Bound, which: int, *, on: bool) -> int:
    """The place in the row, from 1, of the so-manieth slot on one side."""
    selected = found = 0
    for row in range(1, _MOST_SLOTS):
        due = target(bound, row)
        found += (due > selected) is on
        selected = due
        if found == which:
            return row
    return _MOST_SLOTS
