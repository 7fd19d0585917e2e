"""Places: what to write in a part of a clause that cannot have what stands there.

The policy checker asks when it has found such a part. What is meant by a name is often one of
another: a counted pod, the pods on a node, or the node as a domain.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from grammar.meaning.schema import Schema, print_as_written
from grammar.messages import habits
from grammar.messages.diagnostics import SIMILAR, Diagnostic, Fix
from grammar.messages.helping import Remedy
from grammar.tree import ast
from grammar.tree.policy import COUNT, COUNT_OF_NODES, GROUP
from grammar.tree.printer import print_expression
from grammar.tree.types import STRING
from grammar.tree.walk import rewritten, walk

_OF_NAME: Mapping[str, str] = {
    "node": "a filter, a score, `on nodes where`, `over` and `per domain` read the node",
    "pod": "the domain and the nodes are told by the node alone, as in `node.zone`",
    "peer": "`pods where` reads it; the pods on a node are `node.pods`",
    "victim": "only `protect victim where` reads it",
    "victims": "only `allow` and `keep` of a preempt read it",
    "now": "a filter, a score or the `when` of a clause reads the time",
    "domain": "only the bound of a limit per domain, and a skew, read it",
    "namespaceObject": "it is the namespace of the pod, and nothing here reads the pod",
    COUNT: "a filter, a score, the `when` of what counts pods, and a bound read a count",
    COUNT_OF_NODES: "a filter, a score and a bound `per node` read it; others a count per cluster",
    GROUP: "a filter, a score and a bound `per node` or `per group` read a group",
}
# The conditions on a node, in which pods on it can be looked for.
_ON_NODES = ("`require`", "`when`", "`value`")


def in_place(found: Diagnostic, name: str, where: str, expr: ast.Expr) -> Diagnostic:
    """The error for a name that a place does not read, with what to write."""
    if name == "peer" and where in _ON_NODES:
        return _with(found, expr, f"node.pods.exists(peer, {print_expression(expr)})")
    if name == "pod" and where.startswith("`pods where`"):
        return _with(found, expr, print_expression(_renamed(expr, "pod", "peer")))
    if name == "node" and where.startswith("`pods where`"):
        hint = (
            "it counts pods wherever they are; a share counts those `on nodes where …`, and"
            " `per domain node.zone` those of one zone"
        )
        return replace(found, hint=hint)
    if name == "node" and where.startswith("`for`"):
        hint = "it selects pods; write the condition on nodes into a `filter`"
        return replace(found, hint=hint)
    if name == "node" and where.startswith("the `when`"):
        hint = "write the condition on nodes into a `filter`, whose `when` reads the node"
        return replace(found, hint=hint)
    if name in (GROUP, COUNT_OF_NODES) and where.startswith("the `when` of a score"):
        return replace(found, hint="write it into the `value`, as in `value … ? 100 : 0`")
    if name in (GROUP, COUNT, COUNT_OF_NODES) and where.startswith("the `when` of a preempt"):
        return replace(found, hint="write it into `protect` or `allow`")
    return replace(found, hint=_OF_NAME.get(name))


def _renamed(expr: ast.Expr, name: str, other: str) -> ast.Expr:
    return rewritten(
        expr, lambda e: replace(e, name=other) if isinstance(e, ast.Ident) and e.name == name else e
    )


def _with(found: Diagnostic, expr: ast.Expr, made: str) -> Diagnostic:
    if any(isinstance(e, ast.LetReference | ast.DefCall) for e in walk(expr)):
        return found
    return replace(found, hint=f"write `{made}`", remedy=Fix(expr.span, made))


def weight_in_words(wrong: Diagnostic, name: str) -> Diagnostic:
    """The error for a word in place of the number of a weight, which is no parameter either."""
    if wrong.hint is not None and wrong.hint.startswith(SIMILAR):
        return wrong
    number = habits.WEIGHTS.get(name.lower())
    remedy = None if number is None else Fix(wrong.span, str(number))
    hint = f"write `{number or 10}`: a weight is a number beside those of other scores"
    return replace(wrong, hint=hint, remedy=remedy)


def number_in_quotes(found: Diagnostic, expr: ast.Expr) -> Diagnostic:
    """`at most "40%"`, where a number must stand."""
    text = expr.value if isinstance(expr, ast.Literal) else None
    if not isinstance(text, str) or not re.fullmatch(r"\d+(?:\.\d+)?%?", text):
        return found
    return Remedy(expr.span, text, f"write `{text}`, without the quotes").on(found)


def number_of_text(found: Diagnostic, value: ast.Expr, schema: Schema) -> Diagnostic:
    """The error for a score of a text, such as `value node.labels["cost"]`, which is no number."""
    if value.type != STRING or isinstance(value, ast.Literal):
        return found
    shown = print_as_written(value, schema)
    match value:
        case ast.Conditional(test, ast.Literal(str() as one), ast.Literal(str() as other)):
            points = habits.POINTS.get(one.lower(), "100"), habits.POINTS.get(other.lower(), "0")
            said = f"{print_as_written(test, schema)} ? {points[0]} : {points[1]}"
            return Remedy(value.span, said).on(found)
        case _ if shown in ("node.zone", "node.region", "node.name", "pod.namespace", "pod.name"):
            hint = f'compare it, as in `{shown} == "a"`'
            return Remedy(value.span, "", hint, whole=False).on(found)
        case _:
            pass
    made = f"double({shown})"
    hint = f'write `{made} range minmax` for a number, or compare it, as in `… == "a"`'
    return Remedy(value.span, f"{made} range minmax", hint).on(found)


_QUESTIONS: Mapping[str, Callable[..., Diagnostic]] = {
    "a name in another place": in_place,
    "a number in quotes": number_in_quotes,
    "a score of a text": number_of_text,
    "a weight in words": weight_in_words,
}


def of_clause(question: str, found: Diagnostic, *about: Any) -> Diagnostic:
    """The error of a part of a clause, with what to write."""
    return _QUESTIONS[question](found, *about)
