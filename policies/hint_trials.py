"""Hint trials: each hint that is an edit is followed in a text, and shown only if it leads on.

The parser has tried what it can by itself (`grammar.syntax.trials`); here the text is checked too.
After the edit, the part around it must be without new errors, at most three edits later; an error
that stands further behind is another mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from grammar.messages.diagnostics import Diagnostic, Fix
from grammar.syntax.lexemes import Lexemes
from grammar.syntax.parser import starts, stretch
from grammar.syntax.trials import STEPS
from grammar.tree.source import Source
from policies.manifest_names import is_manifest

# The diagnostics of a text, of which no hint has been tried.
Look = Callable[[Source], Sequence[Diagnostic]]

# The most characters that are checked for the hints of one text: some seconds.
MOST = 120_000
# An error so many words behind an edit is another mistake.
_APART = 4


def tried(source: Source, found: Sequence[Diagnostic], look: Look) -> Mapping[int, Diagnostic]:
    """The diagnostics whose hints lead nowhere, by `id`, with the hint that remains."""
    trials = _HintTrials(look)
    return {
        id(each): without(each)
        for each in found
        if _edit(each) is not None and not trials.leads_on(source, each)
    }


def without(found: Diagnostic) -> Diagnostic:
    """The diagnostic with its other hint, and without an edit."""
    return replace(found, hint=found.other_hint, fix=None, remedy=None)


def _edit(found: Diagnostic) -> Fix | None:
    return found.fix or found.remedy


@dataclass(slots=True)
class _HintTrials:
    """The trials of one text; `left` is the number of characters that may still be checked."""

    look: Look
    left: int = MOST

    def leads_on(self, source: Source, found: Diagnostic) -> bool:
        edit = _edit(found)
        assert edit is not None
        begin, text = 0, source.text
        if not is_manifest(source.name):
            # Only the policy around the diagnostic is checked again.
            first = min(edit.span.start, found.span.start)
            last = max(edit.span.end, found.span.end)
            known = starts(text)
            begin = max((s for s in known if s <= first), default=0)
            text = text[begin : min((s for s in known if s > last), default=len(text))]
        here = _shifted(found, begin)
        return self._holds(source.name, text, here, self._errors(source.name, text), STEPS)

    def _errors(self, name: str, text: str) -> list[Diagnostic]:
        self.left -= len(text)
        if self.left < 0:
            return []
        return [d for d in self.look(Source(name, text)) if d.severity == "error"]

    def _holds(
        self, name: str, text: str, found: Diagnostic, said: Sequence[Diagnostic], steps: int
    ) -> bool:
        edit = _edit(found)
        assert edit is not None
        start = edit.span.start
        known = {_place(d, text, start) for d in said}
        after = text[: edit.span.start] + edit.text + text[edit.span.end :]
        now = self._errors(name, after)
        if self.left < 0:
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
        if len(after) - following.span.end >= len(text) - found.span.start:
            return False
        if _edit(following) is not None:
            same = (following.code, following.message) == (found.code, found.message)
            return not same and steps > 1 and self._holds(name, after, following, now, steps - 1)
        if following.span.start < end:
            return False
        lexemes = Lexemes(after)
        apart = lexemes.at(following.span.start) - lexemes.at(end)
        return found.fix is not None or apart >= _APART


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
