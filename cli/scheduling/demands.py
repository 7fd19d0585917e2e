"""What policies need of a configuration: clauses that hold only if kube-scheduler asks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from cli.scheduling.case import Demands
from cli.world import read_policies
from grammar.clauses import Clause, Filter, Limit, Score, Share, Spread
from grammar.schema import load_schema


def read_demands(paths: Sequence[Path]) -> Demands:
    """Those of the policies in files and folders. Raises CommandError for policies with errors."""
    validation = read_policies(paths, load_schema()).validation
    clauses = [
        (f"{policy.policy.address}/{clause.name}", clause)
        for policy in validation.policies
        if policy.policy.setting("mode", "enforce") != "audit"
        for part in (policy, *policy.uses)
        for clause in part.policy.clauses
    ]

    def those(wanted: Callable[[Clause], bool]) -> tuple[str, ...]:
        return tuple(name for name, clause in clauses if wanted(clause))

    return Demands(
        strict=those(lambda c: isinstance(c, Share | Spread | Limit) and c.strength.strict),
        at_bind=those(lambda c: isinstance(c, Filter) and c.at_bind),
        scores=those(lambda c: isinstance(c, Score)),
    )
