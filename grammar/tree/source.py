"""Source: a policy text with a name; Span: a part of it; escape sequences of string literals."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

# The escape sequences of string literals, by the letter after the backslash.
ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
ESCAPES |= {"\\": "\\", '"': '"'}
# The characters that a printed literal escapes, with their sequences.
ESCAPED = {character: f"\\{letter}" for letter, character in ESCAPES.items()}


@dataclass(frozen=True, slots=True)
class Span:
    """A span: half-open offsets into a source's text."""

    start: int
    end: int

    def moved(self, by: int) -> Span:
        return Span(self.start + by, self.end + by)

    def holds(self, inner: Span) -> bool:
        return self.start <= inner.start and inner.end <= self.end


@dataclass(frozen=True, slots=True)
class Source:
    """A source: a text and its name in messages, a path or the address of an object."""

    name: str
    text: str
    _starts: list[int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        starts = [0]
        starts.extend(i + 1 for i, c in enumerate(self.text) if c == "\n")
        object.__setattr__(self, "_starts", starts)

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset, both from 1; an offset past the end is the end."""
        offset = max(0, min(offset, len(self.text)))
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1

    def line(self, number: int) -> str:
        """The text of a line, from 1, without its line break."""
        start = self._starts[number - 1]
        end = self._starts[number] if number < len(self._starts) else len(self.text) + 1
        return self.text[start : end - 1].rstrip("\r\n")

    def slice(self, span: Span) -> str:
        return self.text[span.start : span.end]
