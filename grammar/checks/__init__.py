"""Static checks beyond types: each file looks for one kind of mistake in a policy that type-checks.

A check is a function from a checked policy to diagnostics. Must not: evaluate against a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from grammar.checks import (
    absent,
    constant,
    contradiction,
    cost,
    patterns,
    percentage,
    sampling,
    shares,
    unused,
    weights,
)
from grammar.cost import LIMIT
from grammar.diagnostics import Diagnostic
from grammar.policy_checker import Checked

Check = Callable[[Checked], Iterator[Diagnostic]]

CHECKS: tuple[Check, ...] = (
    absent.check,
    constant.check,
    contradiction.check,
    patterns.check,
    percentage.check,
    sampling.check,
    shares.check,
    unused.check,
    weights.check,
)


def run(checked: Checked, cost_limit: int = LIMIT) -> list[Diagnostic]:
    """Every finding of every check, in the order of the text; `cost_limit` is in steps."""
    found = [d for check in CHECKS for d in check(checked)]
    found.extend(cost.check(checked, cost_limit))
    return sorted(found, key=lambda d: d.span.start)
