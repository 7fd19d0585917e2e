"""Remembered: values by key, for what can be made again or done without.

Every memory of texts that users write is one. All memories of a thread share the bytes of a Memory.
When these are full, the owner with the most loses first what was used least recently. So no tenant
drives out what is known of another one that has less.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from operator import itemgetter
from typing import Any, Generic, TypeVar
from weakref import WeakSet

import msgspec

K = TypeVar("K")
V = TypeVar("V")

# The most bytes that all memories of one thread take in a cluster of up to 2,500 nodes.
MOST_REMEMBERED = 48 << 20
# What an entry takes besides its key and its value.
_ENTRY_BYTES = 128
# An entry takes this part of all bytes at most; a larger one is not kept, and drives out no other.
_LARGEST = 2
# A full memory is emptied by this part, so that a look at all owners is the work of many entries.
_FREED = 32


class Memory:
    """The bytes that some memories may take together."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.bytes = 0
        self.parts: WeakSet[Remembered[Any, Any]] = WeakSet()

    def make_room(self) -> None:
        """Has the largest owners lose what they used least recently, if all is too much."""
        if self.bytes <= self.most:
            return
        shares = [(size, part, own) for part in self.parts for own, size in part.sizes.items()]
        shares.sort(key=itemgetter(0), reverse=True)
        taken = Counter[object]()
        for size, part, owner in shares:
            taken[owner or part] += size
        # Memories that are gone have left their bytes here.
        self.bytes, level = taken.total(), max(taken.values(), default=0)
        while self.bytes > (left := self.most - self.most // _FREED):
            level = level * 3 // 4
            for _, part, owner in shares:
                if self.bytes > left and (more := taken[owner or part] - level) > 0:
                    taken[owner or part] -= part.lose(owner, more)


class _OfThread(threading.local):
    """The memory of each thread: none drops what another one is about to read."""

    def __init__(self) -> None:
        self.memory = Memory(MOST_REMEMBERED)


_OF_THREAD = _OfThread()


class Remembered(Generic[K, V]):
    """Remembered values by key: a part of a Memory, of so many bytes at most if that is said.

    `size` gives the bytes of an entry; by default they are those of the key and of all that the
    value holds. A value may change afterwards, but not grow. `owner` gives the namespace of a
    value, which loses its own values first where it has the most in all memories of the thread. By
    default all have one owner, who has no other memory.
    """

    def __init__(
        self,
        most: int = sys.maxsize,
        size: Callable[[K, V], int] | None = None,
        owner: Callable[[V], str] = lambda _: "",
    ) -> None:
        self.memory = _OF_THREAD.memory
        self.memory.parts.add(self)
        self.most = most
        self.bytes = 0
        self._size = size or (lambda key, value: bytes_of(key) + bytes_of(value))
        self._owner = owner
        self._kept: dict[K, V] = {}
        # The sizes of each owner's entries; who peeks counts a use by moving the key to the end.
        self.own: defaultdict[str, OrderedDict[K, int]] = defaultdict(OrderedDict)
        self.sizes = Counter[str]()
        # The value of a key, for who asks so often that it does not count as a use.
        self.peek: Callable[[K], V | None] = self._kept.get

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, key: object) -> bool:
        return key in self._kept

    def __iter__(self) -> Iterator[K]:
        return iter([*self._kept])

    def values(self) -> list[V]:
        return list(self._kept.values())

    def get(self, key: K) -> V | None:
        found = self._kept.get(key)
        if found is None:
            return None
        self.own[self._owner(found)].move_to_end(key)
        return found

    def put(self, key: K, value: V) -> V:
        """Keeps a value in place of any other, unless it is too large; returns it."""
        self.pop(key)
        size = _ENTRY_BYTES + self._size(key, value)
        if size > min(self.most, self.memory.most) // _LARGEST:
            return value
        owner = self._owner(value)
        self._kept[key] = value
        self.own[owner][key] = size
        self._count(owner, size)
        if self.bytes > self.most:
            self.lose(max(self.sizes, key=self.sizes.__getitem__), self.bytes - self.most)
        self.memory.make_room()
        return value

    def pop(self, key: K) -> V | None:
        if key not in self._kept:
            return None
        value = self._kept.pop(key)
        owner = self._owner(value)
        self._count(owner, -self.own[owner].pop(key))
        return value

    def clear(self) -> None:
        for key in self:
            self.pop(key)

    def lose(self, owner: str, size: int) -> int:
        """Drops what an owner used least recently: so many bytes, or all; returns their number."""
        before = self.bytes
        while self.sizes[owner] and self.bytes > before - size:
            self.pop(next(iter(self.own[owner])))
        return before - self.bytes

    def _count(self, owner: str, size: int) -> None:
        self.bytes += size
        self.memory.bytes += size
        self.sizes[owner] += size
        if not self.sizes[owner]:
            del self.own[owner], self.sizes[owner]


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
