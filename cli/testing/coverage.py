"""The branches of policies: each condition true and false, each value worked out, each bound."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import assert_never

from engine.decision.inspection import Inspection
from engine.program.frame import Evaluate, Frame
from engine.program.program import Condition, CountProgram, FilterProgram, Program, ScoreProgram
from grammar.ast import Expr, Literal
from grammar.clauses import Clause, Filter, Limit, Policy, Preempt, Score, Share, Spread
from grammar.errors import MissingError
from grammar.policy_checker import Checked
from grammar.source import Source, Span
from policies.loader import is_test_file
from policies.validation import CheckedFile, Identity, identity


@dataclass(frozen=True, slots=True)
class Spot:
    """A place where evaluation branches; `span` tells those of one clause apart."""

    policy: Identity
    clause: str
    span: Span


@dataclass(frozen=True, slots=True)
class Branch:
    """One of the ways to go at a spot; `never` is what has not been seen while no test takes it."""

    source: Source
    spot: Spot
    outcome: bool
    never: str


def branches(file: CheckedFile) -> Iterator[Branch]:
    """Those of a file's policies, in the order of the text.

    What clauses about preemption do is nothing that a test asks about.
    """
    for checked in file.policies:
        policy = checked.policy
        selector = policy.selector
        if selector is not None and not isinstance(selector, Literal):
            yield from _both(
                file.source,
                selector_spot(policy, selector),
                f"policy {policy.address} was never the business of a tested pod",
                f"policy {policy.address} never left out a tested pod",
            )
        for clause in policy.clauses:
            yield from _of_clause(file.source, policy, clause)


def spot(policy: Policy, clause: Clause, part: Expr | None = None) -> Spot:
    """That of a part of a clause, or of its bound."""
    return Spot(identity(policy), clause.name, clause.span if part is None else part.span)


def selector_spot(policy: Policy, selector: Expr) -> Spot:
    return Spot(identity(policy), "", selector.span)


def _of_clause(source: Source, policy: Policy, clause: Clause) -> Iterator[Branch]:
    if isinstance(clause, Preempt):
        return
    name = f'{_kind(clause)} "{clause.name}"'
    if clause.when is not None:
        where = spot(policy, clause, clause.when)
        yield from _both(
            source,
            where,
            f"the `when` of {name} was never true",
            f"the `when` of {name} was never false",
        )
    match clause:
        case Filter(requires=requires):
            for part in requires:
                which = name if len(requires) == 1 else f"`{_short(source, part)}` of {name}"
                where = spot(policy, clause, part)
                yield from _both(source, where, f"{which} never passed", f"{which} never failed")
        case Score(value=value):
            yield Branch(source, spot(policy, clause, value), True, f"{name} was never worked out")
        case Share() | Spread() | Limit():
            if isinstance(clause, Share):
                where = spot(policy, clause, clause.on)
                yield from _both(
                    source,
                    where,
                    f"no node was among those of {name}",
                    f"every node was among those of {name}",
                )
            where = spot(policy, clause)
            yield from _both(source, where, f"{name} never had room", f"{name} was never full")
        case _:
            assert_never(clause)


def _both(source: Source, where: Spot, never_true: str, never_false: str) -> Iterator[Branch]:
    yield Branch(source, where, True, never_true)
    yield Branch(source, where, False, never_false)


def _kind(clause: Clause) -> str:
    if isinstance(clause, Filter):
        return "bind" if clause.at_bind else "filter"
    return type(clause).__name__.lower()


def _short(source: Source, expr: Expr) -> str:
    """The text of an expression, in one line that is not too long."""
    text = " ".join(source.slice(expr.span).split())
    return text if len(text) <= 40 else f"{text[:39]}…"


# ---- Which branches of policies the tests have taken, as the programs that decide run.

# Clauses of one policy, with those that it uses, by name, and the policy that each is written in.
_Written = dict[str, tuple[Policy, Clause]]

_MOST_POINTS = 100


class Coverage:
    """Watches compiled policies at work.

    Its branches are those of the policies of some files, but for test files. Clauses that another
    policy uses count where they are written.
    """

    def __init__(self, files: Iterable[CheckedFile]) -> None:
        known = (file for file in files if not is_test_file(file.source.name))
        self.branches = tuple(branch for file in known for branch in branches(file))
        self._taken: set[tuple[Spot, bool]] = set()
        self._bounds: dict[tuple[str, str], Spot] = {}
        self._paused = False

    @property
    def missed(self) -> Sequence[Branch]:
        """The branches that no test has taken."""
        return [b for b in self.branches if (b.spot, b.outcome) not in self._taken]

    @property
    def percent(self) -> float:
        """Of all branches; 100 where there are none."""
        if not self.branches:
            return 100.0
        return 100 - 100 * len(self.missed) / len(self.branches)

    def watch(self, checked: Checked, program: Program) -> Program:
        """The program, which notes each branch that it takes."""
        policy, select = checked.policy, program.select
        if select is not None and policy.selector is not None:
            select = self._noting(select, selector_spot(policy, policy.selector))
        written: _Written = {
            clause.name: (part.policy, clause)
            for part in (checked, *checked.uses)
            for clause in part.policy.clauses
        }
        for name, (owner, clause) in written.items():
            if isinstance(clause, Share | Spread | Limit):
                self._bounds[program.address, name] = spot(owner, clause)

        def count(program: CountProgram) -> CountProgram:
            return replace(program, when=self._when(program.when, *written[program.name]))

        return replace(
            program,
            select=select,
            filters=tuple(self._filter(p, *written[p.name]) for p in program.filters),
            scores=tuple(self._score(p, *written[p.name]) for p in program.scores),
            shares=tuple(
                replace(p, count=count(p.count), on=self._on(p.on, *written[p.count.name]))
                for p in program.shares
            ),
            spreads=tuple(replace(p, count=count(p.count)) for p in program.spreads),
            limits=tuple(replace(p, count=count(p.count)) for p in program.limits),
        )

    def look(self, inspection: Inspection, names: Sequence[str]) -> None:
        """Notes where the shares, spreads and limits that concern a pod have room."""
        selection = inspection.selection
        with self._pause():
            found = inspection.objections((*selection.enforced, *selection.audited), names)
            given = inspection.contributions(names)
        for objection in found:
            refused = objection.refused
            room, full = bool((~refused).any()), bool(refused.any())
            self._bound(objection.policy, objection.name, room=room, full=full)
        for contribution in given:
            points = contribution.points
            room, full = bool((points > 0).any()), bool((points < _MOST_POINTS).any())
            self._bound(contribution.policy, contribution.name, room=room, full=full)

    def _bound(self, policy: str, clause: str, *, room: bool, full: bool) -> None:
        where = self._bounds.get((policy, clause))
        if where is not None:
            self._taken |= {(where, o) for o, seen in ((True, room), (False, full)) if seen}

    def _filter(self, program: FilterProgram, policy: Policy, clause: Clause) -> FilterProgram:
        assert isinstance(clause, Filter), "clauses of one policy have different names"
        requires = (
            self._noting(run, spot(policy, clause, part), missing=program.passes_missing)
            for run, part in zip(program.requires, clause.requires, strict=True)
        )
        when = self._when(program.when, policy, clause)
        return replace(program, requires=tuple(requires), when=when)

    def _score(self, program: ScoreProgram, policy: Policy, clause: Clause) -> ScoreProgram:
        assert isinstance(clause, Score), "clauses of one policy have different names"
        where, evaluate = spot(policy, clause, clause.value), program.value

        def value(frame: Frame) -> object:
            if not self._paused:
                self._taken.add((where, True))
            return evaluate(frame)

        return replace(program, value=value, when=self._when(program.when, policy, clause))

    def _on(self, on: Evaluate, policy: Policy, clause: Clause) -> Evaluate:
        assert isinstance(clause, Share), "clauses of one policy have different names"
        return self._noting(on, spot(policy, clause, clause.on))

    def _when(self, when: Condition | None, policy: Policy, clause: Clause) -> Condition | None:
        if when is None:
            return None
        assert clause.when is not None, "the program is compiled from the clause"
        return replace(
            when, evaluate=self._noting(when.evaluate, spot(policy, clause, clause.when))
        )

    def _noting(self, evaluate: Evaluate, where: Spot, *, missing: bool = False) -> Evaluate:
        """A condition that notes how it turns out; `missing` is what a missing value counts as."""

        def run(frame: Frame) -> object:
            try:
                found = evaluate(frame)
            except MissingError:
                self._take(where, outcome=missing)
                raise
            self._take(where, outcome=found is True)
            return found

        return run

    def _take(self, where: Spot, *, outcome: bool) -> None:
        if not self._paused:
            self._taken.add((where, outcome))

    @contextmanager
    def _pause(self) -> Iterator[None]:
        """Looking is not deciding: what is evaluated meanwhile is not noted."""
        self._paused = True
        try:
            yield
        finally:
            self._paused = False
