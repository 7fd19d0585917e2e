"""Coverage: the branches of policies, and the branches that the tests have taken.

A condition has two branches, true and false. The value of a score has one. The bound of a share,
spread or limit has two, and so has a gang: it accepts a node, or rejects one. Clauses that another
policy uses count where they are written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from engine.decision.verdict import Feasible, Rejected, Verdict
from engine.explanation.inspection import Inspection
from engine.program.frame import Evaluate, Frame
from engine.program.program import Condition, GangProgram, Program
from engine.work import finished
from grammar.checker.policy_checker import Checked
from grammar.messages.texts import excerpt
from grammar.tree.ast import Expr, Literal
from grammar.tree.clause_parts import TestedPart
from grammar.tree.clauses import Clause, Policy
from grammar.tree.source import Source, Span
from grammar.values.errors import MissingError
from policies.loader import is_test_file
from policies.validation import CheckedFile, Identity, identity


@dataclass(frozen=True, slots=True)
class BranchPoint:
    """A part of a policy with branches: its `for` (`clause` is empty), or a part of a clause."""

    policy: Identity
    clause: str
    span: Span


@dataclass(frozen=True, slots=True)
class Branch:
    """One branch at a point. `never` says that no test has taken it."""

    source: Source
    point: BranchPoint
    outcome: bool
    never: str


def branches(file: CheckedFile) -> Iterator[Branch]:
    """The branches of a file's policies, in the order of the text."""
    for checked in file.policies:
        policy = checked.policy
        points: list[_Texts] = []
        if policy.selector is not None and not isinstance(policy.selector, Literal):
            name = f"policy {policy.address}"
            texts = (f"{name} never selected a pod", f"{name} never skipped a pod")
            points.append((_for_point(policy, policy.selector), texts))
        for clause in policy.clauses:
            points.extend(_clause_points(file.source, policy, clause))
        for point, words in points:
            for outcome, never in zip((True, False), words, strict=False):
                yield Branch(file.source, point, outcome, never)


# A point and the texts of its branches, the one for true first.
_Texts = tuple[BranchPoint, tuple[str, ...]]
_MAX_TEXT = 40


def _clause_points(source: Source, policy: Policy, clause: Clause) -> Iterator[_Texts]:
    name, parts = f'{clause.keyword} "{clause.name}"', clause.tested_parts
    if clause.when is not None:
        yield _point(policy, clause, clause.when), _truth(f"the `when` of {name}")
    for part in parts:
        match part.kind:
            case "condition":
                which = f"the `{part.word}`"
                if sum(each.word == part.word for each in parts) > 1:
                    which = _excerpt(source, part)
                texts: tuple[str, ...] = _truth(f"{which} of {name}")
            case "requirement":
                is_only = sum(each.kind == "requirement" for each in parts) == 1
                which = name if is_only else f"{_excerpt(source, part)} of {name}"
                texts = (f"{which} never passed", f"{which} never failed")
            case "value":
                texts = (f"{name} was never computed",)
            case "verdict" | "bound":
                texts = (f"{name} never accepted a node", f"{name} never rejected a node")
            case _:
                assert_never(part.kind)
        yield _point(policy, clause, part.expr), texts


def _excerpt(source: Source, part: TestedPart) -> str:
    assert part.expr is not None, "a condition is an expression"
    return f"`{excerpt(source.slice(part.expr.span), _MAX_TEXT)}`"


def _truth(what: str) -> tuple[str, str]:
    return f"{what} was never true", f"{what} was never false"


def _for_point(policy: Policy, selector: Expr) -> BranchPoint:
    return BranchPoint(identity(policy), "", selector.span)


def _point(policy: Policy, clause: Clause, part: Expr | None = None) -> BranchPoint:
    """A part of a clause, or its bound."""
    return BranchPoint(identity(policy), clause.name, clause.span if part is None else part.span)


# ---- the branches that tests take

_MAX_POINTS = 100


