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
    the rows where the names were found last. `each` has the names of a short list one by one.
    """

    def __init__(self, json: bytes, known_rows: KnownRows | None = None) -> None:
        self.json = json
        self.known_rows = known_rows
        self.each: Sequence[bytes] | None = None
        self._count = 0

    @classmethod
    def of(cls, json: bytes) -> ListedNames | None:
        """The names of a JSON list of one name or more; None if a JSON decoder must read it.

        That is so for white space, escapes and other characters than ASCII, and in a long list for
        a name that has a comma between quotes, which no node name has. The test is a count: if no
        name has a comma between quotes, and if neither the first nor the last quote is beside a
        comma, there is one `","` for every two of the other quotes only if each pair ends a name
        and begins the next one. A short list is cut at each `","`: then no part may have a quote.
        """
        if not (json.startswith(b'["') and json.endswith(b'"]') and json.isascii()):
            return None
        text = np.frombuffer(json, np.uint8)
        if b"\\" in json or np.minimum.reduce(text) < _SPACE:
            return None
        quotes = text == _QUOTE
        count = int(np.count_nonzero(quotes))
        if count <= 2 * _FEW:
            each = json[2:-2].split(b'","')
            if count != 2 * len(each):
                return None
            names = cls(json)
            names.each, names._count = each, len(each)
            return names
        between = quotes[:-2] & (text[1:-1] == _COMMA)
        between &= quotes[2:]
        if count != 2 * int(np.count_nonzero(between)) + 2 or between[1] or between[-2]:
            return None
        if np.count_nonzero(between[:-2] & between[2:]):
            return None
        names = cls(json)
        names._count = count // 2
        return names

    def __len__(self) -> int:
        return self._count if self.known_rows is None else len(self.known_rows.rows)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        return self._names[index]

    @cached_property
    def quotes(self) -> Offsets:
        """The offsets in `json` of the quotes, two for each name."""
        quotes: Offsets = (np.frombuffer(self.json, np.uint8) == _QUOTE).nonzero()[0]
        return quotes

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
        if (each := names.each) is None:
            return self._table.find(names)
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

    def find(self, names: ListedNames) -> Rows | None:
        """The row of each name; None if a name is not known."""
        starts = names.quotes[::2] + 1
        lengths = names.quotes[1::2] - starts
        if np.maximum.reduce(lengths) > self._bytes:
            return None
        words = self._cut(names.json, starts, lengths)
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
