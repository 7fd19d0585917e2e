"""Helper: who is asked what is meant by a mistake, while somebody looks for hints.

The parser and the checker only say what is wrong, and ask here what to write instead. Nobody
answers unless `helped` is entered, so a text without a mistake needs no answers. An answer costs
bounded time: it is made without help, and one that fails or comes too late leaves the plain error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from grammar.messages.diagnostics import Diagnostic, Fix
from grammar.tree.source import Source, Span

T = TypeVar("T")
# The most characters that are looked through or parsed again for the answers about one text: a
# second or two. An answer about an expression counts as so many.
_MOST_CHARACTERS, OF_EXPRESSION = 1_000_000, 500


@dataclass(frozen=True, slots=True)
class Remedy:
    """A remedy is what to write at a span, with its hint. Nobody doubts a certain remedy."""

    span: Span
    text: str
    hint: str = ""
    certain: bool = False
    # Whether the text alone is all that is to be written.
    whole: bool = True

    def on(self, found: Diagnostic) -> Diagnostic:
        """The diagnostic with this remedy in place of its own hint."""
        edit = Fix(self.span, self.text) if self.whole else None
        fix = edit if self.certain else None
        hint = self.hint or f"write `{self.text}`"
        return replace(found, hint=hint, remedy=edit, fix=fix, other_hint=found.hint)


# Whether an edit leads further into the text.
Leads = Callable[[Fix], bool]


@dataclass(slots=True)
class Helper:
    """A helper answers about the mistakes of one text: what to write in their place."""

    # The error for what stands at a span of a source, where the terminals are accepted instead.
    unexpected: Callable[[Source, Span, AbstractSet[str], Leads], Diagnostic | None]
    # The error that ended the parse of an item of a source.
    built: Callable[[Diagnostic, Source, Leads], Diagnostic]
    # Who answers about an expression: the environment, the names, what is around it, and the types.
    expression: Callable[..., Any]
    # The error of a part of a clause: the question, the error, and what it is about.
    clause: Callable[..., Diagnostic]
    left: int = _MOST_CHARACTERS

    def affords(self, characters: int) -> bool:
        """Whether so many more characters may be looked through."""
        self.left -= characters
        return self.left >= 0


_HELPER: ContextVar[Helper | None] = ContextVar("helper", default=None)


def answered(found: T, characters: int, ask: Callable[[Helper], T]) -> T:
    """What the helper answers in place of what was found, for a look at so many characters."""
    asked = _HELPER.get()
    if asked is None or not asked.affords(characters):
        return found
    with helped(None):
        return tried(lambda: ask(asked), found)


def tried(work: Callable[[], T], otherwise: T) -> T:
    """What some work for a hint gives; a fault of it hides no error."""
    with suppress(Exception):
        return work()
    return otherwise


@contextmanager
def helped(by: Helper | None) -> Iterator[None]:
    """While this is entered, what is found wrong gets its hints, or none."""
    token = _HELPER.set(by)
    try:
        yield
    finally:
        _HELPER.reset(token)


def told(question: str, found: Diagnostic, *about: object) -> Diagnostic:
    """The error of a part of a clause, with what to write if somebody looks for hints."""
    return answered(found, OF_EXPRESSION, lambda asked: asked.clause(question, found, *about))
