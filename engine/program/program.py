"""A policy compiled: selector, filters and scores as closures, and what their failures mean."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal as OneOf

from engine.program.compiler import Compiler
from engine.program.frame import Evaluate, Frame
from engine.verdict import Failed, Rejected
from grammar.ast import Expr, Literal
from grammar.clauses import Bounds, Def, Filter, Let, Limit, Policy, Score, Share, Spread, Template
from grammar.errors import EvaluationError
from grammar.policy_checker import Checked
from grammar.reads import Definitions, reads
from grammar.values.duration import Duration
from grammar.values.format import show
from grammar.values.quantity import Quantity

DEFAULT_WEIGHT = 101


@dataclass(frozen=True, slots=True)
class Condition:
    """A `when`: once per pod, or per node where it reads the node."""

    evaluate: Evaluate
    per_node: bool


@dataclass(frozen=True, slots=True)
class FilterProgram:
    """A filter or bind clause. `passes_missing` is `missing pass`."""

    policy: str
    name: str
    when: Condition | None
    requires: tuple[Evaluate, ...]
    reads_node: bool
    message: Callable[[Frame], str]
    passes_missing: bool
    ignores_errors: bool
    resolvable: bool
    at_bind: bool

    def rejected(self, frame: Frame) -> Rejected:
        return Rejected(self.message(frame), self.policy, self.name, self.resolvable)

    def failed(self, frame: Frame, error: EvaluationError) -> Failed:
        return Failed(self.message(frame), self.policy, self.name, str(error))


@dataclass(frozen=True, slots=True)
class ScoreProgram:
    """A score clause. `missing` is its contribution, after the sign, where the value is missing."""

    policy: str
    name: str
    weight: float
    when: Condition | None
    value: Evaluate
    range: tuple[float, float] | OneOf["minmax", "rank"] | None
    missing: float


@dataclass(frozen=True, slots=True)
class Program:
    """One policy.

    `strict` says that it can reject, which decides between policies of one weight.
    """

    address: str
    name: str
    namespace: str | None
    cluster: bool
    weight: int
    audit: bool
    ignores_errors: bool
    select: Evaluate | None
    filters: tuple[FilterProgram, ...]
    scores: tuple[ScoreProgram, ...]
    strict: bool
    places: int


def compile_policy(checked: Checked) -> Program:
    """The program of a policy without errors, with the clauses of the policies it uses."""
    parts = [_PolicyCompiler(c, checked.policy) for c in (checked, *checked.uses)]
    filters = tuple(f for part in parts for f in part.filters())
    scores = tuple(s for part in parts for s in part.scores())
    counts = (
        c
        for part in (checked, *checked.uses)
        for c in part.policy.clauses
        if isinstance(c, Share | Spread | Limit)
    )
    policy = checked.policy
    select = parts[0].selector()
    return Program(
        address=policy.address,
        name=policy.name,
        namespace=policy.namespace,
        cluster=policy.cluster,
        weight=int(policy.setting("weight", DEFAULT_WEIGHT)),
        audit=policy.setting("mode", "enforce") == "audit",
        ignores_errors=policy.setting("failure", "fail") == "ignore",
        select=select,
        filters=filters,
        scores=scores,
        strict=bool(filters) or any(c.strength.strict for c in counts),
        places=max(part.places for part in parts),
    )


class _PolicyCompiler:
    """Compiles the clauses of one policy, in its own environment, for the policy they decide in."""

    def __init__(self, checked: Checked, owner: Policy) -> None:
        policy = checked.policy
        self._clauses = policy.clauses
        self._selector = policy.selector
        self._policy = owner
        self._compiler = Compiler(checked.environment)
        lets = {i.name: i.value for i in policy.items if isinstance(i, Let)}
        defs = {i.name: i for i in policy.items if isinstance(i, Def)}
        parameters = {n: frozenset(p.name for p in d.parameters) for n, d in defs.items()}
        bodies = {n: d.body for n, d in defs.items()}
        self._definitions = Definitions(lets, bodies, parameters)

    @property
    def places(self) -> int:
        return self._compiler.places

    def selector(self) -> Evaluate | None:
        return self._compiler.compile(self._selector) if self._selector is not None else None

    def filters(self) -> tuple[FilterProgram, ...]:
        return tuple(self._filter(c) for c in self._clauses if isinstance(c, Filter))

    def scores(self) -> tuple[ScoreProgram, ...]:
        return tuple(self._score(c) for c in self._clauses if isinstance(c, Score))

    def _filter(self, clause: Filter) -> FilterProgram:
        paths = {p for e in clause.requires for p in self._paths(e)}
        return FilterProgram(
            policy=self._policy.address,
            name=clause.name,
            when=self._condition(clause.when),
            requires=tuple(self._compiler.compile(e) for e in clause.requires),
            reads_node=any(p[0] == "node" for p in paths),
            message=self._message(clause.message, clause.name),
            passes_missing=clause.missing == "pass",
            ignores_errors=self._policy.setting("failure", "fail") == "ignore",
            # What depends on the pods of a node can change when some of them leave.
            resolvable=any(p[:2] in _OCCUPANCY for p in paths),
            at_bind=clause.at_bind,
        )

    def _score(self, clause: Score) -> ScoreProgram:
        bounds = clause.range
        edges = (_edge(bounds.low), _edge(bounds.high)) if isinstance(bounds, Bounds) else bounds
        return ScoreProgram(
            policy=self._policy.address,
            name=clause.name,
            weight=clause.weight,
            when=self._condition(clause.when),
            value=self._compiler.compile(clause.value),
            range=edges,
            missing=float(clause.missing or 0),
        )

    def _condition(self, when: Expr | None) -> Condition | None:
        if when is None:
            return None
        return Condition(
            self._compiler.compile(when), any(p[0] == "node" for p in self._paths(when))
        )

    def _paths(self, expr: Expr) -> set[tuple[str, ...]]:
        return {r.path for r in reads(expr, self._definitions)}

    def _message(self, template: Template | None, clause: str) -> Callable[[Frame], str]:
        if template is None:
            constant = f"policy {self._policy.name}: {clause}"
            return lambda _: constant
        parts = tuple(
            p if isinstance(p, str) else self._compiler.compile(p) for p in template.parts
        )
        return lambda frame: "".join(p if isinstance(p, str) else _shown(p, frame) for p in parts)


_OCCUPANCY = frozenset({("node", "requested"), ("node", "free"), ("node", "pods")})


def _shown(hole: Evaluate, frame: Frame) -> str:
    """A hole's text; one that cannot be evaluated never hides the rejection."""
    try:
        return show(hole(frame))
    except EvaluationError:
        return "{?}"


def _edge(expr: Expr) -> float:
    """The number of a range's edge, which the parser made a constant."""
    assert isinstance(expr, Literal)
    return magnitude(expr.value)


def magnitude(value: object) -> float:
    """A number for a score; quantities and durations count their units."""
    if isinstance(value, Quantity | Duration):
        return value.nanos / 1e9
    assert isinstance(value, int | float), "the checker lets nothing else be a score"
    return float(value)
