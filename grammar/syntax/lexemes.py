"""Lexemes: a text cut into words, numbers, strings and signs, for texts that cannot be parsed.

A sign of another language, such as `=>` or `=~`, is one lexeme. Brackets know their partner.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import takewhile

from grammar.clauses import KINDS
from grammar.messages.diagnostics import Diagnostic
from grammar.tree.source import Span

_PATTERN = re.compile(
    r"(?P<skip>[ \t\r\n\f]+|(?:#|//)[^\n]*)"
    r'|(?P<string>[rR]?(?:"""(?:\\[\s\S]|[^\\])*?"""|"(?:\\.|[^"\\\n])*"'
    r"|'''(?:\\[\s\S]|[^\\])*?'''|'(?:\\.|[^'\\\n])*'))"
    r"|(?P<number>\d+(?:\.\d+)?|\.\d+)|(?P<word>[A-Za-z_]\w*|`[\w.\-/ ]+`)"
    r"|(?P<sign>===|!==|=~|!~\*|!~|~\*|~=|==|!=|<=|>=|<>|=>|->|&&|\|\||\?\?|\?:|:=|\.\?|\[\?|\*\*|\.\.|[\s\S])",
)
_OPENERS = {"{": "}", "(": ")", "[": "]", "[?": "]"}
_CLOSERS = frozenset("})]")


@dataclass(frozen=True, slots=True)
class Lexeme:
    """A lexeme: one word, number, string or sign, with its place."""

    kind: str
    text: str
    start: int
    end: int

    @property
    def opens(self) -> bool:
        return self.text in _OPENERS

    @property
    def closes(self) -> bool:
        return self.text in _CLOSERS


_END = Lexeme("end", "", 0, 0)


class Lexemes:
    """The lexemes of one text. A position is the number of a lexeme."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.items = [
            Lexeme(m.lastgroup or "", m.group(), m.start(), m.end())
            for m in _PATTERN.finditer(text)
            if m.lastgroup != "skip"
        ]
        self.partner: dict[int, int] = {}
        # The brackets that no other closes, outermost first; and closing ones without a partner.
        self.unclosed: list[int] = []
        self.surplus: list[int] = []
        for number, item in enumerate(self.items):
            if item.opens:
                self.unclosed.append(number)
            elif item.closes:
                self._close(number)

    def _close(self, number: int) -> None:
        """Finds the partner of a closing bracket: a brace also ends what is open inside of it."""
        sign = self.items[number].text
        for place in reversed(range(len(self.unclosed))):
            opener = self.unclosed[place]
            if _OPENERS[self.items[opener].text] == sign:
                self.partner[number], self.partner[opener] = opener, number
                del self.unclosed[place]
                return
            if self.items[opener].text == "{":
                break
        self.surplus.append(number)

    def __getitem__(self, position: int) -> Lexeme:
        """The lexeme; an empty one before the first and behind the last."""
        return self.items[position] if 0 <= position < len(self.items) else _END

    def at(self, offset: int) -> int:
        """The position of the lexeme at an offset, or behind it; the number of all at the end."""
        return next((n for n, i in enumerate(self.items) if i.end > offset), len(self.items))

    def slice(self, first: int, last: int) -> str:
        """The text from one lexeme to another, both included."""
        return self.text[self[first].start : self[last].end] if first <= last else ""

    def span(self, first: int, last: int) -> Span:
        return Span(self[first].start, self[last].end)

    def touches(self, position: int) -> bool:
        """Whether nothing stands between a lexeme and the one before it."""
        return position > 0 and self[position - 1].end == self[position].start

    def opener(self, position: int) -> int | None:
        """The innermost bracket that is open at a position."""
        stack: list[int] = []
        for number in range(min(position, len(self.items))):
            item = self.items[number]
            if item.opens:
                stack.append(number)
            elif item.closes and number in self.partner and self.partner[number] in stack:
                del stack[stack.index(self.partner[number]) :]
        return stack[-1] if stack else None

    # ---- operands: names with their fields, indexes and calls; literals; parentheses

    def operand_before(self, position: int) -> int | None:
        """The first lexeme of the operand that ends before a position."""
        at = position - 1
        while True:
            item = self[at]
            if item.closes and item.text != "}":
                if (opener := self.partner.get(at)) is None:
                    return None
                before = self[opener - 1]
                if before.kind == "word" or before.text in (")", "]"):
                    at = opener - 1
                    continue
                return opener
            if item.kind not in ("word", "string", "number"):
                return None
            if self[at - 1].text in (".", ".?"):
                if not self.touches(at - 1):
                    # `.spec.taints` of jq
                    return at - 1
                at -= 2
                continue
            return at

    def operand_after(self, position: int) -> int | None:
        """The last lexeme of the operand that starts at a position."""
        at = position
        while self[at].text in ("!", "-"):
            at += 1
        item = self[at]
        if item.opens:
            if (closer := self.partner.get(at)) is None:
                return None
            at = closer
        elif item.kind not in ("word", "string", "number"):
            return None
        while True:
            following = self[at + 1]
            if following.text in (".", ".?") and self[at + 2].kind == "word":
                at += 2
            elif following.text in ("(", "[", "[?") and (closer := self.partner.get(at + 1)):
                at = closer
            else:
                return at

    def expression_end(self, position: int, stops: frozenset[str]) -> int:
        """The last lexeme of the text from a position to a stop word or to the bracket around."""
        at = position
        while at < len(self.items):
            item = self.items[at]
            if item.closes or (item.text in stops and self[at - 1].text not in (".", ".?")):
                break
            at = self.partner.get(at, at)
            at += 1
        return at - 1


def shape_at(text: str, offset: int) -> str | None:
    """How the clause around an offset is written, and beside clauses, a filter."""
    lexemes = Lexemes(text)
    if (opener := lexemes.opener(lexemes.at(offset))) is None:
        return None
    head = (lexemes[n].text for n in range(opener - 1, -1, -1))
    words = takewhile(lambda word: word not in ("{", "}"), head)
    return next((KINDS[w] for w in words if w in KINDS), KINDS["filter"]).shape


def closed(found: Diagnostic, text: str) -> str | None:
    """The text with the bracket that an error asks for, where this moves no other character."""
    edit = found.remedy
    if found.code != "P0140" or edit is None:
        return None
    at = edit.span.start
    if at >= len(text.rstrip()):
        return text.rstrip() + edit.text.strip()
    # A blank behind the place gives way, rather one that is no line break.
    blanks = range(at, at + len(text[at:]) - len(text[at:].lstrip()))
    place = next((n for n in blanks if text[n] != "\n"), next(iter(blanks), None))
    if place is not None:
        return text[:place] + edit.text.strip()[:1] + text[place + 1 :]
    return None
