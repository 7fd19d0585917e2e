"""The types of the language: what an expression can be known to be before it runs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Type:
    """A type: a name and its parameters.

    Record types carry the schema's name (`Node`, `PodSpec`).
    """

    name: str
    args: tuple[Type, ...] = ()

    def __str__(self) -> str:
        if not self.args:
            return self.name
        return f"{self.name}({', '.join(map(str, self.args))})"

    @property
    def is_record(self) -> bool:
        """True for the schema's types, which are the only capitalised ones."""
        return self.name[0].isupper()

    @property
    def is_parameter(self) -> bool:
        """True for a type variable of a generic overload."""
        return self.name[0] == "<"


BOOL = Type("bool")
INT = Type("int")
DOUBLE = Type("double")
STRING = Type("string")
NULL = Type("null")
QUANTITY = Type("quantity")
DURATION = Type("duration")
TIMESTAMP = Type("timestamp")
IP = Type("ip")
CIDR = Type("cidr")
SEMVER = Type("semver")
TYPE = Type("type")
DYN = Type("dyn")
# The type of an expression that was already reported: it agrees with everything, so that one
# mistake is one message.
POISON = Type("error")
A = Type("<A>")
B = Type("<B>")


def list_of(item: Type) -> Type:
    return Type("list", (item,))


def map_of(key: Type, value: Type) -> Type:
    return Type("map", (key, value))


def optional_of(item: Type) -> Type:
    return Type("optional", (item,))
