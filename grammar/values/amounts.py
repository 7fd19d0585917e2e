"""What quantities can be asked, and their arithmetic (Kubernetes' CEL library and operators)."""

from __future__ import annotations

import math
from fractions import Fraction
from operator import add, ge, gt, le, lt, sub

from grammar.errors import EvaluationError
from grammar.types import BOOL, DOUBLE, INT, QUANTITY, STRING, Overload, function, member
from grammar.values.numbers import checked
from grammar.values.quantity import NANO, Quantity


def is_quantity(text: str) -> bool:
    try:
        Quantity.parse(text)
    except EvaluationError:
        return False
    return True


def to_quantity(value: object) -> Quantity:
    return value if isinstance(value, Quantity) else Quantity.parse(str(value))


def times(amount: Quantity, factor: float) -> Quantity:
    """Exact for ints; for doubles rounded to the nearest 10⁻⁹."""
    if isinstance(factor, int):
        return Quantity.of(amount.nanos * factor, amount.suffix)
    if not math.isfinite(factor):
        raise EvaluationError("a quantity times no finite number")
    return Quantity.of(round(amount.nanos * Fraction(factor)), amount.suffix)


def divided(amount: Quantity, by: float) -> Quantity:
    if by == 0:
        raise EvaluationError("division by zero")
    if not math.isfinite(by):
        raise EvaluationError("a quantity divided by no finite number")
    return Quantity.of(round(Fraction(amount.nanos) / Fraction(by)), amount.suffix)


def ratio(left: Quantity, right: Quantity) -> float:
    if right.nanos == 0:
        raise EvaluationError("division by zero")
    return left.nanos / right.nanos


def compare(left: Quantity, right: Quantity) -> int:
    return (left.nanos > right.nanos) - (left.nanos < right.nanos)


def _sign(amount: Quantity) -> int:
    return (amount.nanos > 0) - (amount.nanos < 0)


def _as_integer(amount: Quantity) -> int:
    if amount.nanos % NANO:
        raise EvaluationError(f"`{amount}` is not a whole number")
    return checked(amount.nanos // NANO)


def _is_integer(amount: Quantity) -> bool:
    return amount.nanos % NANO == 0 and -(2**63) <= amount.nanos // NANO < 2**63


def _plus_int(left: Quantity, right: int) -> Quantity:
    return Quantity(left.nanos + right * NANO, left.suffix)


OVERLOADS: tuple[Overload, ...] = (
    function("quantity", (STRING,), QUANTITY, to_quantity),
    function("quantity", (QUANTITY,), QUANTITY, to_quantity),
    function("quantity", (INT,), QUANTITY, to_quantity),
    function("isQuantity", (STRING,), BOOL, is_quantity),
    function("string", (QUANTITY,), STRING, str),
    function("int", (QUANTITY,), INT, _as_integer),
    function("double", (QUANTITY,), DOUBLE, lambda q: q.nanos / NANO),
    *(
        function(op, (QUANTITY, QUANTITY), BOOL, lambda a, b, c=c: c(a.nanos, b.nanos))
        for op, c in (("<", lt), ("<=", le), (">", gt), (">=", ge))
    ),
    function("+", (QUANTITY, QUANTITY), QUANTITY, add),
    function("-", (QUANTITY, QUANTITY), QUANTITY, sub),
    function("-_", (QUANTITY,), QUANTITY, lambda q: Quantity(-q.nanos, q.suffix)),
    function("/", (QUANTITY, QUANTITY), DOUBLE, ratio),
    *(function("*", (QUANTITY, t), QUANTITY, times) for t in (INT, DOUBLE)),
    *(function("*", (t, QUANTITY), QUANTITY, lambda n, q: times(q, n)) for t in (INT, DOUBLE)),
    *(function("/", (QUANTITY, t), QUANTITY, divided) for t in (INT, DOUBLE)),
    member("isLessThan", (QUANTITY, QUANTITY), BOOL, lambda a, b: a.nanos < b.nanos),
    member("isGreaterThan", (QUANTITY, QUANTITY), BOOL, lambda a, b: a.nanos > b.nanos),
    member("compareTo", (QUANTITY, QUANTITY), INT, compare),
    member("add", (QUANTITY, QUANTITY), QUANTITY, add),
    member("add", (QUANTITY, INT), QUANTITY, _plus_int),
    member("sub", (QUANTITY, QUANTITY), QUANTITY, sub),
    member("sub", (QUANTITY, INT), QUANTITY, lambda q, n: _plus_int(q, -n)),
    # Kubernetes documents `q.sign()` and declares `sign(q)`.
    member("sign", (QUANTITY,), INT, _sign),
    function("sign", (QUANTITY,), INT, _sign),
    member("isInteger", (QUANTITY,), BOOL, _is_integer),
    member("asInteger", (QUANTITY,), INT, _as_integer),
    member("asApproximateFloat", (QUANTITY,), DOUBLE, lambda q: q.nanos / NANO),
)
