"""Trials: whether the edit that a hint describes leads on, before anybody is shown the hint.

The parser makes one for each text. The edit is applied and the text is parsed again: it must get
further than before, and the hints of the errors after it must end in a text without an error after
at most three edits; an edit that is certain counts less. A hint that does not is a guess, and is
not shown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from grammar.messages.diagnostics import Diagnostic
from grammar.syntax.lexemes import Lexemes
from grammar.tree.source import Span

# Whether a diagnostic may keep its hint.
Keep = Callable[[Diagnostic], bool]

STEPS = 3
# The most characters that are parsed for the hints of one text: some seconds.
MOST = 250_000
# What an edit behind a certain one counts if it is certain too: `--fix` makes them all.
_OF_CERTAIN = 0.2
# An error so many words behind an edit is another mistake.
_APART = 4


def cost_behind(found: Diagnostic, said: Diagnostic) -> float:
    """What the edit of an error counts behind that of another one."""
    return _OF_CERTAIN if found.fix is not None and said.fix is not None else 1.0


def is_apart(text: str, edited: int, at: int) -> bool:
    """Whether an error at an offset is another mistake than the edit that ends at one."""
    lexemes = Lexemes(text)
    return lexemes.at(at) - lexemes.at(edited) >= _APART


@dataclass(frozen=True, slots=True)
class Stop:
    """The error that ended a parse, and the offset of the word that it was found at.

    `built` is true for what could be parsed, but is wrong: it is found behind its place.
    """

    at: int
    said: Diagnostic
    built: bool = False


# The error that ends the parse of a text, with a hint only if it may be kept; None without one.
Look = Callable[[str, Callable[[int], Keep]], Stop | None]


def without_hint(found: Diagnostic) -> Diagnostic:
    """The diagnostic without its hint and its edits."""
    return replace(found, hint=None, fix=None, remedy=None)


class Trials:
    """The trials of the hints of one text; `blocks` gives the starts of its policies and tests."""

    def __init__(
        self, look: Look, blocks: Callable[[str], list[int]], item: Callable[[str, int], Span]
    ) -> None:
        self._look = look
        self._blocks = blocks
        self._item = item
        self._left = MOST

    def keep(self, text: str, at: int) -> Keep:
        """What says of the error at an offset of the text whether its hint leads on."""
        return lambda found: self._leads_on(text, at, found, STEPS)

    def _leads_on(self, text: str, at: int, found: Diagnostic, steps: float) -> bool:
        edit = found.fix or found.remedy
        if edit is None or steps <= 0:
            return True
        # Only the policy around the error is parsed again.
        first, last = min(at, edit.span.start), max(at, edit.span.end)
        starts = self._blocks(text)
        begin = max((s for s in starts if s <= first), default=0)
        end = min((s for s in starts if s > last), default=len(text))
        head, tail = text[begin : edit.span.start], text[edit.span.end : end]
        changed = f"{head}{edit.text}{tail}"
        self._left -= len(changed)
        if self._left < 0:
            return False

        def keep(place: int) -> Keep:
            def is_kept(said: Diagnostic) -> bool:
                return self._leads_on(changed, place, said, steps - cost_behind(found, said))

            return is_kept

        stop = self._look(changed, keep)
        if stop is None:
            return True
        rest = len(changed) - stop.at
        said = stop.said
        if stop.built and said.span.end <= len(head):
            # It was not reached before.
            return True
        has_edit = (said.fix or said.remedy) is not None
        if rest >= end - at:
            # Two brackets can be lacking in one place.
            is_other = has_edit and said.message != found.message
            return rest == end - at and is_other and steps > 1
        if rest <= end - max(self._item(text[begin:end], at - begin).end + begin, last):
            # Another item has a mistake of its own.
            return True
        if has_edit:
            return steps > cost_behind(found, said)
        if found.fix is not None:
            return True
        return is_apart(changed, len(head) + len(edit.text), stop.at)
