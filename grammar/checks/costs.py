"""Costs: how many steps an expression can take at most, computed before it runs.

A step is a read, an operation or a call. A macro multiplies by the length of its list. The lengths
are the limits of the API and of the kubelet, not guesses about usual sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from grammar import ast
from grammar.clauses import Bounds, Clause, ForPods, Template
from grammar.diagnostics import Diagnostic
from grammar.environment import Environment
from grammar.policy_checker import Checked
from grammar.source import Span
from grammar.walk import children, walk

# The most steps that an expression may take for one node: about 0.1 s at 10 million a second.
LIMIT = 1_000_000
# Sums stop here, so that `let`s which use each other cannot make huge numbers.
_CEILING = 10**15

# The greatest length of lists and maps in the objects of a cluster, by field name: limits of the
# kubelet and of the API.
_LENGTHS: Mapping[str, int] = {
    "pods": 250,
    "images": 100,
    "names": 10,
    "conditions": 20,
    "taints": 20,
    "addresses": 10,
    "volumesAttached": 256,
    "volumesInUse": 256,
    "containers": 20,
    "initContainers": 20,
    "tolerations": 30,
    "victims": 250,
    "labels": 60,
    "annotations": 60,
    "allocatable": 30,
    "capacity": 30,
    "requests": 20,
    "limits": 20,
    "env": 200,
}
_DEFAULT_LENGTH = 100


@dataclass(frozen=True, slots=True)
class Cost:
    """The greatest number of steps of one sub-expression."""

    span: Span
    steps: int


class Costs:
    """Costs of the expressions of one environment; each `let` and `def` is computed once."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._named: dict[str, int] = {}

    def steps(self, expr: ast.Expr) -> int:
        """The greatest number of steps of an expression."""
        match expr:
            case ast.Literal():
                return 0
            case ast.LetReference(name):
                return self._of(name, self._environment.lets[name])
            case ast.DefCall(name, args):
                return _capped(
                    sum(map(self.steps, args)) + self._of(name, self._environment.defs[name].body)
                )
            case ast.Comprehension("cel.bind" | "optMap" | "optFlatMap"):
                return _capped(1 + sum(map(self.steps, children(expr))))
            case ast.Comprehension(_, target, _, body):
                return _capped(
                    self.steps(target) + self.length(target) * (1 + sum(map(self.steps, body)))
                )
            case _:
                return _capped(1 + sum(map(self.steps, children(expr))))

    def length(self, expr: ast.Expr) -> int:
        """The greatest length of a list or map."""
        match expr:
            case ast.ListLiteral(elements):
                return len(elements)
            case ast.MapLiteral(entries):
                return len(entries)
            case ast.Comprehension(
                "map" | "filter" | "transformList" | "transformMap" | "sortBy", target
            ):
                return self.length(target)
            case ast.Select(_, name):
                return _LENGTHS.get(name, _DEFAULT_LENGTH)
            case ast.LetReference(name):
                return self.length(self._environment.lets[name])
            case _:
                return _LENGTHS.get(getattr(expr, "name", ""), _DEFAULT_LENGTH)

    def table(self, expr: ast.Expr) -> Iterator[Cost]:
        """Every part that costs something, the most expensive first."""
        parts = (Cost(part.span, self.steps(part)) for part in walk(expr))
        yield from sorted((p for p in parts if p.steps), key=lambda c: -c.steps)

    def dearest(self, expr: ast.Expr) -> ast.Expr:
        """The innermost part that causes more than half of the cost."""
        total = self.steps(expr)
        for child in children(expr):
            if self.steps(child) * 2 > total:
                return self.dearest(child)
        return expr

    def _of(self, name: str, body: ast.Expr) -> int:
        if name not in self._named:
            self._named[name] = self.steps(body)
        return self._named[name]


def _capped(steps: int) -> int:
    return min(steps, _CEILING)


def expensive_expressions(checked: Checked, limit: int) -> Iterator[Diagnostic]:
    """An error (P0401) for each expression above the limit, at its most expensive part."""
    costs = Costs(checked.environment)
    for expr in expressions(checked):
        steps = costs.steps(expr)
        if steps > limit:
            dearest = costs.dearest(expr)
            message = f"this can take {steps:,} steps for one node, more than {limit:,}"
            label = f"{costs.steps(dearest):,} of them here"
            hint = "nest fewer macros inside each other"
            yield Diagnostic("P0401", "error", message, dearest.span, label, hint)


def expressions(checked: Checked) -> Iterator[ast.Expr]:
    """The outermost expressions of a policy that decide: no messages, no edges of ranges."""
    for item in checked.policy.items:
        if isinstance(item, ForPods | Clause):
            yield from children(item, skip=(Template, Bounds))


@dataclass(frozen=True, slots=True)
class Described:
    """An expression, its greatest number of steps for one node, and its most expensive parts."""

    expr: ast.Expr
    steps: int
    parts: tuple[Cost, ...]


def describe(checked: Checked, most: int = 3) -> Iterator[Described]:
    """Each expression, the most expensive first, with its `most` most expensive parts."""
    costs = Costs(checked.environment)
    whole = sorted(((costs.steps(e), e) for e in expressions(checked)), key=lambda c: -c[0])
    for steps, expr in whole:
        parts: list[Cost] = []
        for part in costs.table(expr):
            # All parts of a short form have its span.
            if part.span != expr.span and part.span not in [p.span for p in parts]:
                parts.append(part)
        yield Described(expr, steps, tuple(parts[:most]))
