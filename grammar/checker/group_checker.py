"""Group checker: what expressions read of a `group` and of a `count`, and which pods are counted.

The policy checker asks it. `with_name` gives an environment in which expressions read one. The
other functions find what is wrong, also in messages, which read none of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from grammar.checker.expression_checker import DATA
from grammar.meaning.environment import Environment
from grammar.meaning.schema import Record, Schema, print_as_written
from grammar.messages import catalogue
from grammar.messages.diagnostics import Diagnostic, Fix
from grammar.tree.ast import Expr, Ident
from grammar.tree.clause_parts import Bound, PodSet
from grammar.tree.clauses import CountingClause, Limit
from grammar.tree.groups import Count, Group
from grammar.tree.types import Type
from grammar.tree.walk import reads, roots, walk

# The record of the schema with the fields that every group has besides its `value`.
_FIELDS = "NodeGroup"
# A strict bound is worked out for each of its counts with pods on their way, and without.
_MOST_COUNTS = 4
# A message may read only what stays equal between two calls for one pod (C47).
_CONSTANT = (
    ("pod", "metadata", "name"),
    ("pod", "metadata", "namespace"),
    ("pod", "metadata", "labels"),
    ("pod", "spec"),
)


def with_name(environment: Environment, item: Group | Count, kind: Type) -> Environment:
    """The environment in which expressions read this checked group, or this count, of a type."""
    variables = {**environment.variables, item.name: kind}
    if isinstance(item, Count):
        counts = {**environment.counts, item.name: item}
        return replace(environment, variables=variables, counts=counts)
    schema = environment.schema
    assert schema is not None, "policies have a schema"
    common = schema.records[_FIELDS].fields
    value = replace(common["value"], type=item.by.type)
    record = Record(item.type.name, {**common, "value": value}, f"The group `{item.name}`.")
    return replace(
        environment,
        variables=variables,
        schema=Schema({**schema.records, record.name: record}),
        groups={**environment.groups, item.name: item},
    )


def groups_of_all(environment: Environment) -> set[str]:
    """The groups in which every node is, so that what is read of them is the same for all nodes."""
    definitions, groups = environment.definitions, environment.groups.values()
    return {group.name for group in groups if "node" not in roots([group.by], definitions)}


def wrong_count(item: Count) -> Iterator[Diagnostic]:
    """An error for pending pods by place."""
    if item.pods.state == "pending" and item.per.scope != "cluster":
        yield catalogue.pending_nowhere(item.pods.span, f"count {item.name} =")


def wrong_limit(item: Limit) -> Iterator[Diagnostic]:
    """An error for each part of a limit that does not fit what it counts."""
    bound, scope = item.bound, item.per.scope
    if bound.percent:
        where = None if item.pods is None else item.pods.where
        is_own = where is None or any(isinstance(e, Ident) and e.name == "pod" for e in walk(where))
        is_part = is_own and bound.kind == "at most" and not item.per.of_nodes
        part = bound.amount if is_part and isinstance(bound.amount, float | int) else None
        wrong = catalogue.percentage_of_nothing(bound.span)
        if part is not None:
            made = f"at most math.greatest(1, pod.workload.replicas * {part:g} / 100)"
            others = "or a `share` for nodes that are named"
            hint = f"write `{made}` for a part of the replicas, {others}"
            wrong = replace(wrong, hint=hint, remedy=Fix(bound.span, made))
        yield wrong
    if item.per.of_nodes:
        kind = "at most" if scope == "used nodes" else "at least"
        if bound.kind != kind:
            yield catalogue.bound_of_nodes(scope, kind, bound.span)
        if item.pods is not None and item.pods.amount is not None:
            yield catalogue.sum_of_nodes(scope, item.pods.amount.span)


def wrong_pods(clause: CountingClause, pods: PodSet) -> Iterator[Diagnostic]:
    """An error for pods, or a sum of them, that a kind of clause does not count."""
    if pods.amount is not None and not clause.may_sum:
        yield catalogue.sum_of_pods(clause.keyword, pods.amount.span)
    if pods.state == "pending":
        yield catalogue.pending_nowhere(pods.span)
    elif pods.state and not clause.may_sum:
        yield catalogue.state_of_spread(pods.state, pods.span)


def many_counts(bound: Bound, environment: Environment) -> Iterator[Diagnostic]:
    """An error for a checked bound that would have to be worked out very often."""
    if not isinstance(bound.amount, Expr):
        return
    names = roots([bound.amount], environment.definitions)
    if len(names & environment.counts.keys()) > _MOST_COUNTS:
        yield catalogue.many_counts(_MOST_COUNTS, bound.span)


def varying(
    hole: Expr, environment: Environment, variables: Mapping[str, Type]
) -> Iterator[Diagnostic]:
    """An error for a part of a message that may change between two calls for one pod."""
    named = {*environment.groups, *environment.counts}
    for read in reads(hole, environment.definitions):
        root = read.path[0]
        if root.startswith(DATA) or root in named:
            yield catalogue.message_varies(root, hole.span)
            return
        if root in variables and not any(read.path[: len(c)] == c for c in _CONSTANT):
            shown = print_as_written(hole, environment.schema)
            yield catalogue.message_varies(shown, hole.span)
            return
