"""String and int constants take the type of the operand beside them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from grammar import mistakes
from grammar.ast import Chain, Conditional, Expr, ListLiteral, Literal
from grammar.diagnostics import Diagnostic
from grammar.errors import EvaluationError
from grammar.source import Span
from grammar.types import DURATION, INT, QUANTITY, SEMVER, STRING, TIMESTAMP, Type, list_of
from grammar.values import quantity
from grammar.values.duration import Duration
from grammar.values.quantity import Quantity
from grammar.values.semver import Semver
from grammar.values.timestamp import Timestamp

_PARSERS: dict[Type, Callable[[str], object]] = {
    QUANTITY: Quantity.parse,
    DURATION: Duration.parse,
    TIMESTAMP: Timestamp.parse,
    SEMVER: Semver.parse,
}


def coerce(expr: Expr, wanted: Type, found: list[Diagnostic]) -> Expr:
    """The expression with its constants turned to `wanted` where that is a type they can take.

    Goes through lists and the branches of a conditional, and no further: a `let` has the type it
    was written with.
    """
    match expr:
        case Literal(str() as text) if wanted in _PARSERS and expr.type == STRING:
            try:
                return replace(expr, value=_PARSERS[wanted](text), type=wanted)
            except EvaluationError as error:
                found.append(_bad_constant(text, wanted, str(error), expr.span))
                return replace(expr, value=None, type=wanted)
        case Literal(int() as number) if wanted == QUANTITY and expr.type == INT:
            return replace(expr, value=Quantity.parse(str(number)), type=QUANTITY)
        case ListLiteral(elements) if wanted.name == "list" and wanted.args[0] in _PARSERS:
            items = tuple(coerce(e, wanted.args[0], found) for e in elements)
            return replace(expr, elements=items, type=list_of(wanted.args[0])) if items else expr
        case Conditional(_, then, otherwise) if wanted in _PARSERS and expr.type in (STRING, INT):
            branches = (coerce(then, wanted, found), coerce(otherwise, wanted, found))
            same = all(b.type == wanted for b in branches)
            return (
                replace(expr, then=branches[0], otherwise=branches[1], type=wanted)
                if same
                else expr
            )
        case _:
            return expr


def _bad_constant(text: str, wanted: Type, reason: str, span: Span) -> Diagnostic:
    meant = quantity.corrected(text) if wanted == QUANTITY else None
    return mistakes.bad_constant(text, wanted, reason, span, meant)


def coerce_beside(op: str, left: Expr, right: Expr, found: list[Diagnostic]) -> tuple[Expr, Expr]:
    """Both operands of a binary operator, each with the constants that the other gives a type."""
    if op == "in":
        items = right.type.args[0] if right.type.name == "list" else None
        if items is not None and items in _PARSERS:
            return coerce(left, items, found), right
        return left, coerce(right, list_of(left.type), found)
    if op in ("*", "%"):
        return left, right
    if op == "/":
        # A quantity divided by an int is a quantity; only a text beside it can be meant as one.
        return left, coerce(right, left.type, found) if right.type == STRING else right
    return (
        coerce(left, _beside(op, right.type, left), found),
        coerce(right, _beside(op, left.type, right), found),
    )


def coerce_chain(chain: Chain, found: list[Diagnostic]) -> Chain:
    """The operands of `a + b + …`: constants take the type of the first that has one to give."""
    given = next((o.type for o in chain.operands if o.type in _PARSERS), None)
    if given is None:
        return chain
    return replace(
        chain, operands=tuple(coerce(o, _beside("+", given, o), found) for o in chain.operands)
    )


def _beside(op: str, other: Type, constant: Expr) -> Type:
    """What a constant beside `other` is: a duration beside a time, unless it reads as a time."""
    if other != TIMESTAMP or op not in ("+", "-") or not isinstance(constant, Literal):
        return other
    try:
        Timestamp.parse(str(constant.value))
    except EvaluationError:
        return DURATION
    return TIMESTAMP
