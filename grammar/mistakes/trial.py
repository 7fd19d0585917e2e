"""Trial: whether the edit that a hint describes leads on, before anybody is shown the hint.

The edit is applied and the text is checked again, without hints. Fewer errors must be left, or the
next one must stand further behind. A hint that does not lead on is a guess, and is not shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from grammar.messages.diagnostics import SIMILAR, Diagnostic, Fix
from grammar.syntax.parser import starts
from grammar.tree.source import Source, Span

# The diagnostics of a text, without hints.
Look = Callable[[Source], Iterable[Diagnostic]]

# The most characters that are checked for the hints of one text: some seconds.
MOST = 120_000


def edit_of(found: Diagnostic) -> Fix | None:
    """What the hint says to write."""
    return found.fix or found.remedy


def without(found: Diagnostic) -> Diagnostic:
    """The diagnostic with its other hint, and without an edit.

    That a similar name exists is true, even where more than the name is wrong.
    """
    names_one = found.hint is not None and found.hint.startswith(SIMILAR)
    return replace(found, hint=found.hint if names_one else found.other_hint, fix=None, remedy=None)


@dataclass(slots=True)
class HintTrial:
    """The trials of one text; `left` is how many characters may be checked.

    With `blocks`, only the policy around an edit is checked again.
    """

    source: Source
    look: Look
    blocks: bool
    left: int = MOST
    _before: dict[Span, Sequence[Diagnostic]] = field(default_factory=dict)
    _after: dict[tuple[Span, Fix], Sequence[Diagnostic]] = field(default_factory=dict)

    def leads_on(self, found: Diagnostic) -> bool:
        """Whether the edit of a diagnostic leads on."""
        edit = edit_of(found)
        # Another bracket can be lacking in the same place.
        return edit is None or found.code == "P0140" or self.mends(edit, found)

    def mends(self, edit: Fix, found: Diagnostic, *, whole: bool = False) -> bool:
        """Whether an edit leaves fewer errors, or only errors behind it, but not as a `whole`."""
        text = self.source.text
        first, last = min(edit.span.start, found.span.start), max(edit.span.end, found.span.end)
        begins = starts(text) if self.blocks else []
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
        edits = {(e.span.start, e.span.end, e.text) for d in found if (e := edit_of(d)) is not None}
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
