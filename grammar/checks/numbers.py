"""Checks of the numbers in clauses: percentages, bounds of shares, ranges and weights."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import floor

from grammar.clauses import Bound, Clause, CountingClause, Score, Share
from grammar.diagnostics import Diagnostic
from grammar.policy_checker import Checked


def vanishing_percentages(checked: Checked) -> Iterator[Diagnostic]:
    """A warning (P0313) for each percentage that is 0 of a few pods.

    `at most` and `exactly` round down: 40% of 2 pods is 0.
    """
    for clause in checked.policy.clauses:
        if not isinstance(clause, Share) or not clause.strength.strict:
            continue
        bound = clause.bound
        if not bound.percent or bound.kind == "at least" or not 0 < bound.amount < 100:
            continue
        part = Fraction(str(bound.amount)) / 100
        most = max(n for n in range(1, 101) if floor(part * n) == 0)
        counts = "1 pod" if most == 1 else f"up to {most} pods"
        message = f"{bound.amount}% of {counts} is 0"
        hint = "write a number if such a workload may have a pod on these nodes"
        yield Diagnostic("P0313", "warning", message, bound.span, hint=hint)


def conflicting_shares(checked: Checked) -> Iterator[Diagnostic]:
    """A warning (P0312) for strict shares of the same pods on the same nodes that contradict.

    That is an `at least` above an `at most`, or two different `exactly`.
    """
    strict = [c for c in checked.policy.clauses if isinstance(c, Share) and c.strength.strict]
    for number, later in enumerate(strict):
        for earlier in strict[:number]:
            same = (earlier.pods, earlier.on, earlier.when) == (later.pods, later.on, later.when)
            if same and _clash(earlier.bound, later.bound):
                says = f"{earlier.bound.kind} {earlier.bound.amount}"
                message = f"this contradicts share `{earlier.name}`"
                hint = f"change one of them: that share says {says}"
                yield Diagnostic("P0312", "warning", message, later.bound.span, hint=hint)


def _clash(one: Bound, other: Bound) -> bool:
    if one.percent != other.percent:
        return False
    low = max((b.amount for b in (one, other) if b.kind != "at most"), default=0)
    high = min((b.amount for b in (one, other) if b.kind != "at least"), default=float("inf"))
    return low > high


def sampled_ranges(checked: Checked) -> Iterator[Diagnostic]:
    """A warning (P0314) for `range minmax` and `range rank`: they compare nodes of one request.

    By default kube-scheduler sends only a part of a large cluster's nodes (C12).
    """
    for clause in checked.policy.clauses:
        if isinstance(clause, Score) and isinstance(clause.range, str):
            message = f"`range {clause.range}` compares only the nodes that kube-scheduler sends"
            hint = "set `percentageOfNodesToScore: 100`, or write the range in numbers"
            yield Diagnostic("P0314", "warning", message, clause.value.span, hint=hint)


# A score on the wire is 0 to 10, so one step of it is ten points of the mean.
STEP = 10.0


def light_weights(checked: Checked) -> Iterator[Diagnostic]:
    """A warning (P0315) for each clause that can move the answer by less than one step."""
    weights: dict[Clause, float] = {}
    for clause in checked.policy.clauses:
        if isinstance(clause, Score):
            weights[clause] = abs(clause.weight)
        elif isinstance(clause, CountingClause) and clause.strength.weight is not None:
            weights[clause] = clause.strength.weight
    total = sum(weights.values())
    for clause, weight in weights.items():
        effect = 100 * weight / total
        if effect < STEP:
            changes = "changes the score by less than one of its ten steps"
            message = f"weight {weight} of {total} {changes}"
            hint = f"write at least {total / STEP:g}, or remove the clause"
            yield Diagnostic("P0315", "warning", message, clause.name_span, hint=hint)
