"""Portable parts: what a clause becomes in a pod's spec, and what clauses are told by.

No part rejects a node that its clause does not reject. A part that rejects the same nodes is exact.
Sources: KEP-895 and KEP-3094 (spread constraints), `interpodaffinity` and
`component-helpers/scheduling/corev1/nodeaffinity` of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from engine.selectors.terms import (
    ALWAYS,
    NEVER,
    LabelConditions,
    Terms,
    UnportableError,
    expressions,
)
from grammar.tree.ast import Expr
from grammar.tree.clause_parts import AnyClause, PodSet
from grammar.tree.policy import Policy

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Part:
    """Part of a pod's spec that a clause becomes: only one list has items, or `nodes` limits.

    `spread` are topology spread constraints, `away` terms of required pod anti-affinity, and `near`
    of required pod affinity.
    """

    clause: str
    exact: bool
    nodes: Terms = ALWAYS
    spread: tuple[Json, ...] = ()
    away: tuple[Json, ...] = ()
    near: tuple[Json, ...] = ()

    @property
    def says_nothing(self) -> bool:
        """Whether the clause keeps this pod from no node."""
        return self.nodes == ALWAYS and not (self.spread or self.away or self.near)


@dataclass(frozen=True, slots=True)
class Telling:
    """Telling of clauses for one pod: its conditions, and the policy that decides by the clauses.

    `exempt` are the namespaces about whose pods no policy decides. Methods raise UnportableError.
    """

    conditions: LabelConditions
    policy: Policy
    exempt: Collection[str]

    def applies(self, clause: AnyClause) -> bool:
        """Whether the clause applies to the pod: where its `when` is missing, it does not."""
        return clause.when is None or self.conditions.of_pod(clause.when)

    def reject_missing(self, clause: AnyClause) -> None:
        if clause.missing == "pass":
            raise UnportableError("`missing pass` passes nodes without the label")

    def whole(self, number: float | Expr) -> int:
        found = self.conditions.constant(number)
        if found is None:
            raise UnportableError("its number is not constant")
        return int(found)

    def counted(self, pods: PodSet | None) -> Terms:
        """The pods that a clause counts, by their labels."""
        if pods is None or pods.where is None:
            raise UnportableError("the pods of a workload have no selector: write `pods where`")
        if pods.namespaces is not None:
            raise UnportableError("the labels of a namespace can change")
        found = self.conditions.of_peer(pods.where).true
        if found == NEVER:
            raise UnportableError("it counts no pods")
        if any(r.operator in ("Gt", "Lt") for term in found for r in term):
            raise UnportableError("a selector of pods has no comparisons of numbers")
        return found


def label_selector(terms: Terms) -> Json:
    """The selector of pods that has these terms, which are one. Raises UnportableError."""
    if len(terms) > 1:
        raise UnportableError("a selector of pods has no `||`")
    (term,) = terms
    return {"matchExpressions": expressions(term)} if term else {}
