"""The table of functions and operators, and which overload given values mean."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from grammar.errors import EvaluationError
from grammar.overload import Overload
from grammar.types import Type
from grammar.values import (
    amounts,
    ip,
    kinds,
    lists,
    maps,
    math,
    numeric,
    optional_functions,
    regex,
    semver,
    strings,
    time_functions,
)
from grammar.values import format as format_
from grammar.values.kinds import kind

Functions = Mapping[str, tuple[Overload, ...]]

_TOPICS = (
    *(numeric, time_functions, amounts, semver, strings, regex, format_, math),
    *(lists, maps, optional_functions, ip, kinds),
)


def table(overloads: Iterable[Overload]) -> Functions:
    """Overloads by name, in order."""
    found: dict[str, list[Overload]] = {}
    for overload in overloads:
        found.setdefault(overload.name, []).append(overload)
    return MappingProxyType({name: tuple(its) for name, its in found.items()})


FUNCTIONS: Functions = table(o for topic in _TOPICS for o in topic.OVERLOADS)


def dispatch(overloads: Sequence[Overload], args: Sequence[object], *, member: bool) -> Any:
    """Calls the first overload that takes the values. Raises EvaluationError if there is none."""
    names = [kind(a) for a in args]
    for overload in overloads:
        params = overload.params
        if (
            overload.member is member
            and len(params) == len(args)
            and all(map(_admits, params, names))
        ):
            return overload.call(*args)
    raise EvaluationError(f"no such overload for {', '.join(names) or 'no arguments'}")


def _admits(parameter: Type, name: str) -> bool:
    if parameter.is_parameter or parameter.name in (name, "dyn"):
        return True
    return parameter.name == "number" and name in ("int", "double")
