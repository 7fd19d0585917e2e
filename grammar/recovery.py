"""Where to go on after a mistake, so that one run reports every clause."""

from __future__ import annotations

import re
from dataclasses import dataclass

from grammar.source import Span

_BLOCKS = frozenset({"policy", "cluster", "test"})
_ITEMS = frozenset(
    (
        "use description weight mode failure for let def filter score share spread limit"
        " preempt bind"
        " node pod at expect"
    ).split(),
)
_TOKEN = re.compile(
    r"(?P<skip>[ \t\r\f]+|(?:#|//)[^\n]*)|(?P<line>\n)|(?P<open>\{)|(?P<close>\})"
    r"|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|(?P<word>[A-Za-z_]\w*)|[\s\S]",
)


@dataclass(frozen=True, slots=True)
class _Mark:
    """The start of a block (depth 0) or of an item (depth 1), or the brace that closes a block."""

    offset: int
    depth: int
    closes: bool = False


def stretch(text: str, offset: int, *, in_block: bool) -> Span:
    """What to leave out so that the rest can be read: the item around the offset, else the block.

    `in_block` is True for a text that is the inside of a policy. Only a word that is the first of
    its line, or the first after a brace, starts an item; so names inside expressions do not.
    """
    marks = _marks(text, 1 if in_block else 0)
    before = [m for m in marks if m.offset <= offset and not m.closes]
    if not before:
        return Span(0, marks[0].offset if marks else len(text))
    start = before[-1]
    after = (
        m.offset for m in marks if m.offset >= offset and m is not start and m.depth <= start.depth
    )
    return Span(start.offset, next(after, len(text)))


def blank(text: str, span: Span) -> str:
    """The text with a stretch turned into spaces: every offset and line stays what it was."""
    hole = re.sub(r"[^\n]", " ", text[span.start : span.end])
    return text[: span.start] + hole + text[span.end :]


def _marks(text: str, base: int) -> list[_Mark]:
    marks: list[_Mark] = []
    depth, fresh = base, True
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup
        if kind == "skip":
            continue
        if kind == "word" and fresh:
            words = _BLOCKS if depth == 0 else _ITEMS if depth == 1 else frozenset[str]()
            # A line that starts a policy starts one at any depth: the brace before it was
            # forgotten.
            if match.group() == "policy" and text[match.start() - 1 : match.start()] in ("", "\n"):
                depth, words = 0, _BLOCKS
            if match.group() in words:
                marks.append(_Mark(match.start(), depth))
        if kind == "close":
            depth -= 1
            if depth <= 0:
                depth = 0
                # The closing brace stays when an item is left out, and goes with its block.
                marks.append(_Mark(match.start(), 1, closes=True))
        elif kind == "open":
            depth += 1
        fresh = kind in ("line", "open", "close")
    return marks
