"""Audit reporting: what the leader writes of policies in audit mode: their statuses, and reports.

A write makes others look, and each pod may change the numbers. So both are written at most once a
minute for each policy, after its first pod. AuditStatuses and AuditReporter belong to a running
server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping

from engine.cache.reflector import Report
from engine.cluster.events import Regarding, regarding
from engine.cluster.policy_reports import AuditReport, PolicyReports
from engine.decision.audit_log import AuditedPod, AuditLog, PolicyAudits
from engine.enforced import EnforcedPolicies
from engine.errors import ApiError, ApiUnreachableError, why
from engine.program.program import Program
from engine.work import shared_pause
from grammar.values.errors import EvaluationError
from grammar.values.time import SECOND, Timestamp
from policies.resource import AuditedPodStatus, AuditStatus, Metadata, PolicyStatus

_PAUSE_SECONDS = 60.0
# Between two looks for a policy that came into audit mode or left it, and for its first pod.
_LOOK_SECONDS = 1.0
# Without the kind PolicyReport, it is looked for again after so many pauses.
_PAUSES_WITHOUT = 5
_MOST_LAST = 10
_WORK = "write PolicyReports"


class AuditStatuses:
    """The part of a status that says what a policy in audit mode would have done."""

    def __init__(self, log: AuditLog, now: Callable[[], Timestamp] = Timestamp.now) -> None:
        self._log = log
        self._now = now
        self._changed: dict[str, int] = {}

    def of(self, program: Program, metadata: Metadata, written: PolicyStatus) -> AuditStatus | None:
        """The part for a policy whose status is written so; None if it is not in audit mode."""
        audits, known = self._log.policies.get(program.address), written.audit
        self._changed = {a: t for a, t in self._changed.items() if a in self._log.policies}
        if audits is None:
            return None
        if written.observedGeneration != metadata.generation or known is None:
            return _status(audits, ())
        _go_on(audits, known)
        now, wanted = self._now().nanos, _status(audits, known.lastPods)
        if wanted != known:
            if now - self._changed.get(program.address, 0) < _PAUSE_SECONDS * SECOND:
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


def _status(audits: PolicyAudits, before: tuple[AuditedPodStatus, ...]) -> AuditStatus:
    pods = [_pod(pod) for pod in reversed(audits.pods.values())][:_MOST_LAST]
    own = {pod.pod for pod in pods}
    pods += [pod for pod in before if pod.pod not in own]
    return AuditStatus(
        audits.since.to_second(),
        audits.waiting,
        audits.owners,
        audits.elsewhere,
        tuple(pods[:_MOST_LAST]),
    )


def _pod(pod: AuditedPod) -> AuditedPodStatus:
    return AuditedPodStatus(
        f"{pod.namespace}/{pod.name}",
        pod.workload,
        pod.clauses[0][0][:1024],
        pod.since.to_second(),
        pod.node,
    )


class AuditReporter:
    """Writes PolicyReports while this replica leads. `objects` are the policies as JSON by name."""

    def __init__(
        self,
        reports: PolicyReports,
        log: AuditLog,
        enforced: Callable[[], EnforcedPolicies],
        objects: Callable[[], Mapping[str, bytes]],
        leads: Callable[[], bool],
        report: Report,
    ) -> None:
        self._reports = reports
        self._log = log
        self._enforced = enforced
        self._objects = objects
        self._leads = leads
        self._report = report

    async def follow(self) -> None:
        """Writes them until it is cancelled."""
        while True:
            # Pods come together.
            await shared_pause(_LOOK_SECONDS)
            before, has_reports = self._begun(), await self.look()
            if not has_reports:
                await asyncio.sleep(_PAUSE_SECONDS * _PAUSES_WITHOUT)
                continue
            pause = _PAUSE_SECONDS
            while pause > 0 and before == self._begun():
                await shared_pause(_LOOK_SECONDS)
                pause -= _LOOK_SECONDS

    async def look(self) -> bool:
        """Writes what has changed. Returns whether to look again soon."""
        if not self._leads():
            return True
        found = dict(self._audited())
        reports = [each for pair in found.items() for each in _by_namespace(*pair)]
        try:
            has_reports = await self._reports.write(reports, found)
        except (ApiError, ApiUnreachableError) as error:
            self._report(_WORK, why(_WORK, error))
            return True
        self._report(_WORK, "")
        return has_reports

    def _begun(self) -> set[tuple[str, bool]]:
        """The policies in audit mode, and whether pods of theirs have nodes."""
        return {
            (name, any(pod.node for pod in audits.pods.values()))
            for name, audits in self._log.policies.items()
        }

    def _audited(self) -> Iterator[tuple[Regarding, PolicyAudits]]:
        """The objects in audit mode."""
        objects = self._objects()
        for name, program in self._enforced().programs.items():
            audits = self._log.policies.get(program.address)
            if audits is not None and name in objects:
                yield regarding(objects[name]), audits


def _by_namespace(policy: Regarding, audits: PolicyAudits) -> Iterator[AuditReport]:
    by_namespace: dict[str, list[AuditedPod]] = {}
    for pod in reversed(audits.pods.values()):
        by_namespace.setdefault(pod.namespace, []).append(pod)
    for namespace, pods in by_namespace.items():
        yield AuditReport(policy, namespace, pods)
