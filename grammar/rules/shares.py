"""Shares: bounds that contradict each other, percentages of few pods, and missing percent signs."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import floor

from grammar.messages.diagnostics import Diagnostic, Fix, Severity
from grammar.rules.rule import Rule, Tree
from grammar.tree import ast
from grammar.tree.clause_parts import Bound
from grammar.tree.clauses import Share, of_kind

_WHOLE = 100

# ---- two shares


class ConflictingShares(Rule):
    """Two shares that cannot both be satisfied.

    These are an `at least` above an `at most`, or two different `exactly`, on the same nodes.
    Numbers, and percentages that are rounded down, are a warning: a workload of few pods may
    satisfy both.
    """

    code = "P0312"
    head = 'policy example in namespace "shop"'
    wrong = (
        'share "floor" { of replicas on nodes where node.labels["disk"] == "ssd" at '
        "least 6 strict }\n"
        'share "ceiling" { of replicas on nodes where node.labels["disk"] == "ssd" at '
        "most 4 strict }"
    )
    right = (
        'share "floor" { of replicas on nodes where node.labels["disk"] == "ssd" at '
        "least 4 strict }\n"
        'share "ceiling" { of replicas on nodes where node.labels["disk"] == "ssd" at '
        "most 6 strict }"
    )

    def look(self, tree: Tree) -> Iterator[Diagnostic]:
        strict = [c for c in of_kind(tree.written.items, Share) if c.strength.strict]
        for number, later in enumerate(strict):
            for earlier in strict[:number]:
                about = [(s.pods, s.when, s.on) for s in (earlier, later)]
                if about[0] != about[1] or not _clash(earlier.bound, later.bound, tree):
                    continue
                percent = "%" if earlier.bound.percent else ""
                says = f"{earlier.bound.kind} {tree.constant(earlier.bound.amount)}{percent}"
                message = f"this contradicts share `{earlier.name}`"
                hint = f"change one of them: that share says {says}"
                kinds = {earlier.bound.kind, later.bound.kind}
                severity: Severity = "error" if percent and "at least" in kinds else "warning"
                yield self.found(message, later.bound.span, hint, severity=severity)


def _clash(one: Bound, other: Bound, tree: Tree) -> bool:
    """Whether no amount is within both bounds; a computed one contradicts nothing."""
    if one.percent != other.percent:
        return False
    low, high = 0.0, float("inf")
    for bound in (one, other):
        if (amount := tree.constant(bound.amount)) is None:
            return False
        low = max(low, amount) if bound.kind != "at most" else low
        high = min(high, amount) if bound.kind != "at least" else high
    return low > high


# ---- percentages of few pods


class VanishingPercentage(Rule):
    """A percentage that is 0 of a workload of the cluster."""

    code = "P0313"
    head = 'policy example in namespace "shop"'
    wrong = 'share "spot" { of replicas on nodes where node.zone == "eu-1a" at most 15% strict }'
    right = (
        'share "spot" { of replicas on nodes where node.zone == "eu-1a" at most 15% '
        "rounding up strict }"
    )

    def look(self, tree: Tree) -> Iterator[Diagnostic]:
        of_share = tree.cluster.replicas if tree.cluster is not None else None
        for clause in tree.clauses(Share) if of_share is not None else ():
            if not clause.strength.strict or not clause.counts_by_workload or of_share is None:
                continue
            found = sorted(of_share(clause).items())
            first = next((each for each in found if _vanishes(clause, each[1], tree)), None)
            if first is not None:
                name, replicas = first
                amount, bound = tree.constant(clause.bound.amount), clause.bound
                meant = f"{bound.kind} {amount}% rounding up"
                message = f"{amount}% of the {replicas} pod{'s' * (replicas > 1)} of `{name}` is 0"
                hint = f"write `{meant}` if such a workload may have a pod there"
                yield self.found(message, bound.span, hint, Fix(bound.span, meant))


def _vanishes(clause: Share, replicas: int, tree: Tree) -> bool:
    """Whether the percentage of a share is 0 of so many pods: 40% of 2 pods is 0.

    `at most` and `exactly` round down. No percentage of no pods is meant, and 0% is, as is what
    `rounding` says.
    """
    bound = clause.bound
    if bound.rounding is not None or not bound.percent or bound.kind == "at least":
        return False
    amount = tree.constant(bound.amount)
    if amount is None or not 0 < amount < _WHOLE:
        return False
    return replicas > 0 and floor(Fraction(str(amount)) / _WHOLE * replicas) == 0


# ---- percent signs

# A share of this many pods, if it is round, is mostly a percentage.
_LEAST_PERCENT = 20
_ROUND_PERCENT = 5
_THIRDS = (33, 66, 67)


class ShareWithoutPercent(Rule):
    """The bound of a share without a percent sign."""

    code = "P0347"
    wrong = 'share "zone a" { of replicas on nodes where node.zone == "a" at most 40 strict }'
    right = 'share "zone a" { of replicas on nodes where node.zone == "a" at most 40% strict }'

    def look(self, tree: Tree) -> Iterator[Diagnostic]:
        for clause in of_kind(tree.written.items, Share):
            bound = clause.bound
            number = tree.constant(bound.amount)
            if number is None:
                continue
            if bound.percent and 0 < number < 1:
                message = f"{number:g}% is less than one of {_WHOLE} pods"
                yield self.instead(message, bound.span, f"{bound.kind} {_WHOLE * number:g}%")
            elif not bound.percent and not isinstance(bound.amount, ast.Expr) and _is_round(number):
                meant = f"{bound.kind} {number:g}%"
                message = f"this is {number:g} pods, and not a part of them"
                hint = f"write `{meant}` for a part, or name the number of pods by a `let`"
                yield self.found(message, bound.span, hint, Fix(bound.span, meant))


def _is_round(number: float) -> bool:
    is_round = number % _ROUND_PERCENT == 0 or number in _THIRDS
    return is_round and _LEAST_PERCENT <= number <= _WHOLE
