"""Checks of what a policy refers to: node labels, regular expressions, `let`s and `def`s."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from grammar.checker.policy_checker import Checked
from grammar.messages import catalogue
from grammar.messages.diagnostics import Diagnostic, Fix, nearest
from grammar.tree.ast import (
    Binary,
    Call,
    DefCall,
    Expr,
    Ident,
    Index,
    LetReference,
    Literal,
    Select,
)
from grammar.tree.clauses import Def, Let
from grammar.tree.printer import print_string
from grammar.tree.source import Span
from grammar.tree.types import Type
from grammar.tree.walk import walk
from grammar.values import strings as regex
from grammar.values.errors import EvaluationError

_NODE = Type("Node")


def unknown_labels(checked: Checked, known: Mapping[str, int], nodes: int) -> Iterator[Diagnostic]:
    """A warning (P0320) for each constant label key that no node of a cluster has.

    `known` has the number of nodes by label key; the cluster has `nodes` nodes.
    """
    warned: set[tuple[str, Span]] = set()
    for expr in walk(checked.policy):
        key = _key(expr)
        if key is None or key[0] in known or key in warned:
            continue
        warned.add(key)
        yield _warning(*key, known, nodes, is_text=not isinstance(expr, Select))


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


def _warning(
    key: str, span: Span, known: Mapping[str, int], nodes: int, *, is_text: bool
) -> Diagnostic:
    hint = remedy = None
    if (close := nearest(key, known)) is not None:
        remedy = Fix(span, print_string(close)) if is_text else None
        hint = f"a similar label exists: {known[close]:,} of {nodes:,} nodes have `{close}`"
    message = f"0 of {nodes:,} nodes have the label `{key}`"
    return Diagnostic(
        "P0320", "warning", message, span, label="no node has it", hint=hint, remedy=remedy
    )


_PATTERN_FUNCTIONS = frozenset({"matches", "find", "findAll"})


def bad_patterns(checked: Checked) -> Iterator[Diagnostic]:
    """An error (P0119) for each constant regular expression that RE2 does not accept."""
    for expr in walk(checked.policy):
        if not isinstance(expr, Call) or expr.function not in _PATTERN_FUNCTIONS:
            continue
        operands = expr.args if expr.target is None else (expr.target, *expr.args)
        if len(operands) > 1 and isinstance(constant := operands[1], Literal):
            try:
                regex.pattern(str(constant.value))
            except EvaluationError as error:
                yield catalogue.bad_pattern(str(error), constant.span)


def unused_definitions(checked: Checked) -> Iterator[Diagnostic]:
    """A warning (P0303) for each `let`, `def` and parameter that nothing uses."""
    used = {e.name for e in walk(checked.policy) if isinstance(e, LetReference | DefCall)}
    used |= {e.let for e in walk(checked.policy) if isinstance(e, Literal)}
    for item in checked.policy.items:
        if isinstance(item, Let | Def) and item.name not in used:
            word = "let" if isinstance(item, Let) else "def"
            message = f"{word} `{item.name}` is never used"
            edit = Fix(item.span, "")
            yield Diagnostic(
                "P0303", "warning", message, item.name_span, hint="delete it", remedy=edit
            )
    if checked.template is None:
        return
    named = {e.name for e in walk(checked.template.items) if isinstance(e, Ident)}
    for parameter in checked.template.parameters:
        if parameter.name not in named:
            message = f"parameter `{parameter.name}` is never used"
            yield Diagnostic("P0303", "warning", message, parameter.name_span, hint="delete it")
