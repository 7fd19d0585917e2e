"""Scores too light to be seen: the wire has eleven steps."""

from __future__ import annotations

from collections.abc import Iterator

from grammar.clauses import Clause, Limit, Score, Share, Spread
from grammar.diagnostics import Diagnostic
from grammar.policy_checker import Checked

# A step of the answer is ten points of the mean.
STEP = 10.0


def check(checked: Checked) -> Iterator[Diagnostic]:
    """Warn where a clause can move the mean by less than one step even from 0 to 100."""
    weights: dict[Clause, float] = {}
    for clause in checked.policy.clauses:
        if isinstance(clause, Score):
            weights[clause] = abs(clause.weight)
        elif isinstance(clause, Share | Spread | Limit) and clause.strength.weight is not None:
            weights[clause] = clause.strength.weight
    total = sum(weights.values())
    for clause, weight in weights.items():
        effect = 100 * weight / total
        if effect < STEP:
            yield Diagnostic(
                "P0315",
                "warning",
                f"weight {weight} of {total} moves the answer by less than one of its ten steps",
                clause.name_span,
                hint=f"give it at least {total / STEP:g}, or leave it out",
            )
