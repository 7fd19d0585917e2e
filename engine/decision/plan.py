"""Plan: the clauses compiled for one pod shape, and what they gave on each node.

A plan is made for the first pod of a shape under one registry. It remembers verdicts and scores by
row and re-evaluates a node only when the node has changed. The CallOpener keeps plans, bounded by
their size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from engine.cache.names import KnownRows
from engine.cache.node_table import NodeRows, NodeTable
from engine.counting.count_clauses import CountClauses
from engine.decision import scoring
from engine.decision.filtering import FilterMemo
from engine.decision.registry import Registry, Selection
from engine.decision.scoring import MeanMemo, ScoreMemo
from engine.decision.verdict import FEASIBLE, Decision, Failed, decision
from engine.objects.codec import Namespace
from engine.program.frame import Evaluation, Frame, Points, Term
from engine.program.program import Program


class Plan:
    """The decisions about pods of one shape; it grows with the nodes it has seen.

    `empty`: no policy concerns such pods. `audits`: some policy is in audit mode. `scored`: some
    score clause or count preference applies.
    """

    def __init__(
        self,
        registry: Registry,
        where: str,
        namespace: Namespace | None,
        evaluation: Evaluation,
        *,
        nodes: int,
        exempt: str,
    ) -> None:
        """`evaluation` is of the first pod of the shape, `where` is its namespace.

        `nodes` estimates the size of the cluster. `exempt` is the reason why no policy decides,
        empty where policies do.
        """
        self.registry = registry
        self.namespace = namespace
        self.frame: Frame = evaluation.frame()
        self.selection = selection = (
            Selection(exempt=exempt) if exempt else registry.select(where, self.frame)
        )
        self.empty = selection.empty
        enforced = selection.enforced
        self._filters = FilterMemo([clause for program in enforced for clause in program.filters])
        self._audits = [(program, FilterMemo(program.filters)) for program in selection.audited]
        self.audited_counts = [
            (program, CountClauses(program.counts, evaluation))
            for program in selection.audited
            if any(clause.count.weight is None for clause in program.counts)
        ]
        self.audits = bool(self._audits)
        scores = [
            clause
            for program in enforced
            for clause in program.scores
            if scoring.applies(clause, evaluation)
        ]
        self._scores = [ScoreMemo(clause) for clause in scores]
        # Where no clause compares the nodes of a request, the score of a node can be remembered.
        self._mean = None if any(map(scoring.compares, scores)) else MeanMemo(scores)
        counts = [clause for program in enforced for clause in program.counts]
        self.counts = CountClauses(counts, evaluation)
        self.scored = bool(self._scores) or self.counts.soft
        every = (*enforced, *selection.audited)
        self.time_dependent_counts = any(
            c.count.peers.time_dependent for p in every for c in p.counts
        )
        memos = 12 * (1 + len(self._audits)) + 16 * len(self._scores)
        self.bytes = 4096 + nodes * memos

    def filter(
        self,
        table: NodeTable,
        rows: NodeRows,
        evaluation: Evaluation,
        known_rows: KnownRows | None = None,
    ) -> Decision:
        """A verdict per row. Raises DeadlineExceededError."""
        for broken in self.selection.unselectable:
            reason = f"policy {broken.program.name}: its `for` cannot be evaluated"
            failed = Failed(reason, broken.program.address, "for", broken.error)
            return decision([failed] * len(rows), known_rows)
        return _decide(self._filters, table, rows, evaluation, known_rows)

    def audit(
        self, table: NodeTable, rows: NodeRows, evaluation: Evaluation
    ) -> Iterator[tuple[Program, Decision]]:
        """The verdicts of each policy in audit mode. Raises DeadlineExceededError."""
        for program, memo in self._audits:
            yield program, _decide(memo, table, rows, evaluation, None)

    def scores(
        self, table: NodeTable, rows: NodeRows, evaluation: Evaluation, soft: Sequence[Term] = ()
    ) -> Points:
        """An integer 0..10 per row, if the plan is scored. Raises DeadlineExceededError.

        `soft` are the terms of count preferences.
        """
        if self._mean is not None and not soft:
            return self._mean.points(table, rows, evaluation)
        terms: list[Term] = [
            (abs(memo.clause.weight), scoring.points(memo.clause, values))
            for memo in self._scores
            for values in [memo.values(table, rows, evaluation)]
        ]
        return scoring.scores([*terms, *soft])


def _decide(
    memo: FilterMemo,
    table: NodeTable,
    rows: NodeRows,
    evaluation: Evaluation,
    known_rows: KnownRows | None,
) -> Decision:
    codes = memo.codes(table, rows, evaluation)
    if not np.logical_or.reduce(codes):
        return Decision(codes, (FEASIBLE,), known_rows)
    counts: list[int] = np.bincount(codes, minlength=len(memo.rejections)).tolist()
    verdicts = [
        rejection.verdict(evaluation.frame) if rejection is not None and count else FEASIBLE
        for rejection, count in zip(memo.rejections, counts, strict=True)
    ]
    return Decision(codes, verdicts, known_rows)
