"""Which types agree, and which overload a call means."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from grammar.types import DYN, NULL, POISON, Type

Bindings = dict[str, Type]


class Signature(Protocol):
    """The part of an overload that typing needs."""

    @property
    def params(self) -> tuple[Type, ...]: ...
    @property
    def result(self) -> Type: ...
    @property
    def member(self) -> bool: ...


def unify(parameter: Type, found: Type, bindings: Bindings) -> bool:
    """Whether `found` may stand where `parameter` is asked for; binds its type variables.

    dyn and the poison type agree with everything, as in CEL's gradual typing (langdef, Gradual Type
    Checking).
    """
    if parameter.is_parameter:
        bound = bindings.get(parameter.name)
        if bound is None or bound == POISON or DYN in (bound, found):
            # What is dyn in one place may turn out to be anything in all of them.
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


def comparable(left: Type, right: Type) -> bool:
    """Whether `==` between the two can ever be asked: same type, or null beside anything."""
    return agrees(left, right) or agrees(right, left) or NULL in (left, right)


def join(types: Iterable[Type]) -> Type:
    """The type of elements or branches together: theirs if they agree, else dyn."""
    result: Type | None = None
    for found in types:
        if result is None or (_loose(result) and result == POISON):
            result = found
        elif result != found:
            result = _merge(result, found)
    return result if result is not None else DYN


def _merge(left: Type, right: Type) -> Type:
    if POISON in (left, right):
        return left if right == POISON else right
    if left.name != right.name or len(left.args) != len(right.args):
        return DYN
    return Type(
        left.name,
        tuple(a if a == b else _merge(a, b) for a, b in zip(left.args, right.args, strict=True)),
    )


def resolve(overloads: Sequence[Signature], found: Sequence[Type]) -> Type | None:
    """The type of a call: of the first overload that fits, dyn where several fit and differ.

    None where no overload fits.
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
    told = not any(_loose(f) for f in found)
    return results[0] if told or all(r == results[0] for r in results) else DYN


def _substitute(result: Type, bindings: Bindings) -> Type:
    if result.is_parameter:
        return bindings.get(result.name, DYN)
    if not result.args:
        return result
    return Type(result.name, tuple(_substitute(a, bindings) for a in result.args))


def _loose(found: Type) -> bool:
    return found in (DYN, POISON)
