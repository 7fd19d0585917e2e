"""Needs of policies: the optional parts of the cluster that the cache has to keep for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass

from engine.cache.informers import Needs
from grammar.ast import Expr, Ident, Literal, Select
from grammar.clauses import Clause, Limit, Policy, Share, Spread
from grammar.reads import expressions
from grammar.source import Span

_FIELD = "annotations"


def named_annotations(policies: Iterable[Policy]) -> frozenset[str]:
    """Every text that may be the key of an annotation, in policies that read annotations.

    Some are too many, because a key may be in a `let`, far from its use. A key that is computed
    during evaluation is not among them, so its annotation is missing.
    """
    found: set[str] = set()
    for policy in policies:
        nodes = list(_nodes(policy))
        if any(isinstance(node, Select) and node.name == _FIELD for node in nodes):
            found.update(_texts(nodes))
    return frozenset(found)


def _texts(nodes: Iterable[object]) -> Iterator[str]:
    for node in nodes:
        match node:
            case Literal(str(text)):
                yield text
            case Select(_, name):
                yield name
            case _:
                pass


def _nodes(root: object) -> Iterator[object]:
    """Every part of a tree; a loop, as a tree may be as deep as the language allows."""
    stack = [root]
    while stack:
        node = stack.pop()
        if isinstance(node, tuple):
            stack.extend(node)
        elif is_dataclass(node) and not isinstance(node, Span):
            yield node
            stack.extend(getattr(node, field.name) for field in fields(node))


def needs(policies: Iterable[Policy]) -> Needs:
    """The needs of checked policies."""
    known = tuple(policies)
    read = [expr for policy in known for expr in expressions(policy)]
    return Needs(
        namespaces=any(isinstance(e, Ident) and e.name == "namespaceObject" for e in read),
        workloads=any(map(_reads_workload, read))
        or any(_counts_by_workload(c) for policy in known for c in policy.clauses),
        annotations=named_annotations(known),
    )


def _reads_workload(expr: Expr) -> bool:
    return isinstance(expr, Select) and expr.name == "workload"


def _counts_by_workload(clause: Clause) -> bool:
    """Whether a clause counts the pods of a workload: `of replicas`, or without a `pods` line."""
    match clause:
        case Share(of=pods) | Spread(pods=pods) | Limit(pods=pods):
            return pods is None or pods.where is None
        case _:
            return False
