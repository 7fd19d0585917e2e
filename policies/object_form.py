"""Object form: policies of a text as PlacementPolicy objects that mean the same.

An object selects pods by their labels alone, and belongs to a namespace or to the cluster, so some
policies have no such form. The items of a policy stay as the author wrote them, as the rules.
"""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import dedent
from typing import Any

from grammar.tree import ast
from grammar.tree.clause_parts import Repair, time_of
from grammar.tree.clauses import ForPods, Policy, Setting
from grammar.tree.source import Span
from policies.manifest_text import GROUP

VERSION = "v1"
# The fields that settings become.
_FIELDS = {"weight", "mode", "failure", "portable", "repair"}
_LABELS = ast.Select(ast.Ident("pod"), "labels")


class NoObjectError(Exception):
    """A policy that no object says; the text says why, and what would help."""


def as_object(policy: Policy, text: str) -> dict[str, Any]:
    """The object of a policy of a text, as the parser read it. Raises NoObjectError."""
    name = f"`{policy.address}`"
    if policy.parameters:
        raise NoObjectError(f"{name} has parameters, which an object has not")
    if policy.namespace is None and not policy.cluster:
        hint = 'write `in namespace "…"` after its name, or `cluster` before `policy`'
        raise NoObjectError(f"{name} is for all namespaces ({hint})")
    metadata = {"name": policy.name}
    if policy.namespace is not None:
        metadata["namespace"] = policy.namespace
    spec: dict[str, Any] = {}
    for item in policy.items:
        if isinstance(item, Setting) and item.name in _FIELDS:
            spec.update(_field(item))
    spec["podSelector"] = _selector(policy)
    if rules := _rules(policy, text):
        spec["rules"] = rules
    kind = "ClusterPlacementPolicy" if policy.cluster else "PlacementPolicy"
    return {"apiVersion": f"{GROUP}/{VERSION}", "kind": kind, "metadata": metadata, "spec": spec}


def _field(item: Setting) -> dict[str, Any]:
    match item.name, item.value:
        case "portable", _:
            return {"portable": True}
        case "weight", weight:
            return {"weight": weight}
        case "mode", mode:
            return {"enforcementMode": "Audit"} if mode == "audit" else {}
        case "failure", failure:
            return {"failurePolicy": str(failure).title()}
        case _, Repair() as repair:
            found: dict[str, Any] = {"perMinute": repair.per_minute, "atOnce": repair.at_once}
            if repair.local_data:
                found["evictsLocalData"] = True
            if repair.begins != repair.ends:
                found["between"] = {"begins": time_of(repair.begins), "ends": time_of(repair.ends)}
            return {"repair": found}
        case _:
            return {}


# ---- the pods


def _selector(policy: Policy) -> dict[str, Any]:
    labels: dict[str, str] = {}
    expressions: list[dict[str, Any]] = []
    for condition in _conditions(policy.selector):
        match condition:
            case ast.Binary("==", place, ast.Literal(str() as value)) if key := _key(place):
                if labels.setdefault(key, value) != value:
                    expressions.append(_requirement(key, "In", value))
            case ast.Binary("!=", place, ast.Literal(str() as value)) if key := _key(place):
                # A pod without the label is not selected.
                expressions += [_requirement(key, "Exists"), _requirement(key, "NotIn", value)]
            case ast.Binary("in", place, ast.ListLiteral() as those) if key := _key(place):
                values = [each.value for each in those.elements if isinstance(each, ast.Literal)]
                if len(values) != len(those.elements) or not all(
                    isinstance(v, str) for v in values
                ):
                    raise _unsayable(policy)
                expressions.append(_requirement(key, "In", *map(str, values)))
            case ast.Binary("in", ast.Literal(str() as key), place) if place == _LABELS:
                expressions.append(_requirement(key, "Exists"))
            case ast.Unary("!", ast.Binary("in", ast.Literal(str() as key), place)) if (
                place == _LABELS
            ):
                expressions.append(_requirement(key, "DoesNotExist"))
            case _:
                raise _unsayable(policy)
    found: dict[str, Any] = {}
    if labels:
        found["matchLabels"] = labels
    if expressions:
        found["matchExpressions"] = expressions
    return found


def _conditions(selector: ast.Expr | None) -> Iterator[ast.Expr]:
    match selector:
        case None | ast.Literal(True):
            return
        case ast.Chain("&&", operands):
            for each in operands:
                yield from _conditions(each)
        case _:
            yield selector


def _key(place: ast.Expr) -> str | None:
    """The label that is read of the pod."""
    match place:
        case ast.Index(operand, ast.Literal(str() as key), False) if operand == _LABELS:
            return key
        case ast.Select(operand, key, False) if operand == _LABELS:
            return key
        case _:
            return None


def _requirement(key: str, operator: str, *values: str) -> dict[str, Any]:
    found: dict[str, Any] = {"key": key, "operator": operator}
    return {**found, "values": list(values)} if values else found


def _unsayable(policy: Policy) -> NoObjectError:
    return NoObjectError(
        f"`{policy.address}` selects pods by more than labels, which an object does not"
    )


# ---- the rules


def _rules(policy: Policy, text: str) -> str:
    """What is between the braces, without what fields say."""
    begin, end = text.index("{", policy.name_span.end) + 1, policy.span.end - 1
    found, at = "", begin
    for item in policy.items:
        if isinstance(item, ForPods) or (isinstance(item, Setting) and item.name in _FIELDS):
            gone = _whole_line(text, item.span)
            found, at = found + text[at : gone.start], gone.end
    rules = dedent(found + text[at:end]).strip("\n").rstrip()
    return f"{rules}\n" if rules else ""


def _whole_line(text: str, span: Span) -> Span:
    """The span with its indentation and the end of its line, if nothing else is there."""
    start = text.rfind("\n", 0, span.start) + 1
    end = text.find("\n", span.end)
    end = len(text) if end < 0 else end + 1
    is_alone = not text[start : span.start].strip() and not text[span.end : end].strip()
    return Span(start, end) if is_alone else span
