"""What a literal's text means (CEL langdef, Syntax)."""

from __future__ import annotations

import re

_SIMPLE = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_SIMPLE |= {c: c for c in "\\?\"'`"}
_ESCAPE = re.compile(
    r"\\(?:([abfnrtv\\?\"'`])|[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.?))",
    re.DOTALL,
)


def unquote(token: str) -> str:
    """The text of a string token, quotes and escapes taken off.

    Raises ValueError for an escape that is none.
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
        raise ValueError(f"`\\{bad}` is no escape")
    code = int(octal, 8) if octal else int(next(c for c in codes if c), 16)
    if code > 0x10FFFF or 0xD800 <= code < 0xE000:
        raise ValueError(f"`{match.group()}` is no character")
    return chr(code)


def parse_int(text: str) -> int:
    """Decimal or `0x…`; the 64-bit range is checked once the sign is known."""
    if text[:2] in ("0x", "0X"):
        return int(text, 16)
    # More digits than these are out of range all the same, and Python refuses to read thousands.
    return int(text.lstrip("0")[:25] or "0")


def parse_double(text: str) -> float:
    return float(text)
