"""What is the same for all pods of one shape: which policies, which terms, and what is kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from engine import scoring
from engine.cache.namespace import Namespace
from engine.cache.node_table import NodeTable, Places
from engine.counting.counting import Counting
from engine.filtering import CheckDeadline
from engine.memo import FilterMemo, MeanMemo, ScoreMemo
from engine.program.frame import Frame, LazyFrame
from engine.program.program import Program
from engine.registry import Registry, Selection
from engine.scoring import Points, Report, Term
from engine.verdict import FEASIBLE, Decision, Failed, decision


class Plan:
    """How pods of one shape are decided under one registry; grows with the nodes it has seen."""

    def __init__(
        self,
        registry: Registry,
        where: str,
        namespace: Namespace | None,
        frame: Frame,
        report: Report,
        *,
        nodes: int,
        exempt: str,
    ) -> None:
        """`frame` is that of the first pod of the shape, `where` its namespace.

        `nodes` is how many there may be; `exempt` is why no policy decides, empty where they do.
        """
        self.registry = registry
        self.namespace = namespace
        self.frame = frame
        chosen = Selection(exempt=exempt) if exempt else registry.select(where, frame)
        self.selection = selection = chosen
        clauses = [clause for program in selection.enforced for clause in program.filters]
        self._filters = FilterMemo(clauses)
        self._audits = [(program, FilterMemo(program.filters)) for program in selection.audited]
        self.audited_counts = [
            (program, Counting(program.counts, frame, report))
            for program in selection.audited
            if any(clause.count.weight is None for clause in program.counts)
        ]
        scores = [
            clause
            for program in selection.enforced
            for clause in program.scores
            if scoring.applies(clause, frame, report)
        ]
        self._scores = [ScoreMemo(clause) for clause in scores]
        # Where no clause compares the nodes of a request, each has its score by itself.
        self._single = None if any(map(scoring.compares, scores)) else MeanMemo(scores)
        counts = [clause for program in selection.enforced for clause in program.counts]
        self.counting = Counting(counts, frame, report)
        every = (*selection.enforced, *selection.audited)
        self.timely_counts = any(c.count.peers.timely for p in every for c in p.counts)
        memos = 12 * (1 + len(self._audits)) + 16 * len(self._scores)
        self.bytes = 4096 + nodes * memos

    def filter(
        self, table: NodeTable, places: Places, frame: LazyFrame, check: CheckDeadline
    ) -> Decision:
        """A verdict per place. Raises DeadlineExceededError."""
        for broken in self.selection.unselectable:
            reason = f"policy {broken.program.name}: its `for` cannot be evaluated"
            refused = Failed(reason, broken.program.address, "for", broken.error)
            return decision([refused] * len(places))
        return _decide(self._filters, table, places, frame, check)

    def audit(
        self, table: NodeTable, places: Places, frame: LazyFrame, check: CheckDeadline
    ) -> Iterator[tuple[Program, Decision]]:
        """What each policy in audit mode would have said. Raises DeadlineExceededError."""
        for program, memo in self._audits:
            yield program, _decide(memo, table, places, frame, check)

    @property
    def scored(self) -> bool:
        """Whether any score, or any wish about counts, applies."""
        return bool(self._scores) or self.counting.wishes

    def scores(
        self,
        table: NodeTable,
        places: Places,
        frame: LazyFrame,
        check: CheckDeadline,
        report: Report,
        wishes: Sequence[Term] = (),
    ) -> Points:
        """An integer 0..10 per place, if there is a score or wish. Raises DeadlineExceededError."""
        if self._single is not None and not wishes:
            return self._single.points(table, places, frame, check, report)
        terms = self.terms(table, places, frame, check, report)
        return scoring.scores([*terms, *wishes])

    def terms(
        self,
        table: NodeTable,
        places: Places,
        frame: LazyFrame,
        check: CheckDeadline,
        report: Report,
    ) -> list[Term]:
        """The score clauses' weights and points per place. Raises DeadlineExceededError."""
        return [
            (abs(memo.clause.weight), scoring.points(memo.clause, values))
            for memo in self._scores
            for values in [memo.values(table, places, frame, check, report)]
        ]


def _decide(
    memo: FilterMemo, table: NodeTable, places: Places, frame: LazyFrame, check: CheckDeadline
) -> Decision:
    codes = memo.codes(table, places, frame, check)
    if not np.logical_or.reduce(codes):
        return Decision(codes, (FEASIBLE,))
    counts: list[int] = np.bincount(codes, minlength=len(memo.findings)).tolist()
    verdicts = [
        finding.verdict(frame) if finding is not None and count else FEASIBLE
        for finding, count in zip(memo.findings, counts, strict=True)
    ]
    return Decision(codes, verdicts)
