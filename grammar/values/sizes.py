"""Sizes: how large values may be, and how many steps it takes to go through them.

A step is about 0.1 µs of work. A function that works on texts, lists or maps has a `work` beside
its implementation: the steps of a call. It gets the arguments of the call, or their Sizes where
only the most that they can hold is known, so one formula serves both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sized
from dataclasses import dataclass
from typing import Any

from grammar.values.errors import EvaluationError, StepLimitError
from grammar.values.optional import Optional

# The steps that one evaluation of one expression may take: about 0.1 s.
STEPS = 1_000_000
# The characters that all annotations of an object may have together, so that each can be read.
CHARACTERS = 262_144
ITEMS = 65_536
# Lists in lists: what goes through values is recursive.
NESTING = 128
# The longest text that a function reads as a number, an amount, a time, a version or an address.
PARSED = 256
# The most instructions of a compiled pattern.
INSTRUCTIONS = 11_000
# The greatest Size: sums stop here.
_MOST = 10**12
# The part of a text that an error repeats.
_SHOWN = 256


@dataclass(frozen=True, slots=True)
class Size:
    """The size of an unknown value: the most that it can hold.

    `length` is that of a text, a list or a map. A list and a map have the size of an `item`, a map
    also that of a `key`. `greatest` is the greatest value of an int, `constant` a known
    text.
    """

    length: int = 0
    item: Size | None = None
    key: Size | None = None
    greatest: int | None = None
    constant: str | None = None

    def __len__(self) -> int:
        return self.length

    def __bool__(self) -> bool:
        return True

    @property
    def deep(self) -> int:
        """As `deep` of a value."""
        if self.item is None:
            return 1 + self.length // _COMPARED
        inner = self.item.deep + (self.key.deep if self.key is not None else 0)
        return min(_MOST, 1 + self.length * inner)


ATOM = Size()
# A record counts as some fields: it is small, and only compared.
RECORD = Size(16, ATOM)


def either(left: Size, right: Size) -> Size:
    """The size of a value that has one of two sizes."""
    if left == right:
        return left
    numbers = left.greatest, right.greatest
    return Size(
        max(left.length, right.length),
        _either(left.item, right.item),
        _either(left.key, right.key),
        max(numbers) if None not in numbers else None,  # type: ignore[type-var]
    )


def _either(left: Size | None, right: Size | None) -> Size | None:
    if left is None or right is None:
        return right if left is None else left
    return either(left, right)


# ---- steps

# The characters that are compared, read, and copied in a step.
_COMPARED, _READ, _COPIED = 128, 8, 16


_SINGLE = frozenset({bool, int, float, type(None)})


def deep(value: object) -> int:
    """The number of values inside a value and itself; a long text counts as several.

    Raises EvaluationError for a value that is nested too deep, StepLimitError beyond a million.
    """
    kind = value.__class__
    if kind is str:
        return 1 + len(value) // _COMPARED  # type: ignore[arg-type]
    if kind is Size:
        return value.deep  # type: ignore[attr-defined, no-any-return]
    if kind in _SINGLE:
        return 1
    total, level, depth = 0, [value], 0
    while level:
        if depth > NESTING:
            raise EvaluationError(f"the value is nested more than {NESTING} deep")
        depth += 1
        total += len(level)
        if total > STEPS:
            raise too_many_steps()
        inner: list[object] = []
        for each in level:
            kind = each.__class__
            if kind in _SINGLE:
                continue
            if kind is str:
                total += len(each) // _COMPARED  # type: ignore[arg-type]
            elif kind is tuple or kind is list:
                inner.extend(each)  # type: ignore[arg-type]
            elif kind is Optional:
                inner.append(each.value)  # type: ignore[attr-defined]
            elif isinstance(each, Mapping):
                inner.extend(each)
                inner.extend(each.values())
            if len(inner) > STEPS:
                raise too_many_steps()
        level = inner
    return total


def too_many_steps() -> StepLimitError:
    return StepLimitError(f"the expression takes too many steps, more than {STEPS:,}")


def copied(*texts: Sized) -> int:
    """The steps of making a text of other ones."""
    return sum(map(len, texts)) // _COPIED


def read(text: Sized) -> int:
    """The steps of going through a text."""
    return len(text) // _READ


def compared(left: Sized, right: Sized) -> int:
    """The steps of an order between two texts."""
    return min(len(left), len(right)) // 64


def equated(left: object, right: object) -> int:
    """The steps of `==`: it ends where one of the two ends."""
    return 4 * (min(deep(left), deep(right)) - 1)


def sought(text: Sized, part: Sized) -> int:
    """The steps of finding a text in another one from its start.

    Python compares at each position if one of them is short, and goes through both if not.
    """
    n, m = len(text), len(part)
    if n < 2500 or (m < 100 and n < 30_000):
        return n * m // 64
    return (n + m) // _READ


def sought_back(text: Sized, part: Sized) -> int:
    """The steps of finding a text from the end: Python compares at each position."""
    return len(text) * len(part) // 64


def held(items: Any) -> int:
    """The characters of all texts of a list."""
    if isinstance(items, Size):
        return items.length * (items.item.length if items.item is not None else 0)
    return sum(len(each) for each in items if each.__class__ is str)


def ordered(items: Any) -> int:
    """The steps of sorting a list."""
    return 4 * deep(items) * max(1, len(items).bit_length() // 2)


def parsed(_: object) -> int:
    """The steps of reading the text of a number, an amount or a time, which is short."""
    return 40


# ---- limits, checked where a value is made


def text_of(characters: int) -> int:
    """The length of a text that is about to be made. Raises EvaluationError if it is too long."""
    if characters > CHARACTERS:
        raise EvaluationError(f"the text would have more than {CHARACTERS:,} characters")
    return characters


def items_of(count: int) -> int:
    """The length of a list or map that is about to be made. Raises EvaluationError."""
    if count > ITEMS:
        raise EvaluationError(f"the list or map would have more than {ITEMS:,} items")
    return count


def quoted(value: object) -> str:
    """A value in an error: in backticks, and cut if it is long."""
    text = str(value)
    return f"`{text}`" if len(text) <= _SHOWN else f"`{text[:_SHOWN]}…`"
