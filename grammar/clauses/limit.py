"""Limit: a bound on pods of a node, another place or the cluster, or on places that have some."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, replace

from grammar.clauses import parts
from grammar.clauses.kind import ClauseChecker, ClauseKind, ClausePart
from grammar.messages import catalogue
from grammar.messages.diagnostics import Diagnostic, Fix
from grammar.tree.ast import Expr, Ident
from grammar.tree.clause_parts import Bound, ClauseThatCounts, Per, WrittenCondition
from grammar.tree.policy import COUNT
from grammar.tree.types import BOOL, POISON
from grammar.tree.walk import roots, walk


@dataclass(frozen=True, slots=True)
class Limit(ClauseThatCounts):
    """A limit: a bound on pods of one place, such as a node, or on the places that have some.

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
        return () if where is None else (WrittenCondition(where, "where"),)

    @property
    def added(self) -> Expr | None:
        return self.per.amount or (None if self.pods is None else self.pods.amount)

    @property
    def domain(self) -> Expr | None:
        return self.per.domain


# A strict bound is worked out for each of its counts with pods on their way, and without.
_MOST_COUNTS = 4


def _checked(limit: Limit, by: ClauseChecker) -> Limit:
    per, where, added = limit.per, limit.per.where, limit.added
    per = parts.checked_place(per, by, parts.WITH_DATA)
    if where is not None:
        where = by.check(where, BOOL, parts.COUNT_BOUND | parts.NODE, "`where` of places")
    if per.amount is not None:
        allowed = parts.NODE | parts.WITH_DATA
        added = parts.checked_amount(per.amount, "`sum … over`", allowed, by, per.amount)
        per = replace(per, amount=added)
    groups, counts = by.environment.groups.values(), by.environment.counts
    definitions = by.environment.definitions
    allowed = parts.COUNT_BOUND | {COUNT}
    if not per.counted:
        of_group = {c.name for c in counts.values() if per.group and c.per.group == per.group}
        is_open = per.place == "node" or (per.domain is not None and per.domain.type == POISON)
        allowed |= parts.NODE_BOUND if is_open else {per.group, *of_group}
    # What is read of a group in which every node is is the same for all nodes.
    allowed |= {group.name for group in groups if "node" not in roots([group.by], definitions)}
    place = per.place if isinstance(per.place, str) else per.group or "place"
    of = f"limit {'of' if per.counted else 'per'} {f'{per.counted} {place}'.strip()}"
    bound = parts.checked_bound(limit.bound, of, allowed, by, added)
    if limit.strength.strict and isinstance(bound.amount, Expr):
        read = roots([bound.amount], definitions) & counts.keys()
        if len(read) > _MOST_COUNTS:
            by.found.append(catalogue.many_counts(_MOST_COUNTS, bound.span))
    by.found.extend(_wrong(limit))
    return replace(limit, per=replace(per, where=where), bound=bound)


def _wrong(limit: Limit) -> Iterator[Diagnostic]:
    """An error for each part that does not fit what it counts."""
    bound, per = limit.bound, limit.per
    if bound.percent:
        where = None if limit.pods is None else limit.pods.where
        is_own = where is None or any(isinstance(e, Ident) and e.name == "pod" for e in walk(where))
        is_part = is_own and bound.kind == "at most" and not per.counted
        part = bound.amount if is_part and isinstance(bound.amount, float | int) else None
        wrong = catalogue.percentage_of_nothing(bound.span)
        if part is not None:
            made = f"at most math.greatest(1, pod.workload.replicas * {part:g} / 100)"
            others = "or a `share` for nodes that are named"
            hint = f"write `{made}` for a part of the replicas, {others}"
            wrong = replace(wrong, hint=hint, remedy=Fix(bound.span, made))
        yield wrong
    if per.counted:
        kind, place = "at most" if per.counted == "used" else "at least", per.domain
        if bound.kind != kind:
            yield catalogue.bound_of_places(per.counted, kind, bound.span)
        if limit.pods is not None and limit.pods.amount is not None:
            yield catalogue.sum_of_places(per.counted, limit.pods.amount.span)
        if per.place == "cluster" or (per.amount is not None and place is not None):
            yield catalogue.unfit_place(place.span if place is not None else limit.name_span)


_PLACES = "`per node`, `per zone` or `per cluster`"
PER = ClausePart("per", parts.read_per, parts.per_lines, needed=_PLACES)
MUTUAL = ClausePart("mutual", lambda _: True, lambda on: [("mutual", None, None)] if on else [])

LIMIT = ClauseKind(
    Limit,
    "the limit",
    'limit "x" { per node at most 1 strict }',
    parts.POD_AND_COUNTS,
    (parts.PODS, PER, parts.BOUND, parts.STRENGTH, MUTUAL),
    _checked,
)
