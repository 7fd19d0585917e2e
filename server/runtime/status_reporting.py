"""Status reporting: what the leader writes into the cluster: statuses, events, and requeues.

The StatusReporter belongs to a running server. Each duty is a separate background task, which
writes changes once a second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Literal

from engine.cache.node_table import Snapshot
from engine.cluster import status_writer as status
from engine.cluster.binding import Binder
from engine.cluster.events import PodEvent
from engine.cluster.lease import micro_time
from engine.cluster.requeue import Requeuer
from engine.cluster.status_writer import Reported
from engine.enforced import EnforcedPolicies
from engine.engine import Engine
from engine.errors import ApiError, ApiUnreachableError, NotSyncedError, why
from engine.work import shared_pause, until_next
from grammar.values.time import Timestamp
from policies.resource import PolicyStatus, StatusCondition
from server.capabilities.capability import LedCluster
from server.capabilities.policy_statuses import EXPENSIVE, UNMET, Outcomes, Statuses

_PERIOD_SECONDS = 1.0


@dataclass(slots=True)
class StatusReporter:
    """The reporter of statuses writes what has changed once a second, while this replica leads.

    Whatever a duty meets, it must not keep the others from their work. So each of `duties` is to
    run as a task of its own, until it is cancelled. `lost` has, by the address of a policy, which
    one governs its pods instead. `pod_events` gives the events of capabilities since the last call.
    Without a `binder` nothing waits at bind. `ends` says that the server is shutting down.
    """

    cluster: LedCluster
    engine: Engine
    enforced: Callable[[], EnforcedPolicies]
    lost: dict[str, str]
    statuses: Statuses
    pod_events: Callable[[], Iterable[PodEvent]]
    requeuer: Requeuer
    binder: Binder | None
    ends: Callable[[], bool]
    _lost_under: EnforcedPolicies | None = None

    @property
    def duties(self) -> Mapping[str, Callable[[], Awaitable[None]]]:
        """The duties by name."""
        return {
            "statuses": lambda: self._repeat(self._write_statuses, "write statuses of policies"),
            "events": lambda: self._repeat(self._send_events, "write events"),
            "requeues": lambda: self._repeat(self._requeue, "requeue pods"),
            "held-binds": self._review_waits,
        }

    async def _repeat(self, duty: Callable[[Snapshot, str], Awaitable[None]], work: str) -> None:
        """Does the duty each second."""
        while True:
            await shared_pause(_PERIOD_SECONDS)
            await self._do(duty, work)

    async def _do(self, duty: Callable[[Snapshot, str], Awaitable[None]], work: str) -> None:
        try:
            await duty(self.cluster.snapshot(), micro_time(Timestamp.now()))
        except NotSyncedError:
            return
        except (ApiError, ApiUnreachableError) as error:
            self.cluster.report(work, why(work, error))
        else:
            self.cluster.report(work, "")

    async def _review_waits(self) -> None:
        """Reviews what waits at bind each second, and requeues woken pods at once."""
        woken, is_woken = self.engine.woken, asyncio.Event()
        woken.wake = is_woken.set
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(until_next(_PERIOD_SECONDS)):
                    await is_woken.wait()
            is_woken.clear()
            if self.binder is not None:
                if self.ends():
                    self.binder.end_waits("this replica ends")
                self.binder.review()
            if uids := woken.take():
                await self._do(partial(self.requeuer.wake, uids), "requeue pods at once")

    def _outcomes(self, objects: Iterable[str], enforced: EnforcedPolicies) -> Outcomes:
        """The outcomes of the policies in force, and of the objects that another overrules."""
        if enforced is not self._lost_under:
            # What was seen under other policies may be over.
            self._lost_under = enforced
            self.lost.clear()
        conflicts = {
            name: f"`{winner}` governs pods that this policy selects too"
            for name in objects
            if (program := enforced.programs.get(name)) is not None
            and (winner := self.lost.get(program.address))
        }
        return Outcomes(conflicts, self.engine.expensive, self.engine.unmet)

    async def _write_statuses(self, snapshot: Snapshot, now: str) -> None:
        if not self.cluster.leads():
            return
        objects, enforced = self.cluster.objects(), self.enforced()
        outcomes, reports = self._outcomes(objects, enforced), []
        for report in self.statuses.reports(enforced, objects, snapshot, outcomes):
            reports.append(report)
            if (changed := readiness_news(report)) is not None:
                kind, reason, note = changed
                self.cluster.tell(report.name, kind, reason, "Enforce", note)
            await asyncio.sleep(0)
        await status.write(self.cluster.api, reports, f"{now[:19]}Z")

    async def _send_events(self, _snapshot: Snapshot, now: str) -> None:
        about_pods, events = list(self.pod_events()), self.cluster.events
        if not self.cluster.leads():
            events.forget()
            return
        enforced, tell = self.enforced(), self.cluster.tell
        outcomes = self._outcomes(self.cluster.objects(), enforced)
        for name, note in outcomes.conflicts.items():
            tell(name, "Warning", "Conflicting", "Select", note)
        for name, program in enforced.programs.items():
            if program.address in outcomes.expensive:
                tell(name, "Warning", "Expensive", "Select", EXPENSIVE)
            if share := outcomes.unmet.get(program.address):
                tell(name, "Warning", "Unmet", "Select", UNMET.format(share))
        for event in about_pods:
            events.add(event)
        await events.send(now)

    async def _requeue(self, snapshot: Snapshot, now: str) -> None:
        await self.requeuer.notice(snapshot.pending)
        if self.cluster.leads():
            await self.requeuer.requeue(snapshot.pending, now)


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
