"""How well each node suits a pod: one weighted mean over all score clauses, 0..10 on the wire."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.program.frame import Frame
from engine.program.program import ScoreProgram, magnitude
from engine.registry import Selection
from grammar.errors import EvaluationError, MissingError

NODES_PER_LOOK = 512
CheckDeadline = Callable[[], None]
Report = Callable[[ScoreProgram, EvaluationError], None]


@dataclass(frozen=True, slots=True)
class Contribution:
    """One clause's points 0..100 per node, after the sign, and its weight in the mean."""

    clause: ScoreProgram
    points: tuple[float, ...]

    @property
    def weight(self) -> float:
        return abs(self.clause.weight)


def contributions(
    selection: Selection,
    frame: Frame,
    nodes: Sequence[object | None],
    check: CheckDeadline,
    report: Report,
) -> list[Contribution]:
    """What each score clause that applies gives each node, in order.

    The terms do not depend on the node.
    """
    found = []
    for program in selection.enforced:
        for clause in program.scores:
            check()
            if _applies(clause, frame, report):
                found.append(
                    Contribution(clause, tuple(_points(clause, frame, nodes, check, report)))
                )
    return found


def scores(terms: Sequence[Contribution], count: int) -> list[int] | None:
    """Integers 0..10: the weighted mean in tens, rounded half up; None where no score applies."""
    if not terms:
        return None
    total = sum(t.weight for t in terms)
    sums = [sum(t.weight * t.points[i] for t in terms) for i in range(count)]
    return [min(10, max(0, math.floor(s / total / 10 + 0.5))) for s in sums]


def _applies(clause: ScoreProgram, frame: Frame, report: Report) -> bool:
    if clause.when is None:
        return True
    try:
        return clause.when.evaluate(frame) is True
    except MissingError:
        return False
    except EvaluationError as error:
        report(clause, error)
        return False


def _points(
    clause: ScoreProgram,
    frame: Frame,
    nodes: Sequence[object | None],
    check: CheckDeadline,
    report: Report,
) -> list[float]:
    values: list[float | None] = []
    for count, node in enumerate(nodes):
        if not count % NODES_PER_LOOK:
            check()
        frame.node = node
        values.append(_value(clause, frame, report) if node is not None else None)
    placed = _placed(clause, values)
    sign = clause.weight < 0
    return [clause.missing if p is None else 100 - p if sign else p for p in placed]


def _value(clause: ScoreProgram, frame: Frame, report: Report) -> float | None:
    """The clause's number for the frame's node; None where it is missing or has no finite value."""
    try:
        value = clause.value(frame)
        number = (100.0 if value else 0.0) if isinstance(value, bool) else magnitude(value)
    except MissingError:
        return None
    except EvaluationError as error:
        report(clause, error)
        return None
    if math.isfinite(number):
        return number
    report(clause, EvaluationError(f"the value is {number}"))
    return None


def _placed(clause: ScoreProgram, values: list[float | None]) -> list[float | None]:
    """The values on the scale 0..100."""
    known = [v for v in values if v is not None]
    match clause.range:
        case None:
            return [v if v is None else _clip(v) for v in values]
        case "minmax":
            low, high = min(known, default=0.0), max(known, default=0.0)
            if low == high:
                return [v if v is None else 50.0 for v in values]
            return [v if v is None else 100 * (v - low) / (high - low) for v in values]
        case "rank":
            order = {v: i for i, v in enumerate(sorted(set(known)))}
            last = len(order) - 1
            return [v if v is None else 100 * order[v] / last if last > 0 else 50.0 for v in values]
        case (low, high):
            return [v if v is None else _clip(100 * (v - low) / (high - low)) for v in values]


def _clip(points: float) -> float:
    return min(100.0, max(0.0, points))
