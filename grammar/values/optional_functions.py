"""What optionals can be asked (cel-go's optional types)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from grammar.errors import EvaluationError
from grammar.types import BOOL, A, Overload, function, list_of, member, optional_of
from grammar.values.kinds import equals, kind
from grammar.values.optional import NONE, Optional, value_of

_ZEROS: dict[str, object] = {"bool": False, "int": 0, "double": 0.0, "string": ""}


def of_non_zero(value: Any) -> Optional:
    """None for false, 0, an empty text, list or map, null, and what counts nothing."""
    name = kind(value)
    if value is None or (name in _ZEROS and equals(value, _ZEROS[name])):
        return NONE
    if name in ("list", "map") and not value:
        return NONE
    if name in ("quantity", "duration", "timestamp") and value == type(value).ZERO:
        return NONE
    return Optional(value)


def unwrap(values: Sequence[Any]) -> tuple[object, ...]:
    if not all(isinstance(v, Optional) for v in values):
        raise EvaluationError("no such overload: `unwrap` takes a list of optionals")
    return tuple(v.value for v in values if v.present)


_OPTIONAL = optional_of(A)

OVERLOADS: tuple[Overload, ...] = (
    function("optional.of", (A,), _OPTIONAL, Optional),
    function("optional.ofNonZeroValue", (A,), _OPTIONAL, of_non_zero),
    function("optional.none", (), _OPTIONAL, lambda: NONE),
    function("optional.unwrap", (list_of(_OPTIONAL),), list_of(A), unwrap),
    member("unwrapOpt", (list_of(_OPTIONAL),), list_of(A), unwrap),
    member("hasValue", (_OPTIONAL,), BOOL, lambda o: o.present),
    member("value", (_OPTIONAL,), A, value_of),
    member("orValue", (_OPTIONAL, A), A, lambda o, other: o.value if o.present else other),
    member("or", (_OPTIONAL, _OPTIONAL), _OPTIONAL, lambda o, other: o if o.present else other),
)
