"""Splits a message's string into text and `{expression}` holes."""

from __future__ import annotations

from collections.abc import Callable

from grammar import mistakes
from grammar.ast import Expr
from grammar.builder import Token, text_of, token_span
from grammar.clauses import Template
from grammar.mistakes import MistakeError
from grammar.source import Span
from grammar.values.literals import unquote

_CLOSERS = {"{": "}", "[": "]", "(": ")"}


def template(token: Token, parse_hole: Callable[[str, int], Expr]) -> Template:
    """The parts of a STRING token; holes are parsed where they stand, for their spans."""
    text_of(token)  # the string as a whole must be one
    raw = str(token)
    start, end, plain = _body(raw)
    parts: list[str | Expr] = []
    text = ""
    at = start
    while at < end:
        char = raw[at]
        if char == "\\" and not plain:
            text += raw[at : at + 2]
            at += 2
        elif char in "{}" and raw[at : at + 2] == char * 2:
            text += char
            at += 2
        elif char == "{":
            close = _closing(raw, at, end, token)
            if text:
                parts.append(unquote(raw[:start] + text + raw[end:]))
                text = ""
            parts.append(parse_hole(raw[at + 1 : close], token.start_pos + at + 1))
            at = close + 1
        elif char == "}":
            raise MistakeError(mistakes.bad_hole("`}` closes nothing", _at(token, at, at + 1)))
        else:
            text += char
            at += 1
    if text:
        parts.append(unquote(raw[:start] + text + raw[end:]))
    return Template(tuple(parts), token_span(token))


def _body(raw: str) -> tuple[int, int, bool]:
    """Where the text between the quotes starts and ends, and whether it is a raw string."""
    plain = raw[0] in "rR"
    opening = 1 if plain else 0
    quotes = 3 if raw[opening : opening + 3] in ('"""', "'''") else 1
    return opening + quotes, len(raw) - quotes, plain


def _closing(raw: str, opening: int, end: int, token: Token) -> int:
    """The offset of the brace that closes the hole: quotes and inner brackets are passed over."""
    stack = ["}"]
    quote = ""
    for at in range(opening + 1, end):
        char = raw[at]
        if char == "\\":
            raise MistakeError(
                mistakes.bad_hole("a hole cannot hold a backslash", _at(token, at, at + 1))
            )
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'`":
            quote = char
        elif char in _CLOSERS:
            stack.append(_CLOSERS[char])
        elif char == stack[-1]:
            stack.pop()
            if not stack:
                return at
    raise MistakeError(mistakes.bad_hole("the hole is not closed", _at(token, opening, end)))


def _at(token: Token, start: int, end: int) -> Span:
    return Span(token.start_pos + start, token.start_pos + end)
