"""Positions: offsets in a text as lines and columns, the way editors count them."""

from __future__ import annotations

import re
from bisect import bisect_right

from lsprotocol import types

from grammar.tree.source import Span

_LINE_END = re.compile(r"\r\n|\n|\r")


class Positions:
    """The positions of one text. Lines and columns count from 0.

    A column counts units of the encoding that server and editor agreed on: UTF-16 for most.
    """

    def __init__(self, text: str, encoding: types.PositionEncodingKind | str) -> None:
        self._text = text
        self._encoding = encoding
        self._starts = [0, *(found.end() for found in _LINE_END.finditer(text))]

    def position(self, offset: int) -> types.Position:
        offset = max(0, min(offset, len(self._text)))
        line = bisect_right(self._starts, offset) - 1
        before = self._text[self._starts[line] : offset]
        return types.Position(line, sum(map(self._units, before)))

    def range(self, span: Span) -> types.Range:
        return types.Range(self.position(span.start), self.position(span.end))

    def offset(self, position: types.Position) -> int:
        """A position past the end of its line, or of the text, is that end."""
        if position.line >= len(self._starts):
            return len(self._text)
        at = self._starts[position.line]
        found = _LINE_END.search(self._text, at)
        end, units = found.start() if found is not None else len(self._text), 0
        while at < end and units < position.character:
            units += self._units(self._text[at])
            at += 1
        return at

    def _units(self, character: str) -> int:
        match self._encoding:
            case types.PositionEncodingKind.Utf8:
                return len(character.encode("utf-8", "surrogatepass"))
            case types.PositionEncodingKind.Utf32:
                return 1
            case _:
                return 2 if ord(character) > 0xFFFF else 1
