"""Hint trials: each hint that is an edit is followed in a text, and shown only if it leads on.

The parser has tried what it can by itself (`grammar.syntax.trials`); here the text is checked too.
After the edit, the part around it must be without new errors, at most three edits later; an error
that stands further behind is another mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from grammar.messages.diagnostics import SIMILAR, Diagnostic, Fix
from grammar.syntax.foreign_clauses import keeps_meaning, reason
from grammar.syntax.parser import starts, stretch
from grammar.syntax.trials import STEPS, cost_behind, is_apart
from grammar.syntax.wishes import WishedItem, foreign, in_words, item_at, wished
from grammar.tree.source import Source, Span
from policies.manifest_text import is_manifest

# The clauses that an item may mean.
Reader = Callable[[WishedItem], Iterator[str]]
# The diagnostics of a text, of which no hint has been tried.
Look = Callable[[Source], Sequence[Diagnostic]]

# The most characters that are checked for the hints of one text: some seconds.
MOST = 120_000
# What is unknown in a place: a word, a sign, a name, a function, or a type.
_UNKNOWN = frozenset({"P0001", "P0002", "P0101", "P0103", "P0105"})
_NAMES = frozenset({"P0101", "P0102", "P0103"})
# No clause is as long; and so many are tried for one.
_LONGEST = 1000
_MOST_CLAUSES = 4
# So many items are found in the time of one check.
_LOOKS = 8


def tried(
    source: Source, found: Sequence[Diagnostic], look: Look
) -> Mapping[int, Diagnostic | None]:
    """The diagnostics that change, by `id`: those whose hints lead nowhere, or are a whole clause.

    None stands for an error that only follows from another one of the same clause.
    """
    errors = [d for d in found if d.severity == "error"]
    trials = _HintTrials(look, errors)
    if not errors and trials.all_lead_on(source, found):
        return {}
    changed: dict[int, Diagnostic | None] = {}
    wishes: list[Span] = []
    for each in found:
        if any(span.start <= each.span.start < span.end for span in wishes):
            if each.severity == "error":
                changed[id(each)] = None
            continue
        edit = _edit(each)
        is_error = each.code in _UNKNOWN and not trials.spent
        is_open = is_error and (
            each.fix is None or each.code == "P0101" or not trials.mends(source, each.fix)
        )
        clause = trials.clause(source, each, foreign) if is_open else None
        # What is needless here is no wish.
        is_needless = (each.hint or "").startswith("leave it out")
        if clause is None and each.code == "P0001" and not (trials.spent or is_needless):
            clause = trials.clause(source, each, wished, alone=True)
        begins = is_open and each.fix is None and edit is not None
        if clause is None and begins and edit is not None and not trials.mends(source, edit):
            clause = trials.clause(source, each, in_words) or trials.clause(source, each, wished)
        if clause is None and edit is not None and not trials.leads_on(source, each):
            edit, changed[id(each)] = None, without(each)
            if is_error and not is_open:
                clause = trials.clause(source, each, foreign)
        if clause is None and edit is None and is_error and not is_needless:
            clause = trials.clause(source, each, wished)
        if clause is not None and clause.remedy is not None:
            changed[id(each)] = clause
            wishes.append(clause.remedy.span)
    return changed


def without(found: Diagnostic) -> Diagnostic:
    """The diagnostic with its other hint, and without an edit.

    That a similar name exists is true, even where more than the name is wrong.
    """
    names_one = found.hint is not None and found.hint.startswith(SIMILAR)
    return replace(found, hint=found.hint if names_one else found.other_hint, fix=None, remedy=None)


def _edit(found: Diagnostic) -> Fix | None:
    return found.fix or found.remedy


@dataclass(slots=True)
class _HintTrials:
    """The trials of one text with its errors; `left` is how many characters may be checked.

    `items` are those of the text by the offsets that were asked for.
    """

    look: Look
    known: Sequence[Diagnostic]
    left: int = MOST
    items: dict[int, WishedItem | None] = field(default_factory=dict)

    @property
    def spent(self) -> bool:
        return self.left < 0

    def clause(
        self, source: Source, found: Diagnostic, read: Reader, *, alone: bool = False
    ) -> Diagnostic | None:
        """The diagnostic with a whole clause as its hint, the first that leads on.

        `alone` is for words that stand in no clause, or that say no to something.
        """
        item = self._item(source, found.span.start)
        if item is None or len(item.text) > _LONGEST:
            return None
        if alone and item.is_clause and not item.negates_words:
            return None
        kept = (clause for clause in read(item) if keeps_meaning(item.text, clause))
        for clause in islice(kept, _MOST_CLAUSES):
            whole = self._completed(source, item.span, clause)
            if whole is not None and keeps_meaning(item.text, whole):
                hint = f"write `{whole}`{reason(item.text, whole)}"
                return replace(found, hint=hint, fix=None, remedy=Fix(item.span, whole))
        return None

    def _completed(self, source: Source, span: Span, clause: str) -> str | None:
        """A clause without an error, by the edits of what the parser finds in it; else None."""
        begin, text = self._around(source, span, span)
        head, tail = text[: span.start - begin], text[span.end - begin :]
        for _ in range(STEPS + 1):
            start, end = len(head), len(head) + len(clause)
            now = self._errors(source.name, head + clause + tail)
            if self.spent:
                return None
            wrong = next((d for d in now if start <= d.span.start <= end), None)
            if wrong is None:
                return clause
            edit = _edit(wrong)
            is_within = edit is not None and start <= edit.span.start <= edit.span.end <= end
            if edit is None or not is_within:
                return None
            written = clause[edit.span.start - start : edit.span.end - start]
            # A range, and a name with other capitals, are no other meaning.
            is_same = wrong.code == "P0209" or written.lower() == edit.text.lower()
            if not (wrong.is_of_parser or is_same):
                return None
            clause = clause[: edit.span.start - start] + edit.text + clause[edit.span.end - start :]
        return None

    def _item(self, source: Source, offset: int) -> WishedItem | None:
        """The item of the text around an offset."""
        if offset not in self.items:
            # To find the item takes a part of the time of a check.
            self.left -= len(source.text) // _LOOKS
            self.items[offset] = item_at(source.text, offset, rules=is_manifest(source.name))
        return self.items[offset]

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

    def mends(self, source: Source, edit: Fix) -> bool:
        """Whether an error is gone after its edit, and no other one has come."""
        begin, text = self._around(source, edit.span, edit.span)
        before = [d for d in self.known if begin <= d.span.start <= begin + len(text)]
        head, tail = text[: edit.span.start - begin], text[edit.span.end - begin :]
        now = self._errors(source.name, head + edit.text + tail)
        return len(now) < len(before) or self.spent

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
