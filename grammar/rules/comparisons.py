"""Comparisons: the reads of an expression, and the constants that it compares them with.

The rules about words, labels, names and times ask these functions.
"""

from __future__ import annotations

from collections.abc import Container, Iterator

from grammar.meaning.environment import Environment
from grammar.meaning.folding import constants
from grammar.meaning.known_words import FIELDS
from grammar.meaning.macro_types import inside
from grammar.tree import ast

# The maps of labels.
LABEL_MAPS = frozenset({"labels", "nodeSelector", "matchLabels"})
# Functions whose result is the value, or one of the values, of what they are called on.
_KEEPING = frozenset({"orValue", "value", "or"})
_CHOOSING = frozenset({"distinct", "sort", "reverse", "slice", "flatten"})


def compared(
    expr: ast.Expr, environment: Environment, *, items: bool = False
) -> Iterator[tuple[ast.Expr, tuple[ast.Literal, ...]]]:
    """What `==`, `!=` or `in` compares with constants, and these; `items` are those of lists."""
    if not isinstance(expr, ast.Binary) or expr.op not in ("==", "!=", "in"):
        return
    for read, other in ((expr.left, expr.right), (expr.right, expr.left)):
        listed = other.elements if isinstance(other, ast.ListLiteral) else (other,)
        found = tuple(c for each in listed for c in constants(each, environment))
        if found and (expr.op != "in" or read is expr.left):
            yield read, found
        if found and items:
            inner = read.elements if isinstance(read, ast.ListLiteral) else ()
            yield from ((each, found) for each in (*inner, *items_of(read)))


def key_of(read: ast.Expr, maps: Container[str]) -> str | None:
    """The constant key of what an expression reads of one of these maps, of labels for example."""
    match read:
        case ast.Index(ast.Select(_, holder), ast.Literal(str() as key)) if holder in maps:
            return key
        case ast.Select(ast.Select(_, holder), key) if holder in maps:
            return key
        case _:
            return None


def unwrapped(expr: ast.Expr) -> ast.Expr:
    """What an expression reads, without what keeps its value, as `orValue` does."""
    match expr:
        case ast.Call(name, target) if target is not None and name in _KEEPING:
            return unwrapped(target)
        case ast.Call("optional.of" | "dyn" | "string", None, (value,)):
            return unwrapped(value)
        case _:
            return expr


def items_of(expr: ast.Expr) -> tuple[ast.Expr, ...]:
    """An expression for the items of a list; none if the list is not one of fields."""
    match expr:
        case ast.Comprehension("map" | "transformList", _, _, (*_, made)):
            return (made,)
        case ast.Comprehension("filter" | "sortBy", target):
            return items_of(target)
        case ast.Call(function, target) if target is not None and function in _CHOOSING:
            return items_of(target)
        case ast.Select(operand, name) if inside(operand.type).is_record:
            # A list of words has them under its own name.
            return (expr,) if (inside(operand.type).name, name) in FIELDS else ()
        case _:
            return ()


def reads_field(read: ast.Expr, field: str, *records: str) -> bool:
    """Whether an expression reads this field of one of these records."""
    match read:
        case ast.Select(operand, name):
            return name == field and inside(operand.type).name in records
        case _:
            return False


def root_of(expr: ast.Expr) -> str | None:
    """The name that a chain of fields and keys begins with."""
    while isinstance(expr, ast.Index | ast.Select):
        expr = expr.operand
    return expr.name if isinstance(expr, ast.Ident) else None
