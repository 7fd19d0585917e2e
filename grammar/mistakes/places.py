"""Places: what to write where a name is read in a place that cannot read it.

The policy checker asks when it has found such a read. What is meant is often one of another name:
a counted pod, the pods on a node, or the node as a domain.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from grammar.messages.diagnostics import Diagnostic, Fix
from grammar.tree import ast
from grammar.tree.data import COUNT, COUNT_OF_NODES, GROUP
from grammar.tree.printer import print_expression
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
