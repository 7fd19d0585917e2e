"""Remembered: values by key with a bound in bytes, for what can be made again or done without.

Every memory of texts that users write is one. Whatever users write, it takes no more
bytes than that. The values that were used least recently go first.
"""

from __future__ import annotations

import sys
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import Generic, TypeVar

import msgspec

K = TypeVar("K")
V = TypeVar("V")

# What an entry takes besides its key and its value.
_ENTRY_BYTES = 128
# An entry takes this part of all bytes at most; a larger one is not kept, and drives out no other.
_LARGEST = 2


class Remembered(Generic[K, V]):
    """Remembered values by key, which take at most so many bytes.

    `size` gives the bytes of an entry; by default they are those of the key and of all that the
    value holds. A value may change afterwards, but not grow.
    """

    def __init__(self, most: int, size: Callable[[K, V], int] | None = None) -> None:
        self.most = most
        self.bytes = 0
        self._size = size or (lambda key, value: bytes_of(key) + bytes_of(value))
        self._kept: OrderedDict[K, V] = OrderedDict()
        self._sizes: dict[K, int] = {}
        # The value of a key, for who asks so often that it does not count as a use.
        self.peek: Callable[[K], V | None] = self._kept.get
        # Counts a use of a key that is kept.
        self.use: Callable[[K], None] = self._kept.move_to_end

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, key: object) -> bool:
        return key in self._kept

    def __iter__(self) -> Iterator[K]:
        return iter(self._kept)

    def values(self) -> list[V]:
        return list(self._kept.values())

    def get(self, key: K) -> V | None:
        found = self._kept.get(key)
        if found is None:
            return None
        self._kept.move_to_end(key)
        return found

    def put(self, key: K, value: V) -> V:
        """Keeps a value in place of any other, unless it is too large; returns it."""
        self.pop(key)
        size = _ENTRY_BYTES + self._size(key, value)
        if size > self.most // _LARGEST:
            return value
        self._kept[key], self._sizes[key] = value, size
        self.bytes += size
        while self.bytes > self.most:
            dropped, _ = self._kept.popitem(last=False)
            self.bytes -= self._sizes.pop(dropped)
        return value

    def pop(self, key: K) -> V | None:
        if key not in self._kept:
            return None
        self.bytes -= self._sizes.pop(key)
        return self._kept.pop(key)

    def clear(self) -> None:
        self._kept.clear()
        self._sizes.clear()
        self.bytes = 0


def bytes_of(value: object) -> int:
    """About the bytes of a value, with all that it holds. What is held twice counts twice."""
    size = sys.getsizeof(value, 64)
    if value is None or isinstance(value, str | bytes | int | float):
        return size
    if isinstance(value, dict):
        return size + sum(bytes_of(k) + bytes_of(v) for k, v in value.items())
    if isinstance(value, tuple | list | frozenset | set | deque):
        return size + sum(map(bytes_of, value))
    if isinstance(value, msgspec.Struct):
        return size + sum(bytes_of(getattr(value, name)) for name in value.__struct_fields__)
    if is_dataclass(value):
        return size + sum(bytes_of(getattr(value, each.name)) for each in fields(value))
    return size
