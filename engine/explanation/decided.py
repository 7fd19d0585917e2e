"""Decided: the last call about a pod as it was recorded, and what policies in audit mode would do.

The view sends it as JSON, and commands decode it with these structs. The journal and the log of
audits are read, and nothing is changed.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from engine.decision.audit_log import AuditedPod, AuditLog, PolicyAudits
from engine.decision.journal import ConcernedPolicies, DecisionRecord
from engine.decision.verdict import Feasible, HeldBack, Verdict, full_reason
from engine.explanation.document import (
    Applies,
    ClauseCounts,
    ConcernedPolicy,
    NodeGroup,
    PodDecision,
    PolicyAudit,
    RejectingClause,
    ScoredNode,
    Summary,
    in_order,
)


class Listing(msgspec.Struct, frozen=True):
    """A listing of the kept decisions of a replica, newest first; `more` says there are others.

    `number` is that of the last decision.
    """

    replica: str
    decisions: Sequence[Summary]
    more: bool
    number: int


def summary(record: DecisionRecord) -> Summary:
    passing, held = 0 if record.error else record.offered, 0
    if (answered := record.answered) is not None:
        found = np.bincount(answered.codes, minlength=len(answered.verdicts)).tolist()
        pairs = list(zip(answered.verdicts, found, strict=True))
        held = sum(nodes for verdict, nodes in pairs if isinstance(verdict, HeldBack))
        passing = held + sum(nodes for verdict, nodes in pairs if isinstance(verdict, Feasible))
    return Summary(
        number=record.number,
        pod=f"{record.namespace}/{record.name}",
        at=record.at.to_second(),
        nodes=record.offered,
        passing=passing,
        heldBack=held,
        governing=record.policies.governing,
        problem=record.error or None,
        seconds=None if record.error else round(record.seconds, 6),
        scoredSeconds=None if record.scored is None else round(record.scored_seconds, 6),
    )


def decided(replica: str, record: DecisionRecord, generation: int, log: AuditLog) -> PodDecision:
    """The decision of a record; `generation` is the journal's now."""
    known = msgspec.structs.asdict(summary(record))
    del known["governing"]
    return PodDecision(
        **known,
        replica=replica,
        uid=record.uid,
        generation=record.generation,
        policiesChanged=record.generation != generation,
        policies=_policies(record.policies),
        groups=_groups(record),
        audits=[_audit(address, pod) for address, pod in log.of(record.uid)],
        scores=_scores(record),
        counts=[ClauseCounts(*each.by_group()) for each in record.counts],
        preemption=record.preempted,
    )


def _policies(concerned: ConcernedPolicies) -> list[ConcernedPolicy]:
    winner = concerned.governing
    parts: tuple[tuple[Applies, str, Sequence[str]], ...] = (
        ("as a guardrail", "", concerned.guardrails),
        ("governs", "", () if winner is None else (winner,)),
        ("gives way", f"`{winner}` governs", concerned.gave_way),
        ("in audit", "", concerned.audited),
    )
    return [
        ConcernedPolicy(address, applies, because, concerned.digests.get(address, ""))
        for applies, because, addresses in parts
        for address in addresses
    ]


def _groups(record: DecisionRecord) -> list[NodeGroup]:
    """The nodes by their verdicts."""
    if (answered := record.answered) is None:
        return []
    found: dict[int, list[str]] = {}
    for code, name in zip(answered.codes.tolist(), answered.nodes.names(), strict=True):
        found.setdefault(code, []).append(name)
    return in_order([_group(answered.verdicts[code], found[code]) for code in found])


def _group(verdict: Verdict, names: list[str]) -> NodeGroup:
    names = sorted(names)
    if isinstance(verdict, Feasible):
        return NodeGroup([], len(names), names)
    text = full_reason(verdict.policy, verdict.clause, verdict.reason)
    if isinstance(verdict, HeldBack):
        return NodeGroup([], len(names), names, text)
    text = f"{text}: {verdict.error}" if verdict.error else text
    return NodeGroup([RejectingClause(verdict.policy, verdict.clause, text)], len(names), names)


def _scores(record: DecisionRecord) -> Sequence[ScoredNode] | None:
    if record.scored is None:
        return None
    pairs = zip(record.scored.nodes.names(), record.scored.points.tolist(), strict=True)
    return [ScoredNode(n, s) for n, s in sorted(pairs, key=lambda pair: (-pair[1], pair[0]))]


# ---- what policies in audit mode would have done


def _audit(address: str, pod: AuditedPod) -> PolicyAudit:
    since = pod.since if pod.wouldWait else None
    return PolicyAudit(address, pod.rejected, pod.clauses, pod.offered - pod.rejected, since)


class AuditList(msgspec.Struct, frozen=True):
    """The policies in audit mode of a replica, by address."""

    replica: str
    at: str
    policies: Sequence[PolicyAudits]
