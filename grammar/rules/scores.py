"""Scores: values of another scale than that of points, and values that are equal for all nodes.

A score has points from 0 to 100, and an answer is a whole number from 0 to 10. A part of a node
goes from 0 to 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, isfinite

from grammar.meaning.allowed import value_of
from grammar.meaning.extents import Extent, extent, said, scale_of
from grammar.meaning.folding import constants, fold
from grammar.messages.diagnostics import Diagnostic, Fix
from grammar.rules.rule import ExpressionRule, Rule, Tree
from grammar.tree import ast
from grammar.tree.clause_parts import Bounds
from grammar.tree.clauses import Score
from grammar.tree.source import Span
from grammar.tree.types import BOOL

_POINTS, _MOST = 10, 100
_UP_TO_FULL = (0.0, 1.0)
_BOTH = 2
_RELATIONS = ("<", "<=", ">", ">=", "==", "!=")
# A constant is a percentage, and not a part above the whole, from this many times the scale.
_FAR = 2

# ---- parts and percentages


class PercentageOfPart(ExpressionRule):
    """A part of a node, from 0 to 1, that is compared with a percentage.

    Parts of a node are `node.usage["cpu"]`, and a quantity divided by what the node has.
    """

    code = "P0332"
    wrong = 'filter "not full" { require node.usage["cpu"] <= 90 }'
    right = 'filter "not full" { require node.usage["cpu"] <= 0.9 }'

    def at(self, expr: ast.Expr, tree: Tree) -> Iterator[Diagnostic]:
        if not isinstance(expr, ast.Binary):
            return
        match expr.op, expr.left, expr.right:
            case "/", ast.Literal(int() as part), ast.Literal(int() as whole) if 0 < part < whole:
                message = "this is 0: whole numbers are divided without a rest"
                percent = f"{_MOST * part // whole}%"
                hint = f"write `{part}.0 / {whole}.0`, or a percentage in a bound: `{percent}`"
                yield self.found(message, expr.span, hint)
            case op, left, right if op in _RELATIONS:
                for part_, other in ((left, right), (right, left)):
                    yield from self._far(part_, other, tree)
            case _:
                return

    def _far(self, part: ast.Expr, other: ast.Expr, tree: Tree) -> Iterator[Diagnostic]:
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
            yield self.found(message, constant.span, hint)


class PartAsScore(PercentageOfPart):
    """A part of a node that is scored as a percentage."""

    wrong = 'score "full" weight 10 { value node.usage["cpu"] }'
    right = 'score "full" weight 10 { value node.usage["cpu"] range 0 .. 1 }'

    def look(self, tree: Tree) -> Iterator[Diagnostic]:
        for clause in tree.clauses(Score):
            value, ends = clause.value, clause.range
            if isinstance(ends, Bounds):
                for end in (ends.low, ends.high):
                    yield from self._far(value, end, tree)
            elif ends is None and 0 < (scale_of(value) or 0) <= 1:
                shown = tree.shown(value)
                message = f"`{shown}` is from 0 to 1, and a score from 0 to 100"
                yield self.found(message, value.span, f"write `{shown} range 0 .. 1`")


# ---- ranges of scores


class NarrowScore(Rule):
    """A score with which all nodes get nearly the same answer, by its values or its range."""

    code = "P0337"
    wrong = 'score "zone" weight 10 { value node.zone == "a" ? 1 : 0 }'
    right = 'score "zone" weight 10 { value node.zone == "a" ? 1 : 0 range 0 .. 1 }'

    def look(self, tree: Tree) -> Iterator[Diagnostic]:
        for clause in tree.clauses(Score):
            value = clause.value
            ends = extent(value, _UP_TO_FULL)
            if ends is None and isinstance(value, ast.Unary) and clause.range is None:
                # What is scored below 0 is meant to be more than that.
                ends = (-inf, 0.0)
            if ends is None or value.type == BOOL or isinstance(value, ast.Literal):
                continue
            if clause.range is not None:
                yield from self._beyond(clause, ends, tree)
            elif not 0 < (scale_of(value) or _MOST) <= 1:
                yield from self._without_range(clause, ends, tree)

    def _without_range(self, clause: Score, ends: Extent, tree: Tree) -> Iterator[Diagnostic]:
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
        if high <= 0 and isinstance(value, ast.Unary):
            message, edit = f"a score below 0 counts as 0, so {effect}", None
            hint = f"write `weight {-clause.weight:g}` and `value {tree.shown(value.operand)}`"
        elif low == high:
            message, edit = f"this is {low:g} on every node", None
            hint = "write two values that differ by ten points or more"
        yield self.found(message, value.span, hint, edit)

    def _beyond(self, clause: Score, ends: Extent, tree: Tree) -> Iterator[Diagnostic]:
        """`value -node.usage["cpu"] range 0 .. 1`, where no value is between the ends."""
        scale = [value_of(fold(end, tree.environment)) for end in clause.ends]
        numbers = [each for each in scale if isinstance(each, float)]
        hint = "write a range of values that nodes have, or `range minmax`"
        if len(numbers) == _BOTH and (ends[1] <= min(numbers) or ends[0] >= max(numbers)):
            message = f"this is {said(*ends)}, so no value is within the range"
            yield self.found(message, clause.value.span, hint)
