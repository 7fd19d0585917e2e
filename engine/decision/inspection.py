"""What every clause says of every node, for one pod: a filter call ends with the first no."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from engine.cache.node_table import NodeRows, NodeTable
from engine.counting.groups import CountGroups, GroupCounts
from engine.counting.headroom import CountClauses, Mask
from engine.counting.pod_counter import PodCounter
from engine.decision import filtering, scoring
from engine.decision.filtering import Rejection
from engine.decision.registry import Selection
from engine.decision.verdict import full_reason
from engine.program.frame import Floats, Frame
from engine.program.program import CountClause, FilterProgram, Program, ScoreProgram
from grammar.errors import EvaluationError


@dataclass(frozen=True, slots=True)
class Objection:
    """What one clause that can reject has against each of some places.

    `errors` are the evaluations that went wrong, by index; `message` is what a rejection says.
    """

    policy: str
    name: str
    program: FilterProgram | CountClause
    refused: Mask
    errors: dict[int, str]
    message: str

    @property
    def text(self) -> str:
        """Policy, clause and message, which says nothing more where the clause has none."""
        return full_reason(self.policy, self.name, self.message)


@dataclass(frozen=True, slots=True)
class Contribution:
    """What one clause gives to the score of each of some places: points 0..100, and its weight.

    `values` are the clause's own numbers, NaN where there is none; None for a count.
    """

    policy: str
    name: str
    weight: float
    points: Floats
    values: Floats | None


class Inspection:
    """One pod under the policies in force, in one snapshot. Not for use while others are made."""

    def __init__(
        self, selection: Selection, frame: Frame, table: NodeTable, counter: PodCounter
    ) -> None:
        self.selection = selection
        self.frame = frame
        self.table = table
        self._counter = counter

    def objections(self, programs: Iterable[Program], names: Sequence[str]) -> list[Objection]:
        """A policy's filters, then its strict counts, in the order in which they are named."""
        rows = self.table.find(names)
        return [o for program in programs for o in self._of(program, rows)]

    def parts(self, clause: FilterProgram, names: Sequence[str]) -> list[Mask]:
        """Where each `require` of a filter does not hold, each by itself."""
        rows = self.table.find(names)
        single = (replace(clause, requires=(require,)) for require in clause.requires)
        return [_mask(self._findings(part, rows)) for part in single]

    def contributions(self, names: Sequence[str]) -> list[Contribution]:
        """What the score of these nodes is the mean of; they are those of one prioritize call."""
        rows = self.table.find(names)
        return [c for program in self.selection.enforced for c in self._given(program, rows)]

    def group_counts(self, clause: CountClause, name: str) -> tuple[GroupCounts, int]:
        """How many pods are in each of a clause's cells, and which cell a node is in, or -1."""
        groups = CountGroups(clause, _unheard)
        groups.look(self.table, lambda: self.frame, _no_deadline)
        row = int(self.table.find([name])[0])
        strict = clause.count.weight is None
        return self._counter.take(clause, groups, predicted=not strict), int(groups.ids[row])

    def _of(self, program: Program, rows: NodeRows) -> Iterator[Objection]:
        for clause in program.filters:
            findings = self._findings(clause, rows)
            errors = {i: f.error for i, f in enumerate(findings) if f is not None and f.error}
            yield Objection(
                clause.policy,
                clause.name,
                clause,
                _mask(findings),
                errors,
                clause.message(lambda: self.frame),
            )
        for counted in program.counts:
            counting = CountClauses([counted], self.frame, _unheard)
            for headroom in counting.headrooms(
                self._counter, self.table, rows, lambda: self.frame, _no_deadline
            ):
                count = counted.count
                message = count.message(lambda: self.frame)
                yield Objection(count.policy, count.name, counted, ~headroom.open, {}, message)

    def _findings(self, clause: FilterProgram, rows: NodeRows) -> list[Rejection | None]:
        nodes = [self.table.views[row] for row in rows]
        # Each clause has what a request has for all of them: whoever looks asks many times.
        self.frame.refill()
        return filtering.rejections([clause], self.frame, nodes, _no_deadline)

    def _given(self, program: Program, rows: NodeRows) -> Iterator[Contribution]:
        for clause in program.scores:
            if scoring.applies(clause, self.frame, _unheard):
                values = self._values(clause, rows)
                given = scoring.points(clause, values)
                yield Contribution(clause.policy, clause.name, abs(clause.weight), given, values)
        for counted in program.counts:
            counting = CountClauses([counted], self.frame, _unheard)
            for weight, given in counting.terms(
                self._counter, self.table, rows, lambda: self.frame, _no_deadline
            ):
                yield Contribution(counted.count.policy, counted.count.name, weight, given, None)

    def _values(self, clause: ScoreProgram, rows: NodeRows) -> Floats:
        found = []
        self.frame.refill()
        for row in rows:
            self.frame.node = self.table.views[row]
            found.append(scoring.value(clause, self.frame, _unheard))
        return np.array(found)


def _mask(findings: Sequence[Rejection | None]) -> Mask:
    return np.array([finding is not None for finding in findings], np.bool_)


def _unheard(policy: str, clause: str, error: EvaluationError) -> None:
    """The one who looks sees it in the trace."""


def _no_deadline() -> None:
    """Whoever looks has time."""


# ---- Which clauses stand in a pod's way: how often each, which nodes are close, what would help.

Refused = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Relaxation:
    """Some clauses, by index, without which `gained` nodes would pass that do not now."""

    clauses: tuple[int, ...]
    gained: int


@dataclass(frozen=True, slots=True)
class RefusalSummary:
    """What a table of refusals comes to, clause by clause and node by node, all by index.

    `alone` is how many nodes fail a clause and no other; `passing` those that fail none; `nearest`
    are the others, the fewest failing clauses first.
    """

    fails: tuple[int, ...]
    alone: tuple[int, ...]
    passing: int
    nearest: tuple[int, ...]
    relaxations: tuple[Relaxation, ...]


def summarize(refused: Refused) -> RefusalSummary:
    """From a row per clause and a column per node."""
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


def _relaxations(refused: Refused, counts: npt.NDArray[np.int64]) -> list[Relaxation]:
    """The smallest sets of clauses that free a node, those first that free the most.

    A node is freed by leaving out all that it fails, so the smallest sets are those that some node
    with the fewest failing clauses fails.
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
