"""Regular expressions, RE2's: linear in the text, whatever the pattern."""

from __future__ import annotations

import functools

import re2

from grammar.errors import EvaluationError
from grammar.overload import Overload, function, member
from grammar.types import BOOL, INT, STRING, list_of

# Patterns whose program is larger are refused; far more than any label needs.
_MEMORY = 1 << 20


@functools.lru_cache(maxsize=1024)
def pattern(text: str) -> re2._Regexp:
    """A compiled pattern.

    Raises EvaluationError for what RE2 does not take (no lookaround, no backreference).
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
    """Whether the pattern is in the text; remembered, because labels repeat over nodes."""
    return pattern(regex).search(text) is not None


def find(text: str, regex: str) -> str:
    found = pattern(regex).search(text)
    return found.group() if found else ""


def find_all(text: str, regex: str, most: int = -1) -> tuple[str, ...]:
    found = tuple(m.group() for m in pattern(regex).finditer(text))
    return found if most < 0 else found[:most]


OVERLOADS: tuple[Overload, ...] = (
    function("matches", (STRING, STRING), BOOL, matches),
    member("matches", (STRING, STRING), BOOL, matches),
    member("find", (STRING, STRING), STRING, find),
    member("findAll", (STRING, STRING), list_of(STRING), find_all),
    member("findAll", (STRING, STRING, INT), list_of(STRING), find_all),
)
