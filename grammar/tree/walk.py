"""Walk: the expressions of a tree, one level down or all of them, and the names that they read.

A tree is an expression, a clause, a policy, a file, or a tuple of these. Every function that goes
through a tree uses `children` or `walk`, so that a new kind of node is never forgotten.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import lru_cache
from typing import Any, TypeVar, cast

from grammar.tree import ast
from grammar.tree.policy import Def
from grammar.tree.source import Span
from grammar.tree.types import Type

T = TypeVar("T")


def conjuncts(*exprs: ast.Expr) -> tuple[ast.Expr, ...]:
    """The operands that must all be true for the expressions to be true."""
    found = list[ast.Expr]()
    for expr in exprs:
        is_chain = isinstance(expr, ast.Chain) and expr.op == "&&"
        found += conjuncts(*children(expr)) if is_chain else (expr,)
    return tuple(found)


def children(node: object, *, skip: tuple[type, ...] = ()) -> list[ast.Expr]:
    """The expressions directly inside a node, in the order of its fields.

    Of a clause or a policy these are the outermost ones. Parts of the classes `skip` are left out.
    """
    found: list[ast.Expr] = []
    _gather(node, skip, found)
    return found


def _gather(node: object, skip: tuple[type, ...], found: list[ast.Expr]) -> None:
    kind: Any = node.__class__
    if skip and issubclass(kind, skip):
        return
    parts = node if kind is tuple else _parts(kind)(node)
    for part in cast("Iterable[object]", parts):
        inner: Any = part.__class__
        if inner in _LEAVES:
            continue
        if issubclass(inner, ast.Expr):
            found.append(cast("ast.Expr", part))
        elif inner is tuple or _parts(inner) is not _no_parts:
            _gather(part, skip, found)


# The classes of what most fields have that have no expressions inside.
_LEAVES = frozenset({str, bool, int, float, type(None), Span, Type})


@lru_cache(maxsize=1024)
def _parts(kind: type[Any]) -> Callable[[object], Iterable[object]]:
    """What gives the fields of a node of a class that may have expressions inside."""
    if issubclass(kind, ast.Literal | Span | Type) or not is_dataclass(kind):
        return _no_parts
    names = [each.name for each in fields(kind) if each.type not in _LEAF_TYPES]
    if len(names) == 1:
        (name,) = names
        return lambda node: (getattr(node, name),)
    return operator.attrgetter(*names) if names else _no_parts


def _no_parts(_: object) -> Iterable[object]:
    return ()


# What such fields are declared as.
_PLAIN_TYPES = frozenset({"str", "bool", "int", "float", "str | None"})
_LEAF_TYPES = _PLAIN_TYPES | {"Span", "Type"}


def walk(node: object) -> Iterator[ast.Expr]:
    """Every expression of a tree, each before its parts, in order.

    A `let` is walked once, where it is defined. This is a loop: a tree may be as deep as the
    language allows.
    """
    stack = [node] if isinstance(node, ast.Expr) else children(node)[::-1]
    while stack:
        expr = stack.pop()
        yield expr
        stack += reversed(children(expr))


def rewritten(node: T, change: Callable[[object], object]) -> T:
    """A copy of a tree in which `change` replaces nodes and spans.

    `change` returns its argument for what stays; the parts of that are rewritten in turn. The depth
    of the tree is limited by the parser.
    """
    changed = change(node)
    if changed is not node:
        return cast("T", changed)
    if isinstance(node, tuple):
        parts = tuple([rewritten(part, change) for part in node])
        is_same = all(map(operator.is_, parts, node))
        return node if is_same else cast("T", parts)
    made: dict[str, object] = {}
    kind: Any = node.__class__
    for name in _rewritable(kind):
        old = getattr(node, name)
        if (new := rewritten(old, change)) is not old:
            made[name] = new
    return cast("T", replace(cast("Any", node), **made)) if made else node


@lru_cache(maxsize=1024)
def _rewritable(kind: type[Any]) -> tuple[str, ...]:
    """The fields of a class that a rewriting may change; none of what is no part of a tree."""
    if not is_dataclass(kind) or issubclass(kind, Span | Type):
        return ()
    return tuple(each.name for each in fields(kind) if each.type not in _PLAIN_TYPES)


# What functions read of a node: one matches a term by its labels and its name.
READ_BY_FUNCTIONS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "matches": (("metadata", "labels"), ("metadata", "name")),
    "since": (("pods",),),
}


@dataclass(frozen=True, slots=True)
class FieldRead:
    """The read of a field, such as `("pod", "metadata", "labels")`, at its span or a `let`."""

    path: tuple[str, ...]
    span: Span


class Definitions:
    """The definitions of a policy, checked `let`s and `def`s; each is read once."""

    def __init__(self, lets: Mapping[str, ast.Expr], defs: Mapping[str, Def]) -> None:
        self._bodies: dict[str, tuple[ast.Expr, frozenset[str]]] = {
            **{name: (value, frozenset()) for name, value in lets.items()},
            **{name: (d.body, frozenset(p.name for p in d.parameters)) for name, d in defs.items()},
        }
        self._paths: dict[str, tuple[tuple[str, ...], ...]] = {}

    def body(self, name: str) -> tuple[ast.Expr, frozenset[str]]:
        """The expression that a name stands for, and the parameters that hide names in it."""
        return self._bodies[name]

    def paths(self, name: str) -> tuple[tuple[str, ...], ...]:
        """Every path that a `let` or `def` reads, through the ones it uses, in order."""
        if name not in self._paths:
            self._paths[name] = ()  # a circle reads nothing more than its parts
            expr, parameters = self.body(name)
            self._paths[name] = tuple(dict.fromkeys(r.path for r in reads(expr, self, parameters)))
        return self._paths[name]


def reads(
    expr: ast.Expr, definitions: Definitions, hidden: frozenset[str] = frozenset()
) -> Iterator[FieldRead]:
    """Every read of a declared name in a checked tree; variables of macros are not reads."""
    match expr:
        case ast.LetReference(name) | ast.DefCall(name):
            yield from (FieldRead(path, expr.span) for path in definitions.paths(name))
        case ast.Ident(name) if name not in hidden:
            yield FieldRead((name,), expr.span)
        case ast.Select():
            path, root, indexes = _chain(expr)
            if not isinstance(root, ast.Ident):
                yield from reads(root, definitions, hidden)
            elif root.name not in hidden:
                yield FieldRead((root.name, *path), expr.span)
            for index in indexes:
                yield from reads(index, definitions, hidden)
            return
        case ast.Call(function, target) if (
            function in READ_BY_FUNCTIONS and target is not None and target.type.is_record
        ):
            for path in READ_BY_FUNCTIONS[function]:
                field: ast.Expr = target
                for name in path:
                    field = ast.Select(field, name, span=expr.span)
                yield from reads(field, definitions, hidden)
            for argument in expr.args:
                yield from reads(argument, definitions, hidden)
            return
        case ast.Comprehension(_, target, variables, bodies):
            yield from reads(target, definitions, hidden)
            for part in bodies:
                yield from reads(part, definitions, hidden | frozenset(variables))
            return
        case _:
            pass
    for child in children(expr):
        yield from reads(child, definitions, hidden)


def roots(exprs: Iterable[ast.Expr], definitions: Definitions) -> set[str]:
    """The declared names of which expressions read anything, such as `pod`."""
    return {read.path[0] for expr in exprs for read in reads(expr, definitions)}


def _chain(expr: ast.Expr) -> tuple[tuple[str, ...], ast.Expr, list[ast.Expr]]:
    """The field names of `a.b[i].c`, the expression `a`, and the indexes on the way."""
    path: list[str] = []
    indexes: list[ast.Expr] = []
    while isinstance(expr, ast.Select | ast.Index):
        if isinstance(expr, ast.Select):
            path.append(expr.name)
        else:
            indexes.append(expr.index)
        expr = expr.operand
    return tuple(reversed(path)), expr, indexes
