"""Limit: a bound on pods of a node, a domain or the cluster, or on nodes that have some."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, replace

from grammar.clauses import parts
from grammar.clauses.kind import ClauseChecker, ClauseKind, ClausePart
from grammar.messages import catalogue
from grammar.messages.diagnostics import Diagnostic, Fix
from grammar.tree.ast import Expr, Ident
from grammar.tree.clause_parts import Bound, ClauseThatCounts, Per, WrittenCondition
from grammar.tree.policy import COUNT, GROUP
from grammar.tree.types import BOOL
from grammar.tree.walk import roots, walk


@dataclass(frozen=True, slots=True)
class Limit(ClauseThatCounts):
    """A limit: a bound on pods of a node, a domain or the cluster, or on the nodes that have some.

    It can bound the sum of an amount of the pods instead. A `mutual` one of a pod that is there
    already keeps other pods out, too.
    """

    per: Per
    bound: Bound
    _: KW_ONLY
    mutual: bool = False
    may_sum = True

    @property
    def own_conditions(self) -> tuple[WrittenCondition, ...]:
        where = self.per.where
        return () if where is None else (WrittenCondition(where, "nodes where"),)

    @property
    def added(self) -> Expr | None:
        return self.per.amount or (None if self.pods is None else self.pods.amount)

    @property
    def domain(self) -> Expr | None:
        return self.per.domain


# A strict bound is worked out for each of its counts with pods on their way, and without.
_MOST_COUNTS = 4


def _checked(limit: Limit, by: ClauseChecker) -> Limit:
    per, scope, where, added = limit.per, limit.per.scope, limit.per.where, limit.added
    if per.group:
        domain = parts.group_of(per, by)
    else:
        domain = parts.checked_domain(per.domain, by, parts.WITH_DATA) if per.domain else None
    if where is not None:
        where = by.check(where, BOOL, parts.COUNT_BOUND | parts.NODE, "`nodes where`")
    if per.amount is not None:
        added = parts.checked_amount(
            per.amount, parts.NODE, "`sum … over`, which reads only the node", by
        )
        per = replace(per, amount=added)
    groups, counts = by.environment.groups.values(), by.environment.counts
    definitions = by.environment.definitions
    of_group = {c.name for c in counts.values() if per.group and c.per.group == per.group}
    in_group = parts.COUNT_BOUND | {per.group if domain is not None else GROUP} | of_group
    by_scope = {"node": parts.NODE_BOUND, "domain": parts.DOMAIN_BOUND, "group": in_group}
    # What is read of a group in which every node is is the same for all nodes.
    of_all = {group.name for group in groups if "node" not in roots([group.by], definitions)}
    allowed = by_scope.get(scope, parts.COUNT_BOUND) | {COUNT} | of_all
    of = f"of {scope}" if per.of_nodes else f"per {scope}"
    with by.domain_typed(domain, limit.bound.amount):
        bound = parts.checked_bound(limit.bound, f"limit {of}", allowed, by, added)
    if limit.strength.strict and isinstance(bound.amount, Expr):
        read = roots([bound.amount], definitions) & counts.keys()
        if len(read) > _MOST_COUNTS:
            by.found.append(catalogue.many_counts(_MOST_COUNTS, bound.span))
    by.found.extend(_wrong(limit))
    return replace(limit, per=replace(per, domain=domain, where=where), bound=bound)


def _wrong(limit: Limit) -> Iterator[Diagnostic]:
    """An error for each part that does not fit what it counts."""
    bound, scope = limit.bound, limit.per.scope
    if bound.percent:
        where = None if limit.pods is None else limit.pods.where
        is_own = where is None or any(isinstance(e, Ident) and e.name == "pod" for e in walk(where))
        is_part = is_own and bound.kind == "at most" and not limit.per.of_nodes
        part = bound.amount if is_part and isinstance(bound.amount, float | int) else None
        wrong = catalogue.percentage_of_nothing(bound.span)
        if part is not None:
            made = f"at most math.greatest(1, pod.workload.replicas * {part:g} / 100)"
            others = "or a `share` for nodes that are named"
            hint = f"write `{made}` for a part of the replicas, {others}"
            wrong = replace(wrong, hint=hint, remedy=Fix(bound.span, made))
        yield wrong
    if limit.per.of_nodes:
        kind = "at most" if scope == "used nodes" else "at least"
        if bound.kind != kind:
            yield catalogue.bound_of_nodes(scope, kind, bound.span)
        if limit.pods is not None and limit.pods.amount is not None:
            yield catalogue.sum_of_nodes(scope, limit.pods.amount.span)


_SCOPES = "`per node`, `per domain node.zone` or `per cluster`"
PER = ClausePart("per", parts.read_per, parts.per_lines, needed=_SCOPES)
MUTUAL = ClausePart("mutual", lambda _: True, lambda on: [("mutual", None, None)] if on else [])

LIMIT = ClauseKind(
    Limit,
    "the limit",
    'limit "x" { per node at most 1 strict }',
    parts.POD_AND_COUNTS,
    (parts.PODS, PER, parts.BOUND, parts.STRENGTH, MUTUAL),
    _checked,
)
