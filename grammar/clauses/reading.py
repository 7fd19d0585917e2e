"""Reading: what the parser hands to a builder, and the values that are made of it.

The children of a rule of the grammar are tokens, expressions, and parts that were read before.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeGuard

from grammar.messages import catalogue
from grammar.messages.catalogue import ParseError
from grammar.tree.ast import Expr, Ident, Literal, MapLiteral
from grammar.tree.clause_parts import LONGEST_WAIT, SHORTEST_WAIT
from grammar.tree.source import ESCAPES, Span
from grammar.tree.types import INT
from grammar.values.errors import EvaluationError
from grammar.values.time import Duration

_SIMPLE = ESCAPES | {c: c for c in "?'`"}
_ESCAPE = re.compile(
    r"\\(?:([abfnrtv\\?\"'`])|[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.?))",
    re.DOTALL,
)


def unquote(token: str) -> str:
    """The value of a string token, without quotes and escapes (CEL langdef, Syntax).

    Raises ValueError for an invalid escape sequence.
    """
    raw = token[0] in "rR"
    body = token[1:] if raw else token
    quotes = 3 if body[:3] in ('"""', "'''") else 1
    body = body[quotes:-quotes]
    return body if raw or "\\" not in body else _ESCAPE.sub(_character, body)


def _character(match: re.Match[str]) -> str:
    simple, *codes, octal, bad = match.groups()
    if simple:
        return _SIMPLE[simple]
    if bad is not None:
        raise ValueError(f"`\\{bad}` is not an escape sequence")
    code = int(octal, 8) if octal else int(next(c for c in codes if c), 16)
    if code > 0x10FFFF or 0xD800 <= code < 0xE000:
        raise ValueError(f"`{match.group()}` is not a character")
    return chr(code)


def parse_int(text: str) -> int:
    """A decimal or `0x…` number; its range is checked later, when the sign is known."""
    if text[:2] in ("0x", "0X"):
        return int(text, 16)
    # 25 digits are out of range anyway, and Python refuses to read thousands of digits.
    return int(text.lstrip("0")[:25] or "0")


# ---- children


class SyntaxToken(Protocol):
    """A token of the parser: a `str` with its type and offsets."""

    type: str
    start_pos: int
    end_pos: int


Child = object


def is_token(child: Child) -> TypeGuard[SyntaxToken]:
    """Tokens are the only strings among the children."""
    return isinstance(child, str)


def token_span(token: SyntaxToken) -> Span:
    return Span(token.start_pos, token.end_pos)


def span_of(children: Sequence[Child]) -> Span:
    """From the first child's start to the last child's end."""
    first, last = children[0], children[-1]
    start = first.start_pos if is_token(first) else first.span.start  # type: ignore[attr-defined]
    end = last.end_pos if is_token(last) else last.span.end  # type: ignore[attr-defined]
    return Span(start, end)


def nodes(children: Sequence[Child]) -> list[Expr]:
    """The expression children, tokens left out."""
    return [c for c in children if isinstance(c, Expr)]


def text_of(token: SyntaxToken) -> str:
    """The value of a STRING token."""
    try:
        return unquote(str(token))
    except ValueError as error:
        raise ParseError(catalogue.bad_literal(str(error), token_span(token))) from None


def tokens(c: list[Child], *types: str) -> list[SyntaxToken]:
    return [t for t in c if is_token(t) and t.type in types]


def string_of(c: list[Child]) -> SyntaxToken:
    return tokens(c, "STRING")[0]


def has(c: list[Child], *types: str) -> bool:
    return bool(tokens(c, *types))


def summed(c: list[Child]) -> tuple[Expr | None, Expr | None]:
    """The amount that is added up, and the condition behind it; None for each that is not there."""
    found = [None, *nodes(c), None] if not has(c, "SUM") else [*nodes(c), None]
    return found[0], found[1]


def expr_of(c: list[Child]) -> Expr:
    (found,) = nodes(c)
    return found


@dataclass(frozen=True, slots=True)
class ReadPart:
    """A part of a clause: its keyword, and its value for a field of that name, or for `fields`."""

    name: str
    value: Any
    span: Span
    fields: tuple[str, ...] = ()
    repeats: bool = False


