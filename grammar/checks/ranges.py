"""Ranges: conditions that are always true or false by what values can be, and equal scores.

Hours go from 0 to 23, a size is never negative, a policy of a namespace sees the pods of it alone.
The checks compare each path with constants, as those of contradictions between filters do, and
look at policies that are written out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf, isfinite

from grammar.checker.policy_checker import Checked
from grammar.checks.conditions import conditions, in_parentheses
from grammar.checks.scales import scale_of
from grammar.checks.units import resource_of
from grammar.meaning.allowed import Allowed, allowed_by, value_of
from grammar.meaning.extents import PARTS_OF_TIME, Extent, extent, measured, said
from grammar.meaning.folding import fold
from grammar.meaning.macro_types import inside
from grammar.meaning.schema import print_as_written
from grammar.messages.diagnostics import Diagnostic, Fix, write_instead
from grammar.tree import ast
from grammar.tree.clauses import Score, of_kind
from grammar.tree.source import Span
from grammar.tree.types import BOOL, DURATION, QUANTITY
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
                    if condition.word != "require" or op == "||":
                        yield from _twice(operands)
                    yield from _together(op, operands, expr, checked)
                case ast.Binary("in", _, ast.ListLiteral(operands)) if operands:
                    yield from _twice(operands)
                case _ if (why := _by_form(expr)) is not None:
                    hint = "correct it, or leave it out"
                    yield Diagnostic("P0348", "warning", why, expr.span, hint=hint)
                case ast.Binary(op) if op in _COMPARISONS:
                    yield from _alone(expr, checked)
                case _:
                    continue


def _twice(parts: Sequence[ast.Expr]) -> Iterator[Diagnostic]:
    """`x == "a" || x == "a"` and `x in ["a", "a"]`, of which one was to be another."""
    for number, part in enumerate(parts):
        if part in parts[:number]:
            message, hint = "this is here twice", "correct one of them, or leave it out"
            yield Diagnostic("P0348", "warning", message, part.span, hint=hint)


_OF_ALL_TEXTS = frozenset({"", ".*", "^", "$", "^.*", ".*$", "^.*$"})
_OR_EQUAL = frozenset({"==", "<=", ">="})
_OF_POD_ITSELF = ast.Select(ast.Ident("pod"), "metadata")


def _by_form(expr: ast.Expr) -> str | None:
    """What is said of `x in []`, `x == x` and `x.startsWith("")`."""
    match expr:
        case ast.Binary("in", _, ast.ListLiteral(()) | ast.MapLiteral(())):
            return "this is always false: nothing is in it"
        case ast.Binary(op, left, right) if op in _COMPARISONS and left == right:
            if isinstance(left, ast.Literal):
                return None
            return (
                f"this is always {'true' if op in _OR_EQUAL else 'false'}: both sides are the same"
            )
        case ast.Binary("==" | "!=" as op, ast.Select(of, name), ast.Literal("")) if (
            name == "name" and inside(of.type).name in ("Container", "ObjectMeta")
        ) or (name == "namespace" and of == _OF_POD_ITSELF):
            return f"this is always {'true' if op == '!=' else 'false'}: a name is never empty"
        case ast.Conditional(_, then, otherwise) if then == otherwise:
            return "both results of this are the same"
        case ast.Call("startsWith" | "endsWith" | "contains", _, (ast.Literal(""),)):
            return "this is always true: it is so of every text"
        case ast.Call("matches", _, (ast.Literal(str() as text),)) if text in _OF_ALL_TEXTS:
            return "this is always true: it is so of every text"
        case _:
            return None


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
        found = allowed_by(_opposite(_opposite(operand)) if op == "&&" else _opposite(operand))
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
        case ast.Unary("!", operand):
            return operand
        case _:
            return ast.Unary("!", expr)


def _never(
    op: str, first: ast.Expr, second: ast.Expr, whole: ast.Chain, checked: Checked
) -> Diagnostic:
    schema = checked.environment.schema
    sides = [print_as_written(side, schema) for side in (first, second)]
    value = "false" if op == "&&" else "true"
    made = replace(whole, op="||" if op == "&&" else "&&", operands=(first, second))
    rest = (o for o in whole.operands if o is not second)
    mended = replace(whole, operands=tuple(made if o is first else o for o in rest))
    meant = print_as_written(mended if len(whole.operands) > _BOTH else made, schema)
    message = f"this is always {value}: `{sides[0]}` and `{sides[1]}` "
    message += "are never true together" if op == "&&" else "are never false together"
    ranges = [found[1] for side in (first, second) if (found := allowed_by(side)) is not None]
    if op == "||" and len(ranges) == _BOTH and ranges[0].both(ranges[1]).empty:
        # Each is the opposite of the other.
        hint = "leave one of them out"
        return Diagnostic("P0348", "warning", message, whole.span, hint=hint)
    meant = f"({meant})" if in_parentheses(whole) else meant
    return write_instead("P0348", message, whole.span, meant)


def _alone(expr: ast.Binary, checked: Checked) -> Iterator[Diagnostic]:
    """`now.getHours() < 24`, `size(node.pods) >= 0`, another namespace than that of the policy."""
    found, opposite = allowed_by(expr), allowed_by(_opposite(expr))
    if found is None or opposite is None:
        return
    for read in (expr.left, expr.right):
        if isinstance(read, ast.Literal) or (known := _known(read, checked)) is None:
            continue
        possible, why = known
        if found[1].both(possible).empty:
            value = "false"
        elif opposite[1].both(possible).empty:
            value = "true"
        else:
            continue
        if (
            expr.op in ("==", "!=")
            and isinstance(read, ast.Call)
            and read.function in PARTS_OF_TIME
        ):
            # A number that is out of range has a warning of its own.
            continue
        schema = checked.environment.schema
        message = f"this is always {value}: `{print_as_written(read, schema)}` is {why}"
        hint = "correct it, or leave it out"
        if expr.op == ">=" and found[1].low == possible.low:
            near = print_as_written(replace(expr, op=">"), schema)
            hint = f"correct it, as in `{near}`, or leave it out"
        yield Diagnostic("P0348", "warning", message, expr.span, hint=hint)


def _known(read: ast.Expr, checked: Checked) -> tuple[Allowed, str] | None:
    """What values an expression has, and how a message says it."""
    match read:
        case ast.Select(
            ast.Ident("pod") | ast.Select(ast.Ident("pod"), "metadata"), "namespace"
        ) if (namespace := checked.policy.namespace) is not None:
            return Allowed(frozenset({namespace})), f"`{namespace}` in this policy"
        case _ if (ends := extent(read)) is not None and ends != (-inf, inf):
            # What is left of a part of a node has a warning of its own.
            if ends[0] == -inf and scale_of(read) is not None:
                return None
            return Allowed(low=ends[0], high=ends[1]), said(*ends)
        case _:
            return None


# ---- scores that are equal for all nodes

# Scores are points from 0 to 100, and answers whole numbers from 0 to 10.
_POINTS, _MOST = 10, 100
_UP_TO_FULL = (0.0, 1.0)


def narrow_scores(checked: Checked) -> Iterator[Diagnostic]:
    """A warning (P0337) for a score without a range whose numbers give all nodes one answer."""
    for clause in of_kind(checked.policy.items, Score):
        value = clause.value
        ends = _usual(value) or extent(value, _UP_TO_FULL)
        if ends is None and isinstance(value, ast.Unary) and clause.range is None:
            # What is scored below 0 is meant to be more than that.
            ends = (-inf, 0.0)
        if ends is None or value.type == BOOL or isinstance(value, ast.Literal):
            continue
        if clause.range is None and 0 < (scale_of(value) or _MOST) <= 1:
            # This has a warning of its own.
            continue
        if clause.range is not None:
            yield from _beyond(clause, ends, checked)
            continue
        low, high = ends
        same = high - low < _POINTS and round(low / _POINTS) == round(high / _POINTS)
        # What is above or below the scale is cut off, and up to ten points is the scale of answers.
        if not same and low < _MOST and high > _POINTS:
            continue
        shown = print_as_written(value, checked.environment.schema)
        effect = "every node gets the same answer"
        if not same and low < _MOST and high > 0:
            effect = "it changes an answer by one of ten points"
        what = "far above 100" if _usual(value) else said(low, high)
        message = f"this is {what}, and a score from 0 to {_MOST}"
        scale = f"{low:g} .. {high:g}" if isfinite(low) and isfinite(high) else "minmax"
        behind = Span(value.span.end, value.span.end)
        hint = f"write `{shown} range {scale}`, or {effect}"
        edit: Fix | None = Fix(behind, f" range {scale}")
        if high <= 0 and isinstance(value, ast.Unary):
            inner = print_as_written(value.operand, checked.environment.schema)
            message, edit = f"a score below 0 counts as 0, so {effect}", None
            hint = f"write `weight {-clause.weight:g}` and `value {inner}`"
        elif low == high:
            message, edit = f"this is {low:g} on every node", None
            hint = "write two values that differ by ten points or more"
        yield Diagnostic("P0337", "warning", message, value.span, hint=hint, remedy=edit)


def _beyond(clause: Score, ends: Extent, checked: Checked) -> Iterator[Diagnostic]:
    """`value -node.usage["cpu"] range 0 .. 1`, where no value is between the ends of the range."""
    scale = [value_of(fold(end, checked.environment)) for end in clause.ends]
    numbers = [each for each in scale if isinstance(each, float)]
    if len(numbers) == _BOTH and (ends[1] <= min(numbers) or ends[0] >= max(numbers)):
        message = f"this is {said(*ends)}, so no value is within the range"
        hint = "write a range of values that nodes have, or `range minmax`"
        yield Diagnostic("P0337", "warning", message, clause.value.span, hint=hint)


def _usual(value: ast.Expr) -> Extent | None:
    """What a number of bytes, or of nanoseconds, is on every node that is in use."""
    match value:
        case ast.Binary("/" | "*" as op, made, by):
            least, factor = _usual(made), extent(by)
            if least is None or factor is None or factor[0] != factor[1] or factor[0] <= 0:
                return None
            most = least[0] / factor[0] if op == "/" else least[0] * factor[0]
            return (most, inf) if most > _MOST else None
        case ast.Call("double" | "int", None, (ast.Call() | ast.Binary() as made,)) if (
            made.type not in (DURATION, QUANTITY)
        ):
            return _usual(made)
        case _ if (read := measured(value)) is not None:
            in_bytes = read.type == QUANTITY and resource_of(read) in _IN_BYTES
            if in_bytes or (read.type == DURATION and extent(read)):
                seconds = isinstance(value, ast.Call) and value.function == "getSeconds"
                return (_SECONDS if seconds else _MANY, inf)
        case _:
            pass
    return None


_IN_BYTES = frozenset({"memory", "ephemeral-storage"})
_MANY, _SECONDS = 1e9, 1e3


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
