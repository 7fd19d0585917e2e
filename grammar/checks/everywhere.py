"""Every expression of a policy and every part of it, wherever it stands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass

from grammar.ast import Expr, Literal
from grammar.clauses import Policy
from grammar.source import Span
from grammar.types import Type


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