# ---- values


def number_of(text: str) -> float:
    return float(text) if "." in text else int(text)


def body_of(c: list[Child]) -> MapLiteral | None:
    """The braces of an object of a test, or of annotations; None without them."""
    return next((each for each in c if isinstance(each, MapLiteral)), None)


def choice(c: list[Child], part: str, allowed: tuple[str, ...]) -> str:
    (token,) = tokens(c, "NAME")
    if str(token) not in allowed:
        raise ParseError(catalogue.bad_word(str(token), part, allowed, token_span(token)))
    return str(token)


def ident(token: SyntaxToken) -> Ident:
    return Ident(str(token), False, span=token_span(token))


def weight_of(c: list[Child]) -> float | Expr:
    if named := tokens(c, "IDENT"):
        return ident(named[0])
    (token,) = tokens(c, "SIGNED")
    number = number_of(str(token))
    if number == 0:
        raise bad_number(token, "weight", "a number other than 0")
    return number


def whole(expr: Expr, what: str, least: int) -> int | Expr:
    """A number that is written as a number, and is at least `least`; else the expression."""
    if not isinstance(expr, Literal) or not isinstance(expr.value, int) or expr.type != INT:
        return expr
    if expr.value < least:
        allowed = f"a whole number from {least}"
        raise ParseError(catalogue.bad_number(str(expr.value), what, allowed, expr.span))
    # The limits of the language refuse what does not fit in an int.
    return expr.value if expr.value < 2**63 else expr


def seconds_of(
    c: list[Child], what: str = "a binding cannot wait", longest: float = LONGEST_WAIT
) -> float:
    """A length of time such as `1m30s`, of one second or more. `what` is for an error."""
    (token,) = tokens(c, "AMOUNT", "STRING")
    text, span = str(token) if token.type == "AMOUNT" else text_of(token), token_span(token)
    try:
        seconds = Duration.parse(text).nanos / 10**9
    except EvaluationError as error:
        raise ParseError(catalogue.bad_literal(str(error), span)) from None
    if not SHORTEST_WAIT <= seconds <= longest:
        raise ParseError(catalogue.bad_length(str(token), seconds, span, what, longest))
    return seconds


def _percentage(token: SyntaxToken) -> float | Expr:
    """`40%` as a number, `n%` as a name."""
    text = str(token)[:-1]
    if not text[0].isdigit():
        return Ident(text, False, span=Span(token.start_pos, token.end_pos - 1))
    if (percent := number_of(text)) > 100:
        raise bad_number(token, "percentage of pods", "at most `100%`")
    return percent


def amount_of(c: list[Child], what: str, least: int) -> tuple[float | Expr, bool]:
    """The number of a bound, and whether it is a percentage."""
    if not (percents := tokens(c, "PERCENT")):
        return whole(expr_of(c), what, least), False
    (token,) = percents
    percent = _percentage(token)
    if isinstance(percent, float | int) and least and percent <= 0:
        raise bad_number(token, what, "a percentage above `0%`")
    return percent, True


def bad_number(token: SyntaxToken, what: str, allowed: str) -> ParseError:
    return ParseError(catalogue.bad_number(str(token), what, allowed, token_span(token)))


def head_of(c: list[Child]) -> dict[str, Any]:
    """The name of a block, and where it is."""
    name = string_of(c)
    return {"name": text_of(name), "span": span_of(c), "name_span": token_span(name)}


def collect(c: list[Child], where: str, needs: Mapping[str, str]) -> dict[str, Any]:
    """The values of the parts of a block by field; `needs` says what to write for the required."""
    found, seen = dict[str, Any](), set[str]()
    for part in c:
        if not isinstance(part, ReadPart):
            continue
        fields = part.fields or (part.name,)
        if part.repeats:
            found[fields[0]] = (*found.get(fields[0], ()), part.value)
        elif part.name in seen:
            raise ParseError(catalogue.twice(part.name, where, part.span))
        else:
            found |= zip(fields, part.value if len(fields) > 1 else (part.value,), strict=True)
        seen.add(part.name)
    if lacking := {name: text for name, text in needs.items() if name not in seen}:
        raise ParseError(catalogue.lacking(lacking, where, token_span(string_of(c))))
    return found
