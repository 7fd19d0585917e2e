"""Which pods of a share a ReplicaSet should delete first, so that the share stays whole."""

from __future__ import annotations

from collections.abc import Sequence

from engine.counting.counting import Room
from engine.counting.numbers import ON, target
from engine.program.program import ShareProgram
from grammar.clauses import Bound

# A side that has no slot any more, as the other one of 100 %, ends the search.
_MOST_SLOTS = 100_000


def deletion_cost(rooms: Sequence[Room]) -> int | None:
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
