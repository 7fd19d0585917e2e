"""Arithmetic on 64-bit ints and doubles, order, conversions (CEL langdef, Numeric Values)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal
from operator import ge, gt, le, lt
from typing import Any

from grammar.errors import EvaluationError
from grammar.overload import Overload, function
from grammar.types import BOOL, DOUBLE, DURATION, INT, STRING, TIMESTAMP, Type
from grammar.values.duration import SECOND, Duration
from grammar.values.timestamp import Timestamp

_LEAST, _GREATEST = -(2**63), 2**63 - 1
_INTEGER = re.compile(r"[+-]?\d{1,100}\Z", re.ASCII)
_DOUBLE = re.compile(
    r"[+-]?(\d+\.?\d*([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?|inf|infinity|nan)\Z",
    re.ASCII | re.IGNORECASE,
)
_BOOLS = {"1": True, "t": True, "true": True, "TRUE": True, "True": True, "T": True}
_BOOLS |= {"0": False, "f": False, "false": False, "FALSE": False, "False": False, "F": False}


def checked(value: int) -> int:
    """An int that an operation made; raises EvaluationError over 64 bits."""
    if not _LEAST <= value <= _GREATEST:
        raise EvaluationError("integer overflow")
    return value


def divide_ints(left: int, right: int) -> int:
    """Towards zero, as Go."""
    if right == 0:
        raise EvaluationError("division by zero")
    quotient = abs(left) // abs(right)
    return checked(quotient if (left < 0) == (right < 0) else -quotient)


def modulo(left: int, right: int) -> int:
    """With the sign of the left side, as Go."""
    if right == 0:
        raise EvaluationError("modulus by zero")
    if left == _LEAST and right == -1:
        raise EvaluationError("integer overflow")
    rest = abs(left) % abs(right)
    return rest if left >= 0 else -rest


def divide_doubles(left: float, right: float) -> float:
    """IEEE 754: by zero it is an infinity or no number."""
    if right:
        return left / right
    if left == 0 or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1, right)


def _multiply(left: float, right: float) -> float:
    return left * right


def to_int(value: object) -> int:
    match value:
        case float():
            if not math.isfinite(value) or not _LEAST < value < _GREATEST:
                raise EvaluationError("integer overflow")
            return int(value)
        case str():
            if _INTEGER.match(value) is None:
                raise EvaluationError(f"`{value}` is not an int")
            return checked(int(value))
        case Timestamp():
            return value.nanos // SECOND
        case Duration():
            return value.nanos
        case _:
            return int(value)  # type: ignore[call-overload, no-any-return]


def to_double(value: object) -> float:
    if isinstance(value, str):
        if _DOUBLE.match(value) is None:
            raise EvaluationError(f"`{value}` is not a double")
        found = float(value)
        if math.isinf(found) and value[-1].isdigit():
            raise EvaluationError(f"`{value}` is out of a double's range")
        return found
    return float(value)  # type: ignore[arg-type]


def to_bool(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if (found := _BOOLS.get(str(value))) is None:
        raise EvaluationError(f"`{value}` is not a bool")
    return found


def to_string(value: object) -> str:
    """`string(x)`: the shortest text that is read back as the value."""
    match value:
        case bool():
            return "true" if value else "false"
        case float():
            return show_double(value)
        case _:
            return str(value)


def show_double(value: float) -> str:
    """As Go's `%g`: the fewest digits that are read back as the value, `1e+06` from there on."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    _, digits, last = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(last, int)
    power = last + len(digits) - 1
    if not -4 <= power < 6 and value:
        mantissa = "".join(map(str, digits))
        point = "." if len(digits) > 1 else ""
        sign = "-" if value < 0 else ""
        return f"{sign}{mantissa[0]}{point}{mantissa[1:]}e{power:+03d}"
    return plain_double(value)


def plain_double(value: float) -> str:
    """The fewest digits that are read back as the value, never with an exponent: `1000000`."""
    return f"{Decimal(repr(value)):f}".removesuffix(".0")


def _order(op: str, compare: Callable[[Any, Any], Any]) -> tuple[Overload, ...]:
    def as_doubles(left: float, right: float) -> bool:
        return bool(compare(float(left), float(right)))

    same = (BOOL, INT, DOUBLE, STRING, TIMESTAMP, DURATION)
    return (
        *(function(op, (t, t), BOOL, compare) for t in same),
        function(op, (INT, DOUBLE), BOOL, as_doubles),
        function(op, (DOUBLE, INT), BOOL, as_doubles),
    )


def _arithmetic(
    op: str, ints: Callable[[int, int], int], doubles: Callable[[float, float], float]
) -> tuple[Overload, ...]:
    return function(op, (INT, INT), INT, ints), function(op, (DOUBLE, DOUBLE), DOUBLE, doubles)


def _conversions(
    name: str, result: Type, call: Callable[..., object], *sources: Type
) -> tuple[Overload, ...]:
    return tuple(function(name, (source,), result, call) for source in sources)


OVERLOADS: tuple[Overload, ...] = (
    *_order("<", lt),
    *_order("<=", le),
    *_order(">", gt),
    *_order(">=", ge),
    *_arithmetic("+", lambda a, b: checked(a + b), lambda a, b: a + b),
    *_arithmetic("-", lambda a, b: checked(a - b), lambda a, b: a - b),
    *_arithmetic("*", lambda a, b: checked(a * b), _multiply),
    *_arithmetic("/", divide_ints, divide_doubles),
    function("%", (INT, INT), INT, modulo),
    function("-_", (INT,), INT, lambda a: checked(-a)),
    function("-_", (DOUBLE,), DOUBLE, lambda a: -a),
    function("!_", (BOOL,), BOOL, lambda a: not a),
    *_conversions("int", INT, to_int, INT, DOUBLE, STRING, TIMESTAMP, DURATION),
    *_conversions("double", DOUBLE, to_double, INT, DOUBLE, STRING),
    *_conversions("bool", BOOL, to_bool, BOOL, STRING),
    *_conversions("string", STRING, to_string, STRING, BOOL, INT, DOUBLE, TIMESTAMP, DURATION),
)
