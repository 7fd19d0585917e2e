"""Lists: the standard functions, Kubernetes' lists library and cel-go's lists extension."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cmp_to_key, reduce
from itertools import pairwise
from typing import Any

from grammar.errors import EvaluationError, MissingError
from grammar.overload import Overload, function, member
from grammar.types import (
    BOOL,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    QUANTITY,
    SEMVER,
    STRING,
    TIMESTAMP,
    A,
    Type,
    list_of,
    optional_of,
)
from grammar.values.duration import Duration
from grammar.values.equality import equals
from grammar.values.kinds import kind
from grammar.values.numeric import checked
from grammar.values.optional import NONE, Optional
from grammar.values.quantity import Quantity

_ORDERED = frozenset("bool int double string quantity duration timestamp semver".split())
# A range longer than this is a mistake, and would be memory.
_LONGEST_RANGE = 1_000_000

Items = Sequence[Any]


def element(items: Items, at: object) -> object:
    """The item at a position, from 0.

    Raises MissingError past the ends, and EvaluationError for what is no position.
    """
    if isinstance(at, float) and at.is_integer():
        at = int(at)
    if isinstance(at, bool) or not isinstance(at, int):
        raise EvaluationError("no such overload: a list is indexed by an int")
    if not 0 <= at < len(items):
        raise MissingError(f"index out of range: {at}")
    return items[at]


def contains(value: object, items: Items) -> bool:
    return any(equals(value, item) for item in items)


def _order(left: Any, right: Any) -> int:
    """Below, equal or above; only values of one ordered type have an order."""
    one, other = kind(left), kind(right)
    if one not in _ORDERED or (one != other and {one, other} != {"int", "double"}):
        raise EvaluationError(f"no such overload: no order between {one} and {other}")
    return int(left > right) - int(left < right)


def _extreme(items: Items, *, least: bool) -> object:
    if not items:
        raise EvaluationError("an empty list has no extreme")
    return reduce(lambda a, b: b if (_order(b, a) < 0) == least and _order(b, a) != 0 else a, items)


def _sum(items: Items) -> object:
    if not items:
        return 0
    total = items[0]
    for item in items[1:]:
        if kind(item) != kind(total):
            raise EvaluationError("no such overload: `sum` takes values of one type")
        total = _add(total, item)
    return total


def _add(left: Any, right: Any) -> object:
    match left:
        case Quantity():
            return Quantity(left.nanos + right.nanos, left.suffix)
        case Duration():
            return Duration.of(left.nanos + right.nanos)
        case int():
            return checked(left + right)
        case float():
            return left + right
        case _:
            raise EvaluationError("no such overload: `sum` takes numbers, quantities and durations")


def _sum_of(zero: object) -> Callable[[Items], object]:
    return lambda items: _sum(items) if items else zero


def is_sorted(items: Items) -> bool:
    return all(_order(a, b) <= 0 for a, b in pairwise(items))


def _position(items: Items, value: object, *, last: bool = False) -> int:
    places = range(len(items) - 1, -1, -1) if last else range(len(items))
    return next((i for i in places if equals(items[i], value)), -1)


def distinct(items: Items) -> tuple[object, ...]:
    kept: list[object] = []
    for item in items:
        if not contains(item, kept):
            kept.append(item)
    return tuple(kept)


def flatten(items: Items, depth: int = 1) -> tuple[object, ...]:
    if depth < 0:
        raise EvaluationError("a negative depth")
    flat: list[object] = []
    for item in items:
        if depth and isinstance(item, list | tuple):
            flat.extend(flatten(item, depth - 1))
        else:
            flat.append(item)
    return tuple(flat)


def numbers(count: int) -> tuple[int, ...]:
    if count > _LONGEST_RANGE:
        raise EvaluationError(f"a range of more than {_LONGEST_RANGE}")
    return tuple(range(max(0, count)))


def part(items: Items, start: int, end: int) -> tuple[object, ...]:
    if not 0 <= start <= end <= len(items):
        raise EvaluationError("index out of range")
    return tuple(items[start:end])


def sort(items: Items) -> tuple[object, ...]:
    return tuple(sorted(items, key=cmp_to_key(_order)))


def _by_key(one: tuple[object, object], other: tuple[object, object]) -> int:
    return _order(one[0], other[0])


def sort_by(pairs: Sequence[tuple[object, object]]) -> tuple[object, ...]:
    """The items of (key, item) pairs, ordered by key; equal keys stay in order."""
    ordered = sorted(pairs, key=cmp_to_key(_by_key))
    return tuple(item for _, item in ordered)


def _end(at: int) -> Callable[[Items], Optional]:
    return lambda items: Optional(items[at]) if items else NONE


_LIST = list_of(A)
_SUMMED: tuple[tuple[Type, object], ...] = (
    (INT, 0),
    (DOUBLE, 0.0),
    (QUANTITY, Quantity(0)),
    (DURATION, Duration(0)),
)
_COMPARED = (INT, DOUBLE, STRING, BOOL, QUANTITY, DURATION, TIMESTAMP, SEMVER)

OVERLOADS: tuple[Overload, ...] = (
    function("size", (_LIST,), INT, len),
    member("size", (_LIST,), INT, len),
    function("+", (_LIST, _LIST), _LIST, lambda a, b: (*a, *b)),
    function("in", (A, _LIST), BOOL, contains),
    function("[]", (_LIST, DYN), A, element),
    *(member("sum", (list_of(t),), t, _sum_of(zero)) for t, zero in _SUMMED),
    *(
        member("min", (list_of(t),), t, lambda items: _extreme(items, least=True))
        for t in _COMPARED
    ),
    *(
        member("max", (list_of(t),), t, lambda items: _extreme(items, least=False))
        for t in _COMPARED
    ),
    *(member("isSorted", (list_of(t),), BOOL, is_sorted) for t in _COMPARED),
    *(member("sort", (list_of(t),), list_of(t), sort) for t in _COMPARED),
    member("indexOf", (_LIST, A), INT, _position),
    member("lastIndexOf", (_LIST, A), INT, lambda items, value: _position(items, value, last=True)),
    member("distinct", (_LIST,), _LIST, distinct),
    member("flatten", (list_of(_LIST),), _LIST, flatten),
    member("flatten", (list_of(DYN),), list_of(DYN), flatten),
    member("flatten", (list_of(DYN), INT), list_of(DYN), flatten),
    member("reverse", (_LIST,), _LIST, lambda items: tuple(reversed(items))),
    member("slice", (_LIST, INT, INT), _LIST, part),
    member("first", (_LIST,), optional_of(A), _end(0)),
    member("last", (_LIST,), optional_of(A), _end(-1)),
    function("lists.range", (INT,), list_of(INT), numbers),
)
