"""Absence: the fields and keys that may be missing, and the conditions that say they are there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from grammar.meaning.schema import Schema
from grammar.tree import ast
from grammar.tree.printer import print_expression
from grammar.tree.types import NULL
from grammar.tree.walk import children

_MAPS = frozenset({"labels", "annotations", "nodeSelector", "namespaceLabels", "limits"})
Key = ast.Index | ast.Select


def unguarded_keys(expr: ast.Expr) -> Iterator[Key]:
    """The reads of keys that may be absent, of labels for example."""
    yield from (key for key, _ in unguarded(expr, key_read))


def unguarded(
    expr: ast.Expr, read: Callable[[ast.Expr], Key | None], guarded: frozenset[str] = frozenset()
) -> Iterator[tuple[Key, ast.Expr]]:
    """The keys that `read` finds, each with its expression, unless they are sure to be there."""
    if isinstance(expr, ast.Chain) and expr.op in ("&&", "||"):
        for operand in expr.operands:
            yield from unguarded(operand, read, guarded)
            guarded |= guards(operand)
        return
    if isinstance(expr, ast.Has) or with_null(expr):
        return
    if isinstance(expr, ast.Comprehension):
        # The variable of a macro over a map is a key of that map.
        guarded |= {print_expression(ast.Index(expr.target, ast.Ident(expr.variables[0])))}
    if (key := read(expr)) is not None:
        if print_expression(key) not in guarded:
            yield key, expr
        return
    for child in children(expr):
        yield from unguarded(child, read, guarded)


def with_null(expr: ast.Expr) -> bool:
    """Whether an expression compares with null, of which another check warns."""
    return isinstance(expr, ast.Binary) and NULL in (expr.left.type, expr.right.type)


def key_read(expr: ast.Expr) -> Key | None:
    """The expression as a read of labels, annotations or a node selector, or None."""
    if isinstance(expr, ast.Index | ast.Select) and not expr.optional:
        inner = expr.operand
        if inner.type.name == "map" and isinstance(inner, ast.Select) and inner.name in _MAPS:
            return expr
    return None


def guards(expr: ast.Expr) -> frozenset[str]:
    """What `has(x)`, `key in map`, or their negation before `||`, makes sure to be there."""
    match expr:
        case ast.Unary("!", operand):
            return guards(operand)
        case ast.Has(operand):
            return frozenset({print_expression(operand)})
        case ast.Binary("in", key, holder):
            return frozenset({print_expression(ast.Index(holder, key))})
        case ast.Call("hasValue", ast.Select() | ast.Index() as operand, ()):
            return frozenset({print_expression(_plain(operand))})
        case ast.Chain():
            return frozenset().union(*map(guards, children(expr)))
        case _:
            return frozenset()


def _plain(expr: ast.Expr) -> ast.Expr:
    """The same read without its optionals: `a.b` for `a.?b`."""
    if isinstance(expr, ast.Select | ast.Index):
        return replace(expr, operand=_plain(expr.operand), optional=False)
    return expr


