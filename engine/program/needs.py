"""What policies need the cache to keep besides nodes and pods."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from grammar.ast import Expr, Ident, Select
from grammar.checks.everywhere import expressions
from grammar.clauses import Clause, Limit, Policy, Share, Spread
from policies.annotations import named_annotations


@dataclass(frozen=True, slots=True)
class Needs:
    """Whether a rule reads namespaces or workloads, and which annotations of other pods."""

    namespaces: bool = False
    workloads: bool = False
    annotations: frozenset[str] = frozenset()


def needs(policies: Iterable[Policy]) -> Needs:
    """What checked policies read."""
    known = tuple(policies)
    read = [expr for policy in known for expr in expressions(policy)]
    return Needs(
        namespaces=any(isinstance(e, Ident) and e.name == "namespaceObject" for e in read),
        workloads=any(map(_reads_workload, read))
        or any(_counts_by_workload(c) for policy in known for c in policy.clauses),
        annotations=named_annotations(known),
    )


def _reads_workload(expr: Expr) -> bool:
    return isinstance(expr, Select) and expr.name == "workload"


def _counts_by_workload(clause: Clause) -> bool:
    """`of replicas`, and counts without a `pods` line."""
    match clause:
        case Share(of=pods) | Spread(pods=pods) | Limit(pods=pods):
            return pods is None or pods.where is None
        case _:
            return False
