"""Percentages that are nothing of few replicas: 40% of 2 is 0."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import floor

from grammar.clauses import Share
from grammar.diagnostics import Diagnostic
from grammar.policy_checker import Checked


def check(checked: Checked) -> Iterator[Diagnostic]:
    """At most and exactly round down: warn up to which number of pods that leaves none."""
    for clause in checked.policy.clauses:
        if not isinstance(clause, Share) or not clause.strength.strict:
            continue
        bound = clause.bound
        if not bound.percent or bound.kind == "at least" or not 0 < bound.amount < 100:
            continue
        part = Fraction(str(bound.amount)) / 100
        most = max(n for n in range(1, 101) if floor(part * n) == 0)
        counts = "1 pod" if most == 1 else f"up to {most} pods"
        yield Diagnostic(
            "P0313",
            "warning",
            f"{bound.amount}% of {counts} is 0",
            bound.span,
            hint="such a workload gets none of these nodes; write a number if one must fit",
        )
