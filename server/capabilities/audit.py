"""Audit: what a server tells of policies in audit mode: in their statuses, and to who asks."""

from __future__ import annotations

from collections.abc import Callable

from engine.decision.audit_log import AuditedPod, AuditLog, PolicyAudits
from engine.explanation.document import AuditList
from engine.program.program import Program
from grammar.values.errors import EvaluationError
from grammar.values.time import SECOND, Timestamp
from policies.resource import AuditedPodStatus, AuditStatus, Metadata, PolicyStatus
from server.capabilities.capability import Capability, Opened, Site
from server.capabilities.policy_statuses import ReportedPolicy
from server.view.routes import Route


def _open(site: Site) -> Opened:
    log = site.engine.audits.log
    statuses = AuditStatuses(log)
    return Opened(
        pod_changed=log.pod_changed,
        status=lambda: statuses.part,
        answers={"audit": lambda _: audit_list(site.replica, log)},
    )


AUDIT = Capability(name="audit", open=_open, routes=[Route("/audit", AuditList)])

_AUDIT_SECONDS = 60.0
_MOST_LAST = 10


def audit_list(replica: str, log: AuditLog) -> AuditList:
    """What policies in audit mode would have rejected."""
    return AuditList(replica, log.now().to_second(), [a for _, a in sorted(log.policies.items())])


class AuditStatuses:
    """The part of a status about audits: what a policy in audit mode would have done.

    A write makes others look, and each pod may change the numbers. So it is written at most once a
    minute for each policy.
    """

    def __init__(self, log: AuditLog, now: Callable[[], Timestamp] = Timestamp.now) -> None:
        self._log = log
        self._now = now
        self._changed: dict[str, int] = {}

    def part(self, policy: ReportedPolicy) -> None:
        if policy.program is not None:
            policy.fields["audit"] = self.of(policy.program, policy.metadata, policy.written)

    def of(self, program: Program, metadata: Metadata, written: PolicyStatus) -> AuditStatus | None:
        """The part for a policy whose status is written so; None if it is not in audit mode."""
        audits, known = self._log.policies.get(program.address), written.audit
        self._changed = {a: t for a, t in self._changed.items() if a in self._log.policies}
        if audits is None:
            return None
        if written.observedGeneration != metadata.generation or known is None:
            return _audit_status(audits, ())
        _go_on(audits, known)
        now, wanted = self._now().nanos, _audit_status(audits, known.lastPods)
        if wanted != known:
            if now - self._changed.get(program.address, 0) < _AUDIT_SECONDS * SECOND:
                return known
            self._changed[program.address] = now
        return wanted


def _go_on(audits: PolicyAudits, known: AuditStatus) -> None:
    """Adds what another replica, or an earlier start, has counted."""
    try:
        since = Timestamp.parse(known.since)
    except EvaluationError:
        return
    audits.go_on_from(since, known.waitingPods, known.elsewherePods, known.workloads)


def _audit_status(audits: PolicyAudits, before: tuple[AuditedPodStatus, ...]) -> AuditStatus:
    pods = [_pod(pod) for pod in audits.pods[:_MOST_LAST]]
    own = {pod.pod for pod in pods}
    pods += [pod for pod in before if pod.pod not in own]
    return AuditStatus(
        audits.since, audits.waiting, audits.workloads, audits.elsewhere, tuple(pods[:_MOST_LAST])
    )


def _pod(pod: AuditedPod) -> AuditedPodStatus:
    return AuditedPodStatus(
        pod.pod, pod.workload or "", pod.clauses[0].clause[:1024], pod.since, pod.node or ""
    )