class Coverage:
    """The branches of the policies in some files, without test files, and which were taken."""

    def __init__(self, files: Iterable[CheckedFile]) -> None:
        tested = (file for file in files if not is_test_file(file.source.name))
        self.branches = tuple(branch for file in tested for branch in branches(file))
        self._taken: set[tuple[BranchPoint, bool]] = set()
        self._bounds: dict[tuple[str, str], BranchPoint] = {}
        self._paused = False

    @property
    def missed(self) -> Sequence[Branch]:
        return [b for b in self.branches if (b.point, b.outcome) not in self._taken]

    @property
    def percent(self) -> float:
        """The part of the branches that tests have taken; 100 if there are none."""
        if not self.branches:
            return 100.0
        return 100 - 100 * len(self.missed) / len(self.branches)

    def watch(self, checked: Checked, program: Program) -> Program:
        """The program with conditions and values that record each branch they take."""
        written: dict[str, tuple[Policy, Clause]] = {
            clause.name: (part.policy, clause)
            for part in (checked, *checked.uses)
            for clause in part.policy.clauses
        }
        for name, (owner, clause) in written.items():
            if any(part.kind == "bound" for part in clause.tested_parts):
                self._bounds[program.address, name] = _point(owner, clause)
        return program.recorded(_BranchRecorder(checked.policy, written, self._take))

    def record_bounds(self, inspection: Inspection) -> None:
        """Records which bounds accept and reject one of the nodes of an inspection.

        A preferred bound accepts a node that gets points from it, and rejects one that does not get
        all.
        """
        # An inspection evaluates more than a decision, so its branches are not recorded.
        self._paused = True
        try:
            objections = finished(inspection.objections())
            for program in inspection.selection.audited:
                objections += finished(inspection.objections_of(program))
            contributions = finished(inspection.contributions())
        finally:
            self._paused = False
        for objection in objections:
            refused = objection.refused
            accepts, rejects = bool((~refused).any()), bool(refused.any())
            self._bound(objection.policy, objection.name, accepts=accepts, rejects=rejects)
        for contribution in contributions:
            points = contribution.points
            accepts, rejects = bool((points > 0).any()), bool((points < _MAX_POINTS).any())
            self._bound(contribution.policy, contribution.name, accepts=accepts, rejects=rejects)

    def record_gang(self, clause: GangProgram, verdicts: Iterable[Verdict]) -> None:
        """Records whether the gang of a pod accepts or rejects one of the nodes."""
        found = list(verdicts)
        rejected = [each for each in found if isinstance(each, Rejected)]
        rejects = any((e.policy, e.clause) == (clause.policy, clause.name) for e in rejected)
        accepts = any(isinstance(each, Feasible) for each in found)
        self._bound(clause.policy, clause.name, accepts=accepts, rejects=rejects)

    def _bound(self, policy: str, clause: str, *, accepts: bool, rejects: bool) -> None:
        point = self._bounds.get((policy, clause))
        if point is not None:
            self._taken |= {(point, o) for o, seen in ((True, accepts), (False, rejects)) if seen}

    def _take(self, taken: tuple[BranchPoint, bool]) -> None:
        if not self._paused:
            self._taken.add(taken)


class _BranchRecorder:
    """Records the outcomes of one policy's program."""

    def __init__(
        self,
        policy: Policy,
        written: Mapping[str, tuple[Policy, Clause]],
        take: Callable[[tuple[BranchPoint, bool]], None],
    ) -> None:
        """`written` are its clauses and the clauses that it uses, by name, each with its policy.

        `take` is called with a point and the outcome there.
        """
        self._policy = policy
        self._written = written
        self._take = take

    def select(self, evaluate: Evaluate | None) -> Evaluate | None:
        selector = self._policy.selector
        if evaluate is None or selector is None:
            return evaluate
        return self._recording(evaluate, _for_point(self._policy, selector))

    def when(self, clause: str, condition: Condition | None) -> Condition | None:
        policy, written = self._written[clause]
        if condition is None or written.when is None:
            return condition
        run = self._recording(condition.evaluate, _point(policy, written, written.when))
        return replace(condition, evaluate=run)

    def condition(
        self, clause: str, part: int, evaluate: Evaluate, *, missing: bool = False
    ) -> Evaluate:
        return self._recording(evaluate, self._part(clause, part), missing=missing)

    def value(self, clause: str, part: int, evaluate: Evaluate) -> Evaluate:
        point, take = self._part(clause, part), self._take

        def value(frame: Frame) -> object:
            take((point, True))
            return evaluate(frame)

        return value

    def _part(self, clause: str, part: int) -> BranchPoint:
        policy, written = self._written[clause]
        return _point(policy, written, written.tested_parts[part].expr)

    def _recording(
        self, evaluate: Evaluate, point: BranchPoint, *, missing: bool = False
    ) -> Evaluate:
        """A condition that records its outcome; `missing` is the outcome of a missing value."""
        take = self._take

        def run(frame: Frame) -> object:
            try:
                found = evaluate(frame)
            except MissingError:
                take((point, missing))
                raise
            take((point, found is True))
            return found

        return run
