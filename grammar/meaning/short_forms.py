"""Short forms: expressions with the short forms that their author wrote, for messages and hints.

A check writes a short form out, as `node.zone` to the label that it stands for. All parts of what
it stands for have the span of the short form, by which this module finds the way back.
"""

from __future__ import annotations

from grammar.meaning.schema import Schema, written_out
from grammar.tree import ast
from grammar.tree.printer import print_expression
from grammar.tree.types import DURATION, QUANTITY, SEMVER, STRING, TIMESTAMP
from grammar.tree.walk import children, rewritten

# Constants of these types are written as texts.
_TEXTS = (QUANTITY, DURATION, TIMESTAMP, SEMVER)


def print_as_written(expr: ast.Expr, schema: Schema | None) -> str:
    """The text of a checked expression, with its short forms, and with its constants as texts."""
    return print_expression(_as_written(expr, schema))


def _as_written(expr: ast.Expr, schema: Schema | None) -> ast.Expr:
    def change(node: object) -> object:
        if isinstance(node, ast.Literal) and node.type in _TEXTS:
            return ast.Literal(str(node.value), STRING, node.span)
        short = _short_form(node, schema) if isinstance(node, ast.Expr) and schema else None
        return node if short is None else short

    return rewritten(expr, change)


def _short_form(expr: ast.Expr, schema: Schema) -> ast.Expr | None:
    """The short form that an expression was written out from; None for any other."""
    record, index = _replaced(expr)
    known = schema.records.get(record.type.name) if record is not None else None
    if known is None or record is None:
        return None
    for field in known.fields.values():
        if field.derived is None or (field.parameter is not None and index is None):
            continue
        named = (field.parameter, index) if field.parameter and index else None
        if written_out(field.derived, record, named, expr.span) == expr:
            short = ast.Select(_as_written(record, schema), field.name, False, expr.span)
            return ast.Index(short, index, False, expr.span) if named and index else short
    return None


def _replaced(expr: ast.Expr) -> tuple[ast.Expr | None, ast.Expr | None]:
    """What stands for `self` and for the index, if the expression is a short form written out.

    These two have spans of their own; all others have that of the short form.
    """
    record: ast.Expr | None = None
    index: ast.Expr | None = None
    below: list[ast.Expr] = [expr]
    while below and (record is None or index is None):
        part = below.pop()
        if part.span == expr.span:
            below.extend(reversed([*children(part)]))
        elif part.type.is_record:
            record = record or part
        elif part.type == STRING:
            index = index or part
    return record, index
