"""Ranges: conditions that are always true or false by what values can be, and equal scores.

Hours go from 0 to 23, a size is never negative, a policy of a namespace sees the pods of it alone.
The checks compare each path with constants, as those of contradictions between filters do, and
look at policies that are written out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from grammar.checker.policy_checker import Checked
from grammar.checks.conditions import Allowed, allowed_by, conditions
from grammar.checks.known_words import PARTS_OF_TIME
from grammar.meaning.schema import print_as_written
from grammar.messages.diagnostics import Diagnostic, write_instead
from grammar.tree import ast
from grammar.tree.clauses import Score, of_kind
from grammar.tree.types import BOOL, TIMESTAMP
from grammar.tree.walk import roots, walk

_NEGATED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}
_BOTH = 2
_COMPARISONS = frozenset(_NEGATED)
# What is the same for all nodes.
_OF_POD = frozenset({"pod", "now", "namespaceObject"})


def impossible_ranges(checked: Checked) -> Iterator[Diagnostic]:
    """A warning (P0348) for each part of a condition that its values make always true or false."""
    for condition in conditions(checked.policy):
        for expr in walk(condition.expr):
            match expr:
                case ast.Chain("&&" | "||" as op, operands):
                    yield from _together(op, operands, expr, checked)
                case ast.Binary(op) if op in _COMPARISONS:
                    yield from _alone(expr, checked)
                case _:
                    continue


def _together(
    op: str, operands: Sequence[ast.Expr], whole: ast.Chain, checked: Checked
) -> Iterator[Diagnostic]:
    """`x >= 22 && x < 6`, which is never true, and `x != "a" || x != "b"`, which always is."""
    known: dict[str, tuple[Allowed, ast.Expr]] = {}
    for operand in operands:
        if isinstance(operand, ast.Unary) and operand.op == "!" and operand.operand in operands:
            value = "true" if op == "||" else "false"
            shown = print_as_written(operand.operand, checked.environment.schema)
            message = f"this is always {value}: `{shown}` and its opposite are in it"
            yield Diagnostic("P0348", "warning", message, whole.span, hint="leave one of them out")
            return
        found = allowed_by(operand if op == "&&" else _opposite(operand))
        if found is None:
            continue
        path, allowed = found
        if path in known:
            before, first = known[path]
            merged = before.both(allowed)
            if merged.empty and not before.empty and not allowed.empty:
                yield _never(op, first, operand, whole, checked)
                return
            known[path] = merged, first
        else:
            known[path] = allowed, operand


def _opposite(expr: ast.Expr) -> ast.Expr:
    """The condition that is true where a comparison is false."""
    match expr:
        case ast.Binary(op) if op in _NEGATED:
            return replace(expr, op=_NEGATED[op])
        case _:
            return ast.Literal(True, BOOL)


def _never(
    op: str, first: ast.Expr, second: ast.Expr, whole: ast.Chain, checked: Checked
) -> Diagnostic:
    schema = checked.environment.schema
    sides = [print_as_written(side, schema) for side in (first, second)]
    other = "||" if op == "&&" else "&&"
    value = "false" if op == "&&" else "true"
    meant = f"{sides[0]} {other} {sides[1]}"
    message = f"this is always {value}: `{sides[0]}` and `{sides[1]}` "
    message += "are never true together" if op == "&&" else "are never false together"
    ranges = [found[1] for side in (first, second) if (found := allowed_by(side)) is not None]
    if op == "||" and len(ranges) == _BOTH and ranges[0].both(ranges[1]).empty:
        # Each is the opposite of the other.
        hint = "leave one of them out"
        return Diagnostic("P0348", "warning", message, whole.span, hint=hint)
    if len(whole.operands) == _BOTH:
        return write_instead("P0348", message, whole.span, meant)
    # Beside other conditions, `||` needs parentheses.
    hint = f"write `({meant})`" if op == "&&" else f"write `{meant}`"
    return Diagnostic("P0348", "warning", message, whole.span, hint=hint)


def _alone(expr: ast.Binary, checked: Checked) -> Iterator[Diagnostic]:
    """`now.getHours() < 24`, `size(node.pods) >= 0`, another namespace than that of the policy."""
    for read in (expr.left, expr.right):
        if (range_ := _range(read, checked)) is None:
            continue
        found, opposite = allowed_by(expr), allowed_by(_opposite(expr))
        if found is None or opposite is None:
            continue
        possible, why = range_
        if found[1].both(possible).empty:
            value = "false"
        elif opposite[1].both(possible).empty:
            value = "true"
        else:
            continue
        if expr.op in ("==", "!=") and possible.values is None:
            # A number that is out of range has a warning of its own.
            continue
        shown = print_as_written(read, checked.environment.schema)
        message = f"this is always {value}: `{shown}` is {why}"
        hint = "correct it, or leave it out"
        yield Diagnostic("P0348", "warning", message, expr.span, hint=hint)


def _range(read: ast.Expr, checked: Checked) -> tuple[Allowed, str] | None:
    """What values an expression has, and how a message says it."""
    match read:
        case ast.Call(name, moment) if name in PARTS_OF_TIME and moment is not None:
            if moment.type != TIMESTAMP:
                return None
            least, most = PARTS_OF_TIME[name]
            return Allowed(low=float(least), high=float(most)), f"from {least} to {most}"
        case ast.Call("size", _, _):
            return Allowed(low=0.0), "never negative"
        case ast.Select(
            ast.Ident("pod") | ast.Select(ast.Ident("pod"), "metadata"), "namespace"
        ) if (namespace := checked.policy.namespace) is not None:
            return Allowed(frozenset({namespace})), f"`{namespace}` in this policy"
        case _:
            return None


# ---- scores that are equal for all nodes


def equal_scores(checked: Checked) -> Iterator[Diagnostic]:
    """A warning (P0350) for each score that does not read the node: all nodes get the same."""
    definitions = checked.environment.definitions
    for clause in of_kind(checked.policy.items, Score):
        read = roots([clause.value, *clause.ends], definitions)
        if read - _OF_POD:
            continue
        message = "this reads nothing of the node, so all nodes get the same score"
        hint = "write a value of the node, or a `when` if it is about the pod"
        yield Diagnostic("P0350", "warning", message, clause.value.span, hint=hint)
