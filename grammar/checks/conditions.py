"""The conditions of a policy: every expression that must be true for something to happen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from grammar.ast import Chain, Expr
from grammar.clauses import (
    Clause,
    Filter,
    ForPods,
    Limit,
    MissingRule,
    Policy,
    Preempt,
    Score,
    Share,
    Spread,
)


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition: the word before it, its clause, and the clause's rule for missing values."""

    expr: Expr
    word: str
    clause: Clause | None = None
    missing: MissingRule | None = None


def conditions(policy: Policy) -> Iterator[Condition]:
    """Every condition of a policy, as written."""
    for item in policy.items:
        if isinstance(item, ForPods):
            yield Condition(item.where, "for")
        elif isinstance(item, Clause):
            yield from _of_clause(item)


def _of_clause(clause: Clause) -> Iterator[Condition]:
    if clause.when is not None:
        yield Condition(clause.when, "when", clause)
    match clause:
        case Filter():
            yield from (Condition(e, "require", clause, clause.missing) for e in clause.requires)
        case Share():
            yield Condition(clause.on, "on nodes where", clause)
            if clause.of.where is not None:
                yield Condition(clause.of.where, "pods where", clause)
        case Spread() | Limit():
            if clause.pods is not None and clause.pods.where is not None:
                yield Condition(clause.pods.where, "pods where", clause)
        case Preempt():
            yield from (Condition(e, "protect", clause, clause.missing) for e in clause.protect)
            if clause.allow is not None:
                yield Condition(clause.allow, "allow", clause)
        case Score():
            pass


def conjuncts(expr: Expr) -> tuple[Expr, ...]:
    """What must all be true for the expression to be."""
    if isinstance(expr, Chain) and expr.op == "&&":
        return tuple(part for operand in expr.operands for part in conjuncts(operand))
    return (expr,)
