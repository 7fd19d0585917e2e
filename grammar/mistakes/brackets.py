"""Brackets: what is meant where a bracket lacks its partner, or closes nothing."""

from __future__ import annotations

from grammar.messages import catalogue
from grammar.messages.diagnostics import Diagnostic, Fix
from grammar.mistakes.misplaced import ITEMS, WORDS, Misplaced, with_edit
from grammar.mistakes.rewrites import seconds_of
from grammar.tree.source import Span


class Brackets(Misplaced):
    """The brackets around an error."""

    def length(self) -> Diagnostic | None:
        """`for at most "60s"`, `for at most 60`, `for at most 2 minutes`."""
        if self.accepted != {"LENGTH"} or self.item.kind not in ("string", "number", "word"):
            return None
        last, seconds = seconds_of(self.lexemes, self.at)
        span = self.lexemes.span(self.at, last)
        return catalogue.no_length(self.lexemes.slice(self.at, last), span, seconds)

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
            return with_edit(found, Fix(lexemes.span(at, at), ""), hint)
        if opener is None or any(each.text == "else" for each in lexemes.items[at:]):
            # Before an `else`, a bracket can end in several places.
            return None
        sign = {"{": "}", "(": ")"}.get(lexemes[opener].text, "]")
        is_other = item.closes and item.text != sign
        is_word = item.kind == "word" and item.text in WORDS and sign != "}"
        is_item = item.kind == "word" and item.text in ITEMS and self._block_lacks_end(opener)
        if not (is_other or is_word or is_item):
            return None
        if sign == "}" and is_other:
            hint = f"leave out this `{item.text}`, which closes nothing"
            return with_edit(self.unexpected(at, at), Fix(lexemes.span(at, at), ""), hint)
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
        if (shifted := self._shifted()) is not None:
            return shifted
        end = len(self.source.text.rstrip())
        found = catalogue.unclosed_bracket(signs[-1], lexemes.span(opener, opener))
        ending = " ".join(reversed(closers))
        hint = f"write `{ending}` at the end of the text"
        return with_edit(found, Fix(Span(end, end), f" {ending}"), hint)

    def _shifted(self) -> Diagnostic | None:
        """The block that another one's closing brace ends: one that stands further to the left."""
        lexemes = self.lexemes
        for closer, opener in sorted(lexemes.partner.items()):
            if closer < opener or lexemes[closer].text != "}":
                continue
            line, column = self.source.position(lexemes[closer].start)
            first = self.source.position(lexemes[opener].start)[0]
            before = self.source.line(line)[: column - 1]
            indent = len(self.source.line(first)) - len(self.source.line(first).lstrip())
            if line != first and not before.strip() and len(before) < indent:
                return self._lacks(opener, "}", closer)
        return None

    def _lacks(self, opener: int, sign: str, before: int) -> Diagnostic:
        """The error for an opening bracket whose partner is lacking before a lexeme."""
        lexemes = self.lexemes
        line, _ = self.source.position(lexemes[before].start)
        found = catalogue.unclosed_bracket(lexemes[opener].text, lexemes.span(opener, opener))
        end = lexemes[before - 1].end
        hint = f"write `{sign}` before `{lexemes[before].text}` in line {line}"
        return with_edit(found, Fix(Span(end, end), sign if sign != "}" else " }"), hint)
