"""Kubernetes' selectors as expressions of the language.

They say yes or no of every object: a key that an object does not have is never missing. As in
Kubernetes, NotIn and DoesNotExist hold without the key, and everything else does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import assert_never

from grammar.printer import print_string
from policies.resource import NodeRequirement, NodeSelector, Requirement, Selector

# As many digits as certainly fit an int: strconv.ParseInt refuses what is no whole number, and the
# requirement does not hold then.
_WHOLE = 'r"^[+-]?0*[0-9]{1,18}$"'


def conditions(selector: Selector | NodeSelector | None, values: str) -> Iterator[str]:
    """What a selector asks for, each an operand of `&&`.

    `values` is where it looks, such as `node.labels`. Nothing is asked for by an empty selector.
    """
    if selector is None:
        return
    for key, value in (selector.matchLabels or {}).items():
        yield f"{_has(key, values)} && {_at(key, values)} == {print_string(value)}"
    requirements: tuple[Requirement | NodeRequirement, ...] = selector.matchExpressions
    for requirement in requirements:
        yield _condition(requirement, values)


def _condition(requirement: Requirement | NodeRequirement, values: str) -> str:
    has, at = _has(requirement.key, values), _at(requirement.key, values)
    wanted = ", ".join(map(print_string, requirement.values))
    match requirement.operator:
        case "In":
            return f"{has} && {at} in [{wanted}]"
        case "NotIn":
            return f"!({has} && {at} in [{wanted}])"
        case "Exists":
            return has
        case "DoesNotExist":
            return f"!({has})"
        case "Gt" | "Lt":
            relation = ">" if requirement.operator == "Gt" else "<"
            number = int(requirement.values[0])
            return f"{has} && {at}.matches({_WHOLE}) && int({at}) {relation} {number}"
        case _:
            assert_never(requirement.operator)


def _has(key: str, values: str) -> str:
    return f"{print_string(key)} in {values}"


def _at(key: str, values: str) -> str:
    return f"{values}[{print_string(key)}]"


def matches(selector: Selector | None, labels: Mapping[str, str]) -> bool:
    """Whether labels are what a selector of pods or namespaces asks for."""
    if selector is None:
        return True
    wanted = selector.matchLabels or {}
    return all(labels.get(key) == value for key, value in wanted.items()) and all(
        _matches(requirement, labels.get(requirement.key))
        for requirement in selector.matchExpressions
    )


def _matches(requirement: Requirement, value: str | None) -> bool:
    match requirement.operator:
        case "In":
            return value is not None and value in requirement.values
        case "NotIn":
            return value is None or value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case _:
            assert_never(requirement.operator)
