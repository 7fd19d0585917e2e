"""Manifest text: a manifest with the span of each field, for diagnostics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from grammar.messages.diagnostics import Diagnostic
from grammar.tree.source import Source, Span
from grammar.tree.walk import rewritten

GROUP = "placement-policy.scheduling.x-k8s.io"
T = TypeVar("T")
Move = Callable[[Span], Span]

RULES = "spec.rules"
# The fields with a line on the page of an object; a field inside one of them uses its line.
FIELDS = (
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
    "spec.parameters",
    RULES,
)


@dataclass(frozen=True, slots=True)
class ManifestText:
    """A text and the spans in it.

    `place` gives the span of a field, or of the nearest field around an absent one. `rules` maps a
    span of the rules to a span of the text; it is None if the text folds the lines of the rules.
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


def object_page(name: str, rules: str) -> ManifestText:
    """The page of an object of the cluster: its rules, then a line for each other field."""
    starts: dict[str, int] = {}
    text = f"{rules}\n"
    for field in FIELDS:
        starts[field] = len(text)
        text += f"{field}\n"

    def place(field: str) -> Span:
        known = nearest_above(field, starts) or FIELDS[0]
        return Span(starts[known], starts[known] + len(known))

    return ManifestText(Source(name, text), place, lambda span: span)


def report(found: Diagnostic, source: Source) -> str:
    """A diagnostic of an object in one line: `rules:3:12 error[P0102]: …`.

    A diagnostic of another field begins with the name of that field.
    """
    line, column = source.position(found.span.start)
    where, message = f"rules:{line}:{column}", found.message
    fields = sum(len(field) + 1 for field in FIELDS)
    if found.span.start >= len(source.text) - fields:
        where = source.line(line)
        if message.startswith(where):  # it names the field itself, or one inside it
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
    """A tree with `place` as the span of every node."""
    return moved(node, lambda _: place)
