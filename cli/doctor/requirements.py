"""What policies need of a kube-scheduler configuration, beyond a `filterVerb`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cli.world import read_policies
from grammar.checks.summed_requests import sum_of
from grammar.meaning.schema import load_schema
from grammar.tree.clause_parts import SchedulerNeed


@dataclass(frozen=True, slots=True)
class SchedulerRequirements:
    """The clauses of policies that need more than a `filterVerb`, each as `policy/clause`.

    `amounts` are the filters that add up what pods ask for, with or without a check at binding;
    `cards` give pods cards when they are bound, and `waiting` hold bindings. `scores` has the
    bounds that are preferences.
    `namespaces` are the namespaces of policies, and `portable` the policies to tell to others.
    """

    strict: tuple[str, ...] = ()
    amounts: tuple[str, ...] = ()
    at_bind: tuple[str, ...] = ()
    cards: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    scores: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    portable: tuple[str, ...] = ()


def read_requirements(paths: Sequence[Path]) -> SchedulerRequirements:
    """The requirements of the policies in files and folders.

    Raises CommandError for policies with errors.
    """
    validation = read_policies(paths, load_schema()).validation
    policies = [policy.policy for policy in validation.policies]
    clauses = [
        (f"{policy.policy.address}/{clause.name}", clause, part)
        for policy in validation.policies
        if policy.policy.setting("mode", "enforce") != "audit"
        for part in (policy, *policy.uses)
        for clause in part.policy.clauses
    ]

    def needing(need: SchedulerNeed) -> tuple[str, ...]:
        return tuple(name for name, clause, _ in clauses if need in clause.scheduler_needs)

    return SchedulerRequirements(
        strict=needing("one decider"),
        amounts=tuple(name for name, clause, part in clauses if sum_of(clause, part) is not None),
        at_bind=needing("check at binding"),
        cards=needing("binding with cards"),
        waiting=needing("waiting binding"),
        scores=needing("scores"),
        namespaces=tuple(sorted({p.namespace for p in policies if p.namespace is not None})),
        portable=tuple(policy.address for policy in policies if policy.portable),
    )
