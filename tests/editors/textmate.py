"""TextMate: splits a text into pieces with scopes, as editors do with a grammar of this kind.

It has what the grammar of Placet uses: patterns with a name and captures, begin and end with
captures and a content name, and includes. Patterns are tried line by line; the earliest counts, and
of two at one place the first.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from grammar.syntax.parser import keywords

Rule = Mapping[str, Any]


@dataclass(frozen=True)
class Piece:
    """A part of a text, from `start` to `end`, with its innermost scope; "" without any."""

    start: int
    end: int
    scope: str


@dataclass(frozen=True)
class _Open:
    """A rule that has begun, or the grammar itself."""

    rule: Rule
    end: str | None


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


class TextMate:
    """The pieces of texts by one grammar."""

    def __init__(self, grammar: Rule) -> None:
        self._grammar = grammar

    def pieces(self, text: str) -> list[Piece]:
        """All pieces, in order and without gaps but line breaks."""
        stack, found, offset = [_Open(self._grammar, None)], list[Piece](), 0
        for line in text.split("\n"):
            found += self._line(line, offset, stack)
            offset += len(line) + 1
        return found

    def _line(self, line: str, offset: int, stack: list[_Open]) -> Iterator[Piece]:
        at = 0
        while True:
            best, rule = self._next(line, at, stack[-1])
            inside = self._inside(stack)
            end = best.start() if best is not None else len(line)
            if end > at:
                yield Piece(offset + at, offset + end, inside)
            if best is None:
                return
            if rule is None:
                captures = stack[-1].rule.get("endCaptures", {})
                yield from _captured(best, stack[-1].rule.get("name", ""), captures, offset)
                stack.pop()
            elif "begin" in rule:
                outer = rule.get("name") or inside
                yield from _captured(best, outer, rule.get("beginCaptures", {}), offset)
                stack.append(_Open(rule, rule["end"]))
            else:
                scope = rule.get("name") or inside
                yield from _captured(best, scope, rule.get("captures", {}), offset)
                # A pattern without a text would be found for ever.
                assert best.end() > at, rule
            at = best.end()
            if at > len(line):
                return

    def _next(self, line: str, at: int, top: _Open) -> tuple[re.Match[str] | None, Rule | None]:
        """The earliest match, and its rule; None for the end of the open rule."""
        best, chosen = None, None
        if top.end is not None:
            best = _compiled(top.end).search(line, at)
        for rule in self._flat(top.rule.get("patterns", ())):
            found = _compiled(rule.get("match") or rule["begin"]).search(line, at)
            if found is not None and (best is None or found.start() < best.start()):
                best, chosen = found, rule
        return best, chosen

    def _flat(self, patterns: Sequence[Rule]) -> Iterator[Rule]:
        for rule in patterns:
            match rule.get("include"):
                case None if "match" in rule or "begin" in rule:
                    yield rule
                case None:
                    yield from self._flat(rule["patterns"])
                case "$self":
                    yield from self._flat(self._grammar["patterns"])
                case name:
                    yield from self._flat([self._grammar["repository"][name.removeprefix("#")]])

    def _inside(self, stack: Sequence[_Open]) -> str:
        rule = stack[-1].rule
        return str(rule.get("contentName") or rule.get("name", "")) if stack[1:] else ""


def _captured(
    found: re.Match[str], scope: str, captures: Mapping[str, Rule], offset: int
) -> Iterator[Piece]:
    """The pieces of one match: its captures, which do not overlap, and what is between them."""
    if "0" in captures:
        scope = captures["0"]["name"]
    at = found.start()
    for number, capture in sorted(captures.items(), key=lambda item: int(item[0])):
        start, end = found.span(int(number))
        if number == "0" or start < 0:
            continue
        if start > at:
            yield Piece(offset + at, offset + start, scope)
        yield Piece(offset + start, offset + end, capture["name"])
        at = end
    if found.end() > at:
        yield Piece(offset + at, offset + found.end(), scope)


# ---- the TextMate grammar with the keywords of the language; `make colours` writes it


FILE = Path(__file__).parents[2] / "deploy" / "editors" / "vscode" / "placet.tmLanguage.json"
_SCOPE = "keyword.other.placet"


def coloured(text: str) -> str:
    """The text of the file, with the keywords that the language has now."""
    grammar: dict[str, Any] = json.loads(text)
    (pattern,) = (
        each for each in grammar["repository"]["keywords"]["patterns"] if each.get("name") == _SCOPE
    )
    # `in` is an operator.
    words = "|".join(
        word for word in sorted({*keywords().values()} - {"true", "false", "null"}) if word != "in"
    )
    _, _, rest = pattern["match"].partition(")")
    pattern["match"] = rf"\b(?:{words}){rest}"
    return json.dumps(grammar, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.write_text(coloured(FILE.read_text("utf-8")), "utf-8")
