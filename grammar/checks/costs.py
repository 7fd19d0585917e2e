"""Costs: how many steps an expression can take at most, computed before it runs.

The lengths are the limits of the API and of the kubelet, not guesses about usual sizes; what has no
limit counts as 100 items or 256 characters. `grammar.meaning.steps` works them out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from grammar.checker.policy_checker import Checked
from grammar.meaning.environment import Environment
from grammar.meaning.steps import USUAL, Estimator
from grammar.messages.diagnostics import Diagnostic
from grammar.tree import ast
from grammar.tree.clause_parts import Bounds
from grammar.tree.clauses import Clause, ForPods
from grammar.tree.source import Span
from grammar.tree.walk import children, walk
from grammar.values.sizes import STEPS

# The most steps that an expression may take for one node: as many as it gets when it runs.
LIMIT = STEPS


@dataclass(frozen=True, slots=True)
class Cost:
    """The greatest number of steps of one sub-expression."""

    span: Span
    steps: int


class Costs:
    """Costs of the expressions of one environment."""

    def __init__(self, environment: Environment) -> None:
        self._estimator = Estimator(environment, USUAL, by_call=True)

    def steps(self, expr: ast.Expr) -> int:
        """The greatest number of steps of an expression, or of a part of one that was computed."""
        return self._estimator.of(expr).steps

    def table(self, expr: ast.Expr) -> Iterator[Cost]:
        """Every part that costs something, the most expensive first."""
        self.steps(expr)
        parts = (Cost(part.span, self.steps(part)) for part in walk(expr))
        yield from sorted((p for p in parts if p.steps), key=lambda c: -c.steps)

    def dearest(self, expr: ast.Expr) -> ast.Expr:
        """The innermost part that causes more than half of the cost."""
        total = self.steps(expr)
        for child in children(expr):
            if self.steps(child) * 2 > total:
                return self.dearest(child)
        return expr


def expensive_expressions(checked: Checked, limit: int) -> Iterator[Diagnostic]:
    """An error (P0401) for each expression above the limit, at its most expensive part."""
    costs = Costs(checked.environment)
    for expr in expressions(checked):
        steps = costs.steps(expr)
        if steps > limit:
            dearest = costs.dearest(expr)
            message = f"this can take {steps:,} steps for one node, more than {limit:,}"
            label = f"{costs.steps(dearest):,} of them here"
            hint = "nest fewer macros and `def`s inside each other, or make shorter texts and lists"
            yield Diagnostic("P0401", "error", message, dearest.span, label, hint)


def expressions(checked: Checked) -> Iterator[ast.Expr]:
    """The outermost expressions of a policy, of messages and details too; no constant ranges."""
    for item in checked.policy.items:
        if isinstance(item, ForPods):
            yield item.where
        elif isinstance(item, Clause):
            yield from children(item, skip=(Bounds,))
            yield from (end for end in item.ends if not isinstance(end, ast.Literal))


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
