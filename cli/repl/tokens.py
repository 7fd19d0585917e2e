"""The pieces of a text that may be unfinished, for colours and for completion."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal as OneOf
from typing import cast

Kind = OneOf["space", "comment", "string", "number", "word", "sign"]

# A string that has no end yet goes to the end of its line, or of the text if it has long quotes.
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


@dataclass(frozen=True, slots=True)
class Token:
    """A piece and where it starts."""

    kind: Kind
    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    @property
    def quote(self) -> str:
        """The quotes that a string starts with."""
        bare = self.text.lstrip("rRbB")
        return next(q for q in _QUOTES if bare.startswith(q))

    @property
    def open(self) -> bool:
        """Whether it is a string without an end."""
        if self.kind != "string":
            return False
        inside = self.text.lstrip("rRbB").removeprefix(self.quote)
        if not inside.endswith(self.quote):
            return True
        bare = inside.removesuffix(self.quote)
        escapes = len(bare) - len(bare.rstrip("\\"))
        return escapes % 2 == 1 and self.text[0] not in "rR"


def tokens(text: str) -> list[Token]:
    """All of a text: the pieces put together are it again."""
    found = _TOKEN.finditer(text)
    return [Token(cast("Kind", m.lastgroup), m.group(), m.start()) for m in found]


def chain(before: Sequence[Token]) -> str:
    """The operand that ends where these tokens end, as `a.b["c"].d()`; empty if there is none."""
    taken: list[str] = []
    left = list(before)
    operand = True  # whether an operand or its end is to come next, rather than a dot
    while left:
        token = left.pop()
        if operand and token.text in (")", "]"):
            inside = _bracket(left)
            if inside is None:
                break
            taken.append(f"{inside}{token.text}")
            # What is called or indexed stands directly before; a parenthesis may stand alone.
            operand = bool(left) and (left[-1].kind == "word" or left[-1].text in (")", "]"))
        elif operand and token.kind == "word":
            taken.append(token.text)
            operand = False
        elif not operand and token.text in (".", ".?"):
            taken.append(token.text)
            operand = True
        else:
            break
    return "".join(reversed(taken)).lstrip(".?")


def _bracket(left: list[Token]) -> str | None:
    """Takes off all up to the bracket that a closing one closes, which is taken already."""
    depth, taken = 1, list[str]()
    while left:
        token = left.pop()
        taken.append(token.text)
        depth += (token.text in (")", "]", "}")) - (token.text in ("(", "[", "[?", "{"))
        if not depth:
            return "".join(reversed(taken))
    return None
