"""Inspection: what every clause says of every node for one pod, for people.

A filter call ends at the first clause that rejects a node; an inspection evaluates all clauses, in
portions of a few milliseconds if its clock runs. It belongs to its caller, answers no request, and
changes nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property, partial
from types import MappingProxyType
from typing import TypeVar

import numpy as np

from engine.cache.node_table import NodeRows
from engine.counting.bounds import GroupCounts, Mask
from engine.counting.count_clauses import CountClauses, by_replicas
from engine.counting.groups import CountGroups, CountHeadroom, PodInGroup
from engine.decision import filtering, scoring
from engine.decision.filtering import Rejection
from engine.decision.verdict import full_reason
from engine.engine import Engine
from engine.errors import DeadlineExceededError
from engine.explanation.reader import EVERYTHING, Reader
from engine.objects.peer import Peer, Workload
from engine.program.frame import Evaluation, Floats, Frame, unhurried
from engine.program.policy_time import CallTime
from engine.program.program import (
    CountClause,
    CountProgram,
    FilterProgram,
    PartProgram,
    Program,
    RejectingProgram,
    ScoreProgram,
    applies,
)
from engine.work import Work
from grammar.values.errors import EvaluationError

T = TypeVar("T")

PORTION_SECONDS = 0.002
# The nodes between two looks at the clock.
_NODES = 8
# The most portions for one clause.
_MOST_PORTIONS = 2_000


@dataclass(frozen=True, eq=False, slots=True)
class Objection:
    """An objection of one clause: the nodes in question that it rejects with one text.

    `errors` are the evaluations that failed, by index; `message` is the text of a rejection.
    `is_mutual` says that the limit belongs to pods that are there, or may end there. `opening` is
    how the message begins, if the rest of it changes.
    """

    policy: str
    name: str
    program: RejectingProgram
    refused: Mask
    errors: Mapping[int, str]
    message: str
    is_mutual: bool = False
    opening: str = ""

    @property
    def text(self) -> str:
        """Policy, clause and message; the default message is left out."""
        return full_reason(self.policy, self.name, self.message)


@dataclass(frozen=True, slots=True)
class Contribution:
    """A contribution of one clause to scores: points 0..100 for each node, and its weight.

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


@dataclass(eq=False)
class ClauseResults:
    """The results of every clause of an inspection: objections, contributions, and scores.

    `given` are for the `scored` nodes, and `scores` 0..10; empty if no score applies.
    """

    inspection: Inspection
    objections: Sequence[Objection]
    given: Sequence[Contribution] = ()
    scored: Sequence[str] = ()

    @property
    def names(self) -> Sequence[str]:
        return self.inspection.names

    @cached_property
    def refused(self) -> Mask:
        """A row for each clause and a column for each node."""
        shape = len(self.objections), len(self.names)
        return np.array([o.refused for o in self.objections], np.bool_).reshape(shape)

    @cached_property
    def passes(self) -> Mask:
        """The nodes that no clause refuses. The answer may still hold one back."""
        if self.inspection.selection.unselectable:
            return np.zeros(len(self.names), np.bool_)
        refused: Mask = np.any(self.refused, axis=0)
        return ~refused

    @cached_property
    def scores(self) -> Mapping[str, int]:
        if not self.given or not self.scored:
            return {}
        points = scoring.scores([(each.weight, each.points) for each in self.given])
        return dict(zip(self.scored, points.tolist(), strict=True))

    def rejects_alone(self, objection: Objection) -> bool:
        """Whether nothing but one of the objections rejects some node."""
        alone = objection.refused & (self.refused.sum(axis=0) == 1)
        return bool(alone.any()) and not self.inspection.selection.unselectable

    def passing(self) -> list[str]:
        return [n for n, ok in zip(self.names, self.passes.tolist(), strict=True) if ok]

    def holds(self, name: str) -> bool:
        return bool(self.passes[bisect_left(self.names, name)])

    def against(self, name: str) -> list[Objection]:
        """The clauses that refuse a node, in their order in the policies."""
        index = bisect_left(self.names, name)
        return [o for o in self.objections if o.refused[index]]

    def on(self, name: str) -> list[Objection]:
        """Each clause once, with the text that it has for a node."""
        clauses = {(o.policy, o.name, o.is_mutual): o for o in reversed(self.objections)}
        own = {(o.policy, o.name, o.is_mutual): o for o in self.against(name)}
        return list({**dict(reversed(clauses.items())), **own}.values())


