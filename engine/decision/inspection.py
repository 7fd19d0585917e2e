"""Inspection: what every clause says of every node for one pod, for people.

A filter call ends at the first clause that rejects a node; an inspection evaluates all clauses. It
belongs to its caller, answers no request, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from engine.cache.node_table import NodeRows, NodeTable
from engine.counting.count_clauses import CountClauses
from engine.counting.groups import CountGroups, GroupCounts, Mask
from engine.counting.mutual_limits import MutualLimit
from engine.counting.pod_counter import PodCounter, PodInGroup
from engine.decision import filtering, scoring
from engine.decision.filtering import Rejection
from engine.decision.registry import Selection
from engine.decision.verdict import full_reason
from engine.program.frame import Floats, Frame, unhurried
from engine.program.program import CountClause, FilterProgram, Program, ScoreProgram, applies
from grammar.errors import EvaluationError


@dataclass(frozen=True, slots=True)
class Objection:
    """The nodes that one clause rejects, of the nodes in question.

    `errors` are the evaluations that failed, by index; `message` is the text of a rejection. With
    `is_mutual` the limit is that of pods that are there, or may end there.
    """

    policy: str
    name: str
    program: FilterProgram | CountClause
    refused: Mask
    errors: dict[int, str]
    message: str
    is_mutual: bool = False

    @property
    def text(self) -> str:
        """Policy, clause and message; the default message is left out."""
        return full_reason(self.policy, self.name, self.message)


@dataclass(frozen=True, slots=True)
class Contribution:
    """The points 0..100 that one clause gives each of the nodes in question, and its weight.

    `values` are the clause's own numbers, NaN where there is none; None for a count. `errors` says
    why a number could not be worked out, by index.
    """

    policy: str
    name: str
    weight: float
    points: Floats
    values: Floats | None
    errors: Mapping[int, str] = field(default_factory=dict)

    def lacks_value(self, index: int) -> bool:
        """Whether the clause has no number for a node, so that its `missing` counts."""
        return self.values is not None and bool(np.isnan(self.values[index]))


class Inspection:
    """One pod under the enforced policies in one snapshot. One inspection at a time is valid."""

    def __init__(
        self,
        selection: Selection,
        frame: Frame,
        table: NodeTable,
        counter: PodCounter,
        mutual: Sequence[MutualLimit] = (),
    ) -> None:
        """`mutual` are the limits of pods that are there which may keep the pod out.

        `frame` is that of the pod. Evaluations here change the node of a copy.
        """
        self._mutual = mutual
        self.selection = selection
        self.frame = frame
        self.table = table
        self._counter = counter
        self._evaluation = unhurried(copy(frame))

    def frame_at(self, name: str) -> Frame:
        """The frame of the pod and one node, for the caller alone: nothing here changes it."""
        frame = self.frame.anew()
        frame.node = self.table.views[int(self.table.find([name])[0])]
        return frame

    def objections(self, programs: Iterable[Program], names: Sequence[str]) -> list[Objection]:
        """The objections of a policy's filters, then of its strict counts, in their order."""
        rows = self.table.find(names)
        return [o for program in programs for o in self._objections(program, rows)]

    def all_objections(self, names: Sequence[str]) -> list[Objection]:
        """The objections of the policies that apply, then those of pods that are there.

        A node that a limit rejects in both ways is in the first objection only.
        """
        found = self.objections(self.selection.enforced, names)
        rows = self.table.find(names)
        for limit in self._mutual:
            refused = ~limit.headroom(self._counter, self.table, rows, self._evaluation).open
            for each in found:
                if each.program is limit.clause:
                    refused &= ~each.refused
            if refused.any():
                clause, count = limit.clause, limit.clause.count
                text = count.message(self._evaluation)
                found.append(
                    Objection(count.policy, count.name, clause, refused, {}, text, is_mutual=True)
                )
        return found

    def parts(self, clause: FilterProgram, names: Sequence[str]) -> list[Mask]:
        """The nodes on which each `require` of a filter does not hold, each by itself."""
        rows = self.table.find(names)
        single = (replace(clause, requires=(require,)) for require in clause.requires)
        return [_mask(self._rejections(part, rows)) for part in single]

    def contributions(self, names: Sequence[str]) -> list[Contribution]:
        """The contributions to the scores of these nodes, as one prioritize call has them."""
        rows = self.table.find(names)
        return [c for program in self.selection.enforced for c in self._given(program, rows)]

    def group_counts(self, clause: CountClause, name: str) -> tuple[GroupCounts, int]:
        """The pods in each group of a clause, and the group of a node, or -1."""
        groups = CountGroups(clause)
        groups.update(self.table, self._evaluation)
        row = int(self.table.find([name])[0])
        strict = clause.count.weight is None
        return self._counter.count(clause, groups, predicted=not strict), int(groups.ids[row])

    def counted_pods(self, clause: CountClause, wanted: Collection[int]) -> list[PodInGroup]:
        """The pods that a clause counts in these groups, by name."""
        groups = CountGroups(clause)
        groups.update(self.table, self._evaluation)
        predicted = clause.count.weight is not None
        return self._counter.counted_pods(clause, groups, wanted, predicted=predicted)

    def keepers(self, clause: CountClause, name: str) -> list[PodInGroup]:
        """The pods on a node, or on their way there, whose mutual limit keeps the pod out."""
        row = int(self.table.find([name])[0])
        found: set[PodInGroup] = set()
        for limit in self._mutual:
            if limit.clause is clause:
                found.update(limit.keepers(self._counter, self.table, row, self._evaluation))
        return sorted(found)

    def _objections(self, program: Program, rows: NodeRows) -> Iterator[Objection]:
        for clause in program.filters:
            found = self._rejections(clause, rows)
            errors = {i: r.error for i, r in enumerate(found) if r is not None and r.error}
            message = clause.message(self._evaluation)
            yield Objection(clause.policy, clause.name, clause, _mask(found), errors, message)
        for counted in program.counts:
            clauses = CountClauses([counted], self._evaluation)
            for headroom in clauses.headrooms(self._counter, self.table, rows, self._evaluation):
                count = counted.count
                message = count.message(self._evaluation)
                yield Objection(count.policy, count.name, counted, ~headroom.open, {}, message)

    def _rejections(self, clause: FilterProgram, rows: NodeRows) -> list[Rejection | None]:
        nodes = [self.table.views[row] for row in rows]
        return filtering.rejections([clause], self._evaluation, nodes)

    def _given(self, program: Program, rows: NodeRows) -> Iterator[Contribution]:
        for clause in program.scores:
            if applies(clause, self._evaluation):
                values, errors = self._values(clause, rows)
                given, weight = scoring.points(clause, values), abs(clause.weight)
                yield Contribution(clause.policy, clause.name, weight, given, values, errors)
        for counted in program.counts:
            count, clauses = counted.count, CountClauses([counted], self._evaluation)
            for weight, given in clauses.terms(self._counter, self.table, rows, self._evaluation):
                yield Contribution(count.policy, count.name, weight, given, None)

    def _values(self, clause: ScoreProgram, rows: NodeRows) -> tuple[Floats, dict[int, str]]:
        found: list[float] = []
        errors: dict[int, str] = {}

        def report(policy: str, name: str, error: EvaluationError) -> None:
            errors[len(found)] = str(error)
            self._evaluation.report(policy, name, error)

        frame = self._evaluation.frame()
        for row in rows:
            frame.node = self.table.views[row]
            found.append(scoring.value(clause, frame, report))
        return np.array(found), errors


