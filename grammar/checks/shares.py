"""Strict shares of the same pods on the same nodes that cannot hold together."""

from __future__ import annotations

from collections.abc import Iterator

from grammar.clauses import Bound, Share
from grammar.diagnostics import Diagnostic
from grammar.policy_checker import Checked


def check(checked: Checked) -> Iterator[Diagnostic]:
    """An `at least` above an `at most`, or two different `exactly`s."""
    strict = [c for c in checked.policy.clauses if isinstance(c, Share) and c.strength.strict]
    for number, later in enumerate(strict):
        for earlier in strict[:number]:
            if (earlier.of, earlier.on, earlier.when) == (
                later.of,
                later.on,
                later.when,
            ) and _clash(earlier.bound, later.bound):
                yield Diagnostic(
                    "P0312",
                    "warning",
                    f"this cannot hold together with share `{earlier.name}`",
                    later.bound.span,
                    hint=f"that one says {earlier.bound.kind} {earlier.bound.amount}",
                )


def _clash(one: Bound, other: Bound) -> bool:
    if one.percent != other.percent:
        return False
    low = max((b.amount for b in (one, other) if b.kind != "at most"), default=0)
    high = min((b.amount for b in (one, other) if b.kind != "at least"), default=float("inf"))
    return low > high
