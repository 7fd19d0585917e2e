"""What a line is answered with: lines and tables, and what is wrong, in the order of telling."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cli.console import Part
from cli.render import Finding, error_text
from grammar.diagnostics import Severity, human


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is wrong, as `placet check` would say it: a sentence, carets, a hint."""

    text: str
    severity: Severity = "error"


Told = Part | Problem


@dataclass(frozen=True, slots=True)
class Answer:
    """All of one answer; `leave` says that it was the last one."""

    told: tuple[Told, ...]
    leave: bool = False

    @property
    def failed(self) -> bool:
        return any(isinstance(told, Problem) and told.severity == "error" for told in self.told)


class RefusedError(Exception):
    """A text with mistakes: what was asked for is not done."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        super().__init__()
        self.problems = tuple(problem(finding) for finding in findings)


def problem(finding: Finding) -> Problem:
    """A diagnostic in its text. What was found while evaluating has no code."""
    diagnostic, source = finding
    text = human(diagnostic, source).replace(f"{diagnostic.severity}[]", diagnostic.severity, 1)
    return Problem(text, diagnostic.severity)


def complaint(message: str, hint: str) -> Problem:
    """An error that is about no text."""
    return Problem(error_text(message, hint))
