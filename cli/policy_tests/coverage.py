"""Coverage: the branches of policies, and those that the tests have taken.

A condition has two branches, true and false. The value of a score has one. The bound of a share,
spread or limit has two: it accepts a node, or rejects one. Clauses that another policy uses count
where they are written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from engine.explanation.inspection import Inspection
from engine.program.frame import Evaluate, Frame
from engine.program.program import (
    Condition,
    CountProgram,
    FilterProgram,
    Program,
    ScoreProgram,
    ShareProgram,
)
from grammar.checker.policy_checker import Checked
from grammar.messages.texts import excerpt
from grammar.tree.ast import Expr, Literal
from grammar.tree.clauses import Cards, Clause, Filter, Limit, Policy, Preempt, Score, Share, Spread
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
    """The branches of a file's policies, in the order of the text.

    Clauses about preemption have none, because tests cannot ask about them.
    """
    for checked in file.policies:
        policy = checked.policy
        points: list[_Texts] = []
        if policy.selector is not None and not isinstance(policy.selector, Literal):
            name = f"policy {policy.address}"
            texts = (f"{name} never selected a pod", f"{name} never skipped a pod")
            points.append((_for_point(policy, policy.selector), texts))
        for clause in policy.clauses:
            if not isinstance(clause, Preempt):
                points.extend(_clause_points(file.source, policy, clause))
        for point, words in points:
            for outcome, never in zip((True, False), words, strict=False):
                yield Branch(file.source, point, outcome, never)


# A point and the texts of its branches, the one for true first.
_Texts = tuple[BranchPoint, tuple[str, ...]]
_MAX_TEXT = 40


def _clause_points(
    source: Source, policy: Policy, clause: Filter | Score | Share | Spread | Limit | Cards
) -> Iterator[_Texts]:
    name = f'{_kind(clause)} "{clause.name}"'
    if clause.when is not None:
        yield _point(policy, clause, clause.when), _truth(f"the `when` of {name}")
    match clause:
        case Filter(requires=requires):
            for part in requires:
                text = excerpt(source.slice(part.span), _MAX_TEXT)
                which = name if len(requires) == 1 else f"`{text}` of {name}"
                texts = (f"{which} never passed", f"{which} never failed")
                yield _point(policy, clause, part), texts
        case Score(value=value):
            yield _point(policy, clause, value), (f"{name} was never computed",)
        case Share() | Spread() | Limit() | Cards():
            if isinstance(clause, Share):
                yield _point(policy, clause, clause.on), _truth(f"the `on nodes where` of {name}")
            texts = (f"{name} never accepted a node", f"{name} never rejected a node")
            yield _point(policy, clause), texts
        case _:
            assert_never(clause)


def _truth(what: str) -> tuple[str, str]:
    return f"{what} was never true", f"{what} was never false"


def _for_point(policy: Policy, selector: Expr) -> BranchPoint:
    return BranchPoint(identity(policy), "", selector.span)


def _point(policy: Policy, clause: Clause, part: Expr | None = None) -> BranchPoint:
    """A part of a clause, or its bound."""
    return BranchPoint(identity(policy), clause.name, clause.span if part is None else part.span)


def _kind(clause: Clause) -> str:
    if isinstance(clause, Filter):
        return "bind" if clause.at_bind else "filter"
    return type(clause).__name__.lower()


# ---- the branches that tests take

# Clauses of one policy, and those that it uses, by name; each with the policy that it stands in.
_Written = dict[str, tuple[Policy, Clause]]

_MAX_POINTS = 100


class Coverage:
    """The branches of the policies in some files, without test files, and those taken so far."""

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
        policy, select = checked.policy, program.select
        if select is not None and policy.selector is not None:
            select = self._recording(select, _for_point(policy, policy.selector))
        written: _Written = {
            clause.name: (part.policy, clause)
            for part in (checked, *checked.uses)
            for clause in part.policy.clauses
        }
        for name, (owner, clause) in written.items():
            if isinstance(clause, Share | Spread | Limit):
                self._bounds[program.address, name] = _point(owner, clause)

        def count(program: CountProgram) -> CountProgram:
            return replace(program, when=self._when(program, *written[program.name]))

        return replace(
            program,
            select=select,
            filters=tuple(self._filter(p, *written[p.name]) for p in program.filters),
            scores=tuple(self._score(p, *written[p.name]) for p in program.scores),
            shares=tuple(
                replace(p, count=count(p.count), on=self._on(p, *written[p.count.name]))
                for p in program.shares
            ),
            spreads=tuple(replace(p, count=count(p.count)) for p in program.spreads),
            limits=tuple(replace(p, count=count(p.count)) for p in program.limits),
        )

    def _filter(self, program: FilterProgram, policy: Policy, clause: Clause) -> FilterProgram:
        if isinstance(clause, Cards):
            parts: tuple[Expr | None, ...] = (None,)
        else:
            assert isinstance(clause, Filter), "clauses of one policy have different names"
            parts = clause.requires
        requires = tuple(
            self._recording(run, _point(policy, clause, part), missing=program.passes_missing)
            for run, part in zip(program.requires, parts, strict=True)
        )
        return replace(program, requires=requires, when=self._when(program, policy, clause))

    def _score(self, program: ScoreProgram, policy: Policy, clause: Clause) -> ScoreProgram:
        assert isinstance(clause, Score), "clauses of one policy have different names"
        point, evaluate = _point(policy, clause, clause.value), program.value

        def value(frame: Frame) -> object:
            self._take(point, outcome=True)
            return evaluate(frame)

        return replace(program, value=value, when=self._when(program, policy, clause))

    def _on(self, program: ShareProgram, policy: Policy, clause: Clause) -> Evaluate:
        assert isinstance(clause, Share), "clauses of one policy have different names"
        return self._recording(program.on, _point(policy, clause, clause.on))

    def _when(
        self, program: FilterProgram | ScoreProgram | CountProgram, policy: Policy, clause: Clause
    ) -> Condition | None:
        if program.when is None or clause.when is None:
            return program.when
        run = self._recording(program.when.evaluate, _point(policy, clause, clause.when))
        return replace(program.when, evaluate=run)

    def record_bounds(self, inspection: Inspection, names: Sequence[str]) -> None:
        """Records which bounds accept and reject one of the nodes.

        A preferred bound accepts a node that gets points from it, and rejects one that does not get
        all.
        """
        selection = inspection.selection
        # An inspection evaluates more than a decision, so its branches are not recorded.
        self._paused = True
        try:
            objections = inspection.all_objections(names)
            objections += inspection.objections(selection.audited, names)
            contributions = inspection.contributions(names)
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

    def _bound(self, policy: str, clause: str, *, accepts: bool, rejects: bool) -> None:
        point = self._bounds.get((policy, clause))
        if point is not None:
            self._taken |= {(point, o) for o, seen in ((True, accepts), (False, rejects)) if seen}

    def _recording(
        self, evaluate: Evaluate, point: BranchPoint, *, missing: bool = False
    ) -> Evaluate:
        """A condition that records its outcome; `missing` is the outcome of a missing value."""

        def run(frame: Frame) -> object:
            try:
                found = evaluate(frame)
            except MissingError:
                self._take(point, outcome=missing)
                raise
            self._take(point, outcome=found is True)
            return found

        return run

    def _take(self, point: BranchPoint, *, outcome: bool) -> None:
        if not self._paused:
            self._taken.add((point, outcome))
