"""Numbers: 64-bit ints and doubles, their order and conversions, and cel-go's math extension.

CEL langdef, Numeric Values.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from operator import ge, gt, le, lt
from typing import Any

from grammar.tree.types import (
    BOOL,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    Overload,
    Type,
    function,
    list_of,
)
from grammar.values.errors import EvaluationError
from grammar.values.sizes import compared, deep, parsed, quoted
from grammar.values.time import SECOND, Duration, Timestamp

_LEAST, _GREATEST = -(2**63), 2**63 - 1
_INTEGER = re.compile(r"[+-]?\d{1,100}\Z", re.ASCII)
# More than the greatest double has when it is written out.
_MOST_DIGITS = 1100
_DOUBLE = re.compile(
    r"[+-]?(\d+\.?\d*([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?|inf|infinity|nan)\Z",
    re.ASCII | re.IGNORECASE,
)
_BOOLS = {"1": True, "t": True, "true": True, "TRUE": True, "True": True, "T": True}
_BOOLS |= {"0": False, "f": False, "false": False, "FALSE": False, "False": False, "F": False}


def checked(value: int) -> int:
    """The result of an operation on ints; raises EvaluationError beyond 64 bits."""
    if not _LEAST <= value <= _GREATEST:
        raise EvaluationError("integer overflow")
    return value


def divide_ints(left: int, right: int) -> int:
    """The quotient, rounded towards zero as in Go."""
    if right == 0:
        raise EvaluationError("division by zero")
    quotient = abs(left) // abs(right)
    return checked(quotient if (left < 0) == (right < 0) else -quotient)


def modulo(left: int, right: int) -> int:
    """The remainder, with the sign of the left side as in Go."""
    if right == 0:
        raise EvaluationError("modulus by zero")
    if left == _LEAST and right == -1:
        raise EvaluationError("integer overflow")
    rest = abs(left) % abs(right)
    return rest if left >= 0 else -rest


def divide_doubles(left: float, right: float) -> float:
    """The quotient of IEEE 754: division by zero gives an infinity or NaN."""
    if right:
        return left / right
    if left == 0 or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1, right)


def to_int(value: object) -> int:
    match value:
        case float():
            if not math.isfinite(value) or not _LEAST < value < _GREATEST:
                raise EvaluationError("integer overflow")
            return int(value)
        case str():
            if _INTEGER.match(value) is None:
                raise EvaluationError(f"{quoted(value)} is not an int")
            return checked(int(value))
        case Timestamp():
            return value.nanos // SECOND
        case Duration():
            return value.nanos
        case _:
            return int(value)  # type: ignore[call-overload, no-any-return]


def to_double(value: object) -> float:
    if isinstance(value, str):
        if len(value) > _MOST_DIGITS or _DOUBLE.match(value) is None:
            raise EvaluationError(f"{quoted(value)} is not a double")
        found = float(value)
        if math.isinf(found) and value[-1].isdigit():
            raise EvaluationError(f"{quoted(value)} is out of a double's range")
        return found
    return float(value)  # type: ignore[arg-type]


def to_bool(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if (found := _BOOLS.get(str(value))) is None:
        raise EvaluationError(f"{quoted(value)} is not a bool")
    return found


def to_string(value: object) -> str:
    """`string(x)`: the shortest text that parses to the value."""
    match value:
        case bool():
            return "true" if value else "false"
        case float():
            return show_double(value)
        case _:
            return str(value)


def show_double(value: float) -> str:
    """The shortest text that parses to the value, as Go's `%g`: `1e+06` from there on."""
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
    """The shortest text that parses to the value, without an exponent: `1000000`."""
    return f"{Decimal(repr(value)):f}".removesuffix(".0")


def _order(op: str, compare: Callable[[Any, Any], Any]) -> tuple[Overload, ...]:
    def as_doubles(left: float, right: float) -> bool:
        return bool(compare(float(left), float(right)))

    same = (BOOL, INT, DOUBLE, TIMESTAMP, DURATION)
    return (
        *(function(op, (t, t), BOOL, compare) for t in same),
        function(op, (STRING, STRING), BOOL, compare, compared),
        function(op, (INT, DOUBLE), BOOL, as_doubles),
        function(op, (DOUBLE, INT), BOOL, as_doubles),
    )


def _arithmetic(
    op: str, ints: Callable[[int, int], int], doubles: Callable[[float, float], float]
) -> tuple[Overload, ...]:
    return function(op, (INT, INT), INT, ints), function(op, (DOUBLE, DOUBLE), DOUBLE, doubles)


_SHOWN = (STRING, BOOL, INT, DOUBLE, TIMESTAMP, DURATION)

