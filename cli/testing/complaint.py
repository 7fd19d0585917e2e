"""What is wrong in a test: an expectation that does not hold, or a test that cannot run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cli.render import render
from grammar.diagnostics import Diagnostic
from grammar.source import Source, Span


def complaint(
    message: str, span: Span, *, label: str = "", hint: str | None = None, notes: Sequence[str] = ()
) -> Diagnostic:
    """What a test says has no code: it is not about the language."""
    return Diagnostic("", "error", message, span, label=label, hint=hint, notes=tuple(notes))


def shown(found: Diagnostic, source: Source, *, colour: bool = False) -> str:
    """The message, the line that it is about with a caret, and what helps.

    A stretch of several lines is shown by its first.
    """
    text = next(render([(_first_line(found, source), source)], "human", colour=colour))
    return text.replace("error[]", "error", 1)


def _first_line(found: Diagnostic, source: Source) -> Diagnostic:
    end = source.text.find("\n", found.span.start)
    if 0 <= end < found.span.end:
        return replace(found, span=Span(found.span.start, end))
    return found


class TestMistakeError(Exception):
    """A test that cannot run as it is written."""

    def __init__(self, found: Diagnostic) -> None:
        super().__init__(found.message)
        self.found = found
