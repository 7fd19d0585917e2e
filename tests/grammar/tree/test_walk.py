"""Walking through trees: no expression is left out, whatever class of node it is in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass

import pytest

from grammar.tree import ast
from grammar.tree.clauses import ForPods, Policy
from grammar.tree.source import Span
from grammar.tree.types import Type
from grammar.tree.walk import children
from policies.loader import parsed_library


def plainly(node: object) -> Iterator[ast.Expr]:
    """The expressions directly inside a node, by looking at every field."""
    if isinstance(node, ast.Literal | Span | Type):
        return
    if isinstance(node, tuple):
        parts = [*node]
    else:
        parts = [getattr(node, each.name) for each in fields(node)] if is_dataclass(node) else []
    for part in parts:
        if isinstance(part, ast.Expr):
            yield part
        else:
            yield from plainly(part)


def nodes(node: object) -> Iterator[object]:
    """A node and all nodes in it."""
    yield node
    for expr in plainly(node):
        yield from nodes(expr)


@pytest.mark.parametrize(
    "file", [pytest.param(file, id=source.name) for source, file, _ in parsed_library()]
)
def test_children_are_those_of_every_field(file: object) -> None:
    for node in nodes(file):
        found, expected = children(node), list(plainly(node))
        assert len(found) == len(expected)
        assert all(one is other for one, other in zip(found, expected, strict=True))


def test_parts_of_some_classes_are_left_out() -> None:
    (_, file, _), *_ = parsed_library()
    (policy,) = file.policies
    without = [*map(id, children(policy, skip=(ForPods,)))]
    assert without == [id(e) for e in children(policy) if e is not policy.selector]
    assert len(without) < len(children(policy))
    assert children(policy, skip=(Policy,)) == []
