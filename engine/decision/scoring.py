"""Scoring: one weighted mean over all score clauses, 0..10 for each node on the wire.

A clause gives a node a value, the value becomes points 0..100, and the mean of the points of all
clauses, by their weights, becomes the score. The memos belong to the plan for a pod shape and
re-evaluate a node only when the node has changed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.cache.node_table import NodeRows, NodeTable
from engine.counting.node_groups import CallGroups, GroupVersions, PerGroup, counted_on_the_way
from engine.program.columns import ByKind, Freshness, KindsOf, Moments, grown, no_kinds
from engine.program.frame import Evaluation, Floats, Frame, Points, Report, Term
from engine.program.operations import magnitude
from engine.program.program import ScoreProgram
from grammar.values.errors import EvaluationError, MissingError
from grammar.values.time import NEVER

# The value of a clause for a node that has none.
MISSING = math.nan


class RowMemo:
    """A memo by row: what is `made` of the values of some clauses for each node."""

    def __init__(
        self,
        clauses: Sequence[ScoreProgram],
        kinds: KindsOf,
        missing: float,
        made: Callable[[Sequence[Floats]], Floats | Points],
    ) -> None:
        """`missing` is for a row that was not evaluated, of the type of the others."""
        self._clauses = clauses
        self._by_kind = [ByKind(k, MISSING) if k else None for k in map(kinds, clauses)]
        timed = any(clause.time_dependent for clause in clauses)
        self.fresh = Freshness(time_dependent=timed, tables=[each.tables for each in clauses])
        self._missing, self._made = missing, made
        self._known: npt.NDArray[Any] = np.full(0, missing)

    def of(self, table: NodeTable, rows: NodeRows, evaluation: Evaluation) -> npt.NDArray[Any]:
        """In the order of `rows`.

        Raises DeadlineExceededError and ExpensivePolicyError; finished portions are kept.
        """
        portions = self.fresh.stale(table, evaluation.now, rows)
        if portions or len(self._known) < len(table.nodes):
            self._known = grown(self._known, len(table.nodes), self._missing)
        for portion in portions:
            until = self.fresh.moments(portion)
            pairs = zip(self._clauses, self._by_kind, strict=True)
            found = [_values(c, table, portion, evaluation, until, kinds) for c, kinds in pairs]
            evaluation.time.rest()
            self._known[portion] = self._made([np.array(values) for values in found])
            self.fresh.worked_out(table, portion, until)
        return self._known.take(rows)


class ScoreMemo:
    """A memo of scores: the value of one clause for each node, by row."""

    def __init__(self, clause: ScoreProgram, kinds: KindsOf = no_kinds) -> None:
        self.clause = clause
        self.rows = RowMemo([clause], kinds, MISSING, itemgetter(0))
        self._groups = GroupVersions([clause.groups])
        self._alone: PerGroup[float] | None = None
        if clause.groups.alone:
            self._alone = PerGroup(clause.groups, clause.policy, partial(value, clause), np.array)

    def values(self, table: NodeTable, rows: NodeRows, evaluation: Evaluation) -> Floats:
        """In the order of `rows`, NaN where there is none. Raises as `RowMemo.of`."""
        if self._alone is not None:
            groups = evaluation.groups_of_call()
            assert isinstance(groups, CallGroups), "a call has groups where a policy reads them"
            return self._alone.of(groups.counting("predicted"), table, rows, evaluation)
        if not self._groups.digests:
            return self.rows.of(table, rows, evaluation)
        with counted_on_the_way(evaluation.frame(), "predicted"):
            return self.rows.of(self._groups.table(table, evaluation), rows, evaluation)


def mean_memo(clauses: Sequence[ScoreProgram], kinds: KindsOf = no_kinds) -> RowMemo:
    """A memo of each node's score from clauses that do not compare nodes."""

    def mean(values: Sequence[Floats]) -> Points:
        pairs = zip(clauses, values, strict=True)
        return scores([(abs(clause.weight), points(clause, each)) for clause, each in pairs])

    return RowMemo(clauses, kinds, 0, mean)


