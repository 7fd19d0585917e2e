"""Limits: the size of a text, checked before the lexer, and the depth of a parsed tree.

Hostile input must cost little. The scan is one regular expression without backtracking, and both
checks are loops, so that nothing here can overflow the stack.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from grammar.messages import catalogue
from grammar.messages.diagnostics import Diagnostic
from grammar.tree.ast import Expr, Literal
from grammar.tree.source import Source, Span
from grammar.tree.types import INT
from grammar.tree.walk import children

MAX_BYTES = 64 * 1024
MAX_TOKENS = 20_000
MAX_DEPTH = 100
# The name of an object in Kubernetes has at most as many characters.
MAX_NAME = 253
# No number needs more digits, and each number with these still fits in a double.
MAX_DIGITS = 250

_TOKEN = re.compile(
    r"(?P<skip>[ \t\r\n\f]+|(?:#|//)[^\n]*)"
    r"|(?P<open>[\[({])|(?P<close>[\])}])"
    r'|"""(?:\\[\s\S]|(?!""")[^\\])*"""|\'\'\'(?:\\[\s\S]|(?!\'\'\')[^\\])*\'\'\''
    r'|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|\w+|[\s\S]',
)


def scan(source: Source) -> Diagnostic | None:
    """The reason to refuse a text before it is parsed, or None."""
    size = len(source.text.encode("utf-8", "surrogatepass"))
    if size > MAX_BYTES:
        return catalogue.too_large("bytes", size, MAX_BYTES)
    tokens = depth = 0
    for match in _TOKEN.finditer(source.text):
        kind = match.lastgroup
        if kind == "skip":
            continue
        tokens += 1
        if match.end() - match.start() > MAX_DIGITS and match.group()[0].isdigit():
            return catalogue.bad_literal("the number has too many digits", Span(*match.span()))
        if kind == "open":
            depth += 1
            if depth > MAX_DEPTH:
                return catalogue.too_deep(MAX_DEPTH, Span(*match.span()))
        elif kind == "close":
            depth -= 1
    return catalogue.too_large("tokens", tokens, MAX_TOKENS) if tokens > MAX_TOKENS else None


def problems(root: object) -> Iterator[Diagnostic]:
    """Errors of a parsed tree: too deep (reported once), and ints beyond 64 bits."""
    stack = [(expr, 1) for expr in ([root] if isinstance(root, Expr) else children(root))]
    while stack:
        expr, depth = stack.pop()
        if depth > MAX_DEPTH:
            yield catalogue.too_deep(MAX_DEPTH, expr.span)
            return
        match expr:
            case Literal(int() as number, type_) if type_ == INT and not -(2**63) <= number < 2**63:
                yield catalogue.int_out_of_range(str(number), expr.span)
            case _:
                stack.extend((child, depth + 1) for child in children(expr))
