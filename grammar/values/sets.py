"""Sets: lists compared as sets, cel-go's sets extension. Equal items count once."""

from __future__ import annotations

from collections.abc import Sequence

from grammar.tree.types import BOOL, A, Overload, function, list_of
from grammar.values import lists
from grammar.values.sizes import Size, deep

Items = Sequence[object]


def contains(items: Items, others: Items) -> bool:
    """Whether every one of the others is among the items."""
    return all(lists.contains(other, items) for other in others)


def equivalent(items: Items, others: Items) -> bool:
    return contains(items, others) and contains(others, items)


def intersects(items: Items, others: Items) -> bool:
    return any(lists.contains(item, others) for item in items)


def _compared(items: Items | Size, others: Items | Size) -> int:
    """The steps of comparing each with each: a pair is compared as far as the smaller one goes."""
    return 4 * max(len(items) * deep(others), len(others) * deep(items))


def _compared_twice(items: Items | Size, others: Items | Size) -> int:
    return 2 * _compared(items, others)


_LISTS = (list_of(A), list_of(A))

OVERLOADS: tuple[Overload, ...] = (
    function("sets.contains", _LISTS, BOOL, contains, _compared),
    function("sets.equivalent", _LISTS, BOOL, equivalent, _compared_twice),
    function("sets.intersects", _LISTS, BOOL, intersects, _compared),
)
