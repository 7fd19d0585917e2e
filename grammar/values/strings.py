"""Strings: standard functions, cel-go's strings extension (positions in code points), and RE2."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Sequence, Sized
from operator import add

import re2

from grammar.tree.source import ESCAPED
from grammar.tree.types import BOOL, INT, STRING, Overload, function, list_of, member
from grammar.values.errors import EvaluationError
from grammar.values.sizes import (
    CHARACTERS,
    INSTRUCTIONS,
    PARSED,
    Size,
    copied,
    held,
    items_of,
    quoted,
    read,
    sought,
    sought_back,
    text_of,
)

# The characters that both strings.trim and Unicode's White_Space property name.
_SPACES = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
_UPPER = {i: i - 32 for i in range(ord("a"), ord("z") + 1)}
_LOWER = {v: k for k, v in _UPPER.items()}


def concatenate(left: str, right: str) -> str:
    made = left + right
    if len(made) > CHARACTERS:
        text_of(len(made))
    return made


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
    text_of(held(parts) + len(between) * max(0, len(parts) - 1))
    return between.join(map(str, parts))


def replace(text: str, old: str, new: str, most: int = -1) -> str:
    count = text.count(old)
    grown = len(text) + (min(count, most) if most >= 0 else count) * (len(new) - len(old))
    text_of(grown)
    return text.replace(old, new, most if most >= 0 else -1)


def split(text: str, by: str, most: int = -1) -> tuple[str, ...]:
    """The parts between `by`, at most `most` with the rest in the last; else the characters."""
    if most == 0:
        return ()
    if not by:
        if most < 0 or most >= len(text):
            items_of(len(text))
            return tuple(text)
        items_of(most)
        return (*text[: most - 1], text[most - 1 :])
    items_of(min(text.count(by) + 1, most if most > 0 else CHARACTERS))
    return tuple(text.split(by, most - 1 if most > 0 else -1))


def substring(text: str, start: int, end: int | None = None) -> str:
    last = len(text) if end is None else end
    if not 0 <= start <= len(text) or not 0 <= last <= len(text):
        raise EvaluationError("index out of range")
    if start > last:
        raise EvaluationError(f"the start {start} is after the end {last}")
    return text[start:last]


def quote(text: str) -> str:
    # An escaped character has at most two.
    text_of(2 + len(text))
    quoted_ = '"' + "".join(ESCAPED.get(c, c) for c in text) + '"'
    text_of(len(quoted_))
    return quoted_


def _translated(text: Sized) -> int:
    return len(text) // 2


def _split_work(text: Sized, by: Sized, _: object = -1) -> int:
    return 2 * sought(text, by) + len(text) // 2


def replaced_length(text: Sized, old: object, new: Sized) -> int:
    """The most characters of a text after `replace`."""
    known = old.constant if isinstance(old, Size) else old
    if not isinstance(known, str) or not known:
        return min(CHARACTERS, (len(text) + 1) * (len(new) + 1))
    return min(CHARACTERS, len(text) * max(1, -(-len(new) // len(known))))


def _replaced(text: Sized, old: Sized, new: Sized, _: object = -1) -> int:
    return 2 * sought(text, old) + read(text) + replaced_length(text, old, new) // 16


_TEXT_OVERLOADS: tuple[Overload, ...] = (
    function("size", (STRING,), INT, len),
    member("size", (STRING,), INT, len),
    Overload("+", (STRING, STRING), STRING, concatenate, work=copied, short=add),
    member("contains", (STRING, STRING), BOOL, lambda text, part: part in text, sought),
    member("startsWith", (STRING, STRING), BOOL, str.startswith, lambda _, part: len(part) // 64),
    member("endsWith", (STRING, STRING), BOOL, str.endswith, lambda _, part: len(part) // 64),
    member("charAt", (STRING, INT), STRING, char_at),
    member("indexOf", (STRING, STRING), INT, index_of, sought),
    member("indexOf", (STRING, STRING, INT), INT, index_of, lambda t, part, _: sought(t, part)),
    member("lastIndexOf", (STRING, STRING), INT, last_index_of, sought_back),
    member(
        *("lastIndexOf", (STRING, STRING, INT), INT, last_index_of),
        lambda text, part, _: sought_back(text, part),
    ),
    member("join", (list_of(STRING),), STRING, join, lambda p: 2 * len(p) + held(p) // 16),
    member(
        *("join", (list_of(STRING), STRING), STRING, join),
        lambda parts, by: 2 * len(parts) + (held(parts) + len(parts) * len(by)) // 16,
    ),
    member("lowerAscii", (STRING,), STRING, lambda text: text.translate(_LOWER), _translated),
    member("upperAscii", (STRING,), STRING, lambda text: text.translate(_UPPER), _translated),
    member("replace", (STRING, STRING, STRING), STRING, replace, _replaced),
    member("replace", (STRING, STRING, STRING, INT), STRING, replace, _replaced),
    member("split", (STRING, STRING), list_of(STRING), split, _split_work),
    member("split", (STRING, STRING, INT), list_of(STRING), split, _split_work),
    member("substring", (STRING, INT), STRING, substring, lambda text, _: copied(text)),
    member("substring", (STRING, INT, INT), STRING, substring, lambda text, *_: copied(text)),
    member("trim", (STRING,), STRING, lambda text: text.strip(_SPACES), read),
    member("reverse", (STRING,), STRING, lambda text: text[::-1], copied),
    function("strings.quote", (STRING,), STRING, quote, len),
)


# The memory of one compiled pattern, and the number of patterns that are kept: 32 MiB together. RE2
# refuses a pattern whose program is larger; far more than any label needs.
MOST_MEMORY = 256 << 10
_KEPT = 128
_LONGEST_PATTERN = 16_384


@functools.lru_cache(maxsize=_KEPT)
def pattern(text: str) -> re2._Regexp:
    """A compiled pattern of RE2, which is linear in the text for every pattern.

    Raises EvaluationError for a pattern that RE2 refuses, such as one with a lookaround.
    """
    if len(text) > _LONGEST_PATTERN:
        raise EvaluationError(f"the pattern has more than {_LONGEST_PATTERN:,} characters")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = MOST_MEMORY
    try:
        return re2._Regexp(text, options)  # noqa: SLF001 - `re2.compile` would keep it too
    except re2.error as error:
        reason = error.args[0] if error.args else "it does not compile"
        said = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        text = f"{quoted(text)} is not a regular expression: {said[:PARSED]}"
        raise EvaluationError(text) from None


@functools.lru_cache(maxsize=16_384)
def _matches_short(text: str, regex: str) -> bool:
    """`matches` for labels and names, which repeat over nodes: about 10 MiB of results."""
    # An error is not kept. A text that is longer than a label or a name can be is not kept either.
    if len(text) + len(regex) > 2 * PARSED:
        raise EvaluationError(f"the text has {len(text):,} characters, more than a name may have")
    return pattern(regex).search(text) is not None


def matches(text: str, regex: str) -> bool:
    """Whether the pattern occurs in the text."""
    if len(text) <= PARSED and len(regex) <= PARSED:
        return _matches_short(text, regex)
    return pattern(regex).search(text) is not None


def find(text: str, regex: str) -> str:
    found = pattern(regex).search(text)
    return found.group() if found else ""


def find_all(text: str, regex: str, most: int = -1) -> tuple[str, ...]:
    found: list[str] = []
    for match in pattern(regex).finditer(text):
        if 0 <= most <= len(found):
            break
        found.append(match.group())
        items_of(len(found))
    return tuple(found)


@functools.lru_cache(maxsize=_KEPT)
def _instructions(regex: str) -> int:
    """The instructions of a compiled pattern."""
    return int(pattern(regex).programsize)


def _searched(text: Sized, regex: Size | str) -> int:
    """The steps of a search: RE2 goes through the text with every instruction of the pattern."""
    known = regex.constant if isinstance(regex, Size) else regex
    try:
        program = INSTRUCTIONS if known is None else _instructions(known)
    except EvaluationError:
        return 0
    return program * (4 + len(text) // 16)


def _all_searched(text: Sized, regex: Size | str, _: object = -1) -> int:
    return _searched(text, regex) + 30 * (len(text) + 1)


_MATCHES = Overload("matches", (STRING, STRING), BOOL, matches, _searched, short=_matches_short)
_PATTERN_OVERLOADS: tuple[Overload, ...] = (
    _MATCHES,
    dataclasses.replace(_MATCHES, member=True),
    member("find", (STRING, STRING), STRING, find, _searched),
    member("findAll", (STRING, STRING), list_of(STRING), find_all, _all_searched),
    member("findAll", (STRING, STRING, INT), list_of(STRING), find_all, _all_searched),
)


def number(value: str, other: str) -> int:
    """The hash of two texts: the same everywhere and always, from 0 to 2**32 - 1."""
    digest = hashlib.blake2b(f"{value}\0{other}".encode(), digest_size=4)
    return int.from_bytes(digest.digest())


_HASH = function("hash", (STRING, STRING), INT, number, lambda a, b: (len(a) + len(b)) // 4)

OVERLOADS = (*_TEXT_OVERLOADS, *_PATTERN_OVERLOADS, _HASH)
