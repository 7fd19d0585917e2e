"""Static checks beyond types: each file looks for one kind of mistake in a policy that type-checks.

A check is a function from a checked policy to diagnostics. Must not: evaluate against a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from grammar.checks.costs import expensive_expressions
from grammar.checks.counts import (
    conflicting_shares,
    light_weights,
    sampled_ranges,
    vanishing_percentages,
)
from grammar.checks.outcomes import absent_negations, constant_conditions, contradictions
from grammar.checks.references import bad_patterns, unused_definitions
from grammar.cost import LIMIT
from grammar.diagnostics import Diagnostic
from grammar.policy_checker import Checked

Check = Callable[[Checked], Iterator[Diagnostic]]

CHECKS: tuple[Check, ...] = (
    absent_negations,
    constant_conditions,
    contradictions,
    bad_patterns,
    vanishing_percentages,
    sampled_ranges,
    conflicting_shares,
    unused_definitions,
    light_weights,
)


def run(checked: Checked, cost_limit: int = LIMIT) -> list[Diagnostic]:
    """Every finding of every check, in the order of the text; `cost_limit` is in steps."""
    found = [d for check in CHECKS for d in check(checked)]
    found.extend(expensive_expressions(checked, cost_limit))
    return sorted(found, key=lambda d: d.span.start)
