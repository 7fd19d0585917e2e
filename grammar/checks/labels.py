"""Label keys that no node of a given cluster has: mostly misspelt ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from grammar.ast import Binary, Expr, Index, Literal, Select
from grammar.checks.everywhere import expressions
from grammar.diagnostics import Diagnostic, nearest
from grammar.policy_checker import Checked
from grammar.source import Span
from grammar.types import Type

_NODE = Type("Node")


def check(checked: Checked, known: Mapping[str, int], nodes: int) -> Iterator[Diagnostic]:
    """Warn of each constant key that is read of a node's labels and is not in `known`.

    `known` says for each key how many of the cluster's `nodes` have it.
    """
    warned: set[tuple[str, Span]] = set()
    for expr in expressions(checked.policy):
        key = _key(expr)
        if key is None or key[0] in known or key in warned:
            continue
        warned.add(key)
        yield _warning(*key, known, nodes)


def _key(expr: Expr) -> tuple[str, Span] | None:
    """The constant key of `node.labels["k"]`, `node.labels[?"k"]`, `"k" in node.labels`."""
    match expr:
        case Index(holder, Literal(str() as key, _, span)) if _node_labels(holder):
            return key, span
        case Binary("in", Literal(str() as key, _, span), holder) if _node_labels(holder):
            return key, span
        case Select(holder, name) if _node_labels(holder):
            return name, expr.name_span
        case _:
            return None


def _node_labels(expr: Expr) -> bool:
    match expr:
        case Select(Select(node, "metadata"), "labels"):
            return node.type == _NODE
        case _:
            return False


def _warning(key: str, span: Span, known: Mapping[str, int], nodes: int) -> Diagnostic:
    close = nearest(key, known)
    hint = f"{known[close]:,} of {nodes:,} have `{close}`" if close else None
    message = f"0 of {nodes:,} nodes have the label `{key}`"
    return Diagnostic("P0320", "warning", message, span, label="no node has it", hint=hint)
