"""Types of the language, overloads of functions, and the rules by which types agree."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any


@dataclass(frozen=True, slots=True)
class Type:
    """A type: a name and its parameters. A record type has the name of its record: `Node`."""

    name: str
    args: tuple[Type, ...] = ()

    def __str__(self) -> str:
        if not self.args:
            return self.name
        return f"{self.name}({', '.join(map(str, self.args))})"

    @property
    def is_record(self) -> bool:
        """True for the records of the schema: only these names are capitalised."""
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
# The type of an expression that was already reported. It agrees with every type, so that one
# mistake is one message.
POISON = Type("error")
A = Type("<A>")
B = Type("<B>")


# The types that a declaration may name, besides lists, maps and records.
DECLARED = (BOOL, INT, DOUBLE, STRING, QUANTITY, DURATION, TIMESTAMP, SEMVER, DYN)


def list_of(item: Type) -> Type:
    return Type("list", (item,))


def map_of(key: Type, value: Type) -> Type:
    return Type("map", (key, value))


def optional_of(item: Type) -> Type:
    return Type("optional", (item,))


@dataclass(frozen=True, slots=True)
class Overload:
    """An overload, a way to call a function: parameter types, result type and implementation.

    A member has its receiver as the first parameter. A namespaced function has its dotted name, an
    operator its sign. `call` accepts values of these types; it raises EvaluationError if there is
    no result. `work` gives the steps of a call beyond one, by the values or the Sizes of its
    arguments; None if a call takes the same short time for all values. `short` is `call` for texts
    that are known to be short: it keeps results, or needs no check. `doc` is for editors.
    """

    name: str
    params: tuple[Type, ...]
    result: Type
    call: Callable[..., Any]
    work: Work | None = None
    member: bool = False
    short: Callable[..., Any] | None = None
    doc: str = ""


Work = Callable[..., int]
# An overload called as `name(…)`, as operators are, too; and one called as `receiver.name(…)`.
function, member = Overload, partial(Overload, member=True)


Bindings = dict[str, Type]


def unknown_type(declared: Type, records: Collection[str]) -> Type | None:
    """The first part of a declared type that is not a type; None if the whole is one."""
    match declared:
        case Type("list", (_,)) | Type("map", (_, _)):
            parts = (unknown_type(part, records) for part in declared.args)
            return next((part for part in parts if part is not None), None)
        case _:
            return None if declared in DECLARED or str(declared) in records else declared


def unify(parameter: Type, found: Type, bindings: Bindings) -> bool:
    """Whether a value of `found` fits `parameter`; binds its type variables.

    dyn and the poison type agree with every type (CEL langdef, Gradual Type Checking).
    """
    if parameter.is_parameter:
        bound = bindings.get(parameter.name)
        if bound is None or bound == POISON or DYN in (bound, found):
            # A variable that is dyn in one place is dyn in all places.
            bindings[parameter.name] = DYN if DYN in (bound, found) else found
            return True
        return unify(bound, found, bindings)
    if _loose(parameter) or _loose(found):
        return True
    if parameter.name == "number":
        return found.name in ("int", "double")
    if parameter.name != found.name or len(parameter.args) != len(found.args):
        return False
    return all(unify(p, f, bindings) for p, f in zip(parameter.args, found.args, strict=True))


def agrees(target: Type, found: Type) -> bool:
    """Whether a value of `found` may be used as `target`."""
    return unify(target, found, {})


def loses_record(wanted: Type, found: Type) -> bool:
    """Whether a dyn is given for a record: its fields would be read without knowing its type."""
    if found == DYN:
        return wanted.is_record or any(loses_record(arg, DYN) for arg in wanted.args)
    pairs = zip(wanted.args, found.args, strict=False)
    return any(loses_record(one, other) for one, other in pairs)


def comparable(left: Type, right: Type) -> bool:
    """Whether `==` is allowed between two types: they agree, or one is null."""
    return agrees(left, right) or agrees(right, left) or NULL in (left, right)


def join(types: Iterable[Type]) -> Type:
    """The common type of elements or branches; dyn if they differ."""
    found = [*types]
    return reduce(_merge, found) if found else DYN


def _merge(left: Type, right: Type) -> Type:
    if left == right or POISON in (left, right):
        return left if right == POISON else right
    if left.name != right.name or len(left.args) != len(right.args):
        return DYN
    return Type(left.name, tuple(map(_merge, left.args, right.args)))


def resolve(overloads: Sequence[Overload], found: Sequence[Type]) -> Type | None:
    """The result type of a call, or None if no overload fits.

    It is that of the first overload that fits; dyn if arguments are dyn, or have dyn inside, and
    several overloads with different results fit.
    """
    results: list[Type] = []
    for overload in overloads:
        bindings: Bindings = {}
        params = overload.params
        if len(params) == len(found) and all(
            unify(p, f, bindings) for p, f in zip(params, found, strict=True)
        ):
            results.append(_substitute(overload.result, bindings))
    if not results:
        return None
    told = not any(map(_unknown, found))
    return results[0] if told or all(r == results[0] for r in results) else DYN


def _substitute(result: Type, bindings: Bindings) -> Type:
    if result.is_parameter:
        return bindings.get(result.name, DYN)
    if not result.args:
        return result
    return Type(result.name, tuple(_substitute(a, bindings) for a in result.args))


def _loose(found: Type) -> bool:
    return found in (DYN, POISON)


def _unknown(found: Type) -> bool:
    """Whether a type is not known, or that of its items."""
    return _loose(found) or any(map(_unknown, found.args))
