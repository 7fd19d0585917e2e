"""The type of a value, told by the value."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address

from grammar.overload import Overload, function
from grammar.types import DYN, TYPE, A
from grammar.values.duration import Duration
from grammar.values.ip import Cidr
from grammar.values.optional import Optional
from grammar.values.quantity import Quantity
from grammar.values.semver import Semver
from grammar.values.timestamp import Timestamp


@dataclass(frozen=True, slots=True)
class TypeValue:
    """A type as a value: what `type(x)` gives, and what `int` means by itself."""

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
# What CEL calls the types whose names differ (langdef, Values).
_SHOWN = {
    "null": "null_type",
    "duration": "google.protobuf.Duration",
    "timestamp": "google.protobuf.Timestamp",
    "optional": "optional_type",
    "ip": "net.IP",
    "cidr": "net.CIDR",
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
    """The name of the value's type as the checker has it; `record` for objects."""
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
