"""Strings: standard functions, cel-go's strings extension (positions in code points), and RE2."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import re2

from grammar.errors import EvaluationError
from grammar.source import ESCAPED
from grammar.types import BOOL, INT, STRING, Overload, function, list_of, member

# The limit for results of `replace`; far more than any object of a cluster holds.
_LONGEST = 1 << 20
# The characters that both strings.trim and Unicode's White_Space property name.
_SPACES = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
_UPPER = {i: i - 32 for i in range(ord("a"), ord("z") + 1)}
_LOWER = {v: k for k, v in _UPPER.items()}


def char_at(text: str, at: int) -> str:
    """The character at a position; empty at the end of the text."""
    if not 0 <= at <= len(text):
        raise EvaluationError(f"index out of range: {at}")
    return text[at : at + 1]


def index_of(text: str, part: str, start: int = 0) -> int:
    """The first position of `part` from `start` on, or -1."""
    if not 0 <= start <= len(text):
        raise EvaluationError(f"index out of range: {start}")
    return text.find(part, start)


def last_index_of(text: str, part: str, start: int | None = None) -> int:
    """The last position of `part` that is not after `start`, or -1."""
    if start is None:
        return text.rfind(part)
    if not 0 <= start <= len(text):
        raise EvaluationError(f"index out of range: {start}")
    return text.rfind(part, 0, start + len(part))


def join(parts: Sequence[object], between: str = "") -> str:
    if not all(isinstance(p, str) for p in parts):
        raise EvaluationError("no such overload: `join` takes strings")
    return between.join(map(str, parts))


def replace(text: str, old: str, new: str, most: int = -1) -> str:
    count = text.count(old)
    grown = len(text) + (min(count, most) if most >= 0 else count) * (len(new) - len(old))
    if grown > _LONGEST:
        raise EvaluationError(f"the text would have more than {_LONGEST:,} characters")
    return text.replace(old, new, most if most >= 0 else -1)


def split(text: str, by: str, most: int = -1) -> tuple[str, ...]:
    """The parts between `by`, at most `most` with the rest in the last; else the characters."""
    if most == 0:
        return ()
    if not by:
        return (
            tuple(text) if most < 0 or most >= len(text) else (*text[: most - 1], text[most - 1 :])
        )
    return tuple(text.split(by, most - 1 if most > 0 else -1))


def substring(text: str, start: int, end: int | None = None) -> str:
    last = len(text) if end is None else end
    if not 0 <= start <= len(text) or not 0 <= last <= len(text):
        raise EvaluationError("index out of range")
    if start > last:
        raise EvaluationError(f"the start {start} is after the end {last}")
    return text[start:last]


def quote(text: str) -> str:
    return '"' + "".join(ESCAPED.get(c, c) for c in text) + '"'


_TEXT_OVERLOADS: tuple[Overload, ...] = (
    function("size", (STRING,), INT, len),
    member("size", (STRING,), INT, len),
    function("+", (STRING, STRING), STRING, lambda a, b: a + b),
    member("contains", (STRING, STRING), BOOL, lambda text, part: part in text),
    member("startsWith", (STRING, STRING), BOOL, str.startswith),
    member("endsWith", (STRING, STRING), BOOL, str.endswith),
    member("charAt", (STRING, INT), STRING, char_at),
    member("indexOf", (STRING, STRING), INT, index_of),
    member("indexOf", (STRING, STRING, INT), INT, index_of),
    member("lastIndexOf", (STRING, STRING), INT, last_index_of),
    member("lastIndexOf", (STRING, STRING, INT), INT, last_index_of),
    member("join", (list_of(STRING),), STRING, join),
    member("join", (list_of(STRING), STRING), STRING, join),
    member("lowerAscii", (STRING,), STRING, lambda text: text.translate(_LOWER)),
    member("upperAscii", (STRING,), STRING, lambda text: text.translate(_UPPER)),
    member("replace", (STRING, STRING, STRING), STRING, replace),
    member("replace", (STRING, STRING, STRING, INT), STRING, replace),
    member("split", (STRING, STRING), list_of(STRING), split),
    member("split", (STRING, STRING, INT), list_of(STRING), split),
    member("substring", (STRING, INT), STRING, substring),
    member("substring", (STRING, INT, INT), STRING, substring),
    member("trim", (STRING,), STRING, lambda text: text.strip(_SPACES)),
    member("reverse", (STRING,), STRING, lambda text: text[::-1]),
    function("strings.quote", (STRING,), STRING, quote),
)


# RE2 refuses patterns whose program is larger; far more than any label needs.
_MEMORY = 1 << 20


@functools.lru_cache(maxsize=1024)
def pattern(text: str) -> re2._Regexp:
    """A compiled pattern of RE2, which is linear in the text for every pattern.

    Raises EvaluationError for a pattern that RE2 refuses, such as one with a lookaround.
    """
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    try:
        return re2.compile(text, options)
    except re2.error as error:
        raise EvaluationError(f"`{text}` is not a regular expression: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    reason = error.args[0] if error.args else "it does not compile"
    return reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)


@functools.lru_cache(maxsize=65_536)
def matches(text: str, regex: str) -> bool:
    """Whether the pattern occurs in the text; cached, because labels repeat over nodes."""
    return pattern(regex).search(text) is not None


def find(text: str, regex: str) -> str:
    found = pattern(regex).search(text)
    return found.group() if found else ""


def find_all(text: str, regex: str, most: int = -1) -> tuple[str, ...]:
    found = tuple(m.group() for m in pattern(regex).finditer(text))
    return found if most < 0 else found[:most]


_PATTERN_OVERLOADS: tuple[Overload, ...] = (
    function("matches", (STRING, STRING), BOOL, matches),
    member("matches", (STRING, STRING), BOOL, matches),
    member("find", (STRING, STRING), STRING, find),
    member("findAll", (STRING, STRING), list_of(STRING), find_all),
    member("findAll", (STRING, STRING, INT), list_of(STRING), find_all),
)

OVERLOADS = (*_TEXT_OVERLOADS, *_PATTERN_OVERLOADS)
