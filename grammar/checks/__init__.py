"""Static checks beyond types: functions from a checked policy to diagnostics, by topic.

Belongs here: mistakes of a policy that type-checks. Must not: evaluate against a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from grammar.checks.amounts import sums_in_filters
from grammar.checks.conditions import (
    absent_negations,
    constant_conditions,
    contradictions,
    silent_protections,
)
from grammar.checks.costs import LIMIT, expensive_expressions
from grammar.checks.mutual import mutual_limits
from grammar.checks.numbers import (
    bounds,
    conflicting_shares,
    light_weights,
    sampled_ranges,
    vanishing_percentages,
)
from grammar.checks.references import bad_patterns, unused_definitions
from grammar.diagnostics import Diagnostic
from grammar.policy_checker import Checked

Check = Callable[[Checked], Iterator[Diagnostic]]

CHECKS: tuple[Check, ...] = (
    absent_negations,
    silent_protections,
    constant_conditions,
    contradictions,
    bad_patterns,
    bounds,
    vanishing_percentages,
    sampled_ranges,
    conflicting_shares,
    unused_definitions,
    light_weights,
    sums_in_filters,
    mutual_limits,
)


def run(checked: Checked, cost_limit: int = LIMIT) -> list[Diagnostic]:
    """The diagnostics of all checks, in the order of the text; `cost_limit` is in steps."""
    found = [d for check in CHECKS for d in check(checked)]
    found.extend(expensive_expressions(checked, cost_limit))
    return sorted(found, key=lambda d: d.span.start)
