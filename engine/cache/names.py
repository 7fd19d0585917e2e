"""Node names in bulk: the names of a request as JSON, and the index that finds their rows.

A request has thousands of names. Here none of them becomes a string unless somebody reads it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import overload

import msgspec
import numpy as np
import numpy.typing as npt

_QUOTE, _COMMA, _SPACE = b'", '
# Of so many names each is cut out and looked up by itself; of more, all are at once.
_FEW = 250
# A list that loses more than one name of so many is made of those that stay.
_MANY = 4
_LIST = msgspec.json.Decoder(list[str])

Offsets = npt.NDArray[np.intp]
Rows = npt.NDArray[np.intp]

# ---- the names of a request


class KnownRows(msgspec.Struct, frozen=True, eq=False):
    """The rows of the nodes of a request, if each node is known and named once.

    `nodes` has the row of every node of the cache. It is replaced when these change.
    """

    rows: Rows
    nodes: Mapping[str, int]


class ListedNames(Sequence[str]):
    """A JSON list of names, which becomes strings only when it is read.

    `json` has at least one name, no white space between names and no escapes. `known_rows` are
    the rows where the names were found last. `each` has the names of a short list one by one, and
    `quotes` the offsets in `json` of all quotes of a longer one, two for each name.
    """

    def __init__(self, json: bytes, known_rows: KnownRows | None = None) -> None:
        self.json = json
        self.known_rows = known_rows
        self.each: Sequence[bytes] | None = None
        self.quotes: Offsets | None = None
        self._count = 0

    @classmethod
    def of(cls, json: bytes) -> ListedNames | None:
        """The names of a JSON list of one name or more; None if a JSON decoder must read it.

        That is so for white space, escapes and other characters than ASCII. Between each two names
        there is one comma between two quotes, and these are all the quotes.
        """
        if not (json.startswith(b'["') and json.endswith(b'"]') and json.isascii()):
            return None
        text = np.frombuffer(json, np.uint8)
        if b"\\" in json or np.minimum.reduce(text) < _SPACE:
            return None
        count = json.count(_QUOTE)
        if count % 2:
            return None
        names = cls(json)
        names._count = count // 2
        if names._count <= _FEW:
            names.each = json[2:-2].split(b'","')
            return names if len(names.each) == names._count else None
        names.quotes = quotes = (text == _QUOTE).nonzero()[0]
        ends = quotes[1:-1:2]
        if np.count_nonzero(quotes[2::2] - ends != 2):
            return None
        return None if np.count_nonzero(text.take(ends + 1) != _COMMA) else names

    def without(self, left_out: Rows) -> bytes | None:
        """The JSON of the list without the names at these positions, in order.

        None where that is not made by leaving out parts: the list is short, or loses many names.
        """
        if self.quotes is None or _MANY * len(left_out) > self._count:
            return None
        # What stays ends before a name that goes, and begins behind the comma after it.
        ends = [*self.quotes[2 * left_out].tolist(), len(self.json) - 1]
        begins = [0, *(self.quotes[2 * left_out + 1] + 2).tolist()]
        left = b"".join(map(self.json.__getitem__, map(slice, begins, ends)))
        return left.removesuffix(b",") + b"]"

    def __len__(self) -> int:
        return self._count if self.known_rows is None else len(self.known_rows.rows)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        return self._names[index]

    @cached_property
    def _names(self) -> list[str]:
        return _LIST.decode(self.json)


# ---- the index
#
# A hash table of columns with open addressing. Every name is as many words of eight bytes as the
# longest one needs, with zeros behind its end. The words of a request's names are cut out of its
# JSON.

_Words = npt.NDArray[np.uint64]

_WORD_BYTES = 8
# The least number of slots per name: the more slots, the fewer names need a second look.
_SLOTS = 8
# Odd, without a pattern: the upper bits of a product depend on all bits of the other factor.
_FACTOR = 0x9E3779B97F4A7C15


class NameIndex:
    """An index of rows by name; no row is 0. The table is made at the first search."""

    def __init__(self, rows: Mapping[str, int]) -> None:
        self._by_name = rows

    def find(self, names: ListedNames) -> Rows | None:
        """The row of each name; None if a name is not known."""
        if (quotes := names.quotes) is not None:
            return self._table.find(names.json, quotes)
        if (each := names.each) is None:
            each = [name.encode() for name in names]
        try:
            return np.fromiter(map(self._rows.__getitem__, each), np.intp, len(each))
        except KeyError:
            return None

    @cached_property
    def _rows(self) -> Mapping[bytes, int]:
        return {name.encode(): row for name, row in self._by_name.items()}

    @cached_property
    def _table(self) -> _Table:
        return _Table(self._by_name)


class _Table:
    """The hash table of a NameIndex: words, hashes and slots, by row."""

    def __init__(self, rows: Mapping[str, int]) -> None:
        encoded = [name.encode() for name in rows]
        lengths = np.fromiter(map(len, encoded), np.intp, len(encoded))
        words = 1 + int(lengths.max(initial=0)) // _WORD_BYTES
        self._bytes = words * _WORD_BYTES
        self._dtype = np.dtype(f"V{self._bytes}")
        self._zeros = bytes(self._bytes)
        # The bits of the words that belong to a name, by the length of the name.
        own = np.tri(self._bytes + 1, self._bytes, -1, np.uint8) * np.uint8(255)
        self._masks: _Words = own.view(np.uint64)
        powers = [pow(_FACTOR, power, 1 << 64) for power in range(1, words + 1)]
        self._factors: _Words = np.array(powers, np.uint64)

        where = np.fromiter(rows.values(), np.intp, len(rows))
        size = int(where.max(initial=0)) + 1
        self._words: _Words = np.zeros((size, words), np.uint64)
        self._words[where] = self._cut(b"".join(encoded), lengths.cumsum() - lengths, lengths)
        self._hashes: _Words = self._words @ self._factors
        bits = max(1, (_SLOTS * size).bit_length())
        self._shift = np.uint64(64 - bits)
        self._last_slot = (1 << bits) - 1
        self._slots: Rows = np.zeros(1 << bits, np.intp)
        self._fill(where)

    def _fill(self, rows: Rows) -> None:
        """Give each row a slot: that of its hash, or the next free one."""
        slots = self._first_slots(self._hashes[rows])
        while len(rows):
            free = self._slots[slots] == 0
            # If several rows want one slot, the last one gets it.
            self._slots[slots[free]] = rows[free]
            left = self._slots[slots] != rows
            rows, slots = rows[left], (slots[left] + 1) & self._last_slot

    def find(self, json: bytes, quotes: Offsets) -> Rows | None:
        """The row of each name between two quotes of a JSON; None if a name is not known."""
        starts = quotes[::2] + 1
        lengths = quotes[1::2] - starts
        if np.maximum.reduce(lengths) > self._bytes:
            return None
        words = self._cut(json, starts, lengths)
        hashes = words @ self._factors
        slots = self._first_slots(hashes)
        found = self._slots.take(slots)
        left = (self._hashes.take(found) != hashes).nonzero()[0]
        while len(left):
            if not found[left].all():
                return None
            slots[left] = (slots[left] + 1) & self._last_slot
            found[left] = self._slots[slots[left]]
            left = left[self._hashes[found[left]] != hashes[left]]
        # Two names may have the same hash.
        differ = self._words.take(found, axis=0) != words
        return None if np.count_nonzero(differ) else found

    def _first_slots(self, hashes: _Words) -> Rows:
        return (hashes >> self._shift).view(np.intp)

    def _cut(self, text: bytes, starts: Offsets, lengths: Offsets) -> _Words:
        """The words of the names at these places of a text."""
        every: npt.NDArray[np.void] = np.ndarray(
            len(text) + 1, self._dtype, text + self._zeros, strides=(1,)
        )
        cut: _Words = every[starts].view(np.uint64).reshape(-1, self._masks.shape[1])
        cut &= self._masks.take(lengths, axis=0)
        return cut
