"""Filtering: why each node is rejected by the filter clauses, evaluated and remembered.

Every clause is evaluated on the nodes that earlier clauses have left. A FilterMemo belongs to the
plan for a pod shape and re-evaluates a node only when the node has changed.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from engine.cache.names import KnownRows
from engine.cache.node_table import NodeRows, NodeTable
from engine.decision.verdict import (
    FEASIBLE,
    Codes,
    Decision,
    Failed,
    Rejected,
    Verdict,
    decision,
    reason,
)
from engine.program.columns import Freshness, grown
from engine.program.frame import NODES_PER_LOOK, CheckDeadline, Evaluation, Frame
from engine.program.program import FilterProgram
from grammar.errors import EvaluationError, MissingError
from grammar.texts import shown

UNKNOWN_NODE = "node not yet known"
# Beyond this number, rejections probably carry errors that name what they read: start over.
_MOST_REJECTIONS = 1000


class Rejection(msgspec.Struct, frozen=True):
    """The reason to reject a node: a clause does not hold, fails, or needs an unknown node."""

    clause: FilterProgram
    error: str | None = None
    known: bool = True

    def text(self, evaluation: Evaluation) -> str:
        """The text for an answer: the same for all errors of a clause."""
        return reason(self.clause, evaluation) if self.known else UNKNOWN_NODE

    def verdict(self, text: str) -> Rejected | Failed:
        clause = self.clause
        if not self.known:
            return Rejected(text, clause.policy, clause.name, waits=True)
        if self.error is not None:
            return Failed(text, clause.policy, clause.name, self.error)
        return Rejected(text, clause.policy, clause.name, clause.resolvable)


class FilterMemo:
    """The first of some clauses that rejects each node, by row."""

    def __init__(self, clauses: Sequence[FilterProgram], failed: Failed | None = None) -> None:
        """`failed` is the verdict of every node where a `for` cannot be evaluated."""
        self._clauses = clauses
        self._failed = failed
        self._fresh = Freshness(time_dependent=any(clause.time_dependent for clause in clauses))
        self._codes: Codes = np.empty(0, np.int32)
        self.rejections: list[Rejection | None] = [None]
        self._known: dict[Rejection | None, int] = {None: 0}

    def decide(
        self,
        table: NodeTable,
        rows: NodeRows,
        evaluation: Evaluation,
        known_rows: KnownRows | None = None,
    ) -> Decision:
        """A verdict per row. Raises DeadlineExceededError."""
        if self._failed is not None:
            return decision([self._failed] * len(rows), known_rows)
        codes = self._evaluated(table, rows, evaluation)
        if not np.logical_or.reduce(codes):
            return Decision(codes, (FEASIBLE,), known_rows)
        counts: list[int] = np.bincount(codes, minlength=len(self.rejections)).tolist()
        # A clause has a rejection for each error, and one text, which is made once.
        texts: dict[tuple[FilterProgram, bool], str] = {}
        verdicts: list[Verdict] = []
        for rejection, count in zip(self.rejections, counts, strict=True):
            if rejection is None or not count:
                verdicts.append(FEASIBLE)
                continue
            key = rejection.clause, rejection.known
            if (text := texts.get(key)) is None:
                text = texts[key] = rejection.text(evaluation)
            verdicts.append(rejection.verdict(text))
        return Decision(codes, verdicts, known_rows)

    def _evaluated(self, table: NodeTable, rows: NodeRows, evaluation: Evaluation) -> Codes:
        """Indexes into `rejections`, in the order of `rows`.

        Portions that were evaluated before the deadline are kept.
        """
        if len(self.rejections) > _MOST_REJECTIONS:
            self._start_over()
        portions = self._fresh.stale(table, rows)
        if portions or len(self._codes) < len(table.views):
            self._codes = grown(self._codes, len(table.views), 0)
        for portion in portions:
            nodes = [table.views[row] for row in portion]
            found = rejections(self._clauses, evaluation.frame(), nodes, evaluation.check)
            self._codes[portion] = [self._code(rejection) for rejection in found]
            self._fresh.worked_out(table, portion)
        return self._codes[rows]

    def _code(self, rejection: Rejection | None) -> int:
        code = self._known.get(rejection)
        if code is None:
            code = self._known[rejection] = len(self.rejections)
            self.rejections.append(rejection)
        return code

    def _start_over(self) -> None:
        self._fresh.forget()
        self.rejections, self._known = [None], {None: 0}


def rejections(
    clauses: Sequence[FilterProgram],
    frame: Frame,
    nodes: Sequence[object | None],
    check: CheckDeadline,
) -> list[Rejection | None]:
    """The rejection of each node, in order, or None; a node that is None is not known.

    The first clause that does not hold decides. `check` raises DeadlineExceededError; it is called
    between clauses and every 512 nodes.
    """
    found: list[Rejection | None] = [None] * len(nodes)
    left = list(range(len(nodes)))
    for clause in clauses:
        left = _apply(clause, frame, nodes, left, found, check)
    return found


def _apply(
    clause: FilterProgram,
    frame: Frame,
    nodes: Sequence[object | None],
    left: list[int],
    found: list[Rejection | None],
    check: CheckDeadline,
) -> list[int]:
    """Evaluates a clause on the nodes that are left; returns those that pass it."""
    check()
    if not left:
        return left
    per_node = clause.reads_node or (clause.when is not None and clause.when.per_node)
    if not per_node:
        rejection = judge(clause, frame)
        if rejection is None:
            return left
        for i in left:
            found[i] = rejection
        return []
    if clause.when is not None and not clause.when.per_node and not _holds(clause, frame):
        return left
    passed: list[int] = []
    unknown = Rejection(clause, known=False)
    for count, i in enumerate(left):
        if not count % NODES_PER_LOOK:
            check()
        node = nodes[i]
        if node is None:
            found[i] = unknown
            continue
        frame.node = node
        rejection = judge(clause, frame)
        if rejection is None:
            passed.append(i)
        else:
            found[i] = rejection
    return passed


def judge(clause: FilterProgram, frame: Frame) -> Rejection | None:
    """The rejection of the frame's node by one clause, or None."""
    try:
        if clause.when is not None and clause.when.evaluate(frame) is not True:
            return None
    except MissingError:
        return None
    except EvaluationError as error:
        return None if clause.ignores_errors else Rejection(clause, shown(str(error)))
    try:
        for require in clause.requires:
            if require(frame) is not True:
                return Rejection(clause)
    except MissingError:
        return None if clause.passes_missing else Rejection(clause)
    except EvaluationError as error:
        return None if clause.ignores_errors else Rejection(clause, shown(str(error)))
    return None


def _holds(clause: FilterProgram, frame: Frame) -> bool:
    """Whether a condition about the pod lets the clause apply; an error is judged per node."""
    assert clause.when is not None
    try:
        return clause.when.evaluate(frame) is True
    except MissingError:
        return False
    except EvaluationError:
        return True
