"""One way to call a function: the types it takes and makes, and what it does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from grammar.types import Type


@dataclass(frozen=True, slots=True)
class Overload:
    """`params` has the receiver first for a member.

    Namespaced functions have their dotted name; operators their sign.

    `call` takes values of those types and raises EvaluationError where it has no result.
    """

    name: str
    params: tuple[Type, ...]
    result: Type
    call: Callable[..., Any]
    member: bool = False


def function(
    name: str, params: tuple[Type, ...], result: Type, call: Callable[..., Any]
) -> Overload:
    """An overload called as `name(…)`; operators are functions too."""
    return Overload(name, params, result, call)


def member(name: str, params: tuple[Type, ...], result: Type, call: Callable[..., Any]) -> Overload:
    """An overload called as `receiver.name(…)`."""
    return Overload(name, params, result, call, member=True)
