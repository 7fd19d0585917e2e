"""Lists: the standard functions, Kubernetes' lists library, cel-go's lists and sets extensions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from itertools import pairwise
from operator import add, itemgetter
from typing import Any

from grammar.tree.types import (
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
    Overload,
    function,
    list_of,
    member,
    optional_of,
)
from grammar.values.errors import EvaluationError, MissingError
from grammar.values.kinds import equals, kind
from grammar.values.maps import to_key
from grammar.values.numbers import checked
from grammar.values.optional import NONE, Optional
from grammar.values.quantity import Quantity
from grammar.values.semver import Semver
from grammar.values.sizes import ITEMS, Size, deep, items_of, ordered
from grammar.values.time import Duration, Timestamp

_NUMBERS = {"int", "double"}
_ORDERED = _NUMBERS | {"bool", "string", "quantity", "duration", "timestamp", "semver"}
PLUS: dict[str, Callable[[Any, Any], object]] = {
    "int": lambda left, right: checked(left + right),
    "double": add,
    "quantity": add,
    "duration": lambda left, right: Duration.of(left.nanos + right.nanos),
}
# What `equals` compares as Python does, within one type.
_HASHED = (Quantity, Duration, Timestamp, Semver)
_SINGLE = (str, int, float, *_HASHED)

Items = Sequence[Any]


def element(items: Items, at: object) -> object:
    """The item at an index, from 0.

    Raises MissingError out of range, and EvaluationError for an index that is not a whole number.
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


def _ordered(items: Items) -> Items:
    """The items, if they are comparable. Raises EvaluationError if not."""
    kinds = set(map(kind, items))
    if not (kinds <= _NUMBERS or (len(kinds) == 1 and kinds <= _ORDERED)):
        raise EvaluationError(f"no such overload: no order between {' and '.join(sorted(kinds))}")
    return items


def _extreme(pick: Callable[[Items], object]) -> Callable[[Items], object]:
    def extreme(items: Items) -> object:
        if not items:
            raise EvaluationError("an empty list has no minimum or maximum")
        return pick(_ordered(items))

    return extreme


def _sum(items: Items, zero: object) -> object:
    if not items:
        return zero
    kinds = set(map(kind, items))
    if len(kinds) > 1 or not kinds <= PLUS.keys():
        raise EvaluationError(f"no such overload: no sum of {' and '.join(sorted(kinds))}")
    return reduce(PLUS[kinds.pop()], items)


def is_sorted(items: Items) -> bool:
    return all(a <= b for a, b in pairwise(_ordered(items)))


def _position(items: Items, value: object, *, last: bool = False) -> int:
    places = range(len(items) - 1, -1, -1) if last else range(len(items))
    return next((i for i in places if equals(items[i], value)), -1)


def distinct(items: Items) -> tuple[object, ...]:
    """Each value once, at its first position; lists, maps and objects are compared one by one."""
    kept: list[object] = []
    others: list[object] = []
    keys: set[object] = set()
    for item in items:
        if isinstance(item, _HASHED):
            key: object = type(item), item
        elif isinstance(item, str | int | float):
            key = to_key(item)
        elif contains(item, others):
            continue
        else:
            others.append(item)
            kept.append(item)
            continue
        if key not in keys:
            keys.add(key)
            kept.append(item)
    return tuple(kept)


def flatten(items: Items, depth: int = 1) -> tuple[object, ...]:
    if depth < 0:
        raise EvaluationError("the depth is negative")
    flat: list[object] = []
    for item in items:
        if depth and isinstance(item, list | tuple):
            flat.extend(flatten(item, depth - 1))
        else:
            flat.append(item)
        items_of(len(flat))
    return tuple(flat)


def numbers(count: int) -> tuple[int, ...]:
    items_of(count)
    return tuple(range(max(0, count)))


def _concatenated(left: Items, right: Items) -> tuple[object, ...]:
    items_of(len(left) + len(right))
    return (*left, *right)


def part(items: Items, start: int, end: int) -> tuple[object, ...]:
    if not 0 <= start <= end <= len(items):
        raise EvaluationError("index out of range")
    return tuple(items[start:end])


def sort(items: Items) -> tuple[object, ...]:
    return sort_by([(item, item) for item in items])


def sort_by(pairs: Sequence[tuple[object, object]]) -> tuple[object, ...]:
    """The items of (key, item) pairs, sorted by key; the sort is stable."""
    keys = [key for key, _ in pairs]
    if len(set(map(kind, keys))) > 1:
        raise EvaluationError("no such overload: all sort keys need one type")
    _ordered(keys)
    return tuple(item for _, item in sorted(pairs, key=itemgetter(0)))


