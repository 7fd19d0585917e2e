"""Percentages that are nothing of few replicas: 40% of 2 is 0."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import floor

from grammar.clauses import Bound, Clause, Limit, Score, Share, Spread
from grammar.diagnostics import Diagnostic
from grammar.policy_checker import Checked


def vanishing_percentages(checked: Checked) -> Iterator[Diagnostic]:
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


# ---- Strict shares of the same pods on the same nodes that cannot hold together.


def conflicting_shares(checked: Checked) -> Iterator[Diagnostic]:
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


# ---- `range minmax` and `range rank` compare the nodes of one request, which can be a sample.


def sampled_ranges(checked: Checked) -> Iterator[Diagnostic]:
    """Warn that kube-scheduler offers a part of the nodes unless told otherwise (C12)."""
    for clause in checked.policy.clauses:
        if isinstance(clause, Score) and isinstance(clause.range, str):
            yield Diagnostic(
                "P0314",
                "warning",
                f"`range {clause.range}` compares only the nodes that kube-scheduler offers",
                clause.value.span,
                hint="set `percentageOfNodesToScore: 100`, or write the range in numbers",
            )


# ---- Scores too light to be seen: the wire has eleven steps.

# A step of the answer is ten points of the mean.
STEP = 10.0


def light_weights(checked: Checked) -> Iterator[Diagnostic]:
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
