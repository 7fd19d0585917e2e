"""How well each node suits a pod: one weighted mean over all score clauses, 0..10 on the wire."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.program.frame import Floats, Frame, Points, Report, Term
from engine.program.program import ScoreProgram, magnitude
from grammar.errors import EvaluationError, MissingError

CheckDeadline = Callable[[], None]


MISSING = math.nan


def applies(clause: ScoreProgram, frame: Frame, report: Report) -> bool:
    """Whether the clause is a term of the mean for the frame's pod."""
    if clause.when is None:
        return True
    try:
        return clause.when.evaluate(frame) is True
    except MissingError:
        return False
    except EvaluationError as error:
        report(clause.policy, clause.name, error)
        return False


def value(clause: ScoreProgram, frame: Frame, report: Report) -> float:
    """The clause's number for the frame's node; NaN where it is missing or not finite."""
    try:
        found = clause.value(frame)
        number = (100.0 if found else 0.0) if isinstance(found, bool) else magnitude(found)
    except MissingError:
        return MISSING
    except EvaluationError as error:
        report(clause.policy, clause.name, error)
        return MISSING
    if math.isfinite(number):
        return number
    report(clause.policy, clause.name, EvaluationError(f"the value is {number}"))
    return MISSING


def compares(clause: ScoreProgram) -> bool:
    """Whether what a node gets depends on the other nodes of the request."""
    return isinstance(clause.range, str)


class Scale:
    """What some clauses that do not compare nodes give them: for all clauses at once.

    Numbers and points have a row for each clause and a column for each node.
    """

    def __init__(self, clauses: Sequence[ScoreProgram]) -> None:
        ranges = [c.range if isinstance(c.range, tuple) else None for c in clauses]
        # A clause without a range has its points as they are, which no arithmetic may round.
        self._plain = _column([fixed is None for fixed in ranges])
        self._low = _column([fixed[0] if fixed else 0.0 for fixed in ranges])
        self._width = _column([fixed[1] - fixed[0] if fixed else 1.0 for fixed in ranges])
        self._turned = _column([clause.weight < 0 for clause in clauses])
        self._missing = _column([clause.missing for clause in clauses])
        self._weights = [abs(clause.weight) for clause in clauses]

    def points(self, values: Floats) -> Floats:
        """0..100, after the sign."""
        with np.errstate(over="ignore"):  # what is beyond all numbers is beyond the range too
            ranged = 100 * (values - self._low) / self._width
        placed = np.clip(np.where(self._plain, values, ranged), 0, 100)
        signed = np.where(self._turned, 100 - placed, placed)
        return np.where(np.isnan(values), self._missing, signed)

    def scores(self, values: Floats) -> Points:
        """Integers 0..10, as those of the terms that the clauses are."""
        return scores(list(zip(self._weights, self.points(values), strict=True)))


def points(clause: ScoreProgram, values: Floats) -> Floats:
    """What the clause gives each node, 0..100, after the sign; `values` are those of a request."""
    if not compares(clause):
        return Scale([clause]).points(values[np.newaxis]).reshape(-1)
    placed = _compared(clause, values)
    if clause.weight < 0:
        placed = 100 - placed
    return np.where(np.isnan(values), clause.missing, placed)


def scores(terms: Sequence[Term]) -> Points:
    """Integers 0..10 from the points of one or more terms: their mean in tens, rounded half up."""
    total = sum(weight for weight, _ in terms)
    sums = sum(weight * given for weight, given in terms)
    return np.clip(np.floor(sums / total / 10 + 0.5), 0, 10).astype(np.int64)


def _column(values: Sequence[float]) -> npt.NDArray[Any]:
    return np.array(values)[:, np.newaxis]


def _compared(clause: ScoreProgram, values: Floats) -> Floats:
    """The values on the scale 0..100, by what others there are; NaN stays."""
    known = values[~np.isnan(values)]
    match clause.range:
        case _ if not len(known) or known.min() == known.max():
            return np.full_like(values, 50)
        case "minmax":
            least, greatest = known.min(), known.max()
            placed: Floats = 100 * (values - least) / (greatest - least)
            return placed
        case _:
            order = np.unique(known)
            ranks: Floats = np.searchsorted(order, values) / (len(order) - 1)
            return 100 * ranks
