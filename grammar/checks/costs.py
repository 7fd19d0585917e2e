"""Costs: expressions that can take too many steps, and what each can take."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from grammar.ast import Expr
from grammar.checks.conditions import conditions
from grammar.clauses import Limit, Preempt, Score, Spread
from grammar.cost import Cost, Costs
from grammar.diagnostics import Diagnostic
from grammar.policy_checker import Checked


def expensive_expressions(checked: Checked, limit: int) -> Iterator[Diagnostic]:
    """An error for each expression over the limit, at the part that the cost comes from."""
    costs = Costs(checked.environment)
    for expr in expressions(checked):
        steps = costs.steps(expr)
        if steps > limit:
            dearest = costs.dearest(expr)
            yield Diagnostic(
                "P0401",
                "error",
                f"this can take {steps:,} steps for one node, more than {limit:,}",
                dearest.span,
                label=f"{costs.steps(dearest):,} of them here",
                hint="go over fewer lists inside each other",
            )


def expressions(checked: Checked) -> Iterator[Expr]:
    """Every expression of a policy, once each: what `placet check --cost` lists."""
    for condition in conditions(checked.policy):
        yield condition.expr
    for item in checked.policy.items:
        match item:
            case Score():
                yield item.value
            case Spread():
                yield item.over
            case Limit() if item.per.domain is not None:
                yield item.per.domain
            case Preempt() if item.keep is not None:
                yield item.keep.by
            case _:  # the rest has its expressions as conditions
                pass


@dataclass(frozen=True, slots=True)
class Described:
    """An expression, its bound in steps for one node, and the bounds of its parts."""

    expr: Expr
    steps: int
    parts: tuple[Cost, ...]


def describe(checked: Checked, most: int = 3) -> Iterator[Described]:
    """Each expression, the dearest first, with those of its parts that cost the most."""
    costs = Costs(checked.environment)
    whole = sorted(((costs.steps(e), e) for e in expressions(checked)), key=lambda c: -c[0])
    for steps, expr in whole:
        parts: list[Cost] = []
        for part in costs.table(expr):
            # A part without a place was put there by a short form.
            if part.span != expr.span and part.span not in [p.span for p in parts]:
                parts.append(part)
        yield Described(expr, steps, tuple(parts[:most]))
