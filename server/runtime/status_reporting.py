"""Status reporting: what the leader writes into the cluster: statuses, events, and requeues.

The StatusReporter belongs to a running server. Each duty is a separate background task, which
writes changes once a second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

from engine.cache.informers import Informers
from engine.cache.node_table import Snapshot
from engine.cache.reflector import Report
from engine.cluster import status_writer as status
from engine.cluster.client import ApiClient
from engine.cluster.events import Events, PodEvent, Regarding, regarding
from engine.cluster.lease import micro_time
from engine.cluster.requeue import Requeuer
from engine.cluster.status_writer import Reported
from engine.enforced import EnforcedPolicies
from engine.errors import ApiError, ApiUnreachableError, NotSyncedError, why
from engine.work import shared_pause
from grammar.values.time import Timestamp
from policies.resource import PolicyStatus, StatusCondition
from server.runtime.missed_pods import UngatedPods, early_text
from server.runtime.policy_statuses import (
    EXPENSIVE,
    UNMET,
    Outcomes,
    Statuses,
    object_path,
)

_PERIOD_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class LedCluster:
    """A cluster that one of several replicas writes to: while it `leads`.

    `report` takes what could not be written.
    """

    client: ApiClient
    informers: Informers
    leads: Callable[[], bool]
    report: Report


class PolicyOutcomes:
    """The outcomes of policies in decisions: overruled, expensive, or not to be met.

    `lost` has, by the address of a policy, which one governs its pods instead. `expensive` gives
    the addresses of the policies that had no time lately, and `unmet`, by the address of a policy,
    its share for whose nodes pods wait.
    """

    def __init__(
        self,
        enforced: Callable[[], EnforcedPolicies],
        lost: dict[str, str],
        expensive: Callable[[], Collection[str]],
        unmet: Callable[[], Mapping[str, str]],
    ) -> None:
        self.enforced = enforced
        self._expensive = expensive
        self._unmet = unmet
        self._lost = lost
        self._lost_under: EnforcedPolicies | None = None

    def of(self, objects: Iterable[str]) -> Outcomes:
        """The outcomes of the policies in force."""
        return Outcomes(self._conflicts(objects), self._expensive(), self._unmet())

    def _conflicts(self, objects: Iterable[str]) -> Mapping[str, str]:
        """Those of the objects, by name, that another policy overrules, with a text about it."""
        enforced = self.enforced()
        if enforced is not self._lost_under:
            # What was seen under other policies may be over.
            self._lost_under = enforced
            self._lost.clear()
        return {
            name: f"`{winner}` governs pods that this policy selects too"
            for name in objects
            if (program := enforced.programs.get(name)) is not None
            and (winner := self._lost.get(program.address))
        }


class StatusReporter:
    """The reporter of statuses writes what has changed once a second, while this replica leads.

    Whatever a duty meets, it must not keep the others from their work. So each of `duties` is to
    run as a task of its own, until it is cancelled.
    """

    def __init__(
        self,
        cluster: LedCluster,
        outcomes: PolicyOutcomes,
        statuses: Statuses,
        ungated: UngatedPods,
        events: Events,
        requeuer: Requeuer,
    ) -> None:
        self._cluster = cluster
        self._outcomes = outcomes
        self._statuses = statuses
        self._ungated = ungated
        self._events = events
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
                await duty(self._cluster.informers.snapshot(), micro_time(Timestamp.now()))
            except NotSyncedError:
                continue
            except (ApiError, ApiUnreachableError) as error:
                self._cluster.report(work, why(work, error))
            else:
                self._cluster.report(work, "")

    async def _write_statuses(self, snapshot: Snapshot, now: str) -> None:
        if not self._cluster.leads():
            return
        objects, enforced = self._cluster.informers.policies, self._outcomes.enforced()
        outcomes, reports = self._outcomes.of(objects), []

        @cache
        def by_path() -> Mapping[str, bytes]:
            return {object_path(name): raw for name, raw in objects.items()}

        for report in self._statuses.reports(enforced, objects, snapshot, outcomes):
            reports.append(report)
            if (changed := readiness_news(report)) is not None:
                kind, reason, note = changed
                self._events.add(_event(by_path()[report.path], reason, note, kind, "Enforce"))
            if (early := report.wanted.earlyPods) and early != report.written.earlyPods:
                about = by_path()[report.path]
                self._events.add(_event(about, "PlacedBefore", early_text(early), action="Enforce"))
            await asyncio.sleep(0)
        await status.write(self._cluster.client, reports, f"{now[:19]}Z")

    async def _send_events(self, _snapshot: Snapshot, now: str) -> None:
        ungated = self._ungated.take_new()
        if not self._cluster.leads():
            self._events.forget()
            return
        objects, enforced = self._cluster.informers.policies, self._outcomes.enforced()
        outcomes = self._outcomes.of(objects)
        for name, note in outcomes.conflicts.items():
            if name in objects:
                self._events.add(_event(objects[name], "Conflicting", note))
        for name, program in enforced.programs.items():
            if name in objects and program.address in outcomes.expensive:
                self._events.add(_event(objects[name], "Expensive", EXPENSIVE))
            if name in objects and (share := outcomes.unmet.get(program.address)):
                self._events.add(_event(objects[name], "Unmet", UNMET.format(share)))
        for pod in ungated:
            if note := self._ungated.why(pod, enforced.objects.items()):
                about = Regarding("v1", "Pod", pod.namespace, pod.name, pod.uid)
                self._events.add(PodEvent(about, "Warning", "Ungated", "Schedule", note))
        await self._events.send(now)

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
