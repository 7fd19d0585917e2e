"""What policies need of a kube-scheduler configuration, beyond a `filterVerb`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cli.world import read_policies
from grammar.checks.summed_requests import sum_of
from grammar.meaning.schema import load_schema
from grammar.tree.clauses import Cards, Clause, Filter, Limit, Score, Share, Spread


@dataclass(frozen=True, slots=True)
class SchedulerRequirements:
    """The clauses of policies that need more than a `filterVerb`, each as `policy/clause`.

    `amounts` are the filters that add up what pods ask for, with or without a check at binding;
    `cards` give pods cards when they are bound. `scores` has the bounds that are preferences.
    `namespaces` are those of namespaced policies, and `portable` the policies that are to be told
    to others.
    """

    strict: tuple[str, ...] = ()
    amounts: tuple[str, ...] = ()
    at_bind: tuple[str, ...] = ()
    cards: tuple[str, ...] = ()
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

    def those(wanted: Callable[[Clause], bool]) -> tuple[str, ...]:
        return tuple(name for name, clause, _ in clauses if wanted(clause))

    return SchedulerRequirements(
        strict=those(lambda c: isinstance(c, Share | Spread | Limit) and c.strength.strict),
        amounts=tuple(name for name, clause, part in clauses if sum_of(clause, part) is not None),
        at_bind=those(lambda c: isinstance(c, Filter) and c.at_bind),
        cards=those(lambda c: isinstance(c, Cards)),
        scores=those(
            lambda c: (
                isinstance(c, Score)
                or (isinstance(c, Share | Spread | Limit) and not c.strength.strict)
            )
        ),
        namespaces=tuple(sorted({p.namespace for p in policies if p.namespace is not None})),
        portable=tuple(policy.address for policy in policies if policy.portable),
    )
