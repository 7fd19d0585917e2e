"""What somebody typed: a command, an expression, parts of a policy, or something unfinished."""

from __future__ import annotations

import re
from typing import Literal as OneOf

from grammar import limits
from grammar.parser import accepts
from grammar.source import Source

Reading = OneOf["nothing", "command", "expression", "rules", "file", "unfinished"]
Start = OneOf["expression", "rules", "file"]

STARTS: tuple[Start, ...] = ("expression", "rules", "file")
_NOTHING = re.compile(r"(?:\s|(?:#|//)[^\n]*(?:\n|\Z))*")
_END = "$END"
_LONG_QUOTES = ('"""', "'''")
_BLOCKS = frozenset({"policy", "cluster", "test"})
_ITEMS = frozenset(
    (
        "use description weight mode failure for let def filter score share spread limit"
        " preempt bind"
    ).split()
)
_WORD = re.compile(r"[A-Za-z_]\w*")


def reading(text: str) -> Reading:
    """How to take a text. A wrong one is what it looks most like, so that its mistake is told."""
    if _NOTHING.fullmatch(text):
        return "nothing"
    if text.lstrip().startswith(":"):
        return "command"
    if limits.scan(Source("", text)) is not None:
        return look(text)
    next_ = {start: accepts(text, start) for start in STARTS}
    whole = next((start for start in STARTS if _END in next_[start]), None)
    if whole is not None:
        return whole
    if any(next_.values()) or _in_long_string(text):
        return "unfinished"
    return look(text)


def look(text: str) -> Start:
    """What an unfinished or a wrong text starts like."""
    first = next((m.group() for m in _WORD.finditer(_without_comments(text))), "")
    if first in _BLOCKS:
        return "file"
    return "rules" if first in _ITEMS else "expression"


def _without_comments(text: str) -> str:
    match = _NOTHING.match(text)
    return text[match.end() :] if match else text


def _in_long_string(text: str) -> bool:
    """Whether a string that may go over several lines has no end yet."""
    return any(
        quotes in text and any(accepts(text + quotes, start) for start in STARTS)
        for quotes in _LONG_QUOTES
    )
