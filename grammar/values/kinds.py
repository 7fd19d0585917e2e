"""Kinds: the type of a value at run time, and equality of any two values (langdef, Equality)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import cast

from grammar.tree.types import DYN, TYPE, A, Overload, function
from grammar.values.addresses import Cidr
from grammar.values.optional import Optional
from grammar.values.quantity import Quantity
from grammar.values.semver import Semver
from grammar.values.time import Duration, Timestamp


@dataclass(frozen=True, slots=True)
class TypeValue:
    """A type as a value: the result of `type(x)`, and the meaning of the name `int`."""

    name: str

    def __str__(self) -> str:
        return self.name


_KINDS: dict[type, str] = {
    bool: "bool",
    int: "int",
    float: "double",
    str: "string",
    type(None): "null",
    list: "list",
    tuple: "list",
    dict: "map",
    Quantity: "quantity",
    Duration: "duration",
    Timestamp: "timestamp",
    Semver: "semver",
    Optional: "optional",
    TypeValue: "type",
    IPv4Address: "ip",
    IPv6Address: "ip",
    Cidr: "cidr",
}
# The names in CEL of types that have another name here (langdef, Values).
_SHOWN = {
    "null": "null_type",
    "duration": "google.protobuf.Duration",
    "timestamp": "google.protobuf.Timestamp",
    "optional": "optional_type",
    "ip": "net.IP",
    "cidr": "net.CIDR",
    "quantity": "kubernetes.Quantity",
    "semver": "kubernetes.Semver",
}
# The names that stand for a type in an expression.
TYPE_NAMES = {
    name: TypeValue(name)
    for name in (
        *("bool", "int", "double", "string", "list", "map", "type", "null_type", "optional_type"),
        *("google.protobuf.Duration", "google.protobuf.Timestamp", "net.IP", "net.CIDR"),
    )
}


def kind(value: object) -> str:
    """The name of the value's type as in the checker; `record` for objects."""
    found = _KINDS.get(type(value))
    if found is not None:
        return found
    return "map" if isinstance(value, dict) else "record"


def type_of(value: object) -> TypeValue:
    name = kind(value)
    return TypeValue(_SHOWN.get(name, name))


OVERLOADS: tuple[Overload, ...] = (
    function("type", (A,), TYPE, type_of),
    function("dyn", (A,), DYN, lambda value: value),
)


def equals(left: object, right: object) -> bool:
    """Whether two values are equal: ints and doubles by number; a bool equals only a bool."""
    one, other = type(left), type(right)
    if one is other:
        if one in (list, tuple):
            return _same_items(cast("tuple[object, ...]", left), cast("tuple[object, ...]", right))
        if isinstance(left, Mapping):
            return _same_entries(left, cast("Mapping[object, object]", right))
        if isinstance(left, Optional) and isinstance(right, Optional):
            return left.present == right.present and equals(left.value, right.value)
        return left == right
    if one is bool or other is bool:
        return False
    if isinstance(left, int | float) and isinstance(right, int | float):
        # As doubles, as in cel-go: the double 2⁶³ equals the greatest int.
        return float(left) == float(right)
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return _same_items(left, right)
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return _same_entries(left, right)
    return False


def _same_items(
    left: list[object] | tuple[object, ...], right: list[object] | tuple[object, ...]
) -> bool:
    return len(left) == len(right) and all(map(equals, left, right))


def _same_entries(left: Mapping[object, object], right: Mapping[object, object]) -> bool:
    return len(left) == len(right) and all(
        k in right and equals(v, right[k]) for k, v in left.items()
    )
