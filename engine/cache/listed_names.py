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


class Where(msgspec.Struct, frozen=True, eq=False):
    """The nodes of a request as places of the cache: each is known, and is named once.

    `nodes` has the place of every node there is; it is another mapping when that changes.
    """

    places: npt.NDArray[np.intp]
    nodes: Mapping[str, int]


class ListedNames(Sequence[str]):
    """Names that are made strings only if somebody reads them: there are thousands in a request.

    `json` has one name or more, without space between them and without escapes. `where` is where
    they were found last.
    """

    def __init__(self, json: bytes, where: Where | None = None) -> None:
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
        return self._count if self.where is None else len(self.where.places)

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
