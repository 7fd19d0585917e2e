"""Spread: the count of a domain compared with the least; for others a spread constraint."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from engine.clauses.meaning import ClauseMeaning, CountEvidence
from engine.counting.bounds import GroupCounts, fewest
from engine.program.policy_compiler import PolicyCompiler
from engine.program.program import CountClause, Peers
from engine.selectors.terms import Json, Part, Telling, UnportableError, label_selector
from grammar.clauses.spread import Spread
from grammar.tree.clause_parts import Bound

_POLICIES = {
    "eligible": {"nodeAffinityPolicy": "Honor", "nodeTaintsPolicy": "Honor"},
    "selected": {"nodeAffinityPolicy": "Honor", "nodeTaintsPolicy": "Ignore"},
    "all": {"nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Ignore"},
}


def _programs(clause: Spread, compiler: PolicyCompiler) -> Iterator[CountClause]:
    least = clause.min_domains
    # PodTopologySpread does not count a terminating pod.
    count = compiler.count(clause, clause.skew)
    if clause.pods is None:
        # With those of other revisions, a rollout would end with a greater skew.
        count = replace(count, peers=Peers(revision=True))
    yield CountClause(
        kind="spread",
        count=count,
        bound=compiler.bound(Bound("at most", clause.skew)),
        groups_are="domains",
        place=compiler.shared(clause.over),
        within=None if clause.within is None else compiler.shared(clause.within),
        min_domains=compiler.number(least) if least is not None else None,
        nodes=clause.nodes or "eligible",
        of_nodes=compiler.is_of_nodes(clause.over),
    )


def _portable(clause: Spread, telling: Telling) -> Part:
    telling.reject_missing(clause)
    if clause.pods is not None and clause.pods.all:
        raise UnportableError("a spread constraint counts the pods of one namespace")
    if clause.within is not None:
        raise UnportableError("a spread constraint compares the domains of all nodes")
    key = telling.conditions.label(clause.over)
    selector = label_selector(telling.counted(clause.pods))
    if not selector:
        raise UnportableError("a spread constraint with a selector of all pods counts none")
    constraint: Json = {
        "maxSkew": telling.whole(clause.skew),
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": selector,
        **_POLICIES[clause.nodes or "eligible"],
    }
    if clause.min_domains is not None:
        constraint["minDomains"] = telling.whole(clause.min_domains)
    applies = telling.applies(clause)
    return Part(clause.name, exact=True, spread=(constraint,) if applies else ())


def _counted(clause: CountClause, counts: GroupCounts, group: int) -> CountEvidence:
    every, bound = fewest(clause, counts), counts.bound_of(clause, group)
    least, among, beside = every[group], counts.domains & (counts.low == every[group]), ""
    if counts.sections is not None:
        among, beside = among & (counts.sections == counts.sections[group]), " beside it"
    there = np.flatnonzero(among).tolist()
    here, other = int(counts.high[group]), f"{least} in the emptiest one{beside}"
    text = f"{here} in this node's domain, {other}; skew {bound.kind} {bound}"
    return text, [group], there[:1] if least and group not in there else ()


SPREAD = ClauseMeaning(kind=Spread, programs=_programs, portable=_portable, counted=_counted)
