"""Node terms: whether a node matches a node selector term, as kube-scheduler decides it.

Nodes and terms are records of the schema, or any objects with the same attributes. The source is
`component-helpers/scheduling/corev1/nodeaffinity` of Kubernetes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from grammar.tree.types import BOOL, Overload, Type, member
from grammar.values.named_formats import is_label_value
from grammar.values.sizes import Size

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
            return _compares(requirement.operator, value, wanted)
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


def _compares(operator: str, value: str | None, wanted: Iterable[str]) -> bool:
    (bound,) = map(_whole, wanted)
    here = _whole(value or "")
    if here is None or bound is None:
        return False
    return here > bound if operator == "Gt" else here < bound


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

OVERLOADS: tuple[Overload, ...] = (
    member("matches", (_NODE, Type("NodeSelectorTerm")), BOOL, matches_term, _of_term),
    member("matches", (_NODE, Type("NodeSelector")), BOOL, matches_selector, _of_selector),
)
