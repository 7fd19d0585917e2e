"""Constants: those that expressions come to, and texts and numbers that take the type beside them.

The compiler folds what it compiles. Rules compare what is constant with what can be true. `"8Gi"`
beside a quantity is a quantity, and `"1h"` beside a duration is a duration. This is the only
conversion that the language makes by itself, and it is made while a policy is checked.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from grammar.meaning.environment import Environment
from grammar.meaning.evaluator import evaluate
from grammar.messages import catalogue, habits
from grammar.messages.diagnostics import Diagnostic
from grammar.tree import ast
from grammar.tree.types import (
    BOOL,
    DURATION,
    INT,
    QUANTITY,
    SEMVER,
    STRING,
    TIMESTAMP,
    Type,
    list_of,
)
from grammar.tree.walk import children
from grammar.values.errors import EvaluationError
from grammar.values.quantity import Quantity
from grammar.values.semver import Semver
from grammar.values.time import Duration, Timestamp

# ---- types of constants

_PARSERS: dict[Type, Callable[[str], object]] = {
    QUANTITY: Quantity.written,
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
    if wanted == SEMVER:
        short = re.fullmatch(r"v?(\d+)(?:\.(\d+))?(?:\.[x*])?", text.strip())
        return None if short is None else f"{short[1]}.{short[2] or 0}.0"
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*", text)
    unit = None if found is None else habits.unit(found[2])
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
        return ast.Literal(reference.constants[0], kind, span=span, let=name)
    items = (ast.Literal(value, kind.args[0], span=span, let=name) for value in reference.constants)
    return ast.ListLiteral(tuple(items), (), span=span, type=kind)


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


# ---- folding

# The types of values that a Literal can hold. A folded list would lose the spans of its elements.
_FOLDED = frozenset("bool int double string quantity duration timestamp semver null".split())
# The steps of one folded operation, with the texts that it makes: a policy may have thousands.
_FOLDING_STEPS = 1000


def fold(expr: ast.Expr, environment: Environment) -> ast.Expr:
    """The expression with its constant parts replaced by literals.

    A part whose evaluation fails stays as it is, so that it fails at run time.
    """
    match expr:
        case ast.Unary(_, operand):
            return _closed(replace(expr, operand=fold(operand, environment)), environment)
        case ast.Binary(_, left, right):
            folded = replace(expr, left=fold(left, environment), right=fold(right, environment))
            return _closed(folded, environment)
        case ast.Chain(op, operands):
            chain = replace(expr, operands=tuple(fold(o, environment) for o in operands))
            return _closed(chain, environment) if op == "+" else _logical(chain)
        case ast.Conditional(condition, then, otherwise):
            test = fold(condition, environment)
            if isinstance(test, ast.Literal):
                return fold(then if test.value is True else otherwise, environment)
            branches = fold(then, environment), fold(otherwise, environment)
            return replace(expr, condition=test, then=branches[0], otherwise=branches[1])
        case ast.Call(_, target, args):
            called = fold(target, environment) if target is not None else None
            call = replace(expr, target=called, args=tuple(fold(a, environment) for a in args))
            return _closed(call, environment)
        case ast.Index(operand, index):
            return replace(expr, operand=fold(operand, environment), index=fold(index, environment))
        case _:
            return expr


def _logical(chain: ast.Chain) -> ast.Expr:
    """The chain without its neutral constants; a literal where one constant decides it."""
    decisive = chain.op == "||"
    if any(isinstance(o, ast.Literal) and o.value is decisive for o in chain.operands):
        return ast.Literal(decisive, BOOL, span=chain.span)
    left = tuple(
        o for o in chain.operands if not (isinstance(o, ast.Literal) and o.value is (not decisive))
    )
    if not left:
        return ast.Literal(not decisive, BOOL, span=chain.span)
    # A single operand that may not be a bool keeps its chain, which checks that.
    return left[0] if len(left) == 1 and left[0].type == BOOL else replace(chain, operands=left)


def _closed(expr: ast.Expr, environment: Environment) -> ast.Expr:
    """The value of an operation whose operands are all constants; else the expression."""
    if not all(map(_constant, children(expr))) or expr.type.name not in _FOLDED:
        return expr
    try:
        value = evaluate(expr, {}, environment, _FOLDING_STEPS)
        return ast.Literal(value, expr.type, span=expr.span)
    except EvaluationError:
        return expr


def _constant(expr: ast.Expr) -> bool:
    if isinstance(expr, ast.ListLiteral):
        return not expr.optional and all(map(_constant, expr.elements))
    return isinstance(expr, ast.Literal) or (isinstance(expr, ast.MapLiteral) and not expr.entries)


# ---- constants


def constant(number: float | ast.Expr, environment: Environment) -> float | None:
    """The value of a number, or of a constant expression; None for any other expression."""
    if not isinstance(number, ast.Expr):
        return number
    value = literal(number, environment)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    return None


def literal(expr: ast.Expr, environment: Environment) -> object:
    """The value of a constant expression, or of a `let` of one; None for any other."""
    while isinstance(expr, ast.LetReference):
        expr = environment.lets[expr.name]
    folded = fold(expr, environment)
    return folded.value if isinstance(folded, ast.Literal) else None


def constants(expr: ast.Expr, environment: Environment) -> tuple[ast.Literal, ...]:
    """The constants that an expression can be; none if it is computed from something else."""
    match fold(expr, environment):
        case ast.Literal() as constant:
            return (constant,)
        case ast.Conditional(_, then, otherwise):
            return (*constants(then, environment), *constants(otherwise, environment))
        case ast.Call("optional.of" | "dyn" | "string", None, (value,)):
            return constants(value, environment)
        case _:
            return ()
