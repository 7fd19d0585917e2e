"""Counts in filters: filters that bound how many pods a node has, where a limit is meant.

These filters do not see the pods that are still on their way to the node: all pods of a burst find
the same room. A `limit` counts these pods.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from grammar.meaning.allowed import MIRRORED, NEGATED
from grammar.meaning.peers import sum_of
from grammar.messages.diagnostics import Diagnostic
from grammar.rules.rule import Rule, Tree
from grammar.tree import ast
from grammar.tree.clauses import Filter, of_kind
from grammar.tree.walk import reads

# What a peer has of what the pod has, under the same names. The others change on the way to a node.
_OF_PODS = frozenset({"name", "namespace", "labels", "annotations", "requests", "priority"})
# The conditions of a list of pods, each with the name of a pod in it.
_Conditions = tuple[tuple[str, ast.Expr], ...]


class SumInFilter(Rule):
    """A filter that adds up what pods ask for, without those still on their way to the node."""

    code = "P0318"
    wrong = (
        'filter "room" {\n'
        '  require node.pods.map(p, p.requests["memory"]).sum() + pod.requests["memory"] <= "8Gi"\n'
        "}"
    )
    right = (
        'limit "room" { sum peer.requests["memory"] of all pods where true per node at '
        'most "8Gi" strict }'
    )

    def look(self, tree: Tree) -> Iterator[Diagnostic]:
        for clause in of_kind(tree.written.items, Filter):
            if not clause.at_bind and (sums := sum_of(clause, tree.environment)):
                message = "this sum does not have the pods that are still on their way to the node"
                limit = "`limit … { sum … of all pods where … per node at most … strict }`"
                yield self.found(message, sums.span, f"write a {limit} instead, which counts them")


class CountInFilter(Rule):
    """A filter that bounds a number of pods, without those still on their way to the node."""

    code = "P0319"
    wrong = (
        'for pods where pod.labels["app"] == "web"\n'
        'filter "two" {\n'
        '  require size(node.pods.filter(p, p.labels[?"app"].orValue("") == "web")) < 2\n'
        "}"
    )
    right = (
        'for pods where pod.labels["app"] == "web"\n'
        'limit "two" { all pods where peer.labels[?"app"].orValue("") == "web" per node '
        "at most 2 strict }"
    )

    def look(self, tree: Tree) -> Iterator[Diagnostic]:
        message = "this count does not have the pods that are still on their way to the node"
        limit = "`limit … { all pods where … per node at most … strict }`"
        for clause in (c for c in tree.clauses(Filter) if not c.at_bind):
            for require in clause.requires:
                for bound, conditions in _bounds(require, holds=True):
                    if _is_kept(conditions, tree):
                        hint = f"write a {limit} instead, which counts them"
                        yield self.found(message, bound.span, hint)


def _bounds(expr: ast.Expr, *, holds: bool) -> Iterator[tuple[ast.Expr, _Conditions]]:
    """The upper bounds that a condition sets by being true, or false, with what they count."""
    conditions: _Conditions | None = None
    match expr:
        case ast.Unary("!", operand):
            yield from _bounds(operand, holds=not holds)
        case ast.Chain("&&" | "||", operands):
            for operand in operands:
                yield from _bounds(operand, holds=holds)
        case ast.Comprehension("exists") if not holds:
            conditions = _of_pods(replace(expr, macro="filter"))
        case ast.Comprehension("all", _, _, (ast.Unary("!") | ast.Binary("!="),)) if holds:
            conditions = _of_pods(replace(expr, macro="filter"))
        case ast.Binary(op, left, right) if op in MIRRORED:
            if isinstance(left, ast.Literal):
                op, left, right = MIRRORED[op], right, left
            op = op if holds else NEGATED[op]
            if op in ("<", "<=") or (op == "==" and right == ast.Literal(0, right.type)):
                conditions = _counted(left)
        case _:
            pass
    if conditions is not None:
        yield expr, conditions


def _counted(expr: ast.Expr) -> _Conditions | None:
    """The conditions of the pods of a node that a number counts; None for any other number."""
    match expr:
        case ast.Call("size", target, args):
            return _of_pods(target if target is not None else args[0])
        case ast.Chain("+", (counted, ast.Literal())) | ast.Chain("+", (ast.Literal(), counted)):
            return _counted(counted)
        case _:
            return None


def _of_pods(expr: ast.Expr) -> _Conditions | None:
    """The conditions of the pods of a node that a list has; None for any other list."""
    match expr:
        case ast.Select(ast.Ident(), "pods", type=type_) if type_.name == "list":
            return ()
        case ast.Comprehension("filter", target, (name,), (body,)):
            inner = _of_pods(target)
            return None if inner is None else (*inner, (name, body))
        case ast.Comprehension("map", target, (_,), (_,)):
            return _of_pods(target)
        case _:
            return None


def _is_kept(conditions: _Conditions, tree: Tree) -> bool:
    """Whether a limit can count the pods: a pod has no phase, say, before it has a node."""
    return all(
        read.path[0] == "pod" or (read.path[0] == name and {*read.path[1:2]} & _OF_PODS)
        for name, body in conditions
        for read in reads(body, tree.environment.definitions)
    )
