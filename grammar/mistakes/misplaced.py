"""Misplaced words: what the syntax mistakes know of the word that the parser stopped at.

`Misplaced` is the word with its neighbours; here are also the words of the language by what they
begin.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from grammar.messages import catalogue
from grammar.messages.diagnostics import Diagnostic, Remedy
from grammar.syntax.parser import ITEMS as ITEMS_OF_POLICY
from grammar.syntax.parser import Lexemes
from grammar.tree.source import Source, Span

# Words that begin an item of a policy, or a policy.
ITEMS = ITEMS_OF_POLICY.union(("policy", "cluster", "test"))
PARTS = frozenset(
    "require message detail missing value range strict weight at exactly on over skew per protect "
    "when of rounding mutual pods nodes take index pick write within wait".split()
)
WORDS = ITEMS | PARTS
# What ends an expression that a remedy repeats.
STOPS = WORDS - {"of", "pods", "nodes"} | {";"}
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

    # ---- the brackets around it

    def unclosed(self) -> Diagnostic | None:
        """A bracket that lacks its partner: the error is at the one that is there."""
        lexemes, at, item = self.lexemes, self.at, self.item
        if at == len(lexemes.items):
            return self._unclosed_at_end()
        opener = lexemes.opener(at)
        if item.closes and item.text != "}" and opener is not None and not self.behind:
            # An operand is lacking, and this closes something, or nothing at all.
            return None
        if item.closes and opener is None:
            found = self.unexpected(at, at)
            hint = f"leave out this `{item.text}`, which closes nothing"
            return Remedy(lexemes.span(at, at), "", hint).on(found)
        if opener is None or any(each.text == "else" for each in lexemes.items[at:]):
            # Before an `else`, a bracket can end in several places.
            return None
        sign = {"{": "}", "(": ")"}.get(lexemes[opener].text, "]")
        is_other = item.closes and item.text != sign
        is_word = item.kind == "word" and item.text in WORDS and sign != "}"
        is_item = item.kind == "word" and item.text in ITEMS and self._block_lacks_end(opener)
        if not (is_other or is_word or is_item):
            return None
        return self._lacks(opener, sign, at)

    def _block_lacks_end(self, opener: int) -> bool:
        """Whether an item starts although the clause before it is not closed."""
        starts_line = self.source.text[: self.item.start].rpartition("\n")[2].strip(" \t])}") == ""
        is_block = self.lexemes[opener].text == "{" and "RBRACE" in self.accepted
        return is_block and starts_line and self.item.text.upper() not in self.accepted

    def _unclosed_at_end(self) -> Diagnostic | None:
        lexemes = self.lexemes
        if not lexemes.unclosed:
            return None
        signs = [lexemes[n].text for n in lexemes.unclosed]
        terminal = {"{": "RBRACE", "(": "RPAR"}.get(signs[-1], "RSQB")
        if terminal not in self.accepted:
            # More than a bracket is lacking.
            return None
        closers = ["}" if s == "{" else ")" if s == "(" else "]" for s in signs]
        opener = lexemes.unclosed[-1]
        end = lexemes.items[-1].end  # A comment at the end would take in what is behind it.
        found = catalogue.unclosed_bracket(signs[-1], lexemes.span(opener, opener))
        ending = " ".join(reversed(closers))
        hint = f"write `{ending}` at the end of the text"
        return Remedy(Span(end, end), f" {ending}", hint).on(found)

    def _lacks(self, opener: int, sign: str, before: int) -> Diagnostic:
        """The error for an opening bracket whose partner is lacking before a lexeme."""
        lexemes = self.lexemes
        line, _ = self.source.position(lexemes[before].start)
        found = catalogue.unclosed_bracket(lexemes[opener].text, lexemes.span(opener, opener))
        end = lexemes[before - 1].end
        hint = f"write `{sign}` before `{lexemes[before].text}` in line {line}"
        return Remedy(Span(end, end), sign if sign != "}" else " }", hint).on(found)
