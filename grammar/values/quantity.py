"""Quantities: exact amounts as Kubernetes writes them, their functions and operators.

k8s.io/apimachinery/pkg/api/resource, and Kubernetes' CEL library for quantities.
"""

from __future__ import annotations

import functools
import math
import re
from dataclasses import dataclass, field
from fractions import Fraction
from operator import add, ge, gt, le, lt, sub
from typing import ClassVar

from grammar.tree.types import BOOL, DOUBLE, INT, QUANTITY, STRING, Overload, function, member
from grammar.values.errors import EvaluationError, has_value
from grammar.values.numbers import checked
from grammar.values.sizes import parsed

NANO = 10**9
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_QUANTITY = re.compile(
    r"([+-]?)(\d*\.?\d*)(?:(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE])|[eE]([+-]?0*\d{1,18}))?\Z", re.ASCII
)
_DIGIT_FIRST = re.compile(r"[+-]?\.?\d", re.ASCII)
_WRONG_SUFFIX = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))\s*([A-Za-z]+)\Z", re.ASCII)
_MOST_CHARACTERS = 200
# With a larger exponent an amount is out of range, with a smaller one the least that there is.
_MOST_EXPONENT = 400
# What Go caps a binary quantity at, silently; decimal ones it does not.
_LARGEST_BINARY = (2**63 - 1) * NANO
# Far more than any resource, and still in the range of a double.
_LARGEST = 10**100


