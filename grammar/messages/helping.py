"""Helper: who is asked what is meant by a mistake, while somebody looks for hints.

The parser and the checker only say what is wrong, and ask here what to write instead. Nobody
answers unless `helped` is entered, so a text without a mistake needs no answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, Protocol

from grammar.messages.diagnostics import Diagnostic, Fix
from grammar.tree.ast import Expr
from grammar.tree.source import Source, Span
from grammar.tree.types import Type


@dataclass(frozen=True, slots=True)
class Remedy:
    """What to write at a span, and the hint that says so. A certain one is what nobody doubts."""

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


class Helper(Protocol):
    """Answers about mistakes."""

    def unexpected(
        self,
        source: Source,
        span: Span,
        accepted: AbstractSet[str],
        leads: Leads,
        like: Callable[[str], bool],
    ) -> Diagnostic | None:
        """The error for what stands at a span, where the terminals are accepted instead."""

    def built(self, found: Diagnostic, source: Source, leads: Leads) -> Diagnostic:
        """The error that ended the parse of an item, with what to write in its place."""

    def expression(
        self,
        environment: Any,
        names: Mapping[str, Type],
        around: Sequence[Expr],
        kind: Callable[[Expr], Type],
    ) -> Any:
        """Who answers about the innermost of the expressions around a mistake."""

    def clause(self, question: str, found: Diagnostic, *about: Any) -> Diagnostic:
        """The error of a part of a clause, with what to write."""


_HELPER: ContextVar[Helper | None] = ContextVar("helper", default=None)


def helper() -> Helper | None:
    """Who answers now."""
    return _HELPER.get()


@contextmanager
def helped(answers: Helper) -> Iterator[None]:
    """While this is entered, what is found wrong gets its hints."""
    token = _HELPER.set(answers)
    try:
        yield
    finally:
        _HELPER.reset(token)
