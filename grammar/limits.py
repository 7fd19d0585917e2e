"""How large a text may be: a scan before the lexer, and the depth of what was parsed.

Hostile input must cost little: the scan is one regular expression without backtracking, and both it
and the depth check are loops, so that nothing here can overflow the stack.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass

from grammar import catalogue as mistakes
from grammar.ast import Expr, Literal
from grammar.diagnostics import Diagnostic
from grammar.source import Source, Span
from grammar.types import INT

MAX_BYTES = 64 * 1024
MAX_TOKENS = 20_000
MAX_DEPTH = 100
# No number of the language needs more, and every one of them still fits a double.
MAX_DIGITS = 250

_TOKEN = re.compile(
    r"(?P<skip>[ \t\r\n\f]+|(?:#|//)[^\n]*)"
    r"|(?P<open>[\[({])|(?P<close>[\])}])"
    r'|"""(?:\\[\s\S]|(?!""")[^\\])*"""|\'\'\'(?:\\[\s\S]|(?!\'\'\')[^\\])*\'\'\''
    r'|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|\w+|[\s\S]',
)


def scan(source: Source) -> Diagnostic | None:
    """The reason to refuse a text unread, or None."""
    size = len(source.text.encode("utf-8", "surrogatepass"))
    if size > MAX_BYTES:
        return mistakes.too_large("bytes", size, MAX_BYTES)
    tokens = depth = 0
    for match in _TOKEN.finditer(source.text):
        kind = match.lastgroup
        if kind == "skip":
            continue
        tokens += 1
        if match.end() - match.start() > MAX_DIGITS and match.group()[0].isdigit():
            return mistakes.bad_literal("the number has too many digits", Span(*match.span()))
        if kind == "open":
            depth += 1
            if depth > MAX_DEPTH:
                return mistakes.too_deep(MAX_DEPTH, Span(*match.span()))
        elif kind == "close":
            depth -= 1
    return mistakes.too_large("tokens", tokens, MAX_TOKENS) if tokens > MAX_TOKENS else None


def problems(root: object) -> Iterator[Diagnostic]:
    """What a finished tree has too much of: depth (reported once), and ints over 64 bits."""
    stack: list[tuple[object, int]] = [(root, 0)]
    while stack:
        node, depth = stack.pop()
        if isinstance(node, tuple):
            stack.extend((child, depth) for child in node)
            continue
        if not is_dataclass(node) or isinstance(node, Span):
            continue
        if isinstance(node, Expr):
            depth += 1
            if depth > MAX_DEPTH:
                yield mistakes.too_deep(MAX_DEPTH, node.span)
                return
        if isinstance(node, Literal):
            if node.type == INT and not -(2**63) <= node.value < 2**63:  # type: ignore[operator]
                yield mistakes.int_out_of_range(str(node.value), node.span)
            continue
        stack.extend((getattr(node, f.name), depth) for f in fields(node))
