"""Hints: what to write for the mistakes of a text, of which each is tried before it is shown.

Whoever checks a text without a mistake does not come here. A hint is an edit of a word, the clause
that a whole item means, or the names of recipes that its words find.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import TypeVar

from grammar.clauses import CLAUSE_WORDS, CLAUSES_ARE
from grammar.messages import catalogue
from grammar.messages.diagnostics import Diagnostic, Fix
from grammar.messages.helping import Helper, helped
from grammar.mistakes import syntax_mistakes
from grammar.mistakes.places import of_clause
from grammar.mistakes.readings import clause_of
from grammar.mistakes.trial import MOST, HintTrial, edit_of, without
from grammar.mistakes.type_mistakes import Remedies
from grammar.syntax.lexemes import Lexemes
from grammar.tree.source import Source, Span
from policies.loader import is_manifest
from policies.pasted_objects import clauses_of
from policies.recipe_collection import MOST_NAMED, search

T = TypeVar("T")
_HELPER = Helper(syntax_mistakes.unexpected, syntax_mistakes.built, Remedies, of_clause)
# Words that are no expression.
_PROSE = re.compile(r"(?<![\"'.])\b[A-Za-z]+(?: [\w%-]+){2}")
_ITEMS = frozenset(CLAUSE_WORDS) | {"for", "let", "def", "use", "mode", "weight", "group", "count"}


def with_hints(work: Callable[[], T]) -> T:
    """What some work gives, which parses or checks a text with a mistake, with hints."""
    with helped(_HELPER):
        return work()


def shown(
    source: Source, found: Sequence[Diagnostic], look: Callable[[Source], Iterable[Diagnostic]]
) -> dict[int, Diagnostic]:
    """The diagnostics that change, by `id`: other hints, or none where one leads nowhere."""
    trial = HintTrial(source, look, blocks=not is_manifest(source.name))
    if all(d.severity != "error" for d in found) and trial.all_mend(found):
        return {}
    items = _AnsweredItems(trial)
    changed: dict[int, Diagnostic] = {}
    for each in found:
        said = each if trial.leads_on(each) else without(each)
        # A map or a list in the place of a condition may be one of Kubernetes.
        is_open = each.is_of_parser or each.code == "P0105"
        if is_open and trial.left > 0 and len(source.text) <= MOST:
            said = items.meant(said)
        if said is not each:
            changed[id(each)] = said
    return changed


@dataclass(slots=True)
class _AnsweredItems:
    """The items of a text that are not understood; each is answered once."""

    trial: HintTrial
    answered: set[Span] = field(default_factory=set)

    def meant(self, found: Diagnostic) -> Diagnostic:
        """The diagnostic with the clauses that its item means, or with the names of recipes."""
        source = self.trial.source
        if found.fix is not None and self.trial.mends(found.fix, found, whole=True):
            # A smaller edit, of which nobody doubts, is enough.
            return found
        span = _item_at(source.text, found.span.start, rules=is_manifest(source.name))
        if span is None or span in self.answered:
            return found
        self.answered.add(span)
        text = source.slice(span)
        made, more = clause_of(text), ""
        if made is None and (pasted := clauses_of(text)) is not None:
            made, more = pasted
        if made == "":
            return replace(found, hint=f"leave it out: {more}", fix=None, remedy=Fix(span, ""))
        if made is not None and self.trial.mends(edit := Fix(span, made), found, whole=True):
            return replace(found, hint=f"write `{made}`{more}", fix=None, remedy=edit)
        return _with_recipes(found, text) if found.is_of_parser else found


def _with_recipes(found: Diagnostic, text: str) -> Diagnostic:
    """The diagnostic with recipes that the words of an item find, where its hint tells little."""
    hint = (found.hint or "").removesuffix(CLAUSES_ARE)
    is_told = hint == found.hint and not hint.startswith("expected")
    if is_told or edit_of(found) is not None or not _PROSE.search(text):
        return found
    names = [f"`placet how {recipe.name}`" for recipe in search(text)[:MOST_NAMED]]
    if not names:
        return found
    return replace(found, hint=f"{hint}{'; ' * (hint == found.hint)}see {catalogue.listed(names)}")


def _item_at(text: str, offset: int, *, rules: bool) -> Span | None:
    """The lines of the item at an offset, in a policy or in the `rules` of one; None elsewhere."""
    lexemes = Lexemes(text)
    at = lexemes.at(offset)
    if at == len(lexemes.items):
        at -= 1
    around = [] if at < 0 else _open(lexemes, at)
    if not rules and not (around and _is_policy(lexemes, around[0])):
        return None
    floor = -1 if rules else around[0]
    inner = around[0:] if rules else around[1:]
    end = lexemes.partner.get(floor, len(lexemes.items))
    first = inner[0] if inner else at
    while first - 1 > floor and not _begins(lexemes, first, first):
        first = min(first, lexemes.partner.get(first - 1, first)) - 1
    last = first
    while last + 1 < end and not _begins(lexemes, last + 1, first):
        last = max(last + 1, lexemes.partner.get(last + 1, 0))
    return lexemes.span(first, min(last, end - 1))


def _open(lexemes: Lexemes, at: int) -> list[int]:
    """The brackets that are open at a position, outermost first."""
    found: list[int] = []
    opener = lexemes.opener(at)
    while opener is not None:
        found.insert(0, opener)
        opener = lexemes.opener(opener)
    return found


def _is_policy(lexemes: Lexemes, opener: int) -> bool:
    head = (lexemes[n].text for n in range(opener - 1, -1, -1))
    return "policy" in takewhile(lambda text: text not in ("{", "}"), head)


def _begins(lexemes: Lexemes, number: int, first: int) -> bool:
    """Whether an item begins with a lexeme: on a line of its own, not further to the right."""
    text = lexemes.text
    line = text.rfind("\n", 0, lexemes[number].start) + 1
    is_first = not text[line : lexemes[number].start].strip()
    word, following = lexemes[number].text, lexemes[number + 1]
    if word in _ITEMS and following.kind == "string" and number > first:
        return True
    if number == first:
        return is_first
    start = text.rfind("\n", 0, lexemes[first].start) + 1
    indent = lexemes[first].start - start
    is_key = word == "-" or following.text == ":"
    return is_first and not (lexemes[number].start - line > indent or is_key)
