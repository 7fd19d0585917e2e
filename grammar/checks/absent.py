"""Negations (`!=`, `!(x in …)`, `!x.matches(…)`) of a key that may be absent: not true then."""

from __future__ import annotations

from collections.abc import Iterator

from grammar.ast import (
    Binary,
    Call,
    Chain,
    Comprehension,
    Expr,
    Has,
    Ident,
    Index,
    Literal,
    Select,
    Unary,
)
from grammar.checks.conditions import conditions
from grammar.diagnostics import Diagnostic
from grammar.policy_checker import Checked
from grammar.printer import print_expression
from grammar.reads import children

_MAPS = frozenset({"labels", "annotations", "nodeSelector"})


def check(checked: Checked) -> Iterator[Diagnostic]:
    """Warn of each negation of an unguarded key, unless the clause says what missing means."""
    for condition in conditions(checked.policy):
        if condition.missing is None and condition.word in (
            "require",
            "for",
            "when",
            "pods where",
            "protect",
        ):
            yield from _search(condition.expr, frozenset())


def _search(expr: Expr, guarded: frozenset[str]) -> Iterator[Diagnostic]:
    if isinstance(expr, Chain) and expr.op in ("&&", "||"):
        for operand in expr.operands:
            yield from _search(operand, guarded)
            guarded |= _guards(operand)
        return
    if isinstance(expr, Comprehension):
        # The variable of a macro over a map is a key that is there.
        guarded |= {print_expression(Index(expr.target, Ident(expr.variables[0])))}
    negated = _negated(expr)
    if negated is not None and (key := _key(negated)) is not None:
        if print_expression(key) not in guarded:
            yield _warning(key, expr)
        return
    for child in children(expr):
        yield from _search(child, guarded)


def _negated(expr: Expr) -> Expr | None:
    """What the expression says is not so: the operand that is compared."""
    match expr:
        case Binary("!=", left, right):
            return right if isinstance(left, Literal) else left
        case Unary("!", Binary("==" | "in", left, right)):
            return right if isinstance(left, Literal) else left
        case Unary("!", Call("matches" | "startsWith" | "endsWith" | "contains", target)):
            return target
        case _:
            return None


def _key(expr: Expr) -> Index | Select | None:
    """A read of a map that people leave keys out of."""
    if isinstance(expr, Index | Select) and not expr.optional:
        inner = expr.operand
        if inner.type.name == "map" and isinstance(inner, Select) and inner.name in _MAPS:
            return expr
    return None


def _guards(expr: Expr) -> frozenset[str]:
    """The keys that `has(x)`, `key in map` or their negation before an `||` make sure of."""
    match expr:
        case Unary("!", operand):
            return _guards(operand)
        case Has(operand):
            return frozenset({print_expression(operand)})
        case Binary("in", key, holder):
            return frozenset({print_expression(Index(holder, key))})
        case _:
            pass
    return (
        frozenset().union(*(_guards(c) for c in children(expr)))
        if isinstance(expr, Chain)
        else frozenset()
    )


def _warning(key: Index | Select, expr: Expr) -> Diagnostic:
    name = key.index if isinstance(key, Index) else Literal(key.name, key.type)
    safe = f'{print_expression(key.operand)}[?{print_expression(name)}].orValue("")'
    return Diagnostic(
        "P0301",
        "warning",
        f"`{print_expression(key)}` may be absent, and then this is missing, not true",
        expr.span,
        hint=f"write `{safe}`, or say `missing pass` or `missing fail`",
    )
