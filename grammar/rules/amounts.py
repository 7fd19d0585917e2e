"""Amounts: those without their unit, of two resources, of another scale than that of points.

A number beside a quantity is one of bytes or of cores, which is seldom meant where it is 16 of
memory or 500 of cpu. A score has points from 0 to 100, an answer is a whole number from 0 to 10,
and a part of a node goes from 0 to 1. An expression can also take too many steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import inf, isfinite

from grammar.clauses.limit import Limit
from grammar.clauses.score import Score
from grammar.meaning.constants import constants
from grammar.meaning.costs import LIMIT, Estimator, expressions
from grammar.meaning.environment import RELATIONS
from grammar.messages.diagnostics import Diagnostic, Fix
from grammar.rules.ranges import MIRRORED, Extent, extent, said, scale_of
from grammar.rules.rule import Tree, finding, instead, on, rule
from grammar.tree import ast
from grammar.tree.clause_parts import Bounds
from grammar.tree.source import Span
from grammar.tree.types import BOOL, QUANTITY
from grammar.tree.walk import walk
from grammar.values.quantity import NANO, Quantity

# ---- units

# Nobody means less memory than this, except 0.
_LEAST_BYTES = 100_000
# So many cores no node has; and from here on, hundreds and fifties are millicores.
_MOST_CORES = 1000
_MANY_CORES = 100
_ROUND_CORES = 50


def resource_of(expr: ast.Expr) -> str | None:
    """The only resource that an expression is an amount of."""
    found = set()
    for part in walk(expr):
        match part:
            case ast.Index(_, ast.Literal(str() as name)) if part.type == QUANTITY:
                found.add(name)
            case ast.Select(_, "cpu" | "memory" as name) if part.type == QUANTITY:
                found.add(name)
            case ast.Binary("*" | "/" | "%"):
                # A part, or a number of times, of an amount.
                return None
            case _:
                continue
    return found.pop() if len(found) == 1 else None


@dataclass(frozen=True, slots=True)
class _Meant:
    """The amount that is meant, as a text; what is said of the written one; a hint beside it."""

    text: str
    said: str
    beside: str = ""


def _meant(value: ast.Expr, found: ast.Literal) -> _Meant | None:
    """What an amount beside a value is meant as; None if it may be right."""
    resource, amount = resource_of(value), found.value
    if resource is None or not isinstance(amount, Quantity) or amount.nanos <= 0:
        return None
    number, rest = divmod(amount.nanos, NANO)
    is_bytes = resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-")
    if is_bytes and number < _LEAST_BYTES:
        if not rest:
            unit = "Gi" if number <= 1024 else "Mi"
            return _Meant(f"{number}{unit}", f"{number} byte{'s' * (number > 1)}")
        said = "a part of a byte" if number else "less than a byte"
        is_milli = str(amount).endswith("m") and amount.nanos * 1000 % NANO == 0
        return _Meant(f"{amount.nanos * 1000 // NANO}Mi", said) if is_milli else None
    if resource != "cpu" or rest:
        return None
    if str(amount).endswith("i") and not found.let:
        # An amount of memory.
        said = f"{number} cores"
        return _Meant(str(amount).rstrip("KMGTPEi"), said, " for cores, or read `memory`")
    is_round = number >= _MANY_CORES and number % _ROUND_CORES == 0
    if is_round or _MOST_CORES <= number < _LEAST_BYTES:
        return _Meant(f"{number}m", f"{number} cores")
    return None


@on("P0343", ast.Binary)
def amount_without_unit(expr: ast.Binary, tree: Tree) -> Iterator[Diagnostic]:
    """An amount of memory or cpu without the unit that is meant."""
    for value, other in ((expr.left, expr.right), (expr.right, expr.left)):
        if value.type == QUANTITY and expr.op in RELATIONS:
            yield from _compared(expr, value, other, tree)


def _compared(
    expr: ast.Binary, value: ast.Expr, other: ast.Expr, tree: Tree
) -> Iterator[Diagnostic]:
    listed = other.elements if isinstance(other, ast.ListLiteral) else (other,)
    amounts = [c for each in listed for c in constants(each, tree.environment)]
    wrong = [(a, meant) for a in amounts if (meant := _meant(value, a)) is not None]
    if not wrong:
        return
    found, meant = wrong[0]
    shown, right = tree.shown(value), f'"{meant.text}"'
    message = f"`{shown}` is compared with {meant.said}"
    if len(amounts) > 1:
        # All constants of a list, and all results of a `?:`, are of one type.
        yield finding(message, other.span, f"write each with its unit, as in `{right}`")
        return
    text = f" {expr.op} ".join((shown, right) if value is expr.left else (right, shown))
    hint = f"write `{right if meant.beside else text}`{meant.beside}"
    yield finding(message, found.span, hint, Fix(found.span, right))


@rule("P0343")
def bound_without_unit(tree: Tree) -> Iterator[Diagnostic]:
    """A bound of a sum, or the end of a range of memory, of a few bytes or many cores."""
    for clause in tree.clauses(Score):
        if clause.value.type != QUANTITY or not isinstance(clause.range, Bounds):
            continue
        for found in (c for end in clause.ends for c in constants(end, tree.environment)):
            if (meant := _meant(clause.value, found)) is not None:
                message = f"`{tree.shown(clause.value)}` is compared with {meant.said}"
                yield instead(message, found.span, f'"{meant.text}"')
    for limit in tree.clauses(Limit):
        bound, added = limit.bound, limit.pods.amount if limit.pods is not None else None
        # The pods of a zone or of a cluster may well have thousands of cores.
        if added is None or (resource_of(added) == "cpu" and limit.per.place != "node"):
            continue
        given = bound.amount
        if not isinstance(given, ast.Expr):
            given = ast.Literal(Quantity(int(given * NANO)), QUANTITY, span=bound.span)
        for found in constants(given, tree.environment):
            if (meant := _meant(added, found)) is not None:
                message = f"this sum is bounded by {meant.said}"
                yield instead(message, bound.span, f'{bound.kind} "{meant.text}"')


@on("P0352", ast.Binary, ast.Chain)
def two_resources(expr: ast.Expr, _: Tree) -> Iterator[Diagnostic]:
    """Amounts of two resources that are compared, or added up."""
    match expr:
        case ast.Binary(op, left, right) if op in MIRRORED:
            does, named = "compares", list[ast.Expr]((left, right))
        case ast.Chain("+", operands) if all(o.type == QUANTITY for o in operands):
            does, named = "adds", list[ast.Expr](operands)
        case _:
            return
    found = list(dict.fromkeys(name for each in named if (name := resource_of(each)) is not None))
    if len(found) > 1 and {*found} <= {"cpu", "memory", "ephemeral-storage"}:
        message = f"this {does} amounts of `{found[0]}` and `{found[1]}`"
        yield finding(message, expr.span, "write the same resource on both sides")


# ---- scores

_POINTS, _MOST = 10, 100
_UP_TO_FULL = (0.0, 1.0)
# A constant is a percentage, and not a part above the whole, from this many times the scale.
_FAR = 2

# ---- parts and percentages


@on("P0332", ast.Binary)
def percentage_of_part(expr: ast.Binary, tree: Tree) -> Iterator[Diagnostic]:
    """A part of a node, from 0 to 1, that is compared with a percentage.

    Parts of a node are `node.usage["cpu"]`, and a quantity divided by what the node has.
    """
    match expr.op, expr.left, expr.right:
        case "/", ast.Literal(int() as part), ast.Literal(int() as whole) if 0 < part < whole:
            message = "this is 0: whole numbers are divided without a rest"
            percent = f"{_MOST * part // whole}%"
            hint = f"write `{part}.0 / {whole}.0`, or a percentage in a bound: `{percent}`"
            yield finding(message, expr.span, hint)
        case op, left, right if op in MIRRORED:
            for part_, other in ((left, right), (right, left)):
                yield from _far(part_, other, tree)
        case _:
            return


def _far(part: ast.Expr, other: ast.Expr, tree: Tree) -> Iterator[Diagnostic]:
    """The constants that are of another scale than a part of a node."""
    most = scale_of(part) if part.type.name in ("double", "dyn") else None
    if most is None or most <= 0:
        return
    for constant in constants(other, tree.environment):
        number = constant.value
        if isinstance(number, bool) or not isinstance(number, int | float):
            continue
        if number >= _FAR * most:
            meant, why = min(float(number) * most / _MOST, most), "far above"
        elif most >= _MOST and 0 < number < 1:
            meant, why = float(number) * most, "next to nothing of it"
        else:
            continue
        message = f"`{tree.shown(part)}` is from 0 to {most:g}, and {number:g} is {why}"
        right = f"{meant:.15g}"
        hint = f"write `{right if '.' in right else right + '.0'}`"
        yield finding(message, constant.span, hint)


@rule("P0332")
def part_as_score(tree: Tree) -> Iterator[Diagnostic]:
    """A part of a node that is scored as a percentage."""
    for clause in tree.clauses(Score):
        value, ends = clause.value, clause.range
        if isinstance(ends, Bounds):
            for end in (ends.low, ends.high):
                yield from _far(value, end, tree)
        elif ends is None and 0 < (scale_of(value) or 0) <= 1:
            shown = tree.shown(value)
            message = f"`{shown}` is from 0 to 1, and a score from 0 to 100"
            yield finding(message, value.span, f"write `{shown} range 0 .. 1`")


# ---- ranges of scores


@rule("P0337")
def narrow_score(tree: Tree) -> Iterator[Diagnostic]:
    """A score with which all nodes get nearly the same answer, by its values or its range."""
    for clause in tree.clauses(Score):
        value = clause.value
        ends = extent(value, _UP_TO_FULL)
        if ends is None and isinstance(value, ast.Unary) and clause.range is None:
            # What is scored below 0 is meant to be more than that.
            ends = (-inf, 0.0)
        if ends is None or value.type == BOOL or isinstance(value, ast.Literal):
            continue
        if clause.range is None and not 0 < (scale_of(value) or _MOST) <= 1:
            yield from _without_range(clause, ends, tree)


def _without_range(clause: Score, ends: Extent, tree: Tree) -> Iterator[Diagnostic]:
    value, (low, high) = clause.value, ends
    same = high - low < _POINTS and round(low / _POINTS) == round(high / _POINTS)
    # What is above or below the scale is cut off, and up to ten points is the scale of answers.
    if not same and low < _MOST and high > _POINTS:
        return
    shown = tree.shown(value)
    effect = "every node gets the same answer"
    if not same and low < _MOST and high > 0:
        effect = "it changes an answer by one of ten points"
    message = f"this is {said(low, high)}, and a score from 0 to {_MOST}"
    scale = f"{low:g} .. {high:g}" if isfinite(low) and isfinite(high) else "minmax"
    hint = f"write `{shown} range {scale}`, or {effect}"
    edit: Fix | None = Fix(Span(value.span.end, value.span.end), f" range {scale}")
    weight = clause.weight
    if high <= 0 and isinstance(value, ast.Unary) and not isinstance(weight, ast.Expr):
        message, edit = f"a score below 0 counts as 0, so {effect}", None
        hint = f"write `weight {-weight:g}` and `value {tree.shown(value.operand)}`"
    elif low == high:
        message, edit = f"this is {low:g} on every node", None
        hint = "write two values that differ by ten points or more"
    yield finding(message, value.span, hint, edit)


# ---- steps

# An expression that is evaluated once for a call may take the steps of this many nodes. They are
# few, since a call about few nodes takes them, too.
_NODES_OF_A_CALL = 10


@rule("P0401")
def expensive_expression(tree: Tree) -> Iterator[Diagnostic]:
    """An expression that can take too many steps."""
    estimator = Estimator(tree.environment)
    for expr in expressions(tree.written, tree.environment):
        steps = estimator.steps(expr)
        if steps <= LIMIT:
            continue
        # The compiler keeps what reads the pod alone, so all nodes of a call share its cost.
        once = tree.read_by(expr) == {"pod"}
        most = LIMIT * _NODES_OF_A_CALL if once else LIMIT
        if steps > most:
            dearest = estimator.dearest(expr)
            scope = "call" if once else "node"
            message = f"this can take {steps:,} steps for one {scope}, more than {most:,}"
            label = f"{estimator.steps(dearest):,} of them here"
            nest = "nest fewer macros and `def`s inside each other"
            hint = f"{nest}, or make shorter texts and lists"
            found = finding(message, dearest.span, hint, severity="error")
            yield replace(found, label=label)
