"""Clauses: what an unexpected word of a policy means: a clause, a part, a name, a bound.

The second half of the syntax mistakes, for what stands outside of expressions.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import replace

from grammar.messages import catalogue, habits
from grammar.messages.diagnostics import Diagnostic, Fix, nearest
from grammar.mistakes import rewrite_rows as rows
from grammar.mistakes.misplaced import (
    ITEMS,
    PARTS,
    WORDS,
    Misplaced,
    with_edit,
)
from grammar.mistakes.rewrites import rewritten
from grammar.tree.clauses import CLAUSE_WORDS


class ClauseRemedies(Misplaced):
    """Looks at an error where a clause or a part of one stands; each method is one idea."""

    @property
    def ideas(self) -> tuple[Callable[[], Diagnostic | None], ...]:
        """In the order in which they are asked."""
        return (self._name, self._clause)

    def _name(self) -> Diagnostic | None:
        """A name without quotes, or the words of a message."""
        lexemes, at, word = self.lexemes, self.at, self.previous.text
        if not self.accepted or not self.accepted <= {"STRING", "NAME"}:
            return None
        is_clause = self.item.text in CLAUSE_WORDS and lexemes[at + 1].kind == "string"
        is_read = self.item.text in ("node", "pod") and lexemes[at + 1].text == "."
        # The word before it is one too many, or the name is lacking.
        is_other = is_clause or is_read or lexemes[at + 1].text == "("
        if is_other or self.item.kind not in ("word", "number"):
            return None
        last = at
        while lexemes.touches(last + 1) and (
            lexemes[last + 1].kind in ("word", "number")
            or lexemes[last + 1].text in ("-", ".", "/")
        ):
            last += 1
        follows = lexemes[last + 1]
        is_told = word == "use" or follows.text not in WORDS - {"for", "pods", "nodes"}
        is_line = "\n" not in self.source.text[lexemes[last].end : follows.start]
        is_word = follows.kind in ("word", "number") and is_line
        if word in ITEMS - {"description"} and is_word and is_told:
            # Words of a wish.
            return None
        if word in ("description", "message", "detail"):
            last = self._line_end(last, () if word == "description" else PARTS)
        edit = Fix(lexemes.span(at, last), f'"{lexemes.slice(at, last)}"')
        return with_edit(self.unexpected(at, last), edit, certain=True)

    def _line_end(self, at: int, others: Container[str]) -> int:
        """The last of the words that follow on the line, up to one of the others."""
        lexemes = self.lexemes
        while lexemes[at + 1].kind in ("word", "number") or lexemes[at + 1].text in (",", ".", "-"):
            between = self.source.text[lexemes[at].end : lexemes[at + 1].start]
            if "\n" in between or lexemes[at + 1].text in others:
                break
            at += 1
        return at

    # ---- clauses and parts

    def _clause(self) -> Diagnostic | None:
        """A word where a clause must start: which clauses there are, and the one meant."""
        lexemes, at, word = self.lexemes, self.at, self.item.text
        if self.item.kind != "word" or not {"FILTER", "SCORE", "LET"} <= self.accepted:
            return None
        if self.behind and lexemes[at + 1].kind != "string":
            return None
        found = catalogue.unknown_clause(word, lexemes.span(at, at))
        if word in ("policy", "cluster") and lexemes.opener(at) is None:
            hint = f"leave out the `{word} … {{` and its `}}`: the object is the policy"
            return replace(found, hint=hint)
        if (close := nearest(word, ITEMS)) is not None and not self.behind:
            hint = f"did you mean `{close}`?"
            edit = Fix(lexemes.span(at, at), close)
            from_list = sorted(n for n in ITEMS if nearest(word, (n,)))
            if lexemes[at + 1].text in (":", "=", "-"):
                return replace(found, hint=hint)
            return with_edit(found, edit, hint, certain=len(from_list) == 1)
        why = habits.NEEDLESS_ITEMS.get(word)
        is_told = why in (habits.OF_MANIFESTS, habits.REQUESTED)
        if is_told and lexemes[at + 1].kind == "word":
            # A sentence about them.
            why = None
        if why is not None:
            return replace(found, hint=f"leave it out: {why}")
        said = next(rewritten(self, rows.CLAUSES), None)
        if said is not None:
            return said
        return replace(found, hint=catalogue.CLAUSES_ARE)
