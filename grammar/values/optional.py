"""Optionals: values that may be absent, and their functions (cel-go's optional types)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from grammar.tree.types import BOOL, A, Overload, function, list_of, member, optional_of
from grammar.values.errors import EvaluationError, MissingError


@dataclass(frozen=True, slots=True)
class Optional:
    """An optional: a value, or `NONE`."""

    value: object
    present: bool = True

    def __str__(self) -> str:
        return f"optional.of({self.value})" if self.present else "optional.none()"


NONE = Optional(None, present=False)


def through(value: object, choose: Callable[[object], object]) -> Optional:
    """The choice from a value, or from what an optional has; `NONE` where it is missing."""
    if isinstance(value, Optional):
        if not value.present:
            return NONE
        value = value.value
    try:
        return Optional(choose(value))
    except MissingError:
        return NONE


def value_of(optional: Optional) -> object:
    """The value inside. Raises EvaluationError for `NONE`."""
    if not optional.present:
        raise EvaluationError("optional.none() has no value")
    return optional.value


def of_non_zero(value: Any) -> Optional:
    """`NONE` for null and for the zero value of a type: false, 0, an empty string, list or map."""
    if value is None or isinstance(value, bool | int | float | str | list | tuple | dict):
        return Optional(value) if value else NONE
    is_zero = value == getattr(type(value), "ZERO", None)
    return NONE if is_zero else Optional(value)


def unwrap(values: Sequence[Any]) -> tuple[object, ...]:
    """The values of the optionals that have one."""
    if not all(isinstance(v, Optional) for v in values):
        raise EvaluationError("no such overload: `unwrap` takes a list of optionals")
    return tuple(v.value for v in values if v.present)


def _each(values: Sequence[object]) -> int:
    """The steps of `unwrap`."""
    return 2 * len(values)


_OPTIONAL = optional_of(A)

OVERLOADS: tuple[Overload, ...] = (
    function("optional.of", (A,), _OPTIONAL, Optional),
    function("optional.ofNonZeroValue", (A,), _OPTIONAL, of_non_zero),
    function("optional.none", (), _OPTIONAL, lambda: NONE),
    function("optional.unwrap", (list_of(_OPTIONAL),), list_of(A), unwrap, _each),
    member("unwrapOpt", (list_of(_OPTIONAL),), list_of(A), unwrap, _each),
    member("hasValue", (_OPTIONAL,), BOOL, lambda o: o.present),
    member("value", (_OPTIONAL,), A, value_of),
    member("orValue", (_OPTIONAL, A), A, lambda o, other: o.value if o.present else other),
    member("or", (_OPTIONAL, _OPTIONAL), _OPTIONAL, lambda o, other: o if o.present else other),
)