# ---- steps


def sought(value: object, items: Items | Size) -> int:
    """The steps of comparing a value with each item: it is compared as far as it goes."""
    return 4 * len(items) * deep(value)


def _few(items: Items | Size, *_: object) -> int:
    """The steps of a copy."""
    return len(items) // 4


def _summed(items: Items | Size) -> int:
    """The steps of a sum, whose items are numbers and amounts."""
    return 3 * len(items)


def _each(items: Items | Size) -> int:
    """The steps of going over the items."""
    return 3 * deep(items)


def _told_apart(items: Items | Size) -> int:
    """The steps of `distinct`: values without a hash are compared with each other."""
    if isinstance(items, Size):
        apart = items.length if items.item is not None and items.item.item is not None else 0
    else:
        apart = sum(1 for i in items if not isinstance(i, _SINGLE))
    return 4 * deep(items) * (1 + apart)


def _counted(count: int | Size) -> int:
    """The steps of making a range."""
    if isinstance(count, Size):
        return ITEMS if count.greatest is None else min(ITEMS, max(0, count.greatest))
    return min(ITEMS, max(0, count))


def _end(at: int) -> Callable[[Items], Optional]:
    return lambda items: Optional(items[at]) if items else NONE


_LIST = list_of(A)
_SUMMED = ((INT, 0), (DOUBLE, 0.0), (QUANTITY, Quantity.ZERO), (DURATION, Duration.ZERO))
_COMPARED = (INT, DOUBLE, STRING, BOOL, QUANTITY, DURATION, TIMESTAMP, SEMVER)

_OF_LISTS: tuple[Overload, ...] = (
    function("size", (_LIST,), INT, len),
    member("size", (_LIST,), INT, len),
    function("+", (_LIST, _LIST), _LIST, _concatenated, lambda a, b: (len(a) + len(b)) // 4),
    function("in", (A, _LIST), BOOL, contains, sought),
    function("[]", (_LIST, DYN), A, element),
    *(member("sum", (list_of(t),), t, partial(_sum, zero=zero), _summed) for t, zero in _SUMMED),
    *(member("min", (list_of(t),), t, _extreme(min), _each) for t in _COMPARED),
    *(member("max", (list_of(t),), t, _extreme(max), _each) for t in _COMPARED),
    *(member("isSorted", (list_of(t),), BOOL, is_sorted, _each) for t in _COMPARED),
    *(member("sort", (list_of(t),), list_of(t), sort, ordered) for t in _COMPARED),
    member("indexOf", (_LIST, A), INT, _position, lambda items, value: sought(value, items)),
    member(
        *("lastIndexOf", (_LIST, A), INT),
        lambda items, value: _position(items, value, last=True),
        lambda items, value: sought(value, items),
    ),
    member("distinct", (_LIST,), _LIST, distinct, _told_apart),
    member("flatten", (list_of(_LIST),), _LIST, flatten, _each),
    member("flatten", (list_of(DYN), INT), list_of(DYN), flatten, lambda items, _: _each(items)),
    member("reverse", (_LIST,), _LIST, lambda items: tuple(reversed(items)), _few),
    member("slice", (_LIST, INT, INT), _LIST, part, _few),
    member("first", (_LIST,), optional_of(A), _end(0)),
    member("last", (_LIST,), optional_of(A), _end(-1)),
    function("lists.range", (INT,), list_of(INT), numbers, _counted),
)


# ---- lists as sets


def contains_all(items: Items, others: Items) -> bool:
    """Whether every one of the others is among the items."""
    return all(contains(other, items) for other in others)


def equivalent(items: Items, others: Items) -> bool:
    return contains_all(items, others) and contains_all(others, items)


def intersects(items: Items, others: Items) -> bool:
    return any(contains(item, others) for item in items)


def _compared(items: Items | Size, others: Items | Size) -> int:
    """The steps of comparing each with each: a pair is compared as far as the smaller one goes."""
    return 4 * max(len(items) * deep(others), len(others) * deep(items))


_LISTS = (list_of(A), list_of(A))

OVERLOADS = (
    *_OF_LISTS,
    function("sets.contains", _LISTS, BOOL, contains_all, _compared),
    function("sets.equivalent", _LISTS, BOOL, equivalent, lambda a, b: 2 * _compared(a, b)),
    function("sets.intersects", _LISTS, BOOL, intersects, _compared),
)
