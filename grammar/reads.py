"""What an expression reads: the declared names it starts from, and the fields it takes of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass

from grammar.ast import (
    Comprehension,
    DefCall,
    Expr,
    Ident,
    Index,
    LetReference,
    Literal,
    MapEntry,
    Select,
)
from grammar.clauses import Policy
from grammar.source import Span
from grammar.types import Type


@dataclass(frozen=True, slots=True)
class Read:
    """One read: `("pod", "metadata", "labels")`, and where it or the `let` it is in stands."""

    path: tuple[str, ...]
    span: Span


class Definitions:
    """The bodies that LetReference and DefCall stand for, with what each reads worked out once."""

    def __init__(
        self,
        lets: Mapping[str, Expr],
        defs: Mapping[str, Expr],
        parameters: Mapping[str, frozenset[str]],
    ) -> None:
        self._bodies = {**lets, **defs}
        self._parameters = parameters
        self._paths: dict[str, frozenset[tuple[str, ...]]] = {}

    def paths(self, name: str) -> frozenset[tuple[str, ...]]:
        """Every path that a let or def reads, through the ones it uses."""
        if name not in self._paths:
            self._paths[name] = frozenset()  # a circle reads nothing more than its parts
            inner = reads(self._bodies[name], self, self._parameters.get(name, frozenset()))
            self._paths[name] = frozenset(r.path for r in inner)
        return self._paths[name]


def reads(
    expr: Expr, definitions: Definitions, hidden: frozenset[str] = frozenset()
) -> Iterator[Read]:
    """Every read of a declared name in a checked tree; macros' variables are not reads."""
    match expr:
        case LetReference(name):
            yield from (Read(path, expr.span) for path in definitions.paths(name))
        case DefCall(name, args):
            yield from (Read(path, expr.span) for path in definitions.paths(name))
            for argument in args:
                yield from reads(argument, definitions, hidden)
        case Ident(name):
            if name not in hidden:
                yield Read((name,), expr.span)
        case Select():
            path, root, rest = _chain(expr)
            if isinstance(root, Ident):
                if root.name not in hidden:
                    yield Read((root.name, *path), expr.span)
            else:
                yield from reads(root, definitions, hidden)
            for index in rest:
                yield from reads(index, definitions, hidden)
        case Comprehension(_, target, variables, body):
            yield from reads(target, definitions, hidden)
            for part in body:
                yield from reads(part, definitions, hidden | frozenset(variables))
        case _:
            for child in children(expr):
                yield from reads(child, definitions, hidden)


def children(expr: Expr) -> Iterator[Expr]:
    """The expressions directly inside, in the order they stand."""
    for part in fields(expr):
        value = getattr(expr, part.name)
        if isinstance(value, Expr):
            yield value
        elif isinstance(value, tuple):
            for item in value:
                if isinstance(item, Expr):
                    yield item
                elif isinstance(item, MapEntry):
                    yield from (item.key, item.value)


def roots(expr: Expr, definitions: Definitions) -> frozenset[str]:
    """The declared names an expression depends on."""
    return frozenset(read.path[0] for read in reads(expr, definitions))


def _chain(expr: Expr) -> tuple[tuple[str, ...], Expr, list[Expr]]:
    """The field names of `a.b[i].c`, what they are taken of, and the indexes on the way."""
    path: list[str] = []
    indexes: list[Expr] = []
    while isinstance(expr, Select | Index):
        if isinstance(expr, Select):
            path.append(expr.name)
        else:
            indexes.append(expr.index)
        expr = expr.operand
    return tuple(reversed(path)), expr, indexes


# ---- Every expression of a policy and every part of it, wherever it stands.


def expressions(policy: Policy) -> Iterator[Expr]:
    """Each expression before its parts, in the order of the text; a `let` once, where it is."""
    stack: list[object] = list(reversed(policy.items))
    while stack:
        node = stack.pop()
        if isinstance(node, tuple):
            stack.extend(reversed(node))
        elif is_dataclass(node) and not isinstance(node, Span | Type):
            if isinstance(node, Expr):
                yield node
            if isinstance(node, Literal):
                continue
            stack.extend(getattr(node, f.name) for f in reversed(fields(node)))
