"""Parts that more than one kind of clause has, or a count of pods: read, written and checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Literal as OneOf
from typing import TypeVar, get_args

from grammar.clauses import reading
from grammar.clauses.kind import ClauseChecker, ClausePart, Line, Names
from grammar.clauses.reading import Child, has, span_of, tokens
from grammar.messages import catalogue
from grammar.tree.ast import Expr, Ident, Select
from grammar.tree.clause_parts import Bound, Per, PodSet, PodState, Strength
from grammar.tree.policy import COUNT, COUNT_OF_NODES, DATA, GROUP, Group
from grammar.tree.printer import print_expression, print_number
from grammar.tree.source import Span
from grammar.tree.types import BOOL, INT, POISON, QUANTITY

# ---- what parts may read

POD: Names = frozenset({"pod", "namespaceObject", "now"})
# What stays the same as long as the pod does.
LASTING = POD - {"now"}
NODE: Names = frozenset({"node"})
PLACE = POD | NODE
# What a pod adds to a sum is the same whichever pod is asked about, and so is whom it belongs to.
PEER_ALONE: Names = frozenset({"peer"})
# Where tables can be read: what is evaluated there is forgotten when they change.
WITH_DATA: Names = frozenset({DATA})
# Where every group of nodes can be read, and every count: that is evaluated for one node.
WITH_GROUPS: Names = frozenset({GROUP, COUNT, COUNT_OF_NODES})
READ = WITH_DATA | WITH_GROUPS
ON_NODE = PLACE | READ
POD_AND_COUNTS = POD | {COUNT}
# The number of a bound is worked out anew when the time, or the rows of a table, change it.
COUNT_BOUND = POD | WITH_DATA
NODE_BOUND = COUNT_BOUND | NODE | WITH_GROUPS

# ---- numbers

N = TypeVar("N", int, float)
NUMBERS: tuple[str, ...] = ("int", "double", "dyn", "error")
_AMOUNTS, _AN_AMOUNT = (*NUMBERS, "quantity"), "an amount: a number or a quantity"


def number_line(head: str, number: float | Expr, span: Span | None, unit: str = "") -> Line:
    """A number behind words, or the expression for it."""
    if isinstance(number, Expr):
        return f"{head} ", number, span or number.span
    return f"{head} {print_number(number)}{unit}", None, span


def checked_number(
    number: N | Expr, where: str, allowed: Names, by: ClauseChecker, added: Expr | None = None
) -> N | Expr:
    """A number of a clause, or the checked expression for it."""
    if not isinstance(number, Expr):
        return number
    return checked_amount(number, where, allowed, by, added)


def checked_amount(
    amount: Expr, where: str, allowed: Names, by: ClauseChecker, added: Expr | None
) -> Expr:
    """The checked expression for a number of a clause.

    What is `added` up, such as the amount itself, may be quantities: a constant beside these is a
    quantity, too.
    """
    checked = by.check(amount, None, allowed, where)
    if added is not None and added.type == QUANTITY:
        checked = by.coerce(checked, QUANTITY)
    types, kind, expected = NUMBERS, INT, "a whole number"
    if added is not None:
        types, kind, expected = _AMOUNTS, QUANTITY, _AN_AMOUNT
    if checked.type.name not in types:
        hint = catalogue.wanted_hint(kind, checked.type)
        by.found.append(catalogue.wrong_type(checked.type, expected, checked.span, hint))
    return checked


# ---- bounds and strengths


def _read_bound(c: list[Child]) -> Bound:
    kind: OneOf["at most", "at least", "exactly"] = (
        "at most" if has(c, "MOST") else "at least" if has(c, "LEAST") else "exactly"
    )
    amount, percent = reading.amount_of(c, "number of pods", 0)
    rounding: OneOf["up", "down"] | None = None
    if has(c, "ROUNDING"):
        rounding = "up" if reading.choice(c, "rounding", ("up", "down")) == "up" else "down"
    return Bound(kind, amount, percent, rounding, span=span_of(c))


def bound_lines(bound: Bound) -> Iterator[Line]:
    rounding = f" rounding {bound.rounding}" if bound.rounding else ""
    if bound.percent and isinstance(bound.amount, Expr):
        yield f"{bound.kind} {print_expression(bound.amount)}%{rounding}", None, bound.span
    else:
        unit = f"%{rounding}" if bound.percent else ""
        yield number_line(bound.kind, bound.amount, bound.span, unit)


def checked_bound(
    bound: Bound, clause: str, allowed: Names, by: ClauseChecker, added: Expr | None = None
) -> Bound:
    where = f"the bound of a {clause}"
    return replace(bound, amount=checked_number(bound.amount, where, allowed, by, added))


def _read_strength(c: list[Child]) -> Strength:
    weight = reading.weight_of(c) if has(c, "WEIGHT") else None
    if isinstance(weight, float | int) and weight < 0:
        raise reading.bad_number(
            tokens(c, "SIGNED")[0], "weight of a preference", "a number above 0"
        )
    return Strength(weight, span=span_of(c))


def weight_words(weight: float | Expr | None) -> str:
    shown = print_expression(weight) if isinstance(weight, Expr) else print_number(weight or 0)
    return "strict" if weight is None else f"weight {shown}"


BOUND = ClausePart(
    "bound", _read_bound, bound_lines, needed="`at most 3`, `at least 3` or `exactly 3`"
)
STRENGTH = ClausePart(
    "strength",
    _read_strength,
    lambda found: [(weight_words(found.weight), None, found.span)],
    needed="`strict`, or `weight 10`",
)

# ---- pods and where they count


def read_pods(c: list[Child]) -> PodSet:
    amount, where = reading.summed(c)
    return PodSet(
        where,
        has(c, "ALL"),
        has(c, "REVISION"),
        amount=amount,
        state=next((s for s in get_args(PodState) if has(c, s.upper())), ""),
        span=span_of(c),
    )


def pod_lines(pods: PodSet) -> Iterator[Line]:
    head = ""
    if pods.amount is not None:
        yield "sum ", pods.amount, pods.amount.span
        head = "of "
    if pods.where is not None:
        head += "all " * pods.all + f"{pods.state} " * bool(pods.state)
        yield f"{head}pods where ", pods.where, pods.where.span
    elif pods.amount is None:
        yield f"of {'revision' if pods.revision else 'replicas'}", None, pods.span


def checked_pods(pods: PodSet, by: ClauseChecker) -> PodSet:
    if (amount := pods.amount) is not None:
        amount = checked_amount(amount, "`sum`", PEER_ALONE | WITH_DATA, by, amount)
        pods = replace(pods, amount=amount)
    if pods.where is None:
        return pods
    namespaces = pods.namespaces
    if namespaces is not None:
        only = frozenset({"namespaceObject"})
        namespaces = by.check(namespaces, BOOL, only, "a namespaceSelector")
    where = by.check(pods.where, BOOL, POD | PEER_ALONE | WITH_DATA, "`pods where`")
    return replace(pods, where=where, namespaces=namespaces)


PODS = ClausePart("pods", read_pods, pod_lines, checked_pods)


def read_per(c: list[Child]) -> Per:
    exprs = reading.nodes(c)
    amount = exprs.pop(0) if has(c, "SUM") else None
    place, *where = exprs
    named: OneOf["node", "cluster"] | Expr = place
    if isinstance(place, Ident) and place.name in ("node", "cluster"):
        named = "node" if place.name == "node" else "cluster"
    counted: OneOf["", "used", "empty"] = "used" if has(c, "USED") else ""
    return Per(named, "empty" if has(c, "EMPTY") else counted, where[0] if where else None, amount)


def per_lines(per: Per) -> Iterator[Line]:
    if per.amount is not None:
        yield "sum ", per.amount, per.amount.span
    head = f"{'' if per.amount is None else 'over '}{per.counted or 'per'} "
    place = per.group or (per.place if per.domain is None else print_expression(per.domain))
    if per.where is not None:
        yield f"{head}{place} where ", per.where, per.where.span
    elif per.domain is None or per.group:
        yield f"{head}{place}", None, None
    else:
        yield head, per.domain, per.domain.span


def checked_place(per: Per, by: ClauseChecker, more: Names = frozenset()) -> Per:
    """The place with its expression checked, and the name of its group."""
    if per.domain is None:
        return per
    domain = checked_domain(per.domain, by, more)
    groups = by.environment.groups.values()
    group = next((each.name for each in groups if each.by is domain), "")
    return replace(per, place=domain, group=group)


# The groups that every policy has whose names mean nothing else in it.
EVERYWHERE: Mapping[str, Group] = {
    name: Group(name, Select(Ident("node"), field))
    for name, field in {"zone": "zone", "region": "region", "host": "name"}.items()
}


def checked_domain(expr: Expr, by: ClauseChecker, more: Names = frozenset()) -> Expr:
    known = by.environment
    if isinstance(expr, Ident):
        if group := known.groups.get(expr.name):
            return group.by
        if expr.name not in {*known.variables, *known.lets} - {"node"}:
            meant = EVERYWHERE.get("host" if expr.name == "node" else expr.name)
            if meant is None:
                by.found.append(catalogue.unknown_group(expr.name, known.groups, expr.span))
                return replace(expr, type=POISON)
            expr = replace(meant.by, span=expr.span)
    domain = by.check(expr, None, NODE | more, "a place")
    if domain.type.name not in ("string", "int", "bool", "dyn", "error"):
        expected = "a value that names a domain"
        by.found.append(catalogue.wrong_type(domain.type, expected, domain.span))
    return domain
