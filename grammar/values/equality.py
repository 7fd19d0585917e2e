"""`==` between any two values (CEL langdef, Equality)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from grammar.values.optional import Optional


def equals(left: object, right: object) -> bool:
    """Whether two values are equal: ints and doubles by number, a bool and a number never."""
    one, other = type(left), type(right)
    if one is other:
        if one in (list, tuple):
            return _same_items(cast("tuple[object, ...]", left), cast("tuple[object, ...]", right))
        if isinstance(left, Mapping):
            return _same_entries(left, cast("Mapping[object, object]", right))
        if isinstance(left, Optional):
            return _same_optional(left, cast("Optional", right))
        return left == right
    if one is bool or other is bool:
        return False
    if isinstance(left, int | float) and isinstance(right, int | float):
        # Compared as doubles, as cel-go does: 2⁶³ as a double equals the greatest int.
        return float(left) == float(right)
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return _same_items(left, right)
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return _same_entries(left, right)
    return False


def _same_optional(left: Optional, right: Optional) -> bool:
    return left.present == right.present and equals(left.value, right.value)


def _same_items(
    left: list[object] | tuple[object, ...], right: list[object] | tuple[object, ...]
) -> bool:
    return len(left) == len(right) and all(map(equals, left, right))


def _same_entries(left: Mapping[object, object], right: Mapping[object, object]) -> bool:
    return len(left) == len(right) and all(
        k in right and equals(v, right[k]) for k, v in left.items()
    )
