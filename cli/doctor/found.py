"""Finding of a check before it has a code: the path of a field, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Sequence

from grammar.messages.diagnostics import Diagnostic, Severity
from grammar.messages.texts import named
from grammar.tree.source import Span

# The most names that a message lists.
SHOWN = 3
# The path of a field, and a diagnostic without a code and a span.
Found = tuple[str, Diagnostic]


def found(severity: Severity, path: str, message: str, hint: str) -> Found:
    return path, Diagnostic("", severity, message, Span(0, 0), hint=hint)


def error(path: str, message: str, hint: str) -> Found:
    return found("error", path, message, hint)


def refused(path: str, message: str, hint: str) -> Found:
    """An error with which kube-scheduler 1.36 does not start."""
    return error(path, f"{message}: kube-scheduler refuses to start", hint)


def warning(path: str, message: str, hint: str) -> Found:
    return found("warning", path, message, hint)


def some(names: Sequence[str]) -> str:
    return named([f"`{name}`" for name in names], SHOWN)
