"""Context of the checks: one configuration, its entries that are Placet, and Placet's own flags.

With the form of a finding before it has a code: the path of a field, and what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cli.doctor.configuration_text import SchedulerConfiguration
from cli.doctor.generator import OUR_LEASE
from cli.doctor.requirements import Marking, SchedulerRequirements
from cli.doctor.schema import ExtenderEntry
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


@dataclass(frozen=True, slots=True)
class ConfigurationContext:
    """One configuration to check. The timeouts of `placet serve` are in seconds.

    `entries` are those taken for Placet, that with filter first, and `because` is the reason; both
    are empty if it is unclear. `requirements` is None if the policies are unknown. `binds` and
    `gate` say whether `placet serve` has `--bind` and `--gate`; `lease` is the namespace and name
    of the `--lease`, None without. `marking` is None if the cluster is unknown.
    """

    configuration: SchedulerConfiguration
    entries: tuple[ExtenderEntry, ...]
    because: str
    http_timeout: float
    requirements: SchedulerRequirements | None = None
    binds: bool = False
    lease: tuple[str, str] | None = OUR_LEASE
    gate: bool = False
    marking: Marking | None = None

    @property
    def ours(self) -> ExtenderEntry | None:
        return self.entries[0] if self.entries else None

    def entry_of(self, verb: str) -> ExtenderEntry | None:
        """The entry with which kube-scheduler calls this verb of Placet; None if it does not."""
        return next((each for each in self.entries if each.verbs[verb]), None)

    @property
    def worst(self) -> Severity:
        """The severity of pods that pass without policies: strict bounds must always hold."""
        return "error" if self.requirements is not None and self.requirements.strict else "warning"
