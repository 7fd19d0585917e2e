"""policies.page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from grammar.diagnostics import Diagnostic
from grammar.source import Source, Span
from grammar.walk import rewritten

T = TypeVar("T")


Move = Callable[[Span], Span]


RULES = "spec.rules"


# What an object's page has a line for; a field further down is on the line of the one above it.
_LINES = (
    "object",
    "metadata",
    "spec",
    "spec.podSelector",
    "spec.namespaceSelector",
    "spec.nodeSelector",
    "spec.annotationSelector",
    "spec.placementPolicy",
    "spec.policy",
    "spec.weight",
    "spec.enforcementMode",
    "spec.failurePolicy",
    RULES,
)


@dataclass(frozen=True, slots=True)
class Page:
    """A text, and the places in it.

    `place` has where a field is written, or else what it would be in. `rules` moves a place in the
    rules to where it is written; it is None where they are written too differently.
    """

    source: Source
    place: Callable[[str], Span]
    rules: Move | None

    def error(self, field: str, message: str, hint: str = "") -> Diagnostic:
        """An error of a field (P0503)."""
        where = self.place(field)
        return Diagnostic("P0503", "error", f"{field}: {message}", where, hint=hint or None)

    def warning(self, field: str, message: str, hint: str) -> Diagnostic:
        """A warning about a field that is discouraged (P0321)."""
        return Diagnostic("P0321", "warning", f"{field}: {message}", self.place(field), hint=hint)

    def here(self, found: T) -> T:
        """A part of the rules or a diagnostic of them, with its span moved to this text."""
        return put(found, self.place(RULES)) if self.rules is None else moved(found, self.rules)


def object_page(name: str, rules: str) -> Page:
    """The page of an object that stands in no file: its rules, then a line for each other field."""
    starts: dict[str, int] = {}
    text = f"{rules}\n"
    for field in _LINES:
        starts[field] = len(text)
        text += f"{field}\n"

    def place(field: str) -> Span:
        known = nearest_above(field, starts) or _LINES[0]
        return Span(starts[known], starts[known] + len(known))

    return Page(Source(name, text), place, lambda span: span)


def report(found: Diagnostic, source: Source) -> str:
    """A diagnostic of an object's page in one line: `rules:3:12 error[P0102]: …`.

    About any other field it begins with that field.
    """
    line, column = source.position(found.span.start)
    where, message = f"rules:{line}:{column}", found.message
    fields = sum(len(field) + 1 for field in _LINES)
    if found.span.start >= len(source.text) - fields:
        where = source.line(line)
        if message.startswith(where):  # it names the field, which may be one further down
            where, _, message = message.partition(": ")
    hint = f" ({found.hint})" if found.hint else ""
    return f"{where} {found.severity}[{found.code}]: {message}{hint}"


def nearest_above(field: str, known: Mapping[str, object]) -> str:
    """The longest known path that is the field or contains it; empty if there is none."""
    while field and field not in known:
        field = field[: max(field.rfind("."), field.rfind("["), 0)]
    return field


def moved(node: T, move: Move) -> T:
    """A tree or a diagnostic with every span in it moved."""
    return rewritten(node, lambda part: move(part) if isinstance(part, Span) else part)


def put(node: T, place: Span) -> T:
    """The tree with all of it in one place."""
    return moved(node, lambda _: place)
