"""Score: how well a node suits, as points that are scaled to 0..100."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, replace
from typing import Self

from grammar.clauses import parts, reading
from grammar.clauses.kind import ClauseChecker, ClauseKind, ClausePart, Line, expression
from grammar.clauses.reading import Child
from grammar.messages import catalogue
from grammar.messages.catalogue import ParseError
from grammar.tree.ast import Expr, Ident, Literal
from grammar.tree.clause_parts import AnyClause, Bounds, MissingGives, Order, SchedulerNeed
from grammar.tree.printer import print_expression
from grammar.tree.types import BOOL, DURATION, QUANTITY, STRING, agrees


@dataclass(frozen=True, slots=True)
class Score(AnyClause):
    """A score: a value scaled to 0..100, with its weight in the policy's mean.

    The weight is the name of a parameter until the parameter is filled.
    """

    weight: float | Expr
    value: Expr
    _: KW_ONLY
    verb = "prioritize"
    missing_gives = frozenset[MissingGives]({"points"})
    scheduler_needs = frozenset[SchedulerNeed]({"scores"})
    weight_may_be_negative = True
    range: Bounds | Order | None = None

    @property
    def ends(self) -> tuple[Expr, ...]:
        return (self.range.low, self.range.high) if isinstance(self.range, Bounds) else ()

    @property
    def points_weight(self) -> float | Expr | None:
        return self.weight

    def weighing(self, weight: float) -> Self:
        return replace(self, weight=weight)


def _read_range(c: list[Child]) -> Bounds | str:
    low, *more = reading.nodes(c)
    if more:
        return Bounds(low, *more)
    allowed = ("minmax", "greatest", "rank")
    if not isinstance(low, Ident) or low.name not in allowed:
        word, known = print_expression(low), (*allowed, "a .. b")
        raise ParseError(catalogue.bad_word(word, "range", known, low.span))
    return low.name


def _range_lines(found: Bounds | Order) -> Iterator[Line]:
    ends = (found.low, found.high) if isinstance(found, Bounds) else ()
    yield f"range {' .. '.join(map(print_expression, ends)) or found}", None, None


_OF_TEXT = 'write `double(…)` for a number in a text, or compare it, as in `… == "a"`'


def _checked(score: Score, by: ClauseChecker) -> Score:
    value, kind = score.value, score.value.type
    if isinstance(score.range, Bounds):
        return replace(score, range=_checked_bounds(score.range, value, by))
    if kind in (QUANTITY, DURATION):
        if score.range is None:
            by.found.append(catalogue.needs_range(kind, value.span))
    elif kind.name not in (*parts.NUMBERS, "bool"):
        hint = _OF_TEXT if kind == STRING else None
        by.found.append(catalogue.wrong_type(kind, "a bool or a number", hint, value.span))
    return score


def _checked_bounds(bounds: Bounds, value: Expr, by: ClauseChecker) -> Bounds:
    """The two ends of a range; strings become quantities or durations like the value."""
    kind, where = value.type, "the range of a score"
    low, high = (by.check(e, None, parts.NODE_BOUND, where) for e in (bounds.low, bounds.high))
    if kind == BOOL:
        by.found.append(catalogue.range_of_bool(value.span))
        return bounds
    if kind in (QUANTITY, DURATION):
        low, high = by.coerce(low, kind), by.coerce(high, kind)
    for edge in (low, high):
        if not (agrees(kind, edge.type) or {kind.name, edge.type.name} <= {*parts.NUMBERS}):
            written = str(edge.value) if isinstance(edge, Literal) else ""
            by.found.append(catalogue.range_type(edge.type, kind, edge.span, written))
    ends = [by.constant(edge) for edge in (low, high)]
    if ends[0] is not None and ends[0] == ends[1]:
        by.found.append(catalogue.empty_range(low.span))
    return Bounds(low, high)


_VALUE = "`value` and a number or a condition, such as `value node.ready`"

SCORE = ClauseKind(
    Score,
    "the score",
    'score "x" weight 10 { value node.usage["cpu"] range 0 .. 1 }',
    parts.POD_AND_COUNTS,
    (
        ClausePart(
            "points_weight",
            reading.weight_of,
            lambda weight: [(parts.weight_words(weight), None, None)],
            fields=("weight",),
            in_head=True,
        ),
        expression(
            "value", lambda e, by: by.check(e, None, parts.ON_NODE, "`value`"), needed=_VALUE
        ),
        ClausePart("range", _read_range, _range_lines),
    ),
    _checked,
)
