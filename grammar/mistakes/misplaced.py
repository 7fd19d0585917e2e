"""Misplaced words: what the syntax mistakes know of the word that the parser stopped at.

`Misplaced` is the word with its neighbours; here are also the words of the language by what they
begin.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from grammar.messages import catalogue
from grammar.messages.diagnostics import Diagnostic
from grammar.syntax.parser import ITEMS as ITEMS_OF_POLICY
from grammar.syntax.parser import Lexemes
from grammar.tree.source import Source, Span

# Words that begin an item of a policy, or a policy.
ITEMS = ITEMS_OF_POLICY.union(("policy", "cluster", "test"))
PARTS = frozenset(
    "require message detail missing value range strict best at exactly on over skew per protect "
    "allow keep when of rounding mutual pods nodes min take index pick write within wait".split()
)
WORDS = ITEMS | PARTS
# What ends an expression that a remedy repeats.
STOPS = WORDS - {"of", "pods", "nodes", "min", "at"} | {"at", ";"}
# Characters that the language has not.
_NO_CHARACTERS = frozenset("$@;`~^")
# Terminals of operators and of what an expression can begin with.
OPERATORS = frozenset({"PLUS", "MULOP", "RELOP"})


class Misplaced:
    """The misplaced token, its neighbours, and the terminals that are accepted instead."""

    def __init__(self, source: Source, span: Span, accepted: AbstractSet[str]) -> None:
        self.source = source
        self.lexemes = Lexemes(source.text)
        self.accepted = accepted
        at_end = span.start >= len(source.text.rstrip())
        self.at = len(self.lexemes.items) if at_end else self.lexemes.at(span.start)
        self.item = self.lexemes[self.at]
        self.previous = self.lexemes[self.at - 1]
        # Only behind an operand can an operator or a unit stand.
        self.behind = bool(accepted & OPERATORS)

    def unexpected(self, first: int, last: int) -> Diagnostic:
        text, span = self.lexemes.slice(first, last), self.lexemes.span(first, last)
        if text in _NO_CHARACTERS:
            return catalogue.bad_character(text, span)
        is_item = {"FILTER", "LET"} <= self.accepted and first == last == self.at
        if is_item and self.item.kind == "word":
            return catalogue.unknown_clause(text, span)
        return catalogue.unexpected(text, span)
