"""Hint trials: each hint that is an edit is followed in a text, and shown only if it leads on.

The parser has tried what it can by itself (`grammar.syntax.trials`); here the text is checked too.
After the edit, the part around it must be without new errors, at most three edits later; an error
that stands further behind is another mistake.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from grammar.messages import catalogue
from grammar.messages.diagnostics import SIMILAR, Diagnostic, Fix
from grammar.mistakes.wishes import clause_of, item_at
from grammar.syntax.parser import starts, stretch
from grammar.syntax.trials import STEPS, cost_behind, is_apart
from grammar.tree.source import Source, Span
from policies.manifest_names import is_manifest
from policies.pasted_objects import clauses_of
from policies.recipe_collection import MOST_NAMED, search

# The diagnostics of a text, of which no hint has been tried.
Look = Callable[[Source], Sequence[Diagnostic]]

# The most characters that are checked for the hints of one text: some seconds.
MOST = 120_000
# Words that are no expression.
_PROSE = re.compile(r"(?<![\"'.])\b[A-Za-z]+(?: [\w%-]+){2}")
_NAMES = frozenset({"P0101", "P0102", "P0103"})


def tried(source: Source, found: Sequence[Diagnostic], look: Look) -> Mapping[int, Diagnostic]:
    """The diagnostics that change, by `id`: those whose hints lead nowhere."""
    errors = [d for d in found if d.severity == "error"]
    trials = _HintTrials(look, errors)
    if not errors and trials.all_lead_on(source, found):
        return {}
    changed: dict[int, Diagnostic] = {}
    for each in found:
        said = each
        if _edit(each) is not None and not trials.leads_on(source, each):
            said = without(each)
        if each.is_of_parser and not trials.spent:
            said = trials.meant(source, said)
        if said is not each:
            changed[id(each)] = said
    return changed


def without(found: Diagnostic) -> Diagnostic:
    """The diagnostic with its other hint, and without an edit.

    That a similar name exists is true, even where more than the name is wrong.
    """
    names_one = found.hint is not None and found.hint.startswith(SIMILAR)
    return replace(found, hint=found.hint if names_one else found.other_hint, fix=None, remedy=None)


def _with_recipes(found: Diagnostic, text: str) -> Diagnostic:
    """The diagnostic with recipes that the words of an item find, where its hint tells little."""
    hint = (found.hint or "").removesuffix(catalogue.CLAUSES_ARE)
    is_told = hint == found.hint and not hint.startswith("expected")
    if is_told or found.remedy is not None or not _PROSE.search(text):
        return found
    names = [f"`placet how {recipe.name}`" for recipe in search(text)[:MOST_NAMED]]
    if not names:
        return found
    return replace(found, hint=f"{hint}{'; ' * (hint == found.hint)}see {catalogue.listed(names)}")


def _edit(found: Diagnostic) -> Fix | None:
    return found.fix or found.remedy


@dataclass(slots=True)
class _HintTrials:
    """The trials of one text with its errors; `left` is how many characters may be checked."""

    look: Look
    known: Sequence[Diagnostic]
    left: int = MOST
    answered: set[Span] = field(default_factory=set)

    @property
    def spent(self) -> bool:
        return self.left < 0

    def meant(self, source: Source, found: Diagnostic) -> Diagnostic:
        """The diagnostic with the clauses that its item means, or with the names of recipes."""
        span = item_at(source.text, found.span.start, rules=is_manifest(source.name))
        if span is None or span in self.answered:
            return found
        self.answered.add(span)
        text = source.slice(span)
        made, more = clause_of(text), ""
        if made is None and (pasted := clauses_of(text)) is not None:
            made, more = pasted
        if made == "":
            return replace(found, hint=f"leave it out: {more}", fix=None, remedy=Fix(span, ""))
        if made is not None and self._has_fewer_errors(source, span, made):
            return replace(found, hint=f"write `{made}`{more}", fix=None, remedy=Fix(span, made))
        return _with_recipes(found, text)

    def _has_fewer_errors(self, source: Source, span: Span, made: str) -> bool:
        begin, around = self._around(source, span, span)
        before = [d for d in self.known if begin <= d.span.start <= begin + len(around)]
        after = around[: span.start - begin] + made + around[span.end - begin :]
        return len(self._errors(source.name, after)) < len(before)

    def all_lead_on(self, source: Source, found: Sequence[Diagnostic]) -> bool:
        """Whether a text without errors has none after the edits of all its warnings either."""
        edits = {(e.span.start, e.span.end, e.text) for d in found if (e := _edit(d)) is not None}
        parts, done = list[str](), 0
        for start, end, text in sorted(edits):
            if start < done:
                return False
            parts += source.text[done:start], text
            done = end
        parts.append(source.text[done:])
        return not self._errors(source.name, "".join(parts)) and not self.spent

    def leads_on(self, source: Source, found: Diagnostic) -> bool:
        """Whether a hint leads on."""
        edit = _edit(found)
        assert edit is not None
        if self.spent:
            return False
        begin, text = self._around(source, edit.span, found.span)
        end = begin + len(text)
        said = [_shifted(d, begin) for d in self.known if begin <= d.span.start <= end]
        return self._holds(source.name, text, _shifted(found, begin), said, STEPS)

    def _around(self, source: Source, one: Span, other: Span) -> tuple[int, str]:
        """The policy around two spans, which alone is checked again, and where it begins."""
        if is_manifest(source.name):
            return 0, source.text
        blocks = starts(source.text)
        begin = max((s for s in blocks if s <= min(one.start, other.start)), default=0)
        last = max(one.end, other.end)
        end = min((s for s in blocks if s > last), default=len(source.text))
        return begin, source.text[begin:end]

    def _errors(self, name: str, text: str) -> list[Diagnostic]:
        self.left -= len(text)
        if self.spent:
            return []
        return [d for d in self.look(Source(name, text)) if d.severity == "error"]

    def _holds(
        self, name: str, text: str, found: Diagnostic, said: Sequence[Diagnostic], steps: float
    ) -> bool:
        edit = _edit(found)
        assert edit is not None
        start = edit.span.start
        known = {_place(d, text, start) for d in said}
        after = text[: edit.span.start] + edit.text + text[edit.span.end :]
        now = self._errors(name, after)
        if self.spent:
            return False
        new = [d for d in now if _place(d, after, start) not in known]
        if not new:
            is_gone = _place(found, text, start) not in {_place(d, after, start) for d in now}
            return is_gone or found.severity == "warning"
        end = start + len(edit.text)
        following = new[0]
        if not is_manifest(name):
            item = stretch(after, max(0, min(start, found.span.start)), in_block=False)
            new = [d for d in new if d.span.end > item.start and d.span.start < max(item.end, end)]
            if not new:
                # An error elsewhere that could not be seen before.
                return True
            following = new[0]
        both_certain = found.fix is not None and following.fix is not None
        is_before = len(after) - following.span.end >= len(text) - found.span.start
        # What cannot be parsed hides the errors of names and types before it.
        is_hidden = found.is_of_parser and not following.is_of_parser
        # What has a name that is not known hides what is wrong with the names around it.
        is_other = found.code in _NAMES and following.code in _NAMES
        is_other = is_other and not start <= following.span.start < start + len(edit.text)
        if is_other and _edit(following) is None:
            return True
        if is_before and not both_certain and not (is_hidden or is_other):
            return False
        if _edit(following) is not None:
            same = (following.code, following.message) == (found.code, found.message)
            same = same and not both_certain
            cost = cost_behind(found, following)
            return (
                not same and steps > cost and self._holds(name, after, following, now, steps - cost)
            )
        if following.span.start < end:
            return False
        return found.fix is not None or is_apart(after, end, following.span.start)


def _place(found: Diagnostic, text: str, changed: int) -> tuple[str, str, int]:
    """A diagnostic as it is recognised in a text that is changed at an offset."""
    start = found.span.start
    return found.code, found.message, start if start < changed else start - len(text) - 1


def _shifted(found: Diagnostic, by: int) -> Diagnostic:
    """A diagnostic in a text of which the beginning is cut off."""
    return replace(
        found,
        span=found.span.moved(-by),
        fix=None if found.fix is None else replace(found.fix, span=found.fix.span.moved(-by)),
        remedy=None
        if found.remedy is None
        else replace(found.remedy, span=found.remedy.span.moved(-by)),
    )
