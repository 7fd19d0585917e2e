"""Clauses: what an unexpected word of a policy means: a clause, a part, a name, a bound.

The second half of the syntax mistakes, for what stands outside of expressions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container
from dataclasses import replace

from grammar.messages import catalogue, habits, plain_words
from grammar.messages.diagnostics import Diagnostic, Fix, nearest
from grammar.messages.texts import template_of
from grammar.mistakes.misplaced import (
    ITEMS,
    PARTS,
    STOPS,
    WORDS,
    Misplaced,
    one_line,
    with_edit,
)
from grammar.syntax.lexemes import SHAPES
from grammar.tree.clauses import CLAUSE_WORDS
from grammar.tree.source import Span


class ClauseRemedies(Misplaced):
    """Looks at an error where a clause or a part of one stands; each method is one idea."""

    @property
    def ideas(self) -> tuple[Callable[[], Diagnostic | None], ...]:
        """In the order in which they are asked."""
        return (self._name, self._clause, self._part)

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
        if word in ("node", "pod", "object") and lexemes[at + 1].text == ".":
            # A condition alone.
            last = lexemes.expression_end(at, STOPS)
            said = re.sub(r"\Aobject\b", "pod", one_line(lexemes.slice(at, last)))
            is_of_node = re.search(r"\bnode\.", said) is not None
            made = f'filter "rule" {{ require {said} }}' if is_of_node else f"for pods where {said}"
            return with_edit(found, Fix(lexemes.span(at, last), made))
        if lexemes[at + 1].text == ":=":
            edit = Fix(lexemes.span(at, at + 1), f"let {word} =")
            return with_edit(found, edit, f"write `{edit.text} …`")
        if lexemes[at + 1].text == "=" and len(re.findall(rf"\b{word}\b", self.source.text)) > 1:
            # What is used elsewhere is defined here.
            edit = Fix(lexemes.span(at, at), f"let {word}")
            return with_edit(found, edit)
        number = at + 1 + (lexemes[at + 1].text in (":", "="))
        if word in ("priority", "precedence", "order") and lexemes[number].kind == "number":
            edit = Fix(lexemes.span(at, number), f"weight {lexemes[number].text}")
            return with_edit(found, edit)
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
        is_behind = word in ("when", "where") and self.previous.text == "}"
        if is_behind or word in ("if", "unless", "else", "otherwise", "elif", "elsif"):
            hint = 'write the condition into the clause, as in `filter "x" when pod.priority > 0 {`'
            return replace(found, hint=hint)
        if word in ("test", "policy", "cluster"):
            return replace(found, hint=f"write the {word} behind the `}}` of this policy")
        if word in ("parameters", "params", "inputs"):
            hint = 'declare them behind the name, as in `policy name (zone: string = "a") {`'
            return replace(found, hint=hint)
        if word in ("enforce", "audit"):
            return with_edit(found, Fix(lexemes.span(at, at), f"mode {word}"))
        if word in ("require", "value", "message", "detail", "missing"):
            return replace(found, hint=f"write it into a clause, as in `{SHAPES['filter']}`")
        why = habits.NEEDLESS_ITEMS.get(word)
        is_told = why in (habits.OF_MANIFESTS, habits.REQUESTED)
        if is_told and lexemes[at + 1].kind == "word":
            # A sentence about them.
            why = None
        if why is not None:
            return replace(found, hint=f"leave it out: {why}")
        meant = self._clause_of(word)
        if meant is not None and (whole := self._rewritten(at, word, meant)) is not None:
            return with_edit(
                found, whole, f"write `{one_line(whole.text)}`; {catalogue.CLAUSES_ARE}"
            )
        if _denies(word):
            hint = "write `filter`, and `require !(…)` around what must not be"
            return replace(found, hint=f"{hint}; {catalogue.CLAUSES_ARE}")
        if meant is not None:
            edit = Fix(lexemes.span(at, at), meant)
            hint = f"write `{meant}`; {catalogue.CLAUSES_ARE}"
            # A name or a part of a clause follows; what else follows is told in words.
            first = lexemes[at + 2 if lexemes[at + 1].text == "{" else at + 1]
            is_clause = first.kind == "string" or first.text in PARTS | {"weight", "when"}
            if meant in CLAUSE_WORDS and not is_clause:
                return replace(found, hint=hint)
            return with_edit(found, edit, hint)
        return replace(found, hint=catalogue.CLAUSES_ARE)

    def _clause_of(self, word: str) -> str | None:
        """The clause that a word means elsewhere; an affinity that only prefers is a score."""
        row = habits.find(habits.CLAUSES, word)
        if row is None:
            return None
        near = (self.lexemes[n].text for n in range(self.at, self.at + 5))
        is_soft = any(text.startswith("preferredDuring") for text in near)
        return "score" if is_soft and row.here == "filter" else row.here

    def _rewritten(self, at: int, word: str, meant: str) -> Fix | None:
        """A whole filter for a block of one condition, negated for `deny` and its like."""
        lexemes = self.lexemes
        name, opener = at + 1, at + 2
        if _denies(word) and lexemes[name].text in ("node", "pod", "!") and meant == "filter":
            # `exclude node.zone == "a"`
            last = lexemes.expression_end(name, STOPS)
            made = f'filter "{word}" {{ require !({lexemes.slice(name, last)}) }}'
            return Fix(lexemes.span(at, last), made)
        if meant != "filter" or lexemes[name].kind != "string":
            return None
        first = opener + 1
        if lexemes[opener].text in ("when", "if", "where"):
            last = lexemes.expression_end(first, STOPS | {"{"})
            end, rest = last, ""
            if lexemes[last + 1].text == "{" and last + 1 in lexemes.partner:
                end = lexemes.partner[last + 1]
                rest = lexemes.slice(last + 2, end - 1)
        elif lexemes[opener].text == "{" and opener in lexemes.partner:
            end = lexemes.partner[opener]
            row = habits.find(habits.PARTS, lexemes[first].text)
            is_part = lexemes[first].text == "require" or (row and "require" in row.here)
            if is_part and lexemes[first + 1].text not in (".", "(", "["):
                first += 1
            last = lexemes.expression_end(first, STOPS)
            rest = lexemes.slice(last + 1, end - 1)
        else:
            return None
        if last < first or "require" in rest.split() or lexemes[first].text in PARTS:
            return None
        condition = lexemes.slice(first, last)
        if "{" in condition or re.search(r"(?<![=!<>])=(?![=~])", condition):
            # No condition alone.
            return None
        condition = f"!({condition})" if _denies(word) else condition
        made = " ".join(filter(None, (f"filter {lexemes[name].text} {{ require {condition}", rest)))
        return Fix(lexemes.span(at, end), f"{made} }}")

    def _part(self) -> Diagnostic | None:
        """A word where a part of a clause must start, or a condition without `require`."""
        lexemes, at, word, accepted = self.lexemes, self.at, self.item.text, self.accepted
        is_in_clause = bool({"MESSAGE", "VALUE", "PROTECT"} & accepted)
        if not is_in_clause or self.item.kind == "end" or word == "}":
            return None
        found = self.unexpected(at, at)
        if "PER" in accepted and word == "node" and not self.behind:
            place = lexemes.operand_after(at) or at
            read = lexemes.slice(at, place)
            made = "per node" if read in ("node", "node.name") else f"per domain {read}"
            return with_edit(found, Fix(lexemes.span(at, place), made))
        if self.item.kind == "string" and self.item.text[1:-1] in PARTS:
            # The key of JSON.
            end = at + (lexemes[at + 1].text == ":")
            key = Fix(lexemes.span(at, end), self.item.text[1:-1])
            return with_edit(found, key, certain=True)
        if self.item.kind == "word":
            end = lexemes.operand_after(at) or at
            why = habits.elsewhere(lexemes.slice(at, end).partition("(")[0]) or ""
            if why.startswith("leave it out") and lexemes[end].text == ")":
                return with_edit(found, Fix(lexemes.span(at, end), ""), why)
            if word in habits.NEEDLESS and lexemes[at + 1].text not in ("pass", "fail"):
                return replace(found, hint=f"leave it out: {habits.NEEDLESS[word]}")
            close = nearest(word, self.known)
            if close not in (None, word) and word not in PARTS:
                return None
            edit = self._synonym(word)
            if edit is not None:
                return with_edit(found, edit)
            prefers = self._clause_of(word) == "score" and word not in ("order", "priority")
            if prefers and "REQUIRE" in accepted:
                hint = f"write a clause that prefers nodes, as in `{SHAPES['score']}`"
                return replace(found, hint=hint)
        if word == "require" and "VALUE" in accepted and "REQUIRE" not in accepted:
            return with_edit(found, Fix(lexemes.span(at, at), "value"))
        if self.behind:
            return None
        for keyword in ("require", "value"):
            if keyword.upper() in accepted and (last := self._condition(at)) is not None:
                whole = f"{keyword} {lexemes.slice(at, last)}"
                start = self.item.start
                edit = Fix(Span(start, start), f"{keyword} ")
                return with_edit(found, edit, f"write `{whole}`")
        return None

    def _condition(self, at: int) -> int | None:
        """The end of an expression that starts here; None if none does."""
        lexemes = self.lexemes
        if self.item.text in (":", ",", "=", ";", ")", "]", "}") or lexemes[at + 1].text == "{":
            return None
        end = lexemes.expression_end(at, STOPS)
        is_set = any(lexemes[n].text in ("=", "{") for n in range(at, end))
        if is_set or lexemes[end].text in ("&&", "||"):
            return None
        return end if end >= at and lexemes.operand_after(at) is not None else None

    def _synonym(self, word: str) -> Fix | None:
        """The part that a word means where it stands, with the value behind it."""
        lexemes, at = self.lexemes, self.at
        rows = (row for row in habits.PARTS if word in row.words or word.lower() in row.words)
        # The places of a limit are `per` something.
        names = {"OVER"} if "PER" in self.accepted else set()
        row = next((r for r in rows if r.here.split()[0].upper() in self.accepted | names), None)
        if row is None:
            return None
        last = at + 1 if lexemes[at + 1].text in (":", "=") else at
        here, value = row.here, lexemes[last + 1]
        if here.endswith(" where") and value.text == "where":
            return Fix(lexemes.span(at, last), here.removesuffix(" where"))
        if word in ("whenUnsatisfiable", "strength", "enforcement"):
            strength = habits.find(habits.PARTS, value.text.strip("\"'"))
            if strength is None:
                return None
            return Fix(lexemes.span(at, last + 1), strength.here)
        if here == "over":
            domain = plain_words.DOMAINS.get(value.text)
            if value.kind == "string":
                key = value.text[1:-1]
                domain = plain_words.DOMAINS.get(key.lower(), f'node.labels["{key}"]')
            if domain is not None and (value.kind == "string" or lexemes[last + 2].text != "."):
                made = f"over {domain}"
                if names:
                    made = "per node" if domain == "node.name" else f"per domain {domain}"
                return Fix(lexemes.span(at, last + 1), made)
            if names:
                return None
        if here in ("skew at most", "min domains") and value.kind == "number":
            return Fix(lexemes.span(at, last + 1), f"{here} {value.text}")
        if here == "pods where" and "PODS" not in self.accepted:
            here = "of pods where"
        if word == "replicas":
            return Fix(lexemes.span(at, last), here)
        if here == "require" and lexemes[last + 1].text == "that":
            last += 1
        if here == "message" and word.endswith("Expression") and value.kind == "string":
            return Fix(lexemes.span(at, last + 1), f"message {template_of(value.text[1:-1])}")
        if here in ("require", "value", "message", "detail") and last < len(lexemes.items) - 1:
            end = lexemes.expression_end(last + 1, STOPS)
            if end > last:
                return Fix(lexemes.span(at, end), f"{here} {lexemes.slice(last + 1, end)}")
        if here == "require !":
            last += lexemes[last + 1].text in ("if", "when", "that")
            end = lexemes.expression_end(last + 1, STOPS)
            made = f"require !({lexemes.slice(last + 1, end)})"
            return Fix(lexemes.span(at, end), made)
        if here in ("strict", "best effort weight 10"):
            # `hard true` is `strict`.
            last += lexemes[last + 1].text in ("true", "yes")
        return Fix(lexemes.span(at, last), here)


def _denies(word: str) -> bool:
    """Whether a clause of this name elsewhere says what must not be."""
    return word.lower() in habits.CLAUSES[0].words