class Inspection:
    """An inspection of one pod on these sorted nodes, or on all. Only one at a time is valid.

    Nothing is offered or recorded. A clock that stands still makes one portion of each step. With
    `places` those that wait together may get places on paper. What it tells of pods and tables is
    for the `reader`. Raises EngineError where there would be no decision.
    """

    def __init__(
        self,
        engine: Engine,
        pod: bytes,
        names: Sequence[str] | None = None,
        clock: Callable[[], float] = lambda: 0.0,
        *,
        places: bool = False,
        reader: Reader = EVERYTHING,
    ) -> None:
        call, self._counter = engine.opened(pod)
        self.engine = engine
        self.call = call
        self.places = places
        self.reader = reader
        self.table = call.snapshot.table
        self.names = sorted(self.table.rows) if names is None else names
        self.selection = call.plan.selection
        # Evaluations here change the node of a copy.
        self.frame = call.evaluation.frame()
        # What strict counts leave to the pod, and what limits of pods that are there leave to it.
        self.headrooms: list[CountHeadroom] = []
        self.kept_out: list[CountHeadroom] = []
        self._mutual = call.plan.counts.mutual
        self._seen = self._counter, self.table
        self._rows = self.table.find(self.names)
        self._clock = clock
        self._ends = clock() + PORTION_SECONDS
        self._unhurried = unhurried(copy(self.frame))
        self._groups: dict[CountClause, CountGroups] = {}
        self._counts: dict[CountClause, CountClauses] = {}
        self._counted: dict[tuple[CountClause, tuple[int, ...]], list[PodInGroup]] = {}

    @property
    def unknown_size(self) -> Workload | None:
        """The workload of the pod, if a share needs how many pods it wants and nobody knows that.

        That is none if the pod has no workload.
        """
        known = self.call.snapshot.workloads.get(self.call.pod.controller)
        needs = (by_replicas(each.counts) for each in self.selection.enforced)
        is_known = known is not None and known.replicas is not None
        return self.peer.workload if any(needs) and not is_known else None

    @property
    def peer(self) -> Peer:
        """The pod as rules see it as a `peer`."""
        return self._counter.context.peer()

    def frame_at(self, name: str) -> Frame:
        """The frame of the pod and one node for the reader, for the caller alone."""
        frame = self.decided_at(name)
        return frame if self.reader.namespaces is None else self.reader.frame(frame)

    def decided_at(self, name: str) -> Frame:
        """The frame in which a node is decided, of which no text may get into an answer."""
        frame = self.frame.anew()
        frame.node = self.table.nodes[int(self.table.find([name])[0])]
        return frame

    # ---- what clauses reject

    def objections(self) -> Work[list[Objection]]:
        """The objections of the policies that apply, then of pods that are there.

        Yields after each portion. Raises DeadlineExceededError for what gets no further.
        """
        found: list[Objection] = []
        for program in self.selection.enforced:
            found += yield from self.objections_of(program)
        for limit in self._mutual:
            headroom = yield from self.again(partial(limit.headroom, *self._seen, self._rows))
            self.kept_out.append(headroom)
            # Nodes that the same clause accepts for its own pod.
            refused, count = ~headroom.hopeful, headroom.clause.count
            for each in found:
                if each.program is headroom.clause:
                    refused &= ~each.refused
            if refused.any():
                found.append(self.objection(headroom.clause, count, refused, is_mutual=True))
        return found

    def objections_of(self, program: Program) -> Work[list[Objection]]:
        """The objections of a policy's filters, then of its strict counts, in their order."""
        found: list[Objection] = []
        for clause in program.of(FilterProgram):
            rejections = yield from self._rejections(clause)
            # Of nodes without a row in a table the words of the clause say nothing.
            for lacks in dict.fromkeys(r.lacks if r is not None else "" for r in rejections):
                these = [r if r is not None and r.lacks == lacks else None for r in rejections]
                errors = {i: r.error for i, r in enumerate(these) if r is not None and r.error}
                text = Rejection(clause, lacks=lacks).text(self._unhurried)
                found.append(self.objection(clause, clause, _mask_of(these), errors, text=text))
        for counted in program.counts:
            # Nodes that are full without pods in flight.
            headrooms = yield from self._count(counted)
            found += [self.objection(counted, counted.count, ~h.hopeful) for h in headrooms]
        return found

    def headrooms_of_pod(self) -> Work[None]:
        """Works out the headroom of each strict count by itself, of the policies that apply."""
        for program in self.selection.enforced:
            for counted in program.counts:
                # The groups of floors that are judged together are not those of the counts.
                alone = CountClauses([counted], self._unhurried)
                step = partial(alone.headrooms, *self._seen, self._rows)
                self.headrooms += yield from self.again(step)

    def parts(self, clause: RejectingProgram) -> Work[list[Mask]]:
        """The nodes on which each `require` of a filter does not hold, each by itself."""
        found = []
        for part in clause.parts():
            found += [_mask_of((yield from self._rejections(part)))]
        return found

    def objection(
        self,
        program: RejectingProgram,
        said: FilterProgram | CountProgram | PartProgram,
        refused: Mask,
        errors: Mapping[int, str] = MappingProxyType({}),
        *,
        text: str = "",
        rest: str = "",
        is_mutual: bool = False,
    ) -> Objection:
        """The objection of a clause to some nodes.

        `text` stands for its message, and `rest` is what that goes on with.
        """
        text = text or said.message(self._unhurried)
        opening, text = (text, f"{text}: {rest}") if rest else ("", text)
        return Objection(said.policy, said.name, program, refused, errors, text, is_mutual, opening)

    def _rejections(self, clause: FilterProgram) -> Work[list[Rejection | None]]:
        found: list[Rejection | None] = []
        for first in range(0, len(self._rows), _NODES):
            nodes = [self.table.nodes[row] for row in self._rows[first : first + _NODES]]
            found += filtering.rejections([clause], self._unhurried, nodes)
            yield from self.pause()
        return found

    def _count(self, clause: CountClause) -> Work[list[CountHeadroom]]:
        """The headroom of a strict clause, if it applies."""
        clauses = self._clauses_of(clause)
        found = yield from self.again(partial(clauses.headrooms, *self._seen, self._rows))
        own = [headroom for headroom in found if headroom.clause is clause]
        self.headrooms += own
        return own

    def _clauses_of(self, clause: CountClause) -> CountClauses:
        if (found := self._counts.get(clause)) is None:
            together: Sequence[CountClause] = [clause]
            if clause.kind == "share" and clause.count.weight is None:
                # The floors of a policy are judged together.
                policies = (p.counts for p in self.selection.enforced if clause in p.counts)
                together = [c for c in next(policies, ()) if c.kind == "share"] or together
            found = self._counts[clause] = CountClauses(together, self._unhurried)
        return found

    # ---- what clauses count

    def _groups_of(self, clause: CountClause) -> Work[CountGroups]:
        if (groups := self._groups.get(clause)) is None:
            groups = CountGroups(clause)
            yield from self.again(partial(groups.update, self.table))
            self._groups[clause] = groups
        return groups

    def group_counts(self, clause: CountClause, name: str) -> Work[tuple[GroupCounts, int]]:
        """The pods in each group of a strict clause, and the group of a node, or -1."""
        groups = yield from self._groups_of(clause)
        row = int(self.table.find([name])[0])
        return self._counter.count(clause, groups, predicted=False), int(groups.ids[row])

    def counting(self, clause: CountClause, wanted: Collection[int]) -> Work[list[PodInGroup]]:
        """The pods that a strict clause counts in these groups, by name, and kept."""
        key = clause, tuple(wanted)
        if key not in self._counted:
            groups = yield from self._groups_of(clause)
            work = self._counter.counted_pods(clause, groups, wanted)
            while key not in self._counted:
                try:
                    next(work)
                    yield from self.pause()
                except StopIteration as end:
                    self._counted[key] = end.value
        return self._counted[key]

    def keepers(self, clause: CountClause, name: str) -> list[PodInGroup]:
        """The pods on a node, or on their way there, whose mutual limit keeps the pod out."""
        row = int(self.table.find([name])[0])
        found: set[PodInGroup] = set()
        for limit in self._mutual:
            if limit.clause is clause:
                found.update(limit.keepers(self._counter, self.table, row, self._unhurried))
        return sorted(found)

    # ---- what scores give

    def contributions(self, names: Sequence[str] | None = None) -> Work[list[Contribution]]:
        """The contributions to the scores of these nodes, as one prioritize call has them."""
        rows = self._rows if names is None else self.table.find(names)
        found: list[Contribution] = []
        evaluation = unhurried(self.frame.anew())
        for program in self.selection.enforced:
            for clause in program.of(ScoreProgram):
                if applies(clause, evaluation):
                    found += [(yield from self._score(clause, rows))]
            for counted in program.counts:
                clauses, count = self._clauses_of(counted), counted.count
                terms = yield from self.again(partial(clauses.terms, *self._seen, rows))
                found += [Contribution(count.policy, count.name, w, p, None) for w, p in terms]
        return found

    def _score(self, clause: ScoreProgram, rows: NodeRows) -> Work[Contribution]:
        values: list[float] = []
        errors: dict[int, str] = {}

        def report(policy: str, name: str, error: EvaluationError) -> None:
            errors[len(values)] = self.reader.error(str(error))
            self._unhurried.report(policy, name, error)

        frame = self._unhurried.frame()
        for number, row in enumerate(rows, 1):
            frame.node = self.table.nodes[row]
            values.append(scoring.value(clause, frame, report))
            if number % _NODES == 0 or number == len(rows):
                yield from self.pause()
        numbers, weight = np.array(values), abs(clause.weight)
        points = scoring.points(clause, numbers)
        return Contribution(clause.policy, clause.name, weight, points, numbers, errors)

    # ---- portions

    def again(self, step: Callable[[Evaluation], T]) -> Work[T]:
        """The result of a step that goes on where its last portion ended."""
        for _ in range(_MOST_PORTIONS):
            # No policy is charged for what people ask.
            quiet = unhurried(self.frame.anew())
            time = CallTime(self._clock, self._clock() + PORTION_SECONDS, is_portion=True)
            try:
                found = step(
                    Evaluation(quiet.frame, quiet.now, time, quiet.report, quiet.report_text)
                )
            except DeadlineExceededError:
                yield
            else:
                yield
                return found
        raise DeadlineExceededError("the explanation takes too long")

    def pause(self) -> Work[None]:
        """Yields at the end of a portion."""
        if self._clock() >= self._ends:
            yield
            self._ends = self._clock() + PORTION_SECONDS


def _mask_of(found: Sequence[Rejection | None]) -> Mask:
    """The nodes that have a rejection."""
    return np.array([rejection is not None for rejection in found], np.bool_)
