"""Decision document: the last call about a pod as it was recorded, and the audits of its policies.

The view sends it as JSON, and commands decode it with these structs. The journal and the log of
audits are read, and nothing is changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
import numpy as np

from engine.decision.audit_log import AuditedPod, AuditLog, PolicyAudits
from engine.decision.journal import (
    DecisionRecord,
    PreemptionDetail,
    RecordedCounts,
    RecordedVerdicts,
)
from engine.decision.verdict import Failed, Feasible, HeldBack, Rejected, Verdict, full_reason


class Reason(msgspec.Struct, frozen=True):
    """The reason for some nodes that are not offered: `text` in full, `message` as in an event.

    `error` is the evaluation error of the clause, empty if there was none.
    """

    text: str
    policy: str
    clause: str
    message: str
    error: str
    nodes: int
    names: Sequence[str]


class NodeScore(msgspec.Struct, frozen=True):
    """The score of one node, 0..10."""

    node: str
    score: int


class CountedGroup(msgspec.Struct, frozen=True):
    """A group of nodes of a clause, and the pods or the sum there, without the pod in question."""

    name: str
    pods: float


class ClauseCounts(msgspec.Struct, frozen=True):
    """What a strict clause counted: its groups with pods."""

    policy: str
    clause: str
    groups: Sequence[CountedGroup]


# ---- audits


class AuditedClause(msgspec.Struct, frozen=True):
    """A clause, and how many of the offered nodes it rejects."""

    clause: str
    nodes: int


class PodAudit(msgspec.Struct, frozen=True):
    """A pod that a policy in audit mode would have rejected.

    `wouldWait` says that the policy rejects all nodes that were `offered`; else the pod would have
    gone to another node than its own. `since` is the first such call, and `at` the last one.
    `workload` is like `Deployment/web`; it and `node` are null where they are not known.
    """

    pod: str
    uid: str
    workload: str | None
    clauses: Sequence[AuditedClause]
    wouldWait: bool
    since: str
    at: str
    offered: int
    rejected: int
    node: str | None


class PolicyAuditDetail(msgspec.Struct, frozen=True):
    """What a policy in audit mode would have done `since` it is as it is now.

    `waiting` pods of so many `workloads` would have waited, and those `elsewhere` would have gone
    to another node. `pods` are the last ones, the newest first.
    """

    policy: str
    since: str
    waiting: int
    workloads: int
    elsewhere: int
    pods: Sequence[PodAudit]


class AuditList(msgspec.Struct, frozen=True):
    """The policies in audit mode of a replica."""

    replica: str
    at: str
    policies: Sequence[PolicyAuditDetail]


class PolicyAudit(msgspec.Struct, frozen=True):
    """A policy in audit mode, and the number of nodes that it would reject.

    `clauses` are those that do. `passing` is how many of the nodes that pass would be left. `since`
    is the first call in which it left none, null if there was none or nobody knows.
    """

    policy: str
    nodes: int
    clauses: Sequence[AuditedClause] = ()
    passing: int = 0
    since: str | None = None


class DecisionAudit(PodAudit, frozen=True, kw_only=True):
    """What one policy would have done with a pod."""

    policy: str


# ---- a decision


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """The last call about a pod in short; `error` is the text sent instead of a decision.

    Of the `passing` nodes, `held` were left to other pods that wait; the rest was offered.
    `number` counts the calls of filter since the replica started. `seconds` is how long the
    decision of filter took, and `scoredSeconds` that of prioritize after it; null if there was
    none.
    """

    number: int
    pod: str
    at: str
    offered: int
    passing: int
    governing: str | None
    error: str | None
    seconds: float | None
    scoredSeconds: float | None
    held: int = 0


class Listing(msgspec.Struct, frozen=True):
    """The stored decisions of a replica, newest first; `more` says that there are others."""

    replica: str
    decisions: Sequence[Summary]
    more: bool = False


class DecisionDetail(Summary, frozen=True, kw_only=True):
    """The last call about a pod in full. `digests` has that of each policy that concerns the pod.

    `policiesChanged` says whether the policies have changed since. `passed` is null if no policy
    selects the pod and every node passes; `heldBy` has the nodes that were held back, by clause.
    `scores` is null if there was no prioritize call, or no score applies. `preemption` is the last
    preempt call, which may be older, null if there was none. `audits` are what policies in audit
    mode would have done with the pod, in any call.
    """

    replica: str
    uid: str
    generation: int
    policiesChanged: bool
    guardrails: Sequence[str]
    gaveWay: Sequence[str]
    audited: Sequence[str]
    digests: Mapping[str, str]
    counts: Sequence[ClauseCounts]
    passed: Sequence[str] | None
    reasons: Sequence[Reason]
    scores: Sequence[NodeScore] | None
    heldBy: Sequence[Reason] = ()
    preemption: PreemptionDetail | None = None
    audits: Sequence[DecisionAudit] = ()


def listing(replica: str, records: Iterable[DecisionRecord], *, more: bool) -> Listing:
    return Listing(replica, [summary(record) for record in records], more)


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
        offered=record.offered,
        passing=passing,
        governing=record.policies.governing,
        error=record.error or None,
        seconds=None if record.error else round(record.seconds, 6),
        scoredSeconds=None if record.scored is None else round(record.scored_seconds, 6),
        held=held,
    )


def detail(
    replica: str,
    record: DecisionRecord,
    generation: int,
    audits: Sequence[DecisionAudit] = (),
) -> DecisionDetail:
    """`generation` is the journal's now."""
    groups = list(_groups(record.answered)) if record.answered is not None else None
    passed = [n for v, names in groups or () if isinstance(v, Feasible) for n in names]
    return DecisionDetail(
        **msgspec.structs.asdict(summary(record)),
        replica=replica,
        uid=record.uid,
        generation=record.generation,
        policiesChanged=record.generation != generation,
        guardrails=record.policies.guardrails,
        gaveWay=record.policies.gave_way,
        audited=record.policies.audited,
        digests=record.policies.digests,
        counts=[clause_counts(each) for each in record.counts],
        passed=None if groups is None else passed,
        reasons=_reasons(groups or (), Rejected, Failed),
        heldBy=_reasons(groups or (), HeldBack),
        scores=_scores(record),
        preemption=record.preempted,
        audits=audits,
    )


