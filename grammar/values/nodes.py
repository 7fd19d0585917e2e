"""Nodes: node selector terms, recent pods, and groups of nodes, as functions read them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from grammar.tree.types import BOOL, QUANTITY, STRING, TIMESTAMP, Overload, Type, map_of, member
from grammar.values.errors import MissingError
from grammar.values.object_names import is_label_value
from grammar.values.quantity import Quantity, Resources, less
from grammar.values.sizes import Size
from grammar.values.time import Timestamp

# ---- terms

Record = Any
_CHOOSING = frozenset({"In", "NotIn"})
# A label has at most so many characters.
_LONGEST = 63
_INTEGER = re.compile(r"[+-]?[0-9]{1,63}")


def matches_term(node: Record, term: Record) -> bool:
    """Whether the node matches a term.

    A term without requirements matches no node, and neither does one with a requirement that is
    not valid: kube-scheduler drops the term and says nothing.
    """
    expressions = term.matchExpressions or ()
    fields = term.matchFields or ()
    if not expressions and not fields:
        return False
    if not all(_is_valid(each.operator, tuple(each.values or ())) for each in expressions):
        return False
    if not all(each.operator in _CHOOSING and len(each.values or ()) == 1 for each in fields):
        return False
    meta = node.metadata
    if not all_hold(expressions, (meta and meta.labels) or {}):
        return False
    return all_hold(fields, {"metadata.name": (meta and meta.name) or ""})


def matches_selector(node: Record, selector: Record) -> bool:
    """Whether the node matches one of the terms of a node selector."""
    return any(matches_term(node, term) for term in selector.nodeSelectorTerms or ())


def all_hold(requirements: Iterable[Record], values: Mapping[str, str]) -> bool:
    """Whether all requirements hold of these labels; those of pods have no `Gt` and `Lt`."""
    return all(_matches(requirement, values.get(requirement.key)) for requirement in requirements)


def _matches(requirement: Record, value: str | None) -> bool:
    wanted = requirement.values or ()
    match requirement.operator:
        case "In":
            return value is not None and value in wanted
        case "NotIn":
            return value is None or value not in wanted
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            (bound,) = map(_whole, wanted)
            here = _whole(value or "")
            if here is None or bound is None:
                return False
            return here > bound if requirement.operator == "Gt" else here < bound
        case _:
            return False


def _is_valid(operator: str, values: tuple[str, ...]) -> bool:
    """Whether a requirement about labels can be (labels.NewRequirement).

    Every value must be one that a label can have, so `Gt` takes no negative number.
    """
    if operator in _CHOOSING:
        counts = bool(values)
    elif operator in ("Gt", "Lt"):
        counts = len(values) == 1 and _whole(values[0]) is not None
    else:
        counts = not values
    return counts and all(len(v) <= _LONGEST and _is_label(v) for v in values)


@lru_cache(4096)
def _is_label(value: str) -> bool:
    return is_label_value(value)


def _whole(text: str) -> int | None:
    """The int64 of a text as strconv.ParseInt reads it: no spaces, and no `_`."""
    if _INTEGER.fullmatch(text) is None:
        return None
    found = int(text)
    return found if -(2**63) <= found < 2**63 else None


# ---- steps


def _of_term(_: object, term: Record | Size) -> int:
    """The steps of a term: some for each requirement, and one for each value."""
    if isinstance(term, Size):
        return len(term)
    parts = (*(term.matchExpressions or ()), *(term.matchFields or ()))
    return sum(6 + len(each.values or ()) for each in parts)


def _of_selector(node: object, selector: Record | Size) -> int:
    if isinstance(selector, Size):
        return len(selector)
    return sum(_of_term(node, term) for term in selector.nodeSelectorTerms or ())


_NODE = Type("Node")

_OF_TERMS: tuple[Overload, ...] = (
    member("matches", (_NODE, Type("NodeSelectorTerm")), BOOL, matches_term, _of_term),
    member("matches", (_NODE, Type("NodeSelector")), BOOL, matches_selector, _of_selector),
)


# ---- recent pods

# The steps for the pods of a node of which the number is not known.
_USUAL_PODS = 110


def since(node: Record, moment: Timestamp) -> Resources:
    """What the pods request that the kubelet took at the moment, later, or not yet.

    Raises MissingError where the cluster's pods are not known.
    """
    pods: Sequence[Record] | None = node.pods
    if pods is None:
        raise MissingError("there is no `pods`")
    found = Resources()
    for pod in pods:
        started = pod.started
        if started is not None and started.nanos < moment.nanos:
            continue
        for resource, amount in pod.requests.items():
            found[resource] = found[resource] + amount
        found["pods"] = found["pods"] + _ONE
    return found


_ONE = Quantity.parse("1")


def _work(node: Record | Size, _: object) -> int:
    return _USUAL_PODS if isinstance(node, Size) else len(node.pods or ())


OVERLOADS: tuple[Overload, ...] = (
    *_OF_TERMS,
    member("since", (Type("Node"), TIMESTAMP), map_of(STRING, QUANTITY), since, _work),
)


# ---- groups


@dataclass(slots=True, eq=False)
class GroupOfNodes:
    """A group of nodes at one moment.

    `value` is what its nodes have in common. `members` are the nodes, in the order of their names;
    `list_members` is called when they are first read. `nodes` and `ready` are numbers of nodes, and
    `labels` are those that all of them have with the same value. `allocatable`, `capacity` and
    `requested` are sums; `requested` and `free` have the pods on their way too, and are None where
    the pods of the cluster are not known.

    `kept` has values that depend on nothing else, `kept_of_nodes` those that do not depend on
    `requested` or `free`: a group with the same nodes shares it.
    """

    value: object
    list_members: Callable[[], Sequence[object]]
    nodes: int
    ready: int
    labels: Mapping[str, str]
    allocatable: Resources
    capacity: Resources
    requested: Resources | None
    kept_of_nodes: dict[object, object] = field(default_factory=dict)
    kept: dict[object, object] = field(init=False, default_factory=dict)
    free: Resources | None = field(init=False)
    _members: Sequence[object] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.free = None if self.requested is None else less(self.allocatable, self.requested)

    @property
    def members(self) -> Sequence[object]:
        if self._members is None:
            self._members = self.list_members()
        return self._members

    def requesting(self, more: Mapping[str, int]) -> GroupOfNodes:
        """The same nodes with more requests, or fewer, in billionths of each resource."""
        if self.requested is None:
            return self
        requested = Resources(self.requested)
        for resource, nanos in more.items():
            known = requested[resource]
            requested[resource] = Quantity(known.nanos + nanos, known.suffix)
        return replace(self, list_members=lambda: self.members, requested=requested)
