"""Status reporting: what the leader writes into the cluster: statuses, events, and requeues.

The StatusReporter belongs to a running server. Each duty is a separate background task, which
writes changes once a second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import cache
from typing import Literal

from engine.cache.node_table import Snapshot
from engine.cluster import status_writer as status
from engine.cluster.events import PodEvent, Regarding, regarding
from engine.cluster.lease import micro_time
from engine.cluster.requeue import Requeuer
from engine.cluster.status_writer import Reported
from engine.enforced import EnforcedPolicies
from engine.engine import Engine
from engine.errors import ApiError, ApiUnreachableError, NotSyncedError, why
from engine.work import shared_pause
from grammar.values.time import Timestamp
from policies.resource import PolicyStatus, StatusCondition
from server.capabilities.capability import LedCluster
from server.capabilities.policy_statuses import (
    EXPENSIVE,
    UNMET,
    Outcomes,
    Statuses,
    object_path,
)
from server.runtime.missed_pods import UngatedPods, early_text

_PERIOD_SECONDS = 1.0


class StatusReporter:
    """The reporter of statuses writes what has changed once a second, while this replica leads.

    Whatever a duty meets, it must not keep the others from their work. So each of `duties` is to
    run as a task of its own, until it is cancelled.
    """

    def __init__(
        self,
        cluster: LedCluster,
        engine: Engine,
        enforced: Callable[[], EnforcedPolicies],
        lost: dict[str, str],
        statuses: Statuses,
        ungated: UngatedPods,
        requeuer: Requeuer,
    ) -> None:
        """`lost` has, by the address of a policy, which one governs its pods instead."""
        self._cluster = cluster
        self._engine = engine
        self._enforced = enforced
        self._lost = lost
        self._lost_under: EnforcedPolicies | None = None
        self._statuses = statuses
        self._ungated = ungated
        self._requeuer = requeuer

    @property
    def duties(self) -> Mapping[str, Callable[[], Awaitable[None]]]:
        """The duties by name."""
        return {
            "statuses": lambda: self._repeat(self._write_statuses, "write statuses of policies"),
            "events": lambda: self._repeat(self._send_events, "write events"),
            "requeues": lambda: self._repeat(self._requeue, "requeue pods"),
        }

    async def _repeat(self, duty: Callable[[Snapshot, str], Awaitable[None]], work: str) -> None:
        """Does the duty each second."""
        while True:
            await shared_pause(_PERIOD_SECONDS)
            try:
                await duty(self._cluster.snapshot(), micro_time(Timestamp.now()))
            except NotSyncedError:
                continue
            except (ApiError, ApiUnreachableError) as error:
                self._cluster.report(work, why(work, error))
            else:
                self._cluster.report(work, "")

    def _outcomes(self, objects: Iterable[str], enforced: EnforcedPolicies) -> Outcomes:
        """The outcomes of the policies in force, and of the objects that another overrules."""
        if enforced is not self._lost_under:
            # What was seen under other policies may be over.
            self._lost_under = enforced
            self._lost.clear()
        conflicts = {
            name: f"`{winner}` governs pods that this policy selects too"
            for name in objects
            if (program := enforced.programs.get(name)) is not None
            and (winner := self._lost.get(program.address))
        }
        return Outcomes(conflicts, self._engine.expensive, self._engine.unmet)

    async def _write_statuses(self, snapshot: Snapshot, now: str) -> None:
        if not self._cluster.leads():
            return
        objects, enforced = self._cluster.objects(), self._enforced()
        outcomes, reports, events = self._outcomes(objects, enforced), [], self._cluster.events

        @cache
        def by_path() -> Mapping[str, bytes]:
            return {object_path(name): raw for name, raw in objects.items()}

        for report in self._statuses.reports(enforced, objects, snapshot, outcomes):
            reports.append(report)
            if (changed := readiness_news(report)) is not None:
                kind, reason, note = changed
                events.add(_event(by_path()[report.path], reason, note, kind, "Enforce"))
            if (early := report.wanted.earlyPods) and early != report.written.earlyPods:
                about = by_path()[report.path]
                events.add(_event(about, "PlacedBefore", early_text(early), action="Enforce"))
            await asyncio.sleep(0)
        await status.write(self._cluster.api, reports, f"{now[:19]}Z")

    async def _send_events(self, _snapshot: Snapshot, now: str) -> None:
        ungated, events = self._ungated.take_new(), self._cluster.events
        if not self._cluster.leads():
            events.forget()
            return
        objects, enforced = self._cluster.objects(), self._enforced()
        outcomes = self._outcomes(objects, enforced)
        for name, note in outcomes.conflicts.items():
            if name in objects:
                events.add(_event(objects[name], "Conflicting", note))
        for name, program in enforced.programs.items():
            if name in objects and program.address in outcomes.expensive:
                events.add(_event(objects[name], "Expensive", EXPENSIVE))
            if name in objects and (share := outcomes.unmet.get(program.address)):
                events.add(_event(objects[name], "Unmet", UNMET.format(share)))
        for pod in ungated:
            if note := self._ungated.why(pod, enforced.objects.items()):
                about = Regarding("v1", "Pod", pod.namespace, pod.name, pod.uid)
                events.add(PodEvent(about, "Warning", "Ungated", "Schedule", note))
        await events.send(now)

    async def _requeue(self, snapshot: Snapshot, now: str) -> None:
        await self._requeuer.notice(snapshot.pending)
        if self._cluster.leads():
            await self._requeuer.requeue(snapshot.pending, now)


def readiness_news(report: Reported) -> tuple[Literal["Normal", "Warning"], str, str] | None:
    """The type, reason and note of the event about what is in force of an object; None for none.

    An object that is not in force has an event for each generation, and another when it comes into
    force: so the note names the generation.
    """
    now = _ready(report.wanted)
    generation = f"generation {report.wanted.observedGeneration}"
    if now is not None and now.status == "False":
        return "Warning", now.reason, f"{generation}: {now.message}"
    before = _ready(report.written)
    if now is not None and before is not None and before.status == "False":
        return "Normal", now.reason, f"{generation} is in force"
    return None


def _ready(status: PolicyStatus) -> StatusCondition | None:
    return next((each for each in status.conditions if each.type == "Ready"), None)


def _event(
    raw: bytes,
    reason: str,
    note: str,
    kind: Literal["Normal", "Warning"] = "Warning",
    action: str = "Select",
) -> PodEvent:
    """An event about a policy object."""
    return PodEvent(regarding(raw), kind, reason, action, note)
