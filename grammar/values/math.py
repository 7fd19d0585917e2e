"""cel-go's math extension."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from grammar.errors import EvaluationError
from grammar.overload import Overload, function
from grammar.types import BOOL, DOUBLE, DYN, INT, Type, list_of
from grammar.values.numeric import checked

# `math.greatest` takes any number of arguments; CEL asks for 32 of any call (langdef, Syntax).
_MOST_ARGUMENTS = 32
_MASK = 2**64 - 1


def _extreme(*, least: bool) -> Callable[..., object]:
    def pick(*args: object) -> object:
        items: Sequence[object] = args
        if len(args) == 1 and isinstance(args[0], list | tuple):
            items = args[0]
        if not items:
            raise EvaluationError("no such overload: an empty list has no extreme")
        if not all(isinstance(i, int | float) and not isinstance(i, bool) for i in items):
            raise EvaluationError("no such overload: numbers are needed")
        best = items[0]
        for item in items[1:]:
            if (item < best) if least else (item > best):  # type: ignore[operator]
                best = item
        return best

    return pick


def _rounded(value: float) -> float:
    """Half away from zero; infinities and no-number stay."""
    if not math.isfinite(value):
        return value
    # Adding a half to 0.49999999999999994 gives 1, so the halves are told by the distance to the
    # truncated value.
    whole = float(math.trunc(value))
    rounded = whole + math.copysign(1, value) if abs(value - whole) >= 0.5 else whole
    return math.copysign(rounded, value)


def _whole(call: Callable[[float], int]) -> Callable[[float], float]:
    return lambda value: math.copysign(float(call(value)), value) if math.isfinite(value) else value


def _sign(value: float) -> float:
    if math.isnan(value) or value == 0:
        return value
    return math.copysign(1.0, value)


def _absolute(value: int) -> int:
    return checked(abs(value))


def _signed(bits: int) -> int:
    bits &= _MASK
    return bits - 2**64 if bits >= 2**63 else bits


def _shift(*, left: bool) -> Callable[[int, int], int]:
    def shift(value: int, by: int) -> int:
        if by < 0:
            raise EvaluationError("a negative number of places")
        if by >= 64:
            return 0
        return _signed(value << by) if left else _signed((value & _MASK) >> by)

    return shift


def _square_root(value: float) -> float:
    number = float(value)
    return math.sqrt(number) if number >= 0 or math.isnan(number) else math.nan


def _extremes(name: str, call: Callable[..., object]) -> tuple[Overload, ...]:
    """One argument or a list keeps its type; mixed numbers are dyn."""
    lists = tuple(function(name, (list_of(t),), t, call) for t in (INT, DOUBLE))
    same = tuple(
        function(name, (t,) * n, t, call)
        for t in (INT, DOUBLE)
        for n in range(1, _MOST_ARGUMENTS + 1)
    )
    mixed: list[Overload] = []
    for count in range(2, _MOST_ARGUMENTS + 1):
        params: tuple[Type, ...] = (Type("number"),) * count
        mixed.append(function(name, params, DYN, call))
    return (*lists, *same, *mixed)


OVERLOADS: tuple[Overload, ...] = (
    *_extremes("math.greatest", _extreme(least=False)),
    *_extremes("math.least", _extreme(least=True)),
    function("math.ceil", (DOUBLE,), DOUBLE, _whole(math.ceil)),
    function("math.floor", (DOUBLE,), DOUBLE, _whole(math.floor)),
    function("math.round", (DOUBLE,), DOUBLE, _rounded),
    function("math.trunc", (DOUBLE,), DOUBLE, _whole(math.trunc)),
    function("math.abs", (DOUBLE,), DOUBLE, abs),
    function("math.abs", (INT,), INT, _absolute),
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