_ARITHMETIC_OVERLOADS: tuple[Overload, ...] = (
    *_order("<", lt),
    *_order("<=", le),
    *_order(">", gt),
    *_order(">=", ge),
    *_arithmetic("+", lambda a, b: checked(a + b), lambda a, b: a + b),
    *_arithmetic("-", lambda a, b: checked(a - b), lambda a, b: a - b),
    *_arithmetic("*", lambda a, b: checked(a * b), lambda a, b: a * b),
    *_arithmetic("/", divide_ints, divide_doubles),
    function("%", (INT, INT), INT, modulo),
    function("-_", (INT,), INT, lambda a: checked(-a)),
    function("-_", (DOUBLE,), DOUBLE, lambda a: -a),
    function("!_", (BOOL,), BOOL, lambda a: not a),
    *(function("int", (t,), INT, to_int) for t in (INT, DOUBLE, TIMESTAMP, DURATION)),
    function("int", (STRING,), INT, to_int, parsed),
    *(function("double", (t,), DOUBLE, to_double) for t in (INT, DOUBLE)),
    function("double", (STRING,), DOUBLE, to_double, parsed),
    function("bool", (BOOL,), BOOL, to_bool),
    function("bool", (STRING,), BOOL, to_bool, parsed),
    *(function("string", (t,), STRING, to_string) for t in _SHOWN),
)


# ---- cel-go's math extension

# `math.greatest` is variadic; CEL requires at least 32 arguments for any call (langdef, Syntax).
_MOST_ARGUMENTS = 32
_MASK = 2**64 - 1


def _extreme(pick: Callable[[Any], object]) -> Callable[..., object]:
    def extreme(*args: object) -> object:
        items: Sequence[object] = args
        if len(args) == 1 and isinstance(args[0], list | tuple):
            items = args[0]
        if not items:
            raise EvaluationError("no such overload: an empty list has no minimum or maximum")
        if not all(isinstance(i, int | float) and not isinstance(i, bool) for i in items):
            raise EvaluationError("no such overload: numbers are needed")
        return pick(items)

    return extreme


def _rounded(value: float) -> float:
    """The value rounded, halves away from zero; infinities and NaN stay."""
    if not math.isfinite(value):
        return value
    # 0.49999999999999994 + 0.5 is 1, so halves are recognised by their distance from the truncated
    # value.
    whole = float(math.trunc(value))
    rounded = whole + math.copysign(1, value) if abs(value - whole) >= 0.5 else whole
    return math.copysign(rounded, value)


def _whole(call: Callable[[float], int]) -> Callable[[float], float]:
    return lambda value: math.copysign(float(call(value)), value) if math.isfinite(value) else value


def _sign(value: float) -> float:
    if math.isnan(value) or value == 0:
        return value
    return math.copysign(1.0, value)


def _signed(bits: int) -> int:
    bits &= _MASK
    return bits - 2**64 if bits >= 2**63 else bits


def _shift(*, left: bool) -> Callable[[int, int], int]:
    def shift(value: int, by: int) -> int:
        if by < 0:
            raise EvaluationError("the number of places is negative")
        if by >= 64:
            return 0
        return _signed(value << by) if left else _signed((value & _MASK) >> by)

    return shift


def _square_root(value: float) -> float:
    return math.nan if value < 0 else math.sqrt(value)


def _extremes(name: str, call: Callable[..., object]) -> tuple[Overload, ...]:
    """The overloads of a minimum or maximum; of ints and doubles together it is dyn."""
    lists = tuple(function(name, (list_of(t),), t, call, deep) for t in (INT, DOUBLE))
    counts = range(1, _MOST_ARGUMENTS + 1)
    same = (function(name, (t,) * n, t, call) for t in (INT, DOUBLE) for n in counts)
    mixed = (function(name, (Type("number"),) * n, DYN, call) for n in counts[1:])
    return (*lists, *same, *mixed)


_MATH_OVERLOADS: tuple[Overload, ...] = (
    *_extremes("math.greatest", _extreme(max)),
    *_extremes("math.least", _extreme(min)),
    function("math.ceil", (DOUBLE,), DOUBLE, _whole(math.ceil)),
    function("math.floor", (DOUBLE,), DOUBLE, _whole(math.floor)),
    function("math.round", (DOUBLE,), DOUBLE, _rounded),
    function("math.trunc", (DOUBLE,), DOUBLE, _whole(math.trunc)),
    function("math.abs", (DOUBLE,), DOUBLE, abs),
    function("math.abs", (INT,), INT, lambda value: checked(abs(value))),
    function("math.sign", (DOUBLE,), DOUBLE, _sign),
    function("math.sign", (INT,), INT, lambda value: (value > 0) - (value < 0)),
    function("math.isNaN", (DOUBLE,), BOOL, math.isnan),
    function("math.isInf", (DOUBLE,), BOOL, math.isinf),
    function("math.isFinite", (DOUBLE,), BOOL, math.isfinite),
    function("math.sqrt", (DOUBLE,), DOUBLE, _square_root),
    function("math.sqrt", (INT,), DOUBLE, _square_root),
    function("math.bitAnd", (INT, INT), INT, lambda a, b: a & b),
    function("math.bitOr", (INT, INT), INT, lambda a, b: a | b),
    function("math.bitXor", (INT, INT), INT, lambda a, b: a ^ b),
    function("math.bitNot", (INT,), INT, lambda a: ~a),
    function("math.bitShiftLeft", (INT, INT), INT, _shift(left=True)),
    function("math.bitShiftRight", (INT, INT), INT, _shift(left=False)),
)

OVERLOADS = (*_ARITHMETIC_OVERLOADS, *_MATH_OVERLOADS)
