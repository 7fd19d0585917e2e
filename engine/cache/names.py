"""The names of a request, as the JSON list in which they came."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import overload

import msgspec
import numpy as np
import numpy.typing as npt

_QUOTE, _COMMA, _SPACE = b'", '
_LIST = msgspec.json.Decoder(list[str])

Offsets = npt.NDArray[np.intp]


class KnownRows(msgspec.Struct, frozen=True, eq=False):
    """The nodes of a request as places of the cache: each is known, and is named once.

    `nodes` has the place of every node there is; it is another mapping when that changes.
    """

    rows: npt.NDArray[np.intp]
    nodes: Mapping[str, int]


class ListedNames(Sequence[str]):
    """Names that are made strings only if somebody reads them: there are thousands in a request.

    `json` has one name or more, without space between them and without escapes. `where` is where
    they were found last.
    """

    def __init__(self, json: bytes, where: KnownRows | None = None) -> None:
        self.json = json
        self.where = where
        self._count = 0

    @classmethod
    def of(cls, json: bytes) -> ListedNames | None:
        """None for any other text: it is for a decoder of JSON.

        And for names with a comma between two quotes, which no node has. Without these, and if
        neither the first nor the last quote is beside one, there is a `","` for every two of the
        other quotes only if these end a name and begin the next.
        """
        if not (json.startswith(b'["') and json.endswith(b'"]') and json.isascii()):
            return None
        text = np.frombuffer(json, np.uint8)
        if b"\\" in json or np.minimum.reduce(text) < _SPACE:
            return None
        quotes = text == _QUOTE
        between = quotes[:-2] & (text[1:-1] == _COMMA)
        between &= quotes[2:]
        count = int(np.count_nonzero(quotes))
        if count != 2 * int(np.count_nonzero(between)) + 2 or between[1] or between[-2]:
            return None
        if np.logical_or.reduce(between[:-2] & between[2:]):
            return None
        names = cls(json)
        names._count = count // 2
        return names

    @property
    def starts(self) -> Offsets:
        """Where each name begins in `json`."""
        return self._quotes[::2] + 1

    @property
    def ends(self) -> Offsets:
        """Where each name has ended in `json`."""
        return self._quotes[1::2]

    def __len__(self) -> int:
        return self._count if self.where is None else len(self.where.rows)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        return self._names[index]

    @cached_property
    def _quotes(self) -> Offsets:
        quotes: Offsets = (np.frombuffer(self.json, np.uint8) == _QUOTE).nonzero()[0]
        return quotes

    @cached_property
    def _names(self) -> list[str]:
        return _LIST.decode(self.json)


# ---- Where nodes are by name: thousands of names are found at once, and none is made a string.
#
# It is a hash table of columns. A name is as many words of eight bytes as the longest one needs,
# with
# zeros behind its end; those of a request are cut out of its JSON as they lie there.

_Words = npt.NDArray[np.uint64]
_Places = npt.NDArray[np.intp]

_WORD_BYTES = 8
# Slots a name, at least: the fewer names share one, the fewer are looked up twice.
_SLOTS = 8
# Odd, and as good as random: the upper bits of a product depend on all bits of the other factor.
_FACTOR = 0x9E3779B97F4A7C15


class NameIndex:
    """An index of places by name, none of which is 0; it is made when it is first asked."""

    def __init__(self, rows: Mapping[str, int]) -> None:
        self._by_name = rows

    def find(self, names: ListedNames) -> _Places | None:
        """The place of each name; None if some name has none."""
        return self._table.find(names)

    @cached_property
    def _table(self) -> _Table:
        return _Table(self._by_name)


class _Table:
    def __init__(self, rows: Mapping[str, int]) -> None:
        encoded = [name.encode() for name in rows]
        lengths = np.fromiter(map(len, encoded), np.intp, len(encoded))
        words = 1 + int(lengths.max(initial=0)) // _WORD_BYTES
        self._bytes = words * _WORD_BYTES
        self._dtype = np.dtype(f"V{self._bytes}")
        self._zeros = bytes(self._bytes)
        # By length, which bits of its words are those of a name.
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
        self._slots: _Places = np.zeros(1 << bits, np.intp)
        self._fill(where)

    def _fill(self, rows: _Places) -> None:
        """A name whose slot is taken goes to the next one that is free."""
        slots = self._first_slots(self._hashes[rows])
        while len(rows):
            free = self._slots[slots] == 0
            # Of several that come to one slot the last one gets it.
            self._slots[slots[free]] = rows[free]
            left = self._slots[slots] != rows
            rows, slots = rows[left], (slots[left] + 1) & self._last_slot

    def find(self, names: ListedNames) -> _Places | None:
        starts = names.starts
        lengths = names.ends - starts
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
        # Two names may have one hash.
        differ = self._words.take(found, axis=0) != words
        return None if np.logical_or.reduce(differ, axis=None) else found

    def _first_slots(self, hashes: _Words) -> _Places:
        return (hashes >> self._shift).view(np.intp)

    def _cut(self, text: bytes, starts: Offsets, lengths: Offsets) -> _Words:
        """The words of names that lie in a text."""
        every: npt.NDArray[np.void] = np.ndarray(
            len(text) + 1, self._dtype, text + self._zeros, strides=(1,)
        )
        cut: _Words = every[starts].view(np.uint64).reshape(-1, self._masks.shape[1])
        cut &= self._masks.take(lengths, axis=0)
        return cut
