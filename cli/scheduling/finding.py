"""What is wrong with one place of a configuration."""

from __future__ import annotations

from dataclasses import dataclass

from grammar.diagnostics import Severity


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence about a place such as `extenders[0].weight`, and what to do about it.

    An error: kube-scheduler refuses to start, a call cannot succeed, or what policies promise is
    not kept. A warning: it works, and not as well as it could.
    """

    severity: Severity
    place: str
    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class Problem:
    """A finding in a file. `code` names the check; `line` counts from 1, 0 is unknown."""

    source: str
    line: int
    code: str
    finding: Finding
