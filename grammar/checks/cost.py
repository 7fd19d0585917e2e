"""Expressions that can take too many steps."""

from __future__ import annotations

from collections.abc import Iterator

from grammar.ast import Expr
from grammar.checks.conditions import conditions
from grammar.clauses import Limit, Preempt, Score, Spread
from grammar.cost import LIMIT, Costs
from grammar.diagnostics import Diagnostic
from grammar.policy_checker import Checked
from grammar.printer import print_expression


def check(checked: Checked) -> Iterator[Diagnostic]:
    """An error for each expression over the limit, at the part that the cost comes from."""
    costs = Costs(checked.environment)
    for expr in expressions(checked):
        steps = costs.steps(expr)
        if steps > LIMIT:
            dearest = costs.dearest(expr)
            yield Diagnostic(
                "P0401",
                "error",
                f"this can take {steps:,} steps for one node, more than {LIMIT:,}",
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


def describe(checked: Checked) -> Iterator[tuple[str, int]]:
    """Each part of each expression with its bound, the dearest first."""
    costs = Costs(checked.environment)
    for expr in expressions(checked):
        yield print_expression(expr), costs.steps(expr)
