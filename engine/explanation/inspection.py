"""Inspection: what every clause says of every node for one pod, for people.

A filter call ends at the first clause that rejects a node; an inspection evaluates all clauses. It
belongs to its caller, answers no request, and changes nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from engine.cache.node_table import NodeRows, NodeTable
from engine.counting.bounds import GroupCounts, Mask
from engine.counting.count_clauses import CountClauses
from engine.counting.groups import CountGroups, CountHeadroom
from engine.counting.members import PodInGroup
from engine.counting.mutual_limits import MutualLimit
from engine.counting.pod_counter import PodCounter
from engine.decision import filtering, scoring
from engine.decision.filtering import Rejection
from engine.decision.registry import Selection
from engine.decision.verdict import full_reason
from engine.engine import Engine
from engine.errors import DeadlineExceededError
from engine.gangs.gang import GangOfPod
from engine.objects.peer import Peer
from engine.program.frame import Evaluation, Floats, Frame, Term, unhurried
from engine.program.policy_time import CallTime
from engine.program.program import (
    CountClause,
    FilterProgram,
    GangProgram,
    Program,
    RejectingProgram,
    ScoreProgram,
    applies,
)
from engine.work import Work, finished
from grammar.values.errors import EvaluationError

T = TypeVar("T")

PORTION_SECONDS = 0.002
# The nodes between two looks at the clock.
_NODES = 8
# The most portions for one clause.
_MOST_PORTIONS = 2_000


@dataclass(frozen=True, slots=True)
class Objection:
    """The nodes that one clause rejects, of the nodes in question.

    `errors` are the evaluations that failed, by index; `message` is the text of a rejection.
    `is_mutual` says that the limit belongs to pods that are there, or may end there.
    """

    policy: str
    name: str
    program: RejectingProgram
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


@dataclass(frozen=True, slots=True)
class ClauseResults:
    """The results of every clause on these nodes for one pod.

    `names` are sorted. `scores` are 0..10 for nodes that pass, empty if no score applies.
    """

    inspection: Inspection
    names: Sequence[str]
    scores: Mapping[str, int]
    objections: Sequence[Objection]

    @property
    def refused(self) -> Mask:
        """A row for each clause and a column for each node."""
        shape = len(self.objections), len(self.names)
        return np.array([o.refused for o in self.objections], np.bool_).reshape(shape)

    def holds(self, name: str) -> bool:
        """Whether no clause refuses the node. The answer may still hold it back."""
        return not self.inspection.selection.unselectable and not self.against(name)

    def against(self, name: str) -> list[Objection]:
        """The clauses that refuse the node, in their order in the policies."""
        index = bisect_left(self.names, name)
        return [o for o in self.objections if o.refused[index]]


class Inspection:
    """An inspection of one pod in one snapshot. Only one inspection at a time is valid."""

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
        self.mutual = mutual
        self.selection = selection
        self.frame = frame
        self.table = table
        self._counter = counter
        self._evaluation = unhurried(copy(frame))
        self._groups: dict[CountClause, CountGroups] = {}
        self._counts: dict[CountClause, CountClauses] = {}
        self._counted: dict[tuple[CountClause, tuple[int, ...]], list[PodInGroup]] = {}

    @classmethod
    def of(cls, engine: Engine, pod: bytes) -> Inspection:
        """The inspection of a pod; nothing is offered or recorded.

        Raises EngineError where there would be no decision.
        """
        call, counter = engine.opened(pod)
        frame, mutual = call.evaluation.frame(), call.plan.counts.mutual
        return cls(call.plan.selection, frame, call.snapshot.table, counter, mutual)

    @property
    def peer(self) -> Peer:
        """The pod as rules see it as a `peer`."""
        return self._counter.context.peer()

    def frame_at(self, name: str) -> Frame:
        """The frame of the pod and one node, for the caller alone: nothing here changes it."""
        frame = self.frame.anew()
        frame.node = self.table.nodes[int(self.table.find([name])[0])]
        return frame

    def group_counts(self, clause: CountClause, name: str) -> tuple[GroupCounts, int]:
        """The pods in each group of a clause, and the group of a node, or -1."""
        groups = self.groups_of(clause, self._evaluation)
        row = int(self.table.find([name])[0])
        strict = clause.count.weight is None
        return self._counter.count(clause, groups, predicted=not strict), int(groups.ids[row])

    def counting(self, clause: CountClause, wanted: Collection[int]) -> Work[list[PodInGroup]]:
        """The pods that a clause counts in these groups, by name; a few at a time, and kept."""
        key = clause, tuple(wanted)
        if key not in self._counted:
            groups = self.groups_of(clause, self._evaluation)
            predicted = clause.count.weight is not None
            self._counted[key] = yield from self._counter.counted_pods(
                clause, groups, wanted, predicted=predicted
            )
        return self._counted[key]

    def keepers(self, clause: CountClause, name: str) -> list[PodInGroup]:
        """The pods on a node, or on their way there, whose mutual limit keeps the pod out."""
        row = int(self.table.find([name])[0])
        found: set[PodInGroup] = set()
        for limit in self.mutual:
            if limit.clause is clause:
                found.update(limit.keepers(self._counter, self.table, row, self._evaluation))
        return sorted(found)

    # ---- everything at once

    def objections(self, programs: Iterable[Program], names: Sequence[str]) -> list[Objection]:
        """The objections of a policy's filters, then of its strict counts, in their order."""
        walk = PodResults(self, names)
        return [o for program in programs for o in finished(walk.objections_of(program))]

    def all_objections(self, names: Sequence[str]) -> list[Objection]:
        """The objections of the policies that apply, then of pods that are there."""
        return finished(PodResults(self, names).objections())

    def contributions(self, names: Sequence[str]) -> list[Contribution]:
        """The contributions to the scores of these nodes, as one prioritize call has them."""
        return finished(PodResults(self, names).contributions(names))

    # ---- the steps of a walk

    def headrooms(
        self, clause: CountClause, rows: NodeRows, evaluation: Evaluation
    ) -> list[CountHeadroom]:
        """The headroom of a strict clause, if it applies. Raises as CountClauses.headrooms."""
        clauses = self._clauses_of(clause)
        found = clauses.headrooms(self._counter, self.table, rows, evaluation)
        return [headroom for headroom in found if headroom.clause is clause]

    def terms(self, clause: CountClause, rows: NodeRows, evaluation: Evaluation) -> list[Term]:
        """The points of a clause with a weight, if it applies. Raises as CountClauses.terms."""
        return self._clauses_of(clause).terms(self._counter, self.table, rows, evaluation)

    def groups_of(self, clause: CountClause, evaluation: Evaluation) -> CountGroups:
        """The groups of nodes of a clause. Raises as CountGroups.update; the next call goes on."""
        groups = self._groups.setdefault(clause, CountGroups(clause))
        groups.update(self.table, evaluation)
        return groups

    def filter_objection(
        self, clause: FilterProgram, found: Sequence[Rejection | None]
    ) -> Objection:
        """The objection of a filter, from its rejection of each node."""
        errors = {i: r.error for i, r in enumerate(found) if r is not None and r.error}
        message = clause.message(self._evaluation)
        return Objection(clause.policy, clause.name, clause, mask_of(found), errors, message)

    def count_objection(self, headroom: CountHeadroom) -> Objection:
        """The objection of a clause that counts, to nodes that are full without pods in flight."""
        count = headroom.clause.count
        message = count.message(self._evaluation)
        return Objection(count.policy, count.name, headroom.clause, ~headroom.hopeful, {}, message)

    def mutual_headroom(
        self, limit: MutualLimit, rows: NodeRows, evaluation: Evaluation
    ) -> CountHeadroom:
        """The headroom of a limit of pods that are there. Raises as MutualLimit.headroom."""
        return limit.headroom(self._counter, self.table, rows, evaluation)

    def mutual_objection(
        self, headroom: CountHeadroom, others: Sequence[Objection]
    ) -> list[Objection]:
        """The objection of a limit of pods that are there, to nodes that its clause accepts."""
        refused, clause, count = ~headroom.hopeful, headroom.clause, headroom.clause.count
        for each in others:
            if each.program is clause:
                refused &= ~each.refused
        if not refused.any():
            return []
        text = count.message(self._evaluation)
        return [Objection(count.policy, count.name, clause, refused, {}, text, is_mutual=True)]

    def gang_objection(self, gang: GangOfPod, names: Sequence[str]) -> Objection:
        """The objection of a gang to the nodes that it does not leave to the pod."""
        allowed = names if gang.allowed is None else gang.allowed
        refused = np.array([name not in allowed for name in names], np.bool_)
        program = gang.program
        message = f"{self.gang_message(program)}: {gang.refusal}"
        return Objection(program.policy, program.name, program, refused, {}, message)

    def gang_message(self, gang: GangProgram) -> str:
        """What the texts of a gang begin with."""
        return gang.message(self._evaluation)

    def _clauses_of(self, clause: CountClause) -> CountClauses:
        if (found := self._counts.get(clause)) is None:
            together: Sequence[CountClause] = [clause]
            if clause.count.weight is None:
                # The floors of a policy are judged together.
                policies = (p for p in self.selection.enforced if clause in p.shares)
                together = next((p.shares for p in policies), together)
            found = self._counts[clause] = CountClauses(together, self._evaluation)
        return found

    def rejections(self, clause: FilterProgram, rows: NodeRows) -> list[Rejection | None]:
        nodes = [self.table.nodes[row] for row in rows]
        return filtering.rejections([clause], self._evaluation, nodes)

    def values(self, clause: ScoreProgram, rows: NodeRows) -> tuple[Floats, dict[int, str]]:
        """The numbers of a score, and the errors by index."""
        found: list[float] = []
        errors: dict[int, str] = {}

        def report(policy: str, name: str, error: EvaluationError) -> None:
            errors[len(found)] = str(error)
            self._evaluation.report(policy, name, error)

        frame = self._evaluation.frame()
        for row in rows:
            frame.node = self.table.nodes[row]
            found.append(scoring.value(clause, frame, report))
        return np.array(found), errors


