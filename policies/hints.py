"""Hints: what to write for the mistakes of a text, of which each is tried before it is shown.

Whoever checks a text without a mistake does not come here. A hint is an edit of a word, the clause
that a whole item means, or the names of recipes that its words find.

An edit is tried on the text, which is checked again, without hints. Fewer errors must be left, or
the next one must stand further behind. A hint that does not lead on is a guess, and is not shown;
nor is one that loses a text, a word or a field that was written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import takewhile
from typing import TypeVar

from grammar.clauses import CLAUSES_ARE
from grammar.messages import catalogue
from grammar.messages.diagnostics import SIMILAR, Diagnostic, Fix, Helper, helped, tried
from grammar.mistakes import syntax_mistakes
from grammar.mistakes.readings import clause_of
from grammar.mistakes.type_mistakes import Remedies
from grammar.syntax.parser import ITEMS, Lexemes, starts
from grammar.tree.source import Source, Span
from policies.loader import is_manifest
from policies.recipe_collection import MOST_NAMED, search

T = TypeVar("T")
# The diagnostics of a text, without hints.
Look = Callable[[Source], Iterable[Diagnostic]]
# The most characters that are checked for the hints of one text: some seconds.
_MOST_CHARACTERS = 120_000
_HELPER = Helper(syntax_mistakes.unexpected, syntax_mistakes.built, Remedies)
# Words that are no expression, where nothing of an object is read.
_PROSE = re.compile(r"(?<![\"'.])\b[A-Za-z]+(?: [\w%-]+){2}")
_READS = r"\b(?:node|pod|peer|victim|namespaceObject|data)(?=\.\??\w)"
# The texts of an item, but for keys of objects, and the last field of each read of one.
_WRITTEN = re.compile(
    r'"([\w./-]+)"(?!\s*:)|\'([\w./-]+)\'(?!\s*:)'
    rf"|{_READS}(?:\.\??\w+)*\.\??(\w+)\b(?!\s*\()"
)
# The words of a clause that change what it does.
_STRENGTHS = re.compile(r"(?<![.\"'])\b(?:strict|mutual|missing|weight|ready|ended|namespace)\b")
# What other languages say by texts, and this one by words.
_SAID = frozenset("true false undefined regexp distinct_hosts hostname unique pod".split())
# A text beyond the limits of the language is not read, and no item of it is looked for.
_UNREAD = ("P0004", "P0010", "P0011")


def with_hints(work: Callable[[], T]) -> T:
    """What some work gives, which parses or checks a text with a mistake, with hints."""
    with helped(replace(_HELPER)):
        return work()


def shown(source: Source, found: Sequence[Diagnostic], look: Look) -> dict[int, Diagnostic]:
    """The diagnostics that change, by `id`: other hints, or none where one leads nowhere."""
    trial = HintTrial(source, look, blocks=not is_manifest(source.name))
    if all(d.severity != "error" for d in found) and trial.all_mend(found):
        return {}
    changed: dict[int, Diagnostic] = {}
    for each in found:
        said = tried(partial(trial.said, each), _without_edit(each))
        if said is not each:
            changed[id(each)] = said
    return changed


def _with_recipes(found: Diagnostic, text: str) -> Diagnostic:
    """The diagnostic with recipes that the words of an item find, where its hint tells little."""
    hint = (found.hint or "").removesuffix(CLAUSES_ARE)
    is_told = hint == found.hint and (", as in `" in hint or not hint.startswith("expected"))
    is_prose = _PROSE.search(text) is not None and re.search(_READS, text) is None
    if is_told or (found.fix or found.remedy) is not None or not is_prose:
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
    around = [] if at < 0 else lexemes.around(at)
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


def _is_policy(lexemes: Lexemes, opener: int) -> bool:
    head = (lexemes[n].text for n in range(opener - 1, -1, -1))
    return "policy" in takewhile(lambda text: text not in ("{", "}"), head)


def _begins(lexemes: Lexemes, number: int, first: int) -> bool:
    """Whether an item begins with a lexeme: on a line of its own, not further to the right."""
    text = lexemes.text
    line = text.rfind("\n", 0, lexemes[number].start) + 1
    is_first = not text[line : lexemes[number].start].strip()
    word, following = lexemes[number].text, lexemes[number + 1]
    if word in ITEMS and following.kind == "string" and number > first:
        return True
    if number == first:
        return is_first
    start = text.rfind("\n", 0, lexemes[first].start) + 1
    indent = lexemes[first].start - start
    is_key = word == "-" or following.text == ":"
    return is_first and not (lexemes[number].start - line > indent or is_key)


# ---- trials: whether an edit leads on


def _without_edit(found: Diagnostic) -> Diagnostic:
    """The diagnostic with its other hint, and without an edit.

    That a similar name exists is true, even where more than the name is wrong.
    """
    names_one = found.hint is not None and found.hint.startswith(SIMILAR)
    return replace(found, hint=found.hint if names_one else found.other_hint, fix=None, remedy=None)


def _keeps(written: str, made: str, *, fields: bool) -> bool:
    """Whether the texts, words and `fields` that are read stand in what takes their place.

    A label is known by the last part of its key: `topology.kubernetes.io/zone` is `node.zone`.
    """
    is_clause = " " in written.strip() and not written.startswith("/*")
    if is_clause and any(word not in made for word in _STRENGTHS.findall(written)):
        return False
    for text, other, name in _WRITTEN.findall(written):
        word = (text or other or name * fields).lower().rpartition("/")[2]
        is_said = not word or (not name and (word in _SAID or word[0].isdigit()))
        if not is_said and not re.search(rf"(?<![a-z_]){re.escape(word)}(?!\w)", made.lower()):
            return False
    return True


@dataclass
class HintTrial:
    """The trials of one text; `left` is how many characters may be checked.

    With `blocks`, only the policy around an edit is checked again.
    """

    source: Source
    look: Look
    blocks: bool
    left: int = _MOST_CHARACTERS
    # The items of the text that are not understood; each is answered once.
    _answered: set[Span] = field(default_factory=set)
    _before: dict[Span, Sequence[Diagnostic]] = field(default_factory=dict)
    _after: dict[tuple[Span, Fix], Sequence[Diagnostic]] = field(default_factory=dict)

    @cached_property
    def _begins(self) -> Sequence[int]:
        return starts(self.source.text) if self.blocks else []

    def said(self, found: Diagnostic) -> Diagnostic:
        """The diagnostic with a hint that leads on, or what its item means."""
        said = found if self.leads_on(found) else _without_edit(found)
        is_open = (found.is_of_parser and found.code not in _UNREAD) or found.code == "P0105"
        return self.meant(said) if is_open and self.left > 0 else said

    def meant(self, found: Diagnostic) -> Diagnostic:
        """The diagnostic with the clauses that its item means, or with the names of recipes."""
        if found.fix is not None and self.mends(found.fix, found, whole=True):
            # A smaller edit, of which nobody doubts, is enough.
            return found
        span = _item_at(self.source.text, found.span.start, rules=not self.blocks)
        if span is None or span in self._answered:
            return found
        self._answered.add(span)
        text = self.source.slice(span)
        made = clause_of(text)
        if made is not None and self.mends(edit := Fix(span, made), found, whole=True):
            return replace(found, hint=f"write `{made}`", fix=None, remedy=edit)
        return _with_recipes(found, text) if found.is_of_parser else found

    def leads_on(self, found: Diagnostic) -> bool:
        """Whether the edit of a diagnostic leads on."""
        edit = found.fix or found.remedy
        # Another bracket can be lacking in the same place.
        return edit is None or found.code == "P0140" or self.mends(edit, found)

    def mends(self, edit: Fix, found: Diagnostic, *, whole: bool = False) -> bool:
        """Whether an edit leaves fewer errors, or only errors behind it, but not as a `whole`."""
        text, is_open = self.source.text, found.is_of_parser or found.code == "P0105"
        # A certain edit of a text alone is about that text, as about a similar name.
        is_name = edit == found.fix and text[edit.span.start : edit.span.start + 1] in ('"', "'")
        loses = not (is_name or _keeps(self.source.slice(edit.span), edit.text, fields=is_open))
        if self.left < 0 or (loses and found.severity == "error"):
            return False
        first, last = min(edit.span.start, found.span.start), max(edit.span.end, found.span.end)
        begins = self._begins
        begin = max((s for s in begins if s <= first), default=0)
        end = min((s for s in begins if s > last), default=len(text))
        around = Span(begin, end)
        if around not in self._before:
            self._before[around] = self._errors(text[begin:end])
        before = self._before[around]
        head, tail = text[begin : edit.span.start], text[edit.span.end : end]
        if (tried := (around, edit)) not in self._after:
            self._after[tried] = self._errors(f"{head}{edit.text}{tail}")
        after = self._after[tried]
        if self.left < 0:
            return False
        if found.severity == "warning":
            return len(after) <= len(before)
        if len(after) < len(before) or whole:
            return len(after) < len(before)
        # Behind the edit, an error keeps its place from the end.
        length = len(head) + len(edit.text) + len(tail)
        old = {(d.code, d.message, end - begin - d.span.start) for d in before}
        new = [d for d in after if (d.code, d.message, length - d.span.start) not in old]
        return bool(new) and all(d.span.start >= len(head) or not d.is_of_parser for d in new)

    def all_mend(self, found: Iterable[Diagnostic]) -> bool:
        """Whether a text without errors has none after the edits of all its warnings either."""
        made = (e for d in found if (e := d.fix or d.remedy) is not None)
        edits = {(e.span.start, e.span.end, e.text) for e in made}
        parts, done = list[str](), 0
        for start, end, text in sorted(edits):
            if start < done:
                return False
            parts += self.source.text[done:start], text
            done = end
        parts.append(self.source.text[done:])
        return not self._errors("".join(parts)) and self.left >= 0

    def _errors(self, text: str) -> list[Diagnostic]:
        self.left -= len(text)
        if self.left < 0:
            return []
        return [d for d in self.look(Source(self.source.name, text)) if d.severity == "error"]
