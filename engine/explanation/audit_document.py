"""Audit document: what policies in audit mode would have done, for programs.

The view sends it as JSON, and commands decode it with these structs. The log is read, and nothing
is changed.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from engine.decision.audit_log import AuditedPod, AuditLog, PolicyAudits


class AuditedClause(msgspec.Struct, frozen=True):
    """A clause, and how many of the offered nodes it rejects."""

    clause: str
    nodes: int


class PodAudit(msgspec.Struct, frozen=True):
    """A pod that a policy in audit mode would have rejected.

    `wouldWait` says that it rejects all nodes that were `offered`; else the pod would have gone to
    another node than its own. `since` is the first such call, and `at` the last one. `workload` is
    like `Deployment/web`; it and `node` are null where they are not known.
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

    `clauses` are those that do. `passing` is the number of nodes that would be left of those that
    pass. `since` is the first call in which it left none, null if there was none or nobody knows.
    """

    policy: str
    nodes: int
    clauses: Sequence[AuditedClause] = ()
    passing: int = 0
    since: str | None = None


class DecisionAudit(PodAudit, frozen=True, kw_only=True):
    """What one policy would have done with a pod."""

    policy: str


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