class Scorer:
    """The score clauses of one pod shape. `applies`: there is any."""

    def __init__(self, clauses: Sequence[ScoreProgram], kinds: KindsOf = no_kinds) -> None:
        self.applies = bool(clauses)
        self.clauses = clauses
        self._memos = [ScoreMemo(clause, kinds) for clause in clauses]
        # Where no clause compares the nodes of a request, the score of a node can be remembered.
        # What reads groups of nodes changes with many nodes at once.
        is_kept = not any(compares(clause) or clause.groups for clause in clauses)
        self._mean = mean_memo(clauses, kinds) if is_kept else None

    def __len__(self) -> int:
        return len(self._memos)

    def tables_changed(self, digests: AbstractSet[str]) -> None:
        """Has the clauses that read these tables be evaluated again."""
        for rows in (*(memo.rows for memo in self._memos), self._mean):
            if rows is not None:
                rows.fresh.tables_changed(digests)

    def scores(
        self, table: NodeTable, rows: NodeRows, evaluation: Evaluation, soft: Sequence[Term] = ()
    ) -> Points:
        """An integer 0..10 per row, from the clauses and the terms of count preferences.

        There is at least one of them. Raises DeadlineExceededError.
        """
        if self._mean is not None and not soft:
            return self._mean.of(table, rows, evaluation)
        terms: list[Term] = []
        for memo in self._memos:
            values = memo.values(table, rows, evaluation)
            terms.append((abs(memo.clause.weight), points(memo.clause, values)))
        return scores([*terms, *soft])


def _values(
    clause: ScoreProgram,
    table: NodeTable,
    rows: NodeRows,
    evaluation: Evaluation,
    until: Moments | None,
    by_kind: ByKind[float] | None,
) -> Sequence[float]:
    """The value for each row. It lowers the moments until which these stay as they are.

    The policy uses the time from here on.
    """
    time, report = evaluation.time, evaluation.report
    time.charge(clause.policy)
    if by_kind is not None and not by_kind.kinds.are_useless:
        return by_kind.values(table, rows, evaluation, lambda f: value(clause, f, report))
    frame, found = evaluation.frame(), list[float]()
    for count, row in enumerate(rows.tolist()):
        if count and not count % clause.nodes_per_look:
            time.check()
        frame.node = table.nodes[row]
        frame.until = NEVER
        found.append(value(clause, frame, report) if frame.node is not None else MISSING)
        if until is not None and frame.until < until[count]:
            until[count] = frame.until
    return found


def value(clause: ScoreProgram, frame: Frame, report: Report) -> float:
    """The clause's number for the frame's node; NaN where it is missing or not finite."""
    try:
        found = clause.value(frame)
        number = found if isinstance(found, float) else magnitude(found)
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
    """Whether the points of a node depend on the other nodes of the request."""
    return isinstance(clause.range, str)


def points(clause: ScoreProgram, values: Floats) -> Floats:
    """The points of a clause for each node, 0..100, after the sign."""
    placed = _compared(clause, values) if compares(clause) else _ranged(clause, values)
    if clause.weight < 0:
        placed = 100 - placed
    return np.where(np.isnan(values), clause.missing, placed)


def scores(terms: Sequence[Term]) -> Points:
    """Integers 0..10 from the points of one or more terms: their mean in tens, rounded half up."""
    total = sum(weight for weight, _ in terms)
    sums = sum(weight * given for weight, given in terms)
    return np.clip(np.floor(sums / total / 10 + 0.5), 0, 10).astype(np.int64)


def _ranged(clause: ScoreProgram, values: Floats) -> Floats:
    """The values on the scale 0..100 of the clause; NaN stays."""
    # A clause without a range gives its points directly; no arithmetic may round them.
    if isinstance(clause.range, tuple):
        low, high = clause.range
        with np.errstate(over="ignore"):  # an infinite number is outside the range as well
            values = 100 * (values - low) / (high - low)
    return values.clip(0, 100)


def _compared(clause: ScoreProgram, values: Floats) -> Floats:
    """The values on the scale 0..100 of all values; NaN stays."""
    known = values[~np.isnan(values)]
    match clause.range:
        case "greatest":
            greatest = known.max(initial=0)
            shares: Floats = 100 * np.clip(values, 0, None) / (greatest or 1)
            return shares
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
