"""Tokens: the pieces of a text that may be unfinished, for completion and meanings.

The parser's own lexer needs a text without errors; this one splits every text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal as OneOf
from typing import cast

from grammar.tree.source import Span

Kind = OneOf["space", "comment", "string", "number", "word", "sign"]

# A string without an end goes to the end of its line, with triple quotes to the end of the text.
_TOKEN = re.compile(
    r"(?P<space>\s+)"
    r"|(?P<comment>(?:#|//)[^\n]*)"
    r"|(?P<string>(?:[rR][bB]?|[bB][rR]?)?"
    r'(?:"""(?:\\[\s\S]|(?!""")[\s\S])*(?:"""|\Z)'
    r"|\'\'\'(?:\\[\s\S]|(?!\'\'\')[\s\S])*(?:\'\'\'|\Z)"
    r'|"(?:\\.|[^"\\\n])*(?:"|\\?(?=\n|\Z))'
    r"|'(?:\\.|[^'\\\n])*(?:'|\\?(?=\n|\Z))))"
    r"|(?P<number>\d[\w.]*%?)"
    r"|(?P<word>[A-Za-z_]\w*)"
    r"|(?P<sign>\.\?|&&|\|\||[<>=!]=|\[\?|[\s\S])"
)
_QUOTES = ('"""', "'''", '"', "'")
OPENING, CLOSING = ("(", "[", "[?", "{"), (")", "]", "}")


@dataclass(frozen=True, slots=True)
class EditedToken:
    """A token of a text, which starts at offset `start`."""

    kind: Kind
    text: str
    start: int

    @property
    def span(self) -> Span:
        return Span(self.start, self.start + len(self.text))

    @property
    def quote(self) -> str:
        """The quotes at the start of a string."""
        bare = self.text.lstrip("rRbB")
        return next(q for q in _QUOTES if bare.startswith(q))

    @property
    def is_open(self) -> bool:
        """Whether it is a string without an end."""
        if self.kind != "string":
            return False
        inside = self.text.lstrip("rRbB").removeprefix(self.quote)
        if not inside.endswith(self.quote):
            return True
        bare = inside.removesuffix(self.quote)
        escapes = len(bare) - len(bare.rstrip("\\"))
        return escapes % 2 == 1 and self.text[0] not in "rR"


def tokens(text: str) -> list[EditedToken]:
    """All tokens of a text; joined, they are the text."""
    found = _TOKEN.finditer(text)
    return [EditedToken(cast("Kind", m.lastgroup), m.group(), m.start()) for m in found]


def last_operand(before: Sequence[EditedToken]) -> str:
    """The operand at the end of the tokens, as `a.b["c"].d()`; empty if there is none."""
    opened, opening_of = list[int](), dict[int, int]()
    for index, token in enumerate(before):
        if token.text in OPENING:
            opened.append(index)
        elif token.text in CLOSING and opened:
            opening_of[index] = opened.pop()
    start = at = len(before)
    while at:
        last = before[at - 1]
        if last.text in (")", "]") and at - 1 in opening_of:
            start = at = opening_of[at - 1]
            # A called or indexed operand stands directly before; parentheses may stand alone.
            if at and (before[at - 1].kind == "word" or before[at - 1].text in (")", "]")):
                continue
        elif last.kind == "word":
            start = at = at - 1
        else:
            break
        if not at or before[at - 1].text not in (".", ".?"):
            break
        at -= 1
    return "".join(token.text for token in before[start:])


def open_brackets(code: Sequence[EditedToken]) -> list[int]:
    """The numbers of the opening brackets that no other closes, outermost first."""
    open_: list[int] = []
    for index, token in enumerate(code):
        if token.text in OPENING:
            open_.append(index)
        elif token.text in CLOSING and open_:
            open_.pop()
    return open_


def significant(found: Sequence[EditedToken]) -> list[EditedToken]:
    """The tokens without spaces and comments."""
    return [token for token in found if token.kind not in ("space", "comment")]
