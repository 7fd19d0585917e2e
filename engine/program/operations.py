"""Operations: the closures of compiled expressions, one small function for each operation.

Types and constants are resolved when a closure is made. The meaning of an operation is in
`grammar.values`; a closure only reaches it directly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from operator import attrgetter, ge, gt, le, lt
from typing import Any

from engine.cache.tallies import FULL
from engine.program.frame import Evaluate, Evaluation, Frame, Message
from grammar.messages.texts import MOST_SHOWN, MOST_WHOLE, cut, shown
from grammar.tree.types import BOOL, DOUBLE, DURATION, INT, QUANTITY, STRING, TIMESTAMP, Type, Work
from grammar.values.errors import EvaluationError, MissingError, StepLimitError
from grammar.values.format import show
from grammar.values.kinds import equals
from grammar.values.lists import element
from grammar.values.maps import build, lookup
from grammar.values.optional import Optional, through
from grammar.values.quantity import NANO, Quantity
from grammar.values.sizes import STEPS, quoted
from grammar.values.time import Duration

_COMPARE: dict[str, Callable[[Any, Any], Any]] = {"<": lt, "<=": le, ">": gt, ">=": ge}
# Types that Python compares as CEL does, if both sides have the same type.
_PLAIN = frozenset({INT, STRING, DOUBLE})
_EQUAL_AS_PYTHON = frozenset({BOOL, INT, STRING, DOUBLE, QUANTITY, DURATION, TIMESTAMP})


def constant(value: object) -> Evaluate:
    return lambda _: value


def variable(name: str) -> Evaluate:
    """A declared name, read from the frame."""
    read = attrgetter(name)

    def run(frame: Frame) -> object:
        value = read(frame)
        if value is None:
            raise MissingError(f"there is no `{name}` here")
        return value

    return run


def field(operand: Evaluate, name: str, zero: object, *, optional: bool) -> Evaluate:
    """A field of a record; if absent, its zero value, or an error if the field is optional."""

    def run(frame: Frame) -> object:
        value = getattr(operand(frame), name, None)
        if value is not None:
            return value
        if optional:
            raise MissingError(f"there is no `{name}`")
        return zero

    return run


# Chooses a part of a value while a frame runs.
Pick = Callable[[Frame, object], object]


def member(operand: Evaluate, pick: Pick, *, optional: bool) -> Evaluate:
    """A selection from a value of unknown type; `?` and optionals give optionals."""

    def run(frame: Frame) -> object:
        value = operand(frame)
        if not optional and not isinstance(value, Optional):
            return pick(frame, value)
        return through(value, lambda inner: pick(frame, inner))

    return run


def key(operand: Evaluate, constant: str) -> Evaluate:
    """`map["constant"]` of a value whose type is a map with string keys."""
    missing = f"there is no key {quoted(constant)}"

    def run(frame: Frame) -> object:
        try:
            return operand(frame)[constant]  # type: ignore[index]
        except KeyError:
            raise MissingError(missing) from None

    return run


def index(operand: Evaluate, at: Evaluate, *, optional: bool) -> Evaluate:
    """`list[i]` or `map[key]`, as the value requires."""

    def run(frame: Frame) -> object:
        value, where = operand(frame), at(frame)
        if not optional and not isinstance(value, Optional):
            return _look_up(value, where)
        return through(value, lambda inner: _look_up(inner, where))

    return run


def _look_up(value: object, where: object) -> object:
    if isinstance(value, Mapping):
        return lookup(value, where)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return element(value, where)
    raise EvaluationError("no such overload: only lists and maps are indexed")


def key_of(value: object, name: str) -> object:
    """`value.name` of a map."""
    if isinstance(value, Mapping):
        return lookup(value, name)
    raise EvaluationError(f"no such overload: `.{name}` of a value without fields")


def set_field(name: str) -> Pick:
    """The choice of a record's field; it raises MissingError if the field is not set."""

    def pick(_: Frame, value: object) -> object:
        found = getattr(value, name, None)
        if found is None:
            raise MissingError(f"there is no `{name}`")
        return found

    return pick


def must_be_bool(operand: Evaluate, kind: Type) -> Evaluate:
    """The operand, with a check if its type is not bool."""
    if kind == BOOL:
        return operand

    def run(frame: Frame) -> object:
        value = operand(frame)
        if not isinstance(value, bool):
            raise EvaluationError("no such overload: a bool is needed")
        return value

    return run


