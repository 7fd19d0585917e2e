"""Spread: how evenly pods run on the domains of nodes, such as zones."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace

from grammar.clauses import parts, reading
from grammar.clauses.kind import ClauseChecker, ClauseKind, ClausePart, expression
from grammar.clauses.reading import Child
from grammar.tree.ast import Expr
from grammar.tree.clause_parts import ClauseThatCounts, NodeSet


@dataclass(frozen=True, slots=True)
class Spread(ClauseThatCounts):
    """A spread: the count in a node's domain minus the lowest count of all domains.

    `nodes` are the nodes on which pods count, and whose domains are compared; `eligible` by
    default. Only domains of nodes with one value of `within` are compared.
    """

    over: Expr
    skew: int | Expr
    _: KW_ONLY
    min_domains: int | Expr | None = None
    nodes: NodeSet | None = None
    within: Expr | None = None

    @property
    def domain(self) -> Expr | None:
        return self.over

    @property
    def counts_where_pod_may_be(self) -> bool:
        return self.nodes != "all"


def _domain(expr: Expr, by: ClauseChecker) -> Expr:
    return parts.checked_domain(expr, by, parts.WITH_DATA)


def _checked(spread: Spread, by: ClauseChecker) -> Spread:
    group = {each.name for each in by.environment.groups.values() if each.by is spread.over}
    skew = parts.checked_number(spread.skew, "the skew of a spread", parts.COUNT_BOUND | group, by)
    least = spread.min_domains
    if least is not None:
        least = parts.checked_number(least, "`at least` of a spread", parts.COUNT_BOUND, by)
    return replace(spread, skew=skew, min_domains=least)


def _number(rule: str, words: str, what: str) -> ClausePart:
    """A part that is a number behind words, at least 1."""

    def read(c: list[Child]) -> int | Expr:
        return reading.whole(reading.expr_of(c), what, 1)

    return ClausePart(rule, read, lambda number: [parts.number_line(words, number, None)])


SPREAD = ClauseKind(
    Spread,
    "the spread",
    'spread "x" { over node.zone skew at most 1 strict }',
    parts.POD_AND_COUNTS,
    (
        parts.PODS,
        ClausePart(
            "nodes",
            lambda c: reading.choice(c, "set of nodes", ("eligible", "selected", "all")),
            lambda nodes: [(f"nodes {nodes}", None, None)],
        ),
        expression("over", _domain, needed="`over node.zone`"),
        expression("within", _domain),
        replace(_number("min_domains", "at least", "number of domains"), word="at least"),
        replace(_number("skew", "skew at most", "skew"), needed="`skew at most 1`"),
        parts.STRENGTH,
    ),
    _checked,
)
