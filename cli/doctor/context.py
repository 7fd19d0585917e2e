"""Context of the checks: one configuration, its entries that are Placet, and Placet's own flags.

Requirements are what policies need of it. With the form of a finding before it has a code: the path
of a field, and what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cli.doctor.configuration_text import SchedulerConfiguration
from cli.doctor.generator import OUR_LEASE, VERBS
from cli.doctor.schema import ExtenderEntry
from cli.world import in_force, read_policies
from engine.enforced import PolicyNotInForce
from grammar.meaning.schema import load_schema
from grammar.messages.diagnostics import Diagnostic, Severity
from grammar.messages.texts import named
from grammar.tree.clause_parts import SchedulerNeed
from grammar.tree.source import Span

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
    """The first names, as a message lists them."""
    return named([f"`{name}`" for name in names], 3)


@dataclass(frozen=True, slots=True)
class SchedulerRequirements:
    """Requirements of policies: the clauses that need more than a `filterVerb`, as `policy/clause`.

    `cards` give pods cards when they are bound, and `waiting` hold bindings: for `longest_wait`
    seconds at most. `words` has all clauses by the word of their kind, and `scores` the bounds that
    are preferences. `is_whole` says that these are all policies: a cluster does not have those in
    files of a server. `broken` are those that are not in force as they are written.
    """

    strict: tuple[str, ...] = ()
    at_bind: tuple[str, ...] = ()
    cards: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    words: Mapping[str, Sequence[str]] = field(default_factory=dict)
    longest_wait: float = 0.0
    scores: tuple[str, ...] = ()
    is_whole: bool = True
    broken: Sequence[PolicyNotInForce] = ()

    @property
    def verbs(self) -> tuple[str, ...]:
        """The verbs without which a clause has no effect, and `preempt`, in the order of VERBS."""
        needs = {"prioritize": self.scores, "bind": (*self.cards, *self.waiting)}
        return tuple(verb for verb in VERBS if needs.get(verb, True))

    def bind_timeout(self, http_timeout: float) -> float:
        """The `httpTimeout` in seconds that bind needs; 0 if no binding waits.

        `http_timeout` is that of `placet serve`, in which it creates a binding after the wait.
        """
        return self.longest_wait + http_timeout if self.waiting else 0.0


@dataclass(frozen=True, slots=True)
class ConfigurationContext:
    """One configuration to check. The timeouts of `placet serve` are in seconds.

    `entries` are those taken for Placet, that with filter first, and `because` is the reason; both
    are empty if it is unclear. `requirements` is None if the policies are unknown. `binds` and
    `gate` say whether `placet serve` has `--bind` and `--gate`; `lease` is the namespace and name
    of the `--lease`, None without.
    """

    configuration: SchedulerConfiguration
    entries: tuple[ExtenderEntry, ...]
    because: str
    http_timeout: float
    requirements: SchedulerRequirements | None = None
    binds: bool = False
    lease: tuple[str, str] | None = OUR_LEASE
    gate: bool = False

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


def read_requirements(
    paths: Sequence[Path] | None, objects: Mapping[str, bytes] | None = None
) -> SchedulerRequirements:
    """The requirements of the policies in files and folders, and of those in a cluster.

    `objects` are the policy objects by `resource/key`; of these, policies with errors count for
    nothing, as they do there. Raises CommandError for policies in files with errors.
    """
    schema = load_schema()
    of_objects = in_force((), objects or {}, schema)
    found = [*of_objects.in_force.policies]
    if paths is not None:
        found += read_policies(paths, schema).validation.policies
    clauses = [
        (f"{policy.policy.address}/{clause.name}", clause)
        for policy in found
        if policy.policy.setting("mode", "enforce") != "audit"
        for part in (policy, *policy.uses)
        for clause in part.policy.clauses
    ]

    def needing(need: SchedulerNeed) -> tuple[str, ...]:
        return tuple(name for name, clause in clauses if need in clause.scheduler_needs)

    kinds = {c.keyword for _, c in clauses}
    words = {word: [name for name, c in clauses if c.keyword == word] for word in kinds}
    longest = (max(c.held_seconds for _, c in clauses if c.keyword == word) for word in words)
    return SchedulerRequirements(
        strict=needing("one decider"),
        at_bind=needing("check at binding"),
        cards=needing("binding with cards"),
        waiting=tuple(name for name, clause in clauses if clause.held_seconds),
        words=words,
        # A pod may wait for a clause of each kind, one after the other.
        longest_wait=sum(longest),
        scores=needing("scores"),
        is_whole=paths is not None,
        broken=of_objects.broken,
    )