def logic(parts: tuple[Evaluate, ...], *, decisive: bool) -> Evaluate:
    """`&&` if false is decisive, else `||`.

    The decisive value wins over an error on either side (CEL langdef, Logical Operators).
    """

    def run(frame: Frame) -> object:
        failure: EvaluationError | None = None
        for part in parts:
            try:
                if part(frame) is decisive:
                    return decisive
            except StepLimitError:
                raise
            except EvaluationError as error:
                failure = failure or error
        if failure is not None:
            raise failure
        return not decisive

    return run


def conditional(condition: Evaluate, then: Evaluate, otherwise: Evaluate) -> Evaluate:
    """`condition ? then : otherwise`."""
    return lambda frame: then(frame) if condition(frame) else otherwise(frame)


def equality(
    left: Evaluate, right: Evaluate, kinds: tuple[Type, Type], *, negated: bool
) -> Evaluate:
    """`==` and `!=`; Python's own if both sides have the same simple type."""
    if kinds[0] == kinds[1] and kinds[0] in _EQUAL_AS_PYTHON:
        if negated:
            return lambda frame: left(frame) != right(frame)
        return lambda frame: left(frame) == right(frame)
    return lambda frame: equals(left(frame), right(frame)) is not negated


def comparison(
    op: str, left: Evaluate, right: Evaluate, kinds: tuple[Type, Type]
) -> Evaluate | None:
    """`<`, `<=`, `>`, `>=` of two values of the same simple type; None for other types."""
    compare = _COMPARE.get(op)
    if compare is None or kinds[0] != kinds[1] or kinds[0] not in _PLAIN:
        return None
    return lambda frame: compare(left(frame), right(frame))


def alternative(
    target: Evaluate, other: Evaluate, call: Callable[..., object], *, inner: bool
) -> Evaluate:
    """`or` and `orValue`, which evaluate their argument only if it is needed."""

    def evaluate(frame: Frame) -> object:
        held = target(frame)
        if isinstance(held, Optional) and held.present:
            return held.value if inner else held
        return call(held, other(frame))

    return evaluate


def apply(function: Callable[..., object], args: tuple[Evaluate, ...]) -> Evaluate:
    """A call of a resolved function."""
    match args:
        case (one,):
            return lambda frame: function(one(frame))
        case (one, two):
            return lambda frame: function(one(frame), two(frame))
        case _:
            return lambda frame: function(*[a(frame) for a in args])


def charged(function: Callable[..., object], work: Work, args: tuple[Evaluate, ...]) -> Evaluate:
    """A call of a resolved function that takes its steps before it works."""

    def run(frame: Frame) -> object:
        values = [a(frame) for a in args]
        frame.burn(work(*values))
        return function(*values)

    return run


def burning(evaluate: Evaluate, steps: int) -> Evaluate:
    """A closure that takes a fixed number of steps before it works."""

    def run(frame: Frame) -> object:
        frame.burn(steps)
        return evaluate(frame)

    return run


def with_steps(evaluate: Evaluate) -> Evaluate:
    """The closure of a whole expression, which gets the steps of one evaluation."""

    def run(frame: Frame) -> object:
        frame.reserve = STEPS - frame.fuel
        return evaluate(frame)

    return run


def total(
    parts: tuple[Evaluate, ...], add: Callable[..., object], work: Work | None = None
) -> Evaluate:
    """`a + b + …`, from the left; with `work` each sum takes steps before it is made."""
    first, *rest = parts

    def run(frame: Frame) -> object:
        result = first(frame)
        for part in rest:
            value = part(frame)
            if work is not None:
                frame.burn(work(result, value))
            result = add(result, value)
        return result

    return run


def magnitude(value: object) -> float:
    """A score's value as a number: 100 or 0 for a boolean, units or seconds for an amount."""
    match value:
        case True | False:
            return 100.0 if value else 0.0
        case int() | float():
            return float(value)
        case Quantity() | Duration():
            return value.nanos / 1e9
        case _:
            raise AssertionError("the checker lets nothing else be a score")


# ---- amounts of sums

# The unit of sums.
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


