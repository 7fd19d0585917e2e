"""Inspection: what every clause says of every node for one pod, for people.

A filter call ends at the first clause that rejects a node; an inspection evaluates all clauses. It
belongs to its caller, answers no request, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field

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
from engine.gangs.gang_of_pod import GangOfPod
from engine.objects.peer import Peer
from engine.program.frame import Evaluation, Floats, Frame, Term, unhurried
from engine.program.program import (
    CountClause,
    FilterProgram,
    GangProgram,
    Program,
    RejectingProgram,
    ScoreProgram,
    applies,
)
from grammar.values.errors import EvaluationError


@dataclass(frozen=True, slots=True)
class Objection:
    """The nodes that one clause rejects, of the nodes in question.

    `errors` are the evaluations that failed, by index; `message` is the text of a rejection. With
    `is_mutual` the limit is that of pods that are there, or may end there.
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
        for limit in self.mutual:
            found += self.mutual_objection(limit, rows, found, self._evaluation)
        return found

    def parts(self, clause: RejectingProgram, names: Sequence[str]) -> list[Mask]:
        """The nodes on which each `require` of a filter does not hold, each by itself."""
        rows = self.table.find(names)
        return [mask_of(self.rejections(part, rows)) for part in clause.parts()]

    def contributions(self, names: Sequence[str]) -> list[Contribution]:
        """The contributions to the scores of these nodes, as one prioritize call has them."""
        rows = self.table.find(names)
        return [c for program in self.selection.enforced for c in self._given(program, rows)]

    def group_counts(self, clause: CountClause, name: str) -> tuple[GroupCounts, int]:
        """The pods in each group of a clause, and the group of a node, or -1."""
        groups = self.groups_of(clause, self._evaluation)
        row = int(self.table.find([name])[0])
        strict = clause.count.weight is None
        return self._counter.count(clause, groups, predicted=not strict), int(groups.ids[row])

    def counted_pods(self, clause: CountClause, wanted: Collection[int]) -> list[PodInGroup]:
        """The pods that a clause counts in these groups, by name."""
        work = self.counting(clause, wanted)
        while True:
            try:
                next(work)
            except StopIteration as end:
                found: list[PodInGroup] = end.value
                return found

    def counting(
        self, clause: CountClause, wanted: Collection[int]
    ) -> Generator[None, None, list[PodInGroup]]:
        """As `counted_pods`, a few pods at a time; what was found is kept."""
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

    def _objections(self, program: Program, rows: NodeRows) -> Iterator[Objection]:
        for clause in program.filters:
            yield self.filter_objection(clause, self.rejections(clause, rows))
        for counted in program.counts:
            for headroom in self.headrooms(counted, rows, self._evaluation):
                yield self.count_objection(headroom)

    # ---- the steps of these, for a caller who does them one after another

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
        """The objection of a clause that counts."""
        count = headroom.clause.count
        message = count.message(self._evaluation)
        return Objection(count.policy, count.name, headroom.clause, ~headroom.open, {}, message)

    def mutual_objection(
        self,
        limit: MutualLimit,
        rows: NodeRows,
        others: Sequence[Objection],
        evaluation: Evaluation,
    ) -> list[Objection]:
        """That of a limit of pods that are there, to nodes that its clause does not reject too.

        Raises as MutualLimit.headroom.
        """
        refused = ~limit.headroom(self._counter, self.table, rows, evaluation).open
        for each in others:
            if each.program is limit.clause:
                refused &= ~each.refused
        if not refused.any():
            return []
        clause, count = limit.clause, limit.clause.count
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

    def _given(self, program: Program, rows: NodeRows) -> Iterator[Contribution]:
        for clause in program.scores:
            if applies(clause, self._evaluation):
                yield contribution(clause, *self.values(clause, rows))
        for counted in program.counts:
            count = counted.count
            for weight, given in self.terms(counted, rows, self._evaluation):
                yield Contribution(count.policy, count.name, weight, given, None)

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


def contribution(clause: ScoreProgram, values: Floats, errors: Mapping[int, str]) -> Contribution:
    """The contribution of a score, from its numbers for all nodes in question."""
    given, weight = scoring.points(clause, values), abs(clause.weight)
    return Contribution(clause.policy, clause.name, weight, given, values, errors)


def mask_of(found: Sequence[Rejection | None]) -> Mask:
    """The nodes that have a rejection."""
    return np.array([rejection is not None for rejection in found], np.bool_)


@dataclass(frozen=True, slots=True)
class RelaxedClauses:
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