def _mask(found: Sequence[Rejection | None]) -> Mask:
    return np.array([rejection is not None for rejection in found], np.bool_)


@dataclass(frozen=True, slots=True)
class Relaxation:
    """Clauses, by index, whose removal lets `gained` more nodes pass."""

    clauses: tuple[int, ...]
    gained: int


@dataclass(frozen=True, slots=True)
class RefusalSummary:
    """The summary of a table of rejections by clause and by node, all by index.

    `fails` is the number of nodes that each clause rejects, `alone` of those that no other clause
    rejects; `passing` is the number of nodes that none rejects. `nearest` are the other nodes,
    those with the fewest rejecting clauses first.
    """

    fails: tuple[int, ...]
    alone: tuple[int, ...]
    passing: int
    nearest: tuple[int, ...]
    relaxations: tuple[Relaxation, ...]


def summarize(refused: Mask) -> RefusalSummary:
    """The summary of a table with a row per clause and a column per node."""
    counts = refused.sum(axis=0)
    order = np.argsort(counts, kind="stable")
    nearest = order[counts[order] > 0]
    return RefusalSummary(
        fails=tuple(refused.sum(axis=1).tolist()),
        alone=tuple((refused & (counts == 1)).sum(axis=1).tolist()),
        passing=int((counts == 0).sum()),
        nearest=tuple(nearest.tolist()),
        relaxations=tuple(_relaxations(refused, counts)),
    )


def _relaxations(refused: Mask, counts: npt.NDArray[np.int64]) -> list[Relaxation]:
    """The smallest sets of clauses whose removal frees a node, those that free most nodes first.

    A node is free once every clause that rejects it is removed. So the smallest sets are those that
    reject the nodes with the fewest rejecting clauses.
    """
    failing = counts[counts > 0]
    if not len(failing):
        return []
    fewest = int(failing.min())
    closest = refused[:, counts == fewest]
    sets, gained = np.unique(closest, axis=1, return_counts=True)
    found = [
        Relaxation(tuple(np.nonzero(sets[:, i])[0].tolist()), int(gained[i]))
        for i in range(sets.shape[1])
    ]
    return sorted(found, key=lambda r: (-r.gained, r.clauses))
