"""Amounts of sums: what a pod adds, and what bounds a sum, in thousandths."""

from __future__ import annotations

import math
from fractions import Fraction

from engine.cache.tallies import FULL
from grammar.values.errors import EvaluationError
from grammar.values.quantity import NANO, Quantity

# What a sum adds up.
THOUSANDTHS = 1000
_NANOS = NANO // THOUSANDTHS


def _thousandths(value: object) -> Fraction:
    """An amount in thousandths. Raises EvaluationError if it is none."""
    match value:
        case Quantity(nanos=nanos):
            return Fraction(nanos, _NANOS)
        case int() if not isinstance(value, bool):
            return Fraction(value * THOUSANDTHS)
        case float() if math.isfinite(value):
            # As it is written: as a binary fraction, 0.1 is more than a tenth.
            return Fraction(str(value)) * THOUSANDTHS
        case _:
            raise EvaluationError("an amount is a number or a quantity")


def added(value: object) -> int:
    """What an amount adds to a sum, in thousandths, rounded up; at most FULL.

    Raises EvaluationError if it is none, or negative.
    """
    found = _thousandths(value)
    if found < 0:
        raise EvaluationError(f"the amount is negative: {value}")
    return min(math.ceil(found), FULL)


def sum_bound(value: object, *, up: bool) -> int:
    """The bound of a sum, in thousandths, rounded down or `up`; a negative one is 0.

    It is less than FULL. Raises EvaluationError if it is no amount.
    """
    found = _thousandths(value)
    return min(max(0, math.ceil(found) if up else math.floor(found)), FULL - 1)
