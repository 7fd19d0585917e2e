"""Label keys that no node of a given cluster has: mostly misspelt ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass

from grammar import catalogue as mistakes
from grammar.ast import Binary, Call, DefCall, Expr, Index, LetReference, Literal, Select
from grammar.clauses import Def, Let
from grammar.diagnostics import Diagnostic, nearest
from grammar.errors import EvaluationError
from grammar.policy_checker import Checked
from grammar.reads import expressions
from grammar.source import Span
from grammar.types import Type
from grammar.values import strings as regex

_NODE = Type("Node")


def unknown_labels(checked: Checked, known: Mapping[str, int], nodes: int) -> Iterator[Diagnostic]:
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


# ---- Constant regular expressions that RE2 does not take: found now, not on the first pod.

_FUNCTIONS = frozenset({"matches", "find", "findAll"})


def bad_patterns(checked: Checked) -> Iterator[Diagnostic]:
    """An error for each constant pattern that can never match anything."""
    for expr in expressions(checked.policy):
        match expr:
            case Call(function, target, args) if function in _FUNCTIONS:
                operands = args if target is None else (target, *args)
                if len(operands) > 1 and isinstance(operands[1], Literal):
                    yield from _refused(operands[1])
            case _:
                pass


def _refused(constant: Literal) -> Iterator[Diagnostic]:
    if not isinstance(constant.value, str):
        return
    try:
        regex.pattern(constant.value)
    except EvaluationError as error:
        yield mistakes.bad_pattern(str(error), constant.span)


# ---- `let`s and `def`s that nothing uses.


def unused_definitions(checked: Checked) -> Iterator[Diagnostic]:
    """A warning for each name that stands nowhere but in its own definition."""
    used = _names(checked.policy.items)
    for item in checked.policy.items:
        if isinstance(item, Let | Def) and item.name not in used:
            word = "let" if isinstance(item, Let) else "def"
            yield Diagnostic(
                "P0303",
                "warning",
                f"{word} `{item.name}` is never used",
                item.name_span,
                hint="delete it",
            )


def _names(node: object) -> set[str]:
    if isinstance(node, tuple):
        return set[str]().union(*map(_names, node))
    if not is_dataclass(node) or isinstance(node, type):
        return set()
    own = {node.name} if isinstance(node, LetReference | DefCall) else set()
    return own.union(*(_names(getattr(node, f.name)) for f in fields(node)))