# Immutable by convention. Rules make one for each node; a frozen class takes three times as long.
@dataclass(slots=True, unsafe_hash=True)
class Quantity:
    """A quantity: an amount in units of 10⁻⁹, and the kind of its printed suffix.

    Equality and order depend only on the amount: `1000m` equals `1`.
    """

    nanos: int
    suffix: str = field(default="decimal", compare=False)
    ZERO: ClassVar[Quantity]

    @staticmethod
    @functools.lru_cache(maxsize=32_768)
    def parse(text: str) -> Quantity:
        """The quantity of a text; amounts finer than 10⁻⁹ round up, away from 0.

        As in Go, a text without a digit is 0: `-`, `.` and `Ki`. Raises EvaluationError for any
        other text; its message is a hint.
        """
        match = _QUANTITY.match(text) if 0 < len(text) <= _MOST_CHARACTERS else None
        if match is None:
            raise EvaluationError(_advice(text))
        sign, digits, suffix, exponent = match.groups()
        # Go reads no number where it has to be exact beyond 64 bits.
        if digits in ("", ".") and (suffix in ("Pi", "Ei") or int(exponent or 0) < _DECIMAL["n"]):
            raise EvaluationError(_advice(text))
        power = max(-_MOST_EXPONENT, min(int(exponent or 0), _MOST_EXPONENT))
        scale = (
            Fraction(_BINARY[suffix])
            if suffix in _BINARY
            else Fraction(10) ** (power + _DECIMAL.get(suffix or "", 0))
        )
        whole, _, part = digits.partition(".")
        amount = Fraction(f"{whole or 0}.{part or 0}") * scale * NANO
        nanos = -(-amount.numerator // amount.denominator)
        kind = "decimal" if exponent is None else "exponent"
        if suffix in _BINARY:
            nanos = min(nanos, _LARGEST_BINARY)
            kind = "binary" if nanos >= NANO else "decimal"
        return Quantity.of(-nanos if sign == "-" else nanos, kind)

    @staticmethod
    def written(text: str) -> Quantity:
        """The quantity of a text that somebody has written, with a digit; raises as `parse`."""
        if not _DIGIT_FIRST.match(text):
            raise EvaluationError(_advice(text))
        return Quantity.parse(text)

    @staticmethod
    def of(nanos: int, suffix: str) -> Quantity:
        """The result of an operation; raises EvaluationError beyond ±10¹⁰⁰ units."""
        if not -_LARGEST <= nanos <= _LARGEST:
            raise EvaluationError("quantity out of range")
        return Quantity(nanos, suffix)

    def __add__(self, other: Quantity) -> Quantity:
        """The sum, with this suffix, or, if this is 0, with that of the other, as in Go."""
        return Quantity(self.nanos + other.nanos, self.suffix if self.nanos else other.suffix)

    def __sub__(self, other: Quantity) -> Quantity:
        return Quantity(self.nanos - other.nanos, self.suffix if self.nanos else other.suffix)

    def __lt__(self, other: Quantity) -> bool:
        return self.nanos < other.nanos

    def __le__(self, other: Quantity) -> bool:
        return self.nanos <= other.nanos

    def __str__(self) -> str:
        """The canonical form: the largest suffix that leaves a whole number."""
        if self.suffix == "binary" and self.nanos % NANO == 0 and abs(self.nanos) >= 1024 * NANO:
            return _scaled(self.nanos // NANO, [(f, s) for s, f in reversed(_BINARY.items())])
        # There is no suffix above E.
        if self.suffix == "exponent" or (self.nanos and self.nanos % 10**30 == 0):
            nanos = self.nanos
            if nanos == 0:
                return "0"
            power = -9
            while nanos % 1000 == 0:
                nanos //= 1000
                power += 3
            return f"{nanos}e{power}" if power else str(nanos)
        return _scaled(self.nanos, [(10 ** (e + 9), s) for s, e in reversed(_DECIMAL.items())])


Quantity.ZERO = Quantity(0)


class Resources(dict[str, Quantity]):
    """Amounts by resource name. A resource that is absent reads as 0.

    Objects share it: never write to one that a function has returned.
    """

    __slots__ = ()

    def __missing__(self, resource: str) -> Quantity:
        return Quantity.ZERO


def less(whole: Resources, part: Resources) -> Resources:
    """What is left of each resource of either; below 0 where more is taken than there is."""
    left = Resources(whole)
    for resource, amount in part.items():
        known = left[resource]
        left[resource] = Quantity(known.nanos - amount.nanos, known.suffix)
    return left


LARGEST = Quantity(_LARGEST)


def _advice(text: str) -> str:
    found = _WRONG_SUFFIX.match(text.strip()) if len(text) <= _MOST_CHARACTERS else None
    if found is None or found[2] in _BINARY or found[2] in _DECIMAL:
        return 'write a number with a suffix: `"500m"`, `"2"`, `"1.5Gi"`'
    return f"`{found[2]}` is not a suffix: use n u m k M G T P E, Ki Mi Gi Ti Pi Ei"


def _scaled(amount: int, steps: list[tuple[int, str]]) -> str:
    """The amount in the largest unit that divides it."""
    if amount == 0:
        return "0"
    for factor, suffix in steps:
        if amount % factor == 0:
            return f"{amount // factor}{suffix}"
    return str(amount)


# ---- functions and operators


def times(amount: Quantity, factor: float) -> Quantity:
    """Exact for ints; for doubles rounded to the nearest 10⁻⁹."""
    if isinstance(factor, int):
        return Quantity.of(amount.nanos * factor, amount.suffix)
    if not math.isfinite(factor):
        raise EvaluationError("a quantity cannot be multiplied by a number that is not finite")
    return Quantity.of(round(amount.nanos * Fraction(factor)), amount.suffix)


def divided(amount: Quantity, by: float) -> Quantity:
    if by == 0:
        raise EvaluationError("division by zero")
    if not math.isfinite(by):
        raise EvaluationError("a quantity cannot be divided by a number that is not finite")
    return Quantity.of(round(Fraction(amount.nanos) / Fraction(by)), amount.suffix)


def ratio(left: Quantity, right: Quantity) -> float:
    if right.nanos == 0:
        raise EvaluationError("division by zero")
    return left.nanos / right.nanos


def compare(left: Quantity, right: Quantity) -> int:
    return (left.nanos > right.nanos) - (left.nanos < right.nanos)


def _to_int(amount: Quantity) -> int:
    if amount.nanos % NANO:
        raise EvaluationError(f"`{amount}` is not a whole number")
    return checked(amount.nanos // NANO)


def _sign(amount: Quantity) -> int:
    return (amount.nanos > 0) - (amount.nanos < 0)


def _plus_int(left: Quantity, right: int) -> Quantity:
    return Quantity(left.nanos + right * NANO, left.suffix)


OVERLOADS: tuple[Overload, ...] = (
    function("quantity", (STRING,), QUANTITY, Quantity.parse, parsed),
    function("quantity", (QUANTITY,), QUANTITY, lambda quantity: quantity),
    function("quantity", (INT,), QUANTITY, lambda number: Quantity.parse(str(number))),
    function("isQuantity", (STRING,), BOOL, has_value(Quantity.parse), parsed),
    function("string", (QUANTITY,), STRING, str),
    function("int", (QUANTITY,), INT, _to_int),
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
    member("isInteger", (QUANTITY,), BOOL, lambda q: q.nanos % NANO == 0),
    member("asInteger", (QUANTITY,), INT, _to_int),
    member("asApproximateFloat", (QUANTITY,), DOUBLE, lambda q: q.nanos / NANO),
)