def clause_counts(counts: RecordedCounts) -> ClauseCounts:
    """The fullest groups first. A sum is kept in thousandths."""
    unit = 1000 if counts.is_sum else 1
    pairs = sorted(counts.by_name().items(), key=lambda pair: (-pair[1], pair[0]))
    groups = [CountedGroup(name, pods / unit if unit > 1 else pods) for name, pods in pairs]
    return ClauseCounts(counts.policy, counts.clause, groups)


def _groups(answered: RecordedVerdicts) -> Iterator[tuple[Verdict, Sequence[str]]]:
    """Each verdict with the names of its nodes, sorted."""
    found: dict[int, list[str]] = {}
    for code, name in zip(answered.codes.tolist(), answered.nodes.names(), strict=True):
        found.setdefault(code, []).append(name)
    for code in sorted(found):
        yield answered.verdicts[code], sorted(found[code])


def _reasons(
    groups: Sequence[tuple[Verdict, Sequence[str]]], *kinds: type[HeldBack | Rejected | Failed]
) -> Sequence[Reason]:
    """The reasons of these kinds of verdicts, the most frequent first."""
    found = [
        Reason(
            full_reason(verdict.policy, verdict.clause, verdict.reason),
            verdict.policy,
            verdict.clause,
            verdict.reason,
            verdict.error if isinstance(verdict, Failed) else "",
            len(names),
            names,
        )
        for verdict, names in groups
        if isinstance(verdict, kinds)
    ]
    return sorted(found, key=lambda reason: (-reason.nodes, reason.text))


def _scores(record: DecisionRecord) -> Sequence[NodeScore] | None:
    """The scores, the best first."""
    if record.scored is None:
        return None
    pairs = zip(record.scored.nodes.names(), record.scored.points.tolist(), strict=True)
    return [NodeScore(n, s) for n, s in sorted(pairs, key=lambda pair: (-pair[1], pair[0]))]


# ---- what policies in audit mode would have done


def audit_list(replica: str, log: AuditLog) -> AuditList:
    """All policies in audit mode, by address."""
    found = [policy_audit(*pair) for pair in sorted(log.policies.items())]
    return AuditList(replica, log.now().to_second(), found)


def policy_audit(address: str, audits: PolicyAudits) -> PolicyAuditDetail:
    return PolicyAuditDetail(
        address,
        audits.since.to_second(),
        audits.waiting,
        audits.owners,
        audits.elsewhere,
        [pod_audit(pod) for pod in reversed(audits.pods.values())],
    )


def pod_audit(pod: AuditedPod) -> PodAudit:
    return PodAudit(
        f"{pod.namespace}/{pod.name}",
        pod.uid,
        pod.workload or None,
        [AuditedClause(*pair) for pair in pod.clauses],
        pod.would_wait,
        pod.since.to_second(),
        pod.at.to_second(),
        pod.offered,
        pod.rejected,
        pod.node or None,
    )


def decision_audits(log: AuditLog, uid: str) -> Sequence[DecisionAudit]:
    """What the policies in audit mode would have done with a pod."""
    return [
        DecisionAudit(policy=address, **msgspec.structs.asdict(pod_audit(pod)))
        for address, pod in log.of(uid)
    ]


def said(audit: PodAudit) -> str:
    """What would have happened to a pod, as the end of a sentence."""
    clauses = ", ".join(f"`{each.clause}`" for each in audit.clauses)
    if audit.wouldWait:
        on = f"; it is on {audit.node}" if audit.node else ""
        return f"would have kept it pending since {audit.since}: {clauses}{on}"
    return f"would have rejected its node {audit.node}: {clauses}"