def ranged(value: Evaluate, low: Evaluate, high: Evaluate) -> Evaluate:
    """A score's value in points, between two ends that are computed: 0 at `low`, 100 at `high`."""

    def run(frame: Frame) -> object:
        number = _finite(value(frame))
        try:
            start, end = _finite(low(frame)), _finite(high(frame))
        except MissingError as error:
            # Only a value may be missing in silence.
            raise EvaluationError(f"an end of the range is missing: {error}") from None
        if start == end:
            raise EvaluationError("both ends of the range are equal")
        return 100 * (number - start) / (end - start)

    return run


def _finite(value: object) -> float:
    if not isinstance(value, int | float | Quantity | Duration):
        raise EvaluationError("a range is of numbers, quantities or durations")
    return magnitude(value)


def list_literal(elements: tuple[Evaluate, ...], marked: frozenset[int]) -> Evaluate:
    """`[a, ?b]`; `marked` are the indexes of the elements with `?`."""
    if not marked:
        return lambda frame: tuple([e(frame) for e in elements])

    def run(frame: Frame) -> object:
        made: list[object] = []
        for slot, element_ in enumerate(elements):
            value = element_(frame)
            if slot not in marked:
                made.append(value)
            elif _present(value):
                made.append(value.value)  # type: ignore[attr-defined]
        return tuple(made)

    return run


def _present(value: object) -> bool:
    """Whether an element with `?`, which must be an optional, has a value."""
    if not isinstance(value, Optional):
        raise EvaluationError("no such overload: `?` takes an optional")
    return value.present


def map_literal(pairs: tuple[tuple[Evaluate, Evaluate, bool], ...]) -> Evaluate:
    """`{k: v, ?k: v}`; the bool of a pair says whether it has `?`."""

    def run(frame: Frame) -> object:
        made: list[tuple[object, object]] = []
        for key_, value_, marked in pairs:
            at, value = key_(frame), value_(frame)
            if not marked:
                made.append((at, value))
            elif _present(value):
                made.append((at, value.value))  # type: ignore[attr-defined]
        return build(made)

    return run


def has_index(operand: Evaluate, at: Evaluate) -> Evaluate:
    """`has(x[y])`: false if there is no such key or item; a missing `x` or `y` stays missing."""

    def run(frame: Frame) -> object:
        value, where = operand(frame), at(frame)
        return through(value, lambda inner: _look_up(inner, where)).present

    return run


def has_field(operand: Evaluate, name: str) -> Evaluate:
    """`has(record.field)`: whether the object has the field, even with a zero value."""
    return lambda frame: getattr(operand(frame), name, None) is not None


def has_member(operand: Evaluate, pick: Pick) -> Evaluate:
    """`has(x.y)`: false if `y` is missing; a missing `x` stays missing."""
    return lambda frame: through(operand(frame), lambda value: pick(frame, value)).present


def call_def(slots: tuple[int, ...], args: tuple[Evaluate, ...], body: Evaluate) -> Evaluate:
    """A call of a `def`: first every argument, then the body."""

    def run(frame: Frame) -> object:
        values = [a(frame) for a in args]
        local = frame.locals
        for slot, value in zip(slots, values, strict=True):
            local[slot] = value
        return body(frame)

    return run


# ---- messages


def message(policy: str, clause: str, parts: Sequence[str | Evaluate]) -> Message:
    """The text of a template for an answer, escaped; a text that is too long is cut and reported.

    An error in a hole must not hide the rejection. Of the whole text, at most MOST_WHOLE characters
    are made and reported. It raises ExpensivePolicyError.
    """
    texts = [part for part in parts if isinstance(part, str)]
    constant = shown("".join(texts), MOST_WHOLE) if len(texts) == len(parts) else None

    def run(evaluation: Evaluation) -> str:
        whole = constant if constant is not None else _made(policy, parts, evaluation)
        if len(whole) <= MOST_SHOWN:
            return whole
        evaluation.report_text(policy, clause, whole)
        return cut(whole)

    return run


def _made(policy: str, parts: Sequence[str | Evaluate], evaluation: Evaluation) -> str:
    """The text of a template, whose holes are evaluated up to the greatest length."""
    evaluation.time.charge(policy)
    frame, text = evaluation.frame(), ""
    for part in parts:
        text += part if isinstance(part, str) else _shown(part, frame)
        if len(text) > MOST_WHOLE:
            break
    evaluation.time.rest()
    return shown(text, MOST_WHOLE)


def _shown(hole: Evaluate, frame: Frame) -> str:
    try:
        return show(hole(frame))
    except EvaluationError:
        return "{?}"
