"""Short forms (`node.zone`, `node.usage["cpu"]`) written out as what they stand for."""

from __future__ import annotations

import functools
from dataclasses import fields, is_dataclass, replace

from grammar.ast import Expr, Ident
from grammar.parser import parse_expression
from grammar.source import Source, Span


def written_out(derived: str, operand: Expr, index: tuple[str, Expr] | None, span: Span) -> Expr:
    """The expression `derived` with `self` and the index put in, at the short form's span."""
    names = {"self": operand}
    if index is not None:
        names[index[0]] = index[1]
    written = _replaced(_parsed(derived), names, span)
    assert isinstance(written, Expr)
    return written


@functools.lru_cache(maxsize=256)
def _parsed(text: str) -> Expr:
    expr, found = parse_expression(Source("schema.txt", text))
    assert expr is not None, found
    return expr


def _replaced(node: object, names: dict[str, Expr], span: Span) -> object:
    """A copy of the tree with names put in. What is put in keeps its own spans."""
    if isinstance(node, Ident) and node.name in names:
        return names[node.name]
    if isinstance(node, tuple):
        return tuple(_replaced(child, names, span) for child in node)
    if isinstance(node, Span):
        return span
    if not is_dataclass(node) or isinstance(node, type):
        return node
    changed = {
        f.name: _replaced(getattr(node, f.name), names, span)
        for f in fields(node)
        if f.name != "type"
    }
    return replace(node, **changed)