# ---- the walk over all clauses


class PodResults:
    """The results of an inspection for some nodes, which each step works out in portions."""

    def __init__(
        self,
        inspection: Inspection,
        names: Sequence[str],
        clock: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """A clock that stands still makes one portion of each step."""
        self.inspection = inspection
        self.names = names
        self.headrooms: list[CountHeadroom] = []
        # Those of limits of pods that are there.
        self.mutual: list[CountHeadroom] = []
        self._rows = inspection.table.find(names)
        self._clock = clock
        self._ends = clock() + PORTION_SECONDS

    def objections(self) -> Work[list[Objection]]:
        """The objections of the policies that apply, then of pods that are there.

        Yields after each portion. Raises DeadlineExceededError for what gets no further.
        """
        inspection = self.inspection
        found: list[Objection] = []
        for program in inspection.selection.enforced:
            found += yield from self.objections_of(program)
        for limit in inspection.mutual:
            step = partial(inspection.mutual_headroom, limit, self._rows)
            self.mutual.append((yield from self.again(step)))
            found += inspection.mutual_objection(self.mutual[-1], found)
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
                terms = yield from self.again(partial(inspection.terms, counted, rows))
                found += [Contribution(count.policy, count.name, w, p, None) for w, p in terms]
        return found

    def _rejections(self, clause: FilterProgram) -> Work[list[Rejection | None]]:
        found: list[Rejection | None] = []
        for first in range(0, len(self._rows), _NODES):
            found += self.inspection.rejections(clause, self._rows[first : first + _NODES])
            yield from self.pause()
        return found

    def _count(self, clause: CountClause) -> Work[list[Objection]]:
        inspection = self.inspection
        found = yield from self.again(partial(inspection.headrooms, clause, self._rows))
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

    def again(self, step: Callable[[Evaluation], T]) -> Work[T]:
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


def contribution(clause: ScoreProgram, values: Floats, errors: Mapping[int, str]) -> Contribution:
    """The contribution of a score, from its numbers for all nodes in question."""
    given, weight = scoring.points(clause, values), abs(clause.weight)
    return Contribution(clause.policy, clause.name, weight, given, values, errors)


def mask_of(found: Sequence[Rejection | None]) -> Mask:
    """The nodes that have a rejection."""
    return np.array([rejection is not None for rejection in found], np.bool_)


# ---- the summary of a table of rejections


@dataclass(frozen=True, slots=True)
class RelaxedClauses:
    """Clauses, by index, whose removal lets `gained` more nodes pass."""

    clauses: tuple[int, ...]
    gained: int


@dataclass(frozen=True, slots=True)
class RefusalSummary:
    """The summary of a table of rejections by clause and by node, all by index.

    `fails` counts the nodes that each clause rejects, `alone` the nodes that no other clause
    rejects; `passing` is the number of nodes that none rejects. `nearest` are the other nodes,
    those with the fewest rejecting clauses first.
    """

    fails: tuple[int, ...]
    alone: tuple[int, ...]
    passing: int
    nearest: tuple[int, ...]
    relaxations: tuple[RelaxedClauses, ...]


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


def _relaxations(refused: Mask, counts: npt.NDArray[np.int64]) -> list[RelaxedClauses]:
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
        RelaxedClauses(tuple(np.nonzero(sets[:, i])[0].tolist()), int(gained[i]))
        for i in range(sets.shape[1])
    ]
    return sorted(found, key=lambda r: (-r.gained, r.clauses))
