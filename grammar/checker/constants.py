"""Constants: texts and numbers that take the type of the operand beside them.

`"8Gi"` beside a quantity is a quantity, and `"1h"` beside a duration is a duration. This is the
only conversion that the language makes by itself, and it is made while a policy is checked.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from grammar.messages import catalogue, habits
from grammar.messages.diagnostics import Diagnostic
from grammar.tree import ast
from grammar.tree.types import DURATION, INT, QUANTITY, SEMVER, STRING, TIMESTAMP, Type, list_of
from grammar.values import quantity
from grammar.values.errors import EvaluationError
from grammar.values.quantity import Quantity
from grammar.values.semver import Semver
from grammar.values.time import Duration, Timestamp

_PARSERS: dict[Type, Callable[[str], object]] = {
    QUANTITY: Quantity.parse,
    DURATION: Duration.parse,
    TIMESTAMP: Timestamp.parse,
    SEMVER: Semver.parse,
}

_OTHER_VERSIONS = "a version has three numbers, and `semver(…, true)` reads labels with fewer"


def coerce(expr: ast.Expr, wanted: Type, found: list[Diagnostic]) -> ast.Expr:
    """The expression with its string and int constants converted to `wanted`, where possible.

    This includes constants in lists, in the branches of a conditional, and behind a `let`, and
    nothing else. Bad constants are appended to `found`.
    """
    match expr:
        case ast.LetReference(constants=(_, *_)):
            coerced = coerce(_spelled_out(expr), wanted, found)
            return coerced if coerced.type == wanted else expr
        case ast.Literal(str() as text) if wanted in _PARSERS and expr.type == STRING:
            try:
                return replace(expr, value=_PARSERS[wanted](text), type=wanted)
            except EvaluationError as error:
                meant = None if expr.let else _corrected(text, wanted)
                why = str(error) if wanted != SEMVER or meant is None else _OTHER_VERSIONS
                found.append(catalogue.bad_constant(text, wanted, why, expr.span, meant))
                return replace(expr, value=None, type=wanted)
        case ast.Literal(int() as number) if wanted == QUANTITY and expr.type == INT:
            return replace(expr, value=Quantity.parse(str(number)), type=QUANTITY)
        case ast.ListLiteral(elements) if wanted.name == "list" and wanted.args[0] in _PARSERS:
            items = tuple(coerce(e, wanted.args[0], found) for e in elements)
            return replace(expr, elements=items, type=list_of(wanted.args[0])) if items else expr
        case ast.Conditional(_, then, otherwise) if wanted in _PARSERS and expr.type in (
            STRING,
            INT,
        ):
            branches = (coerce(then, wanted, found), coerce(otherwise, wanted, found))
            if any(b.type != wanted for b in branches):
                return expr
            return replace(expr, then=branches[0], otherwise=branches[1], type=wanted)
        case _:
            return expr


def _corrected(text: str, wanted: Type) -> str | None:
    """The amount or the time that a text with another unit means: `3 days`, `16 gigabytes`."""
    if wanted == QUANTITY and (meant := quantity.corrected(text)) is not None:
        return meant
    if wanted == SEMVER:
        short = re.fullmatch(r"v?(\d+)(?:\.(\d+))?(?:\.[x*])?", text.strip())
        return None if short is None else f"{short[1]}.{short[2] or 0}.0"
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*", text)
    unit = None if found is None else habits.UNITS.get(found[2], habits.UNITS.get(found[2].lower()))
    if found is None or unit is None or wanted not in (QUANTITY, DURATION):
        return None
    made = f"{found[1]}{unit}"
    try:
        _PARSERS[wanted](made)
    except EvaluationError:
        return None
    return made if made != text else None


def _spelled_out(reference: ast.LetReference) -> ast.Expr:
    """The constant, or the list of constants, that a `let` stands for."""
    kind, span, name = reference.type, reference.span, reference.name
    if kind.name != "list":
        return ast.Literal(reference.constants[0], kind, span, name)
    items = (ast.Literal(value, kind.args[0], span, name) for value in reference.constants)
    return ast.ListLiteral(tuple(items), (), span, kind)


def constants_of(expr: ast.Expr) -> tuple[str | int, ...]:
    """The constants that can take another type, of an expression that is one or a list of them."""
    match expr:
        case ast.Literal(str() | int() as value) if expr.type in (STRING, INT):
            return (value,)
        case ast.ListLiteral(elements, ()):
            items = [constants_of(e) for e in elements if isinstance(e, ast.Literal)]
            return tuple(i[0] for i in items) if all(items) and len(items) == len(elements) else ()
        case ast.LetReference():
            return expr.constants
        case _:
            return ()


def coerce_beside(
    op: str, left: ast.Expr, right: ast.Expr, found: list[Diagnostic]
) -> tuple[ast.Expr, ast.Expr]:
    """Both operands of a binary operator; constants take the type of the other operand."""
    if op == "in":
        items = right.type.args[0] if right.type.name == "list" else None
        if items is not None and items in _PARSERS:
            return coerce(left, items, found), right
        return left, coerce(right, list_of(left.type), found)
    if op in ("*", "%"):
        return left, right
    if op == "/":
        # A quantity divided by an int is a quantity, so only a string can mean a quantity here.
        return left, coerce(right, left.type, found) if right.type == STRING else right
    return (
        coerce(left, _beside(op, right.type, left), found),
        coerce(right, _beside(op, left.type, right), found),
    )


def coerce_chain(chain: ast.Chain, found: list[Diagnostic]) -> ast.Chain:
    """`a + b + …`, with constants converted to the type of the first quantity, time or the like."""
    given = next((o.type for o in chain.operands if o.type in _PARSERS), None)
    if given is None:
        return chain
    operands = (coerce(o, _beside("+", given, o), found) for o in chain.operands)
    return replace(chain, operands=tuple(operands))


def _beside(op: str, other: Type, constant: ast.Expr) -> Type:
    """The type for a constant beside `other`; beside a timestamp it may be a duration."""
    if other != TIMESTAMP or op not in ("+", "-") or not isinstance(constant, ast.Literal):
        return other
    try:
        Timestamp.parse(str(constant.value))
    except EvaluationError:
        return DURATION
    return TIMESTAMP
