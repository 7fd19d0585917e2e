"""How msgspec reads what Kubernetes writes as text: quantities, timestamps and durations.

msgspec takes a dataclass for a JSON object and asks no hook about it. So it is shown a stand-in for
each of these types, and type checkers are shown the type itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from grammar.errors import EvaluationError
from grammar.values.duration import Duration
from grammar.values.quantity import Quantity
from grammar.values.timestamp import Timestamp

# The int of the language and of Go. What is larger must not reach an expression.
JsonInt = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class _StandIn(type):
    """What msgspec asks of the hook's value; it always is of the type that stands behind."""

    name: str
    parse: Callable[[str], object]

    def __instancecheck__(cls, value: object) -> bool:
        return True


if TYPE_CHECKING:
    JsonQuantity = Quantity
    JsonTimestamp = Timestamp
    JsonDuration = Duration
else:

    class JsonQuantity(metaclass=_StandIn):
        """Stands for Quantity."""

        name = "quantity"
        parse = Quantity.parse

    class JsonTimestamp(metaclass=_StandIn):
        """Stands for Timestamp."""

        name = "timestamp"
        parse = Timestamp.parse

    class JsonDuration(metaclass=_StandIn):
        """Stands for Duration."""

        name = "duration"
        parse = Duration.parse


# What msgspec calls values in its own messages.
_JSON_TYPES: dict[type, str] = {
    bool: "bool",
    int: "int",
    float: "float",
    list: "array",
    dict: "object",
    type(None): "null",
}


def decode_scalar(type_: Any, value: object) -> object:
    """The hook for a decoder. Raises ValueError, to which msgspec adds the path."""
    if type(value) is not str:
        value = _as_text(type_, value)
    try:
        return type_.parse(value)
    except EvaluationError as error:
        raise ValueError(f"`{value}` is no {type_.name}; {error}") from None


def _as_text(type_: Any, value: object) -> str:
    """Kubernetes takes a bare number for a quantity, and null in a map of them for 0."""
    if type_ is JsonQuantity:
        if value is None:
            return "0"
        if type(value) in (int, float):
            return str(value)
    raise ValueError(f"expected `{type_.name}`, got `{_JSON_TYPES[type(value)]}`")
