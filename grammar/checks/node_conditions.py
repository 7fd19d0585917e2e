"""Node conditions: conditions of nodes that are told by their type alone, or by their place.

A kubelet writes every condition, such as `MemoryPressure`, whether it is true or not, and in no
order that means something. The check looks at one expression of a policy written out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from grammar.checks.known_words import FIELDS
from grammar.meaning.environment import Environment
from grammar.meaning.macro_types import inside
from grammar.meaning.schema import print_as_written
from grammar.messages.diagnostics import Diagnostic, write_instead
from grammar.tree import ast
from grammar.tree.types import Type, list_of
from grammar.tree.walk import walk

_CONDITIONS = list_of(Type("NodeCondition"))
# The conditions that each kubelet writes.
_WRITTEN = frozenset(FIELDS["NodeCondition", "type"].values) - {"NetworkUnavailable"}


def conditions_without_status(expr: ast.Expr, environment: Environment) -> Iterator[Diagnostic]:
    """A warning (P0348, P0352) for a condition of a node whose status or type is not compared."""
    match expr:
        case ast.Comprehension("exists", listed, (item,), (said,)) if _is_list(listed):
            yield from _any(expr, item, said, environment)
        case ast.Comprehension("all", listed, (item,), (said,)) if _is_list(listed):
            yield from _all(expr, item, said, environment)
        case ast.Index(listed, ast.Literal(int())) if _is_list(listed):
            shown = print_as_written(listed, environment.schema)
            message = "the conditions of a node are in no order that says what each is"
            hint = f'write `{shown}.exists(c, c.type == "Ready" && c.status == "True")`'
            yield Diagnostic("P0352", "warning", message, expr.span, hint=hint)
        case _:
            return


def _is_list(expr: ast.Expr) -> bool:
    return inside(expr.type) == _CONDITIONS


def _fields(item: str, said: ast.Expr) -> frozenset[str]:
    """The fields of the condition that are read."""
    return frozenset(
        part.name
        for part in walk(said)
        if isinstance(part, ast.Select) and part.operand == ast.Ident(item)
    )


def _any(
    expr: ast.Comprehension, item: str, said: ast.Expr, environment: Environment
) -> Iterator[Diagnostic]:
    """`exists(c, c.type == "MemoryPressure")`, which is true of every node."""
    if _fields(item, said) != {"type"}:
        return
    match said:
        case ast.Binary("==", ast.Select(), ast.Literal(str() as name)) if name in _WRITTEN:
            body = print_as_written(said, environment.schema)
            shown = print_as_written(expr, environment.schema)
            meant = shown.replace(body, f'{body} && {item}.status == "True"')
            message = f"this is always true: every node has the condition `{name}`, true or not"
            yield write_instead("P0348", message, expr.span, meant)
        case _:
            return


def _all(
    expr: ast.Comprehension, item: str, said: ast.Expr, environment: Environment
) -> Iterator[Diagnostic]:
    """`all(c, c.status == "False")`, which is true of no node that is ready."""
    if _fields(item, said) != {"status"}:
        return
    match said:
        case ast.Binary("==" | "!=", ast.Select(), ast.Literal("True" | "False")):
            message = "this is false of every node that is well: only `Ready` is `True` there"
        case _:
            return
    ready = f'({item}.status == "True") == ({item}.type == "Ready")'
    shown = print_as_written(replace(expr, body=(ast.Ident("BODY"),)), environment.schema)
    meant = shown.replace("BODY", ready)
    yield write_instead("P0348", message, expr.span, meant)
