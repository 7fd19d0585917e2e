"""Share: how many of some pods run on some of the nodes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from grammar.clauses import parts
from grammar.clauses.kind import ClauseChecker, ClauseKind, condition
from grammar.tree.ast import Expr
from grammar.tree.clause_parts import Bound, ClauseThatCounts, WrittenCondition


@dataclass(frozen=True, slots=True)
class Share(ClauseThatCounts):
    """A share: a bound on the pods on the nodes for which `on` is true."""

    on: Expr
    bound: Bound

    @property
    def needs_workloads(self) -> bool:
        """Also of a part of the wanted pods, and of an exact number, which a rollout passes."""
        return self.counts_by_workload or self.bound.percent or self.bound.kind == "exactly"

    @property
    def own_conditions(self) -> tuple[WrittenCondition, ...]:
        return (WrittenCondition(self.on, "on nodes where"),)


def _checked(share: Share, by: ClauseChecker) -> Share:
    return replace(share, bound=parts.checked_bound(share.bound, "share", parts.COUNT_BOUND, by))


_PLACE = parts.PLACE | parts.WITH_DATA
_WHERE, _WORDS = "on nodes where", "`on nodes where`"

SHARE = ClauseKind(
    Share,
    "the share",
    'share "x" { of replicas on nodes where node.zone == "a" at most 40% strict }',
    parts.POD_AND_COUNTS,
    (
        replace(parts.PODS, needed="`of replicas`, or `pods where` and a condition"),
        replace(condition("on", _PLACE, _WHERE, _WORDS), needed=f"{_WORDS} and a condition"),
        parts.BOUND,
        parts.STRENGTH,
    ),
    _checked,
)
