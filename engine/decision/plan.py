"""What one shape of pod gets on each node, worked out again only where the node is another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from engine.cache.node_table import NodeRows, NodeTable
from engine.counting.headroom import CountClauses
from engine.decision import filtering, scoring
from engine.decision.filtering import Rejection
from engine.decision.registry import Registry, Selection
from engine.decision.verdict import FEASIBLE, Codes, Decision, Failed, decision
from engine.objects.codec import Namespace
from engine.program.columns import Freshness, grown
from engine.program.frame import (
    CheckDeadline,
    Floats,
    Frame,
    LazyFrame,
    Points,
    Report,
    Term,
)
from engine.program.program import FilterProgram, Program, ScoreProgram

# So many different findings are of errors that name what they found: they start over.
_MOST_FINDINGS = 1000


class FilterMemo:
    """The first of some clauses that refuses each node."""

    def __init__(self, clauses: Sequence[FilterProgram]) -> None:
        self._clauses = clauses
        self._fresh = Freshness(time_dependent=any(clause.time_dependent for clause in clauses))
        self._codes: Codes = np.empty(0, np.int32)
        self.findings: list[Rejection | None] = [None]
        self._known: dict[Rejection | None, int] = {None: 0}

    def codes(
        self,
        table: NodeTable,
        rows: NodeRows,
        frame: Callable[[], Frame],
        check: CheckDeadline,
    ) -> Codes:
        """Indexes into `findings`, in the order of `rows`. Raises DeadlineExceededError.

        What was worked out before the deadline is kept.
        """
        if len(self.findings) > _MOST_FINDINGS:
            self._start_over()
        self._codes = grown(self._codes, len(table.views), 0)
        for portion in self._fresh.stale(table, rows):
            nodes = [table.views[row] for row in portion]
            found = filtering.rejections(self._clauses, frame(), nodes, check)
            self._codes[portion] = [self._code(finding) for finding in found]
            self._fresh.worked_out(table, portion)
        return self._codes[rows]

    def _code(self, finding: Rejection | None) -> int:
        code = self._known.get(finding)
        if code is None:
            code = self._known[finding] = len(self.findings)
            self.findings.append(finding)
        return code

    def _start_over(self) -> None:
        self._fresh.forget()
        self.findings, self._known = [None], {None: 0}


class ScoreMemo:
    """The number that one clause has for each node."""

    def __init__(self, clause: ScoreProgram) -> None:
        self.clause = clause
        self._fresh = Freshness(time_dependent=clause.time_dependent)
        self._values: Floats = np.empty(0)

    def values(
        self,
        table: NodeTable,
        rows: NodeRows,
        frame: Callable[[], Frame],
        check: CheckDeadline,
        report: Report,
    ) -> Floats:
        """In the order of `rows`, NaN where there is none. Raises DeadlineExceededError."""
        self._values = grown(self._values, len(table.views), scoring.MISSING)
        for portion in self._fresh.stale(table, rows):
            check()
            self._values[portion] = _values(self.clause, table, portion, frame(), report)
            self._fresh.worked_out(table, portion)
        return self._values[rows]


class MeanMemo:
    """The score of each node, by clauses that do not compare it with others."""

    def __init__(self, clauses: Sequence[ScoreProgram]) -> None:
        self._clauses = clauses
        self._scale = scoring.Scale(clauses)
        self._fresh = Freshness(time_dependent=any(clause.time_dependent for clause in clauses))
        self._points: npt.NDArray[np.int64] = np.empty(0, np.int64)

    def points(
        self,
        table: NodeTable,
        rows: NodeRows,
        frame: Callable[[], Frame],
        check: CheckDeadline,
        report: Report,
    ) -> Points:
        """In the order of `rows`. Raises DeadlineExceededError."""
        self._points = grown(self._points, len(table.views), 0)
        for portion in self._fresh.stale(table, rows):
            values = []
            for clause in self._clauses:
                check()
                values.append(_values(clause, table, portion, frame(), report))
            self._points[portion] = self._scale.scores(np.array(values))
            self._fresh.worked_out(table, portion)
        return self._points[rows]


def _values(
    clause: ScoreProgram, table: NodeTable, rows: NodeRows, frame: Frame, report: Report
) -> list[float]:
    """The number that a clause has for each node, NaN where there is none."""
    found: list[float] = []
    for row in rows:
        frame.node = table.views[row]
        known = frame.node is not None
        found.append(scoring.value(clause, frame, report) if known else scoring.MISSING)
    return found


# ---- What is the same for all pods of one shape: which policies, which terms, and what is kept.


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
            (program, CountClauses(program.counts, frame, report))
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
        self.counting = CountClauses(counts, frame, report)
        every = (*selection.enforced, *selection.audited)
        self.time_dependent_counts = any(
            c.count.peers.time_dependent for p in every for c in p.counts
        )
        memos = 12 * (1 + len(self._audits)) + 16 * len(self._scores)
        self.bytes = 4096 + nodes * memos

    def filter(
        self, table: NodeTable, rows: NodeRows, frame: LazyFrame, check: CheckDeadline
    ) -> Decision:
        """A verdict per place. Raises DeadlineExceededError."""
        for broken in self.selection.unselectable:
            reason = f"policy {broken.program.name}: its `for` cannot be evaluated"
            refused = Failed(reason, broken.program.address, "for", broken.error)
            return decision([refused] * len(rows))
        return _decide(self._filters, table, rows, frame, check)

    def audit(
        self, table: NodeTable, rows: NodeRows, frame: LazyFrame, check: CheckDeadline
    ) -> Iterator[tuple[Program, Decision]]:
        """What each policy in audit mode would have said. Raises DeadlineExceededError."""
        for program, memo in self._audits:
            yield program, _decide(memo, table, rows, frame, check)

    @property
    def scored(self) -> bool:
        """Whether any score, or any wish about counts, applies."""
        return bool(self._scores) or self.counting.soft_counts

    def scores(
        self,
        table: NodeTable,
        rows: NodeRows,
        frame: LazyFrame,
        check: CheckDeadline,
        report: Report,
        soft_counts: Sequence[Term] = (),
    ) -> Points:
        """An integer 0..10 per place, if there is a score or wish. Raises DeadlineExceededError."""
        if self._single is not None and not soft_counts:
            return self._single.points(table, rows, frame, check, report)
        terms = self.terms(table, rows, frame, check, report)
        return scoring.scores([*terms, *soft_counts])

    def terms(
        self,
        table: NodeTable,
        rows: NodeRows,
        frame: LazyFrame,
        check: CheckDeadline,
        report: Report,
    ) -> list[Term]:
        """The score clauses' weights and points per place. Raises DeadlineExceededError."""
        return [
            (abs(memo.clause.weight), scoring.points(memo.clause, values))
            for memo in self._scores
            for values in [memo.values(table, rows, frame, check, report)]
        ]


def _decide(
    memo: FilterMemo, table: NodeTable, rows: NodeRows, frame: LazyFrame, check: CheckDeadline
) -> Decision:
    codes = memo.codes(table, rows, frame, check)
    if not np.logical_or.reduce(codes):
        return Decision(codes, (FEASIBLE,))
    counts: list[int] = np.bincount(codes, minlength=len(memo.findings)).tolist()
    verdicts = [
        finding.verdict(frame) if finding is not None and count else FEASIBLE
        for finding, count in zip(memo.findings, counts, strict=True)
    ]
    return Decision(codes, verdicts)
