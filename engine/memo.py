"""What one shape of pod gets on each node, worked out again only where the node is another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from engine import filtering, scoring
from engine.cache.node_table import NodeTable, Places
from engine.filtering import NODES_PER_LOOK, CheckDeadline, Finding
from engine.program.frame import Frame
from engine.program.program import FilterProgram, ScoreProgram
from engine.scoring import Floats, Points, Report
from engine.verdict import Codes

# So many different findings are of errors that name what they found: they start over.
_MOST_FINDINGS = 1000
_NEVER = -1

Scalar = TypeVar("Scalar", bound=np.generic)


class Freshness:
    """At which version of its node each place was last worked out; `timely` is never fresh."""

    def __init__(self, *, timely: bool = False) -> None:
        self._timely = timely
        self._owner: object = None
        self._versions: npt.NDArray[np.int64] = np.empty(0, np.int64)

    def stale(self, table: NodeTable, places: Places | None = None) -> list[Places]:
        """The places that must be worked out, in portions between which the clock is looked at.

        They are of `places`, or of all. Places of another owner are other nodes; new places have
        never been worked out.
        """
        if self._owner is not table.owner:
            self._owner = table.owner
            self._versions = np.empty(0, np.int64)
        self._versions = grown(self._versions, len(table.views), _NEVER)
        if self._timely:
            self.forget()
        # Mostly there is none in the whole cluster, or few.
        changed = (self._versions[: len(table.versions)] != table.versions).nonzero()[0]
        if not len(changed):
            return []
        if places is not None:
            asked = np.zeros(len(table.versions), np.bool_)
            asked[places] = True
            changed = changed[asked[changed]]
        return [changed[i : i + NODES_PER_LOOK] for i in range(0, len(changed), NODES_PER_LOOK)]

    def worked_out(self, table: NodeTable, places: Places) -> None:
        self._versions[places] = table.versions[places]

    def forget(self) -> None:
        self._versions[:] = _NEVER


class FilterMemo:
    """The first of some clauses that refuses each node."""

    def __init__(self, clauses: Sequence[FilterProgram]) -> None:
        self._clauses = clauses
        self._fresh = Freshness(timely=any(clause.timely for clause in clauses))
        self._codes: Codes = np.empty(0, np.int32)
        self.findings: list[Finding | None] = [None]
        self._known: dict[Finding | None, int] = {None: 0}

    def codes(
        self,
        table: NodeTable,
        places: Places,
        frame: Callable[[], Frame],
        check: CheckDeadline,
    ) -> Codes:
        """Indexes into `findings`, in the order of `places`. Raises DeadlineExceededError.

        What was worked out before the deadline is kept.
        """
        if len(self.findings) > _MOST_FINDINGS:
            self._start_over()
        self._codes = grown(self._codes, len(table.views), 0)
        for portion in self._fresh.stale(table, places):
            nodes = [table.views[place] for place in portion]
            found = filtering.findings(self._clauses, frame(), nodes, check)
            self._codes[portion] = [self._code(finding) for finding in found]
            self._fresh.worked_out(table, portion)
        return self._codes[places]

    def _code(self, finding: Finding | None) -> int:
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
        self._fresh = Freshness(timely=clause.timely)
        self._values: Floats = np.empty(0)

    def values(
        self,
        table: NodeTable,
        places: Places,
        frame: Callable[[], Frame],
        check: CheckDeadline,
        report: Report,
    ) -> Floats:
        """In the order of `places`, NaN where there is none. Raises DeadlineExceededError."""
        self._values = grown(self._values, len(table.views), scoring.MISSING)
        for portion in self._fresh.stale(table, places):
            check()
            self._values[portion] = _values(self.clause, table, portion, frame(), report)
            self._fresh.worked_out(table, portion)
        return self._values[places]


class MeanMemo:
    """The score of each node, by clauses that do not compare it with others."""

    def __init__(self, clauses: Sequence[ScoreProgram]) -> None:
        self._clauses = clauses
        self._scale = scoring.Scale(clauses)
        self._fresh = Freshness(timely=any(clause.timely for clause in clauses))
        self._points: npt.NDArray[np.int64] = np.empty(0, np.int64)

    def points(
        self,
        table: NodeTable,
        places: Places,
        frame: Callable[[], Frame],
        check: CheckDeadline,
        report: Report,
    ) -> Points:
        """In the order of `places`. Raises DeadlineExceededError."""
        self._points = grown(self._points, len(table.views), 0)
        for portion in self._fresh.stale(table, places):
            values = []
            for clause in self._clauses:
                check()
                values.append(_values(clause, table, portion, frame(), report))
            self._points[portion] = self._scale.scores(np.array(values))
            self._fresh.worked_out(table, portion)
        return self._points[places]


def _values(
    clause: ScoreProgram, table: NodeTable, places: Places, frame: Frame, report: Report
) -> list[float]:
    """The number that a clause has for each node, NaN where there is none."""
    found: list[float] = []
    for place in places:
        frame.node = table.views[place]
        known = frame.node is not None
        found.append(scoring.value(clause, frame, report) if known else scoring.MISSING)
    return found


def grown(array: npt.NDArray[Scalar], size: int, fill: float) -> npt.NDArray[Scalar]:
    """The array, or a longer copy with `fill` behind what it has."""
    if len(array) >= size:
        return array
    longer = np.full(size, fill, array.dtype)
    longer[: len(array)] = array
    return longer
