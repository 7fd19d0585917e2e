"""Portions: what every clause says of every node, worked out a few milliseconds at a time.

A server does it on the event loop that decides, and decisions are made between two portions. All of
it is about one snapshot, which does not change meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import numpy as np

from engine.cache.node_table import NodeRows
from engine.counting.bounds import Mask
from engine.counting.groups import CountHeadroom
from engine.decision import scoring
from engine.decision.filtering import Rejection
from engine.errors import DeadlineExceededError
from engine.explanation.evidence import shown_groups
from engine.explanation.inspection import Contribution, Inspection, Objection, contribution, mask_of
from engine.explanation.written import ClauseResults
from engine.program.frame import Evaluation, unhurried
from engine.program.policy_time import CallTime
from engine.program.program import (
    CountClause,
    FilterProgram,
    Program,
    RejectingProgram,
    ScoreProgram,
    applies,
)
from engine.work import Work

T = TypeVar("T")

PORTION_SECONDS = 0.002
# The nodes between two looks at the clock.
_NODES = 8
# The most portions for one clause.
_MOST_PORTIONS = 2_000


class PodResults:
    """The results of an inspection for some nodes, which each step works out in portions."""

    def __init__(
        self, inspection: Inspection, names: Sequence[str], clock: Callable[[], float]
    ) -> None:
        self.inspection = inspection
        self.names = names
        self.headrooms: list[CountHeadroom] = []
        self._rows = inspection.table.find(names)
        self._clock = clock
        self._ends = clock() + PORTION_SECONDS

    def objections(self) -> Work[list[Objection]]:
        """The objections of the policies that apply, then those of pods that are there.

        Yields after each portion. Raises DeadlineExceededError for what gets no further.
        """
        inspection = self.inspection
        found: list[Objection] = []
        for program in inspection.selection.enforced:
            found += yield from self.objections_of(program)
        for limit in inspection.mutual:
            step = partial(inspection.mutual_objection, limit, self._rows, tuple(found))
            found += yield from self._again(step)
        return found

    def headrooms_of_pod(self) -> Work[None]:
        """Works out the headrooms of the strict counts of the policies that apply."""
        for program in self.inspection.selection.enforced:
            for counted in program.counts:
                yield from self._count(counted)

    def objections_of(self, program: Program) -> Work[list[Objection]]:
        """The objections of a policy's filters, then of its strict counts, in their order."""
        found: list[Objection] = []
        for clause in program.filters:
            rejections = yield from self._rejections(clause)
            found.append(self.inspection.filter_objection(clause, rejections))
        for counted in program.counts:
            found += yield from self._count(counted)
        return found

    def passing(self, objections: Sequence[Objection]) -> list[str]:
        """The nodes that no clause refuses."""
        results = ClauseResults(self.inspection, self.names, {}, objections)
        if self.inspection.selection.unselectable:
            return []
        refused = np.any(results.refused, axis=0)
        return [n for n, no in zip(self.names, refused.tolist(), strict=True) if not no]

    def results(
        self,
        objections: Sequence[Objection],
        given: Sequence[Contribution],
        scored: Sequence[str],
    ) -> ClauseResults:
        """The results with the scores that these contributions give these nodes."""
        scores: dict[str, int] = {}
        if given and scored:
            points = scoring.scores([(each.weight, each.points) for each in given])
            scores = dict(zip(scored, points.tolist(), strict=True))
        return ClauseResults(self.inspection, self.names, scores, objections)

    def parts(self, clause: RejectingProgram) -> Work[list[Mask]]:
        """The nodes on which each `require` of a filter does not hold, each by itself."""
        found = []
        for part in clause.parts():
            rejections = yield from self._rejections(part)
            found.append(mask_of(rejections))
        return found

    def contributions(self, names: Sequence[str]) -> Work[list[Contribution]]:
        """The contributions to the scores of these nodes."""
        inspection, rows = self.inspection, self.inspection.table.find(names)
        found: list[Contribution] = []
        evaluation = unhurried(inspection.frame.anew())
        for program in inspection.selection.enforced:
            for clause in program.scores:
                if applies(clause, evaluation):
                    found += [(yield from self._score(clause, rows))]
            for counted in program.counts:
                count = counted.count
                terms = yield from self._again(partial(inspection.terms, counted, rows))
                found += [Contribution(count.policy, count.name, w, p, None) for w, p in terms]
        return found

    def counts(self, name: str) -> Work[None]:
        """Works out which pods each clause counts for a node, for the evidence of this node."""
        inspection = self.inspection
        for program in inspection.selection.enforced:
            for clause in program.counts:
                yield from self._again(partial(inspection.groups_of, clause))
                counts, group = inspection.group_counts(clause, name)
                yield
                if group < 0:
                    continue
                for wanted in shown_groups(clause, counts, group):
                    for _ in inspection.counting(clause, wanted):
                        yield from self.pause()

    def _rejections(self, clause: FilterProgram) -> Work[list[Rejection | None]]:
        found: list[Rejection | None] = []
        for first in range(0, len(self._rows), _NODES):
            found += self.inspection.rejections(clause, self._rows[first : first + _NODES])
            yield from self.pause()
        return found

    def _count(self, clause: CountClause) -> Work[list[Objection]]:
        inspection = self.inspection
        found = yield from self._again(partial(inspection.headrooms, clause, self._rows))
        self.headrooms += found
        return [inspection.count_objection(headroom) for headroom in found]

    def _score(self, clause: ScoreProgram, rows: NodeRows) -> Work[Contribution]:
        parts, errors = [np.zeros(0)], dict[int, str]()
        for first in range(0, len(rows), _NODES):
            values, failed = self.inspection.values(clause, rows[first : first + _NODES])
            parts.append(values)
            errors |= {first + index: error for index, error in failed.items()}
            yield from self.pause()
        return contribution(clause, np.concatenate(parts), errors)

    def _again(self, step: Callable[[Evaluation], T]) -> Work[T]:
        """The result of a step that goes on where its last portion ended."""
        for _ in range(_MOST_PORTIONS):
            try:
                found = step(self._evaluation())
            except DeadlineExceededError:
                yield
            else:
                yield
                return found
        raise DeadlineExceededError("the explanation takes too long")

    def _evaluation(self) -> Evaluation:
        """The context of one portion: no policy is charged for what people ask."""
        quiet = unhurried(self.inspection.frame.anew())
        time = CallTime(self._clock, self._clock() + PORTION_SECONDS, is_portion=True)
        return Evaluation(quiet.frame, quiet.now, time, quiet.report, quiet.report_text)

    def pause(self) -> Work[None]:
        """Yields at the end of a portion."""
        if self._clock() >= self._ends:
            yield
            self._ends = self._clock() + PORTION_SECONDS
