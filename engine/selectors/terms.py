"""Terms of selectors: the label selectors of Kubernetes, and which objects two select together.

A condition of a policy is true, false or missing. So a condition becomes two selectors: the first
selects the objects for which it is true, the second the objects for which it is false.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import msgspec

from grammar.values.named_formats import is_label_value, is_qualified
from grammar.values.nodes import all_hold
from policies.resource import NodeRequirement

# A pod with a node affinity of more terms is slow to schedule.
MOST_TERMS = 64
# The comparisons of terms for one policy, about 5 ms: the API server waits for them.
_MOST_WORK = 10_000
_INT64 = 2**63


class UnportableError(Exception):
    """Unportable part of a policy, which cannot be told to others; the text is for users."""


Term = frozenset[NodeRequirement]
# An object is selected if it meets all requirements of one term. Here an empty term selects every
# object, and no terms select none.
Terms = frozenset[Term]
ALWAYS: Terms = frozenset({frozenset()})
NEVER: Terms = frozenset()


def accepts(terms: Terms, labels: Mapping[str, str]) -> bool:
    """Whether an object with these labels is selected."""
    return any(all_hold(term, labels) for term in terms)


def expressions(term: Term) -> list[dict[str, Any]]:
    """The `matchExpressions` of a term."""
    found: list[dict[str, Any]] = msgspec.json.decode(msgspec.json.encode(sorted(term)))
    return found


@dataclass(frozen=True, slots=True)
class Sides:
    """Sides of a condition: the objects for which it is true, and for which it is false.

    For the others it is missing. If it `may_fail`, it is missing or fails for them.
    """

    true: Terms
    false: Terms
    may_fail: bool = False

    def negated(self) -> Sides:
        return replace(self, true=self.false, false=self.true)


def known(truth: bool) -> Sides:  # noqa: FBT001 - a value
    return Sides(ALWAYS, NEVER) if truth else Sides(NEVER, ALWAYS)


MISSING = Sides(NEVER, NEVER)
FAILED = Sides(NEVER, NEVER, may_fail=True)

# What accepts exactly the objects that an operator does not.
_OPPOSITE: Mapping[str, Literal["In", "NotIn", "Exists", "DoesNotExist"]] = {
    "In": "NotIn",
    "NotIn": "In",
    "Exists": "DoesNotExist",
    "DoesNotExist": "Exists",
}


class Algebra:
    """Algebra of selectors. The work is limited: an Algebra serves a policy and a pod.

    The methods raise UnportableError where the result would be too large.
    """

    def __init__(self) -> None:
        self._work = 0

    def both(self, parts: Iterable[Terms]) -> Terms:
        """What all parts select."""
        found = ALWAYS
        for part in parts:
            self._spend(len(found) * len(part))
            found = self._smallest(frozenset(a | b for a in found for b in part))
        return found

    def either(self, parts: Iterable[Terms]) -> Terms:
        """What any of the parts selects."""
        return self._smallest(frozenset().union(*parts))

    def others(self, terms: Terms) -> Terms:
        """What the terms do not select."""
        return self.both(self.either(map(_opposite, term)) for term in terms)

    def all_of(self, parts: Iterable[Sides]) -> Sides:
        """`a && b`: false where one of them is, whatever the others are."""
        found = [*parts]
        may_fail = any(part.may_fail for part in found)
        return Sides(
            self.both(part.true for part in found),
            self.either(part.false for part in found),
            may_fail,
        )

    def any_of(self, parts: Iterable[Sides]) -> Sides:
        """`a || b`, which is `!(!a && !b)` with missing values, too."""
        return self.all_of(part.negated() for part in parts).negated()

    def choice(self, condition: Sides, then: Sides, otherwise: Sides) -> Sides:
        """`condition ? then : otherwise`."""
        true = (condition.true, then.true), (condition.false, otherwise.true)
        false = (condition.true, then.false), (condition.false, otherwise.false)
        return Sides(
            self.either(map(self.both, true)),
            self.either(map(self.both, false)),
            condition.may_fail or then.may_fail or otherwise.may_fail,
        )

    def _smallest(self, terms: Terms) -> Terms:
        """The terms without terms that select nothing, or only what another term selects."""
        self._spend(len(terms) ** 2)
        possible = [term for term in terms if not _contradicts(term)]
        kept = frozenset(t for t in possible if not any(other < t for other in possible))
        if len(kept) > MOST_TERMS:
            raise UnportableError(f"it would take more than {MOST_TERMS} terms")
        return kept

    def _spend(self, comparisons: int) -> None:
        self._work += comparisons
        if self._work > _MOST_WORK:
            raise UnportableError("it takes too many terms on the way")


def _opposite(requirement: NodeRequirement) -> Terms:
    if (operator := _OPPOSITE.get(requirement.operator)) is None:
        raise UnportableError("no selector has the labels that are no number")
    return only(msgspec.structs.replace(requirement, operator=operator))


def _contradicts(term: Term) -> bool:
    """Whether a term wants a label both absent and present, which no object meets."""
    absent = {r.key for r in term if r.operator == "DoesNotExist"}
    return any(r.key in absent for r in term if r.operator not in ("DoesNotExist", "NotIn"))


# ---- conditions of one label


def only(*requirements: NodeRequirement) -> Terms:
    return frozenset({frozenset(requirements)})


def valid_key(key: str) -> str:
    """The key of a label. Raises UnportableError for any other text."""
    if not is_qualified(key):
        raise UnportableError(f"`{key}` is no key of a label")
    return key


def present(key: str) -> Sides:
    """Whether there is a label."""
    valid_key(key)
    return Sides(only(NodeRequirement(key, "Exists")), only(NodeRequirement(key, "DoesNotExist")))


def one_of(key: str, values: Iterable[str]) -> Sides:
    """Whether the value of a label is one of these; missing without the label.

    `NotIn` selects objects without the label, so it has `Exists` beside it.
    """
    there = NodeRequirement(valid_key(key), "Exists")
    possible = _possible(values)
    if not possible:
        return Sides(NEVER, only(there))
    return Sides(
        only(NodeRequirement(key, "In", possible)),
        only(there, NodeRequirement(key, "NotIn", possible)),
    )


def one_of_or_absent(key: str, values: Iterable[str], *, absent: bool) -> Sides:
    """As `one_of`, and `absent` without the label."""
    valid_key(key)
    nowhere, possible = only(NodeRequirement(key, "DoesNotExist")), _possible(values)
    if not possible:
        return (
            Sides(nowhere, only(NodeRequirement(key, "Exists"))) if absent else known(truth=False)
        )
    among = only(NodeRequirement(key, "In", possible))
    if not absent:
        return Sides(among, only(NodeRequirement(key, "NotIn", possible)))
    there = NodeRequirement(key, "Exists")
    return Sides(among | nowhere, only(there, NodeRequirement(key, "NotIn", possible)))


def _possible(values: Iterable[str]) -> tuple[str, ...]:
    """The values that a label can have: a selector may not name others."""
    return tuple(sorted(filter(is_label_value, {*values})))


def compared(key: str, op: str, number: int) -> Sides:
    """A comparison of a label that is a number. Without the label, or with a text, it is neither.

    A label begins with a letter or a digit, so no number in one is negative.
    """
    valid_key(key)
    match op:
        case ">":
            true, false = _above(key, number), _below(key, number + 1)
        case ">=":
            true, false = _above(key, number - 1), _below(key, number)
        case "<":
            true, false = _below(key, number), _above(key, number - 1)
        case "<=":
            true, false = _below(key, number + 1), _above(key, number)
        case _:
            low, high = _above(key, number - 1), _below(key, number + 1)
            equal = frozenset(a | b for a in low for b in high)
            other = _above(key, number) | _below(key, number)
            true, false = (equal, other) if op == "==" else (other, equal)
    return Sides(true, false, may_fail=True)


def _above(key: str, number: int) -> Terms:
    if number >= _INT64 - 1:
        return NEVER
    if number >= 0:
        return only(NodeRequirement(key, "Gt", (str(number),)))
    # All of them: a selector may not name a negative number.
    return only(NodeRequirement(key, "Gt", ("0",))) | only(NodeRequirement(key, "Lt", ("1",)))


def _below(key: str, number: int) -> Terms:
    if number <= 0:
        return NEVER
    if number < _INT64:
        return only(NodeRequirement(key, "Lt", (str(number),)))
    return _above(key, -1)
