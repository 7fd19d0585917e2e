"""ClusterRuntime: the live cluster of a server, and what the server writes there.

A ClusterRuntime is opened on the event loop that serves, with its Lease, and watches until the end.
Nobody is answered before everything that the policies read has been seen once.

The StatusReporter of a leader writes statuses, events and requeues. Each duty is a separate
background task, which writes changes once a second.
"""

from __future__ import annotations

import asyncio
import math
import socket
import time
import uuid
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import msgspec

from engine.cache import list_watch
from engine.cache.cache import Cache
from engine.cache.cluster_file import bodies
from engine.cache.informers import Difference, Informer, Informers, Needs, compare, object_lists
from engine.cache.list_watch import ContinueExpiredError, GarbageError
from engine.cache.node_table import Snapshot
from engine.cache.reflector import Timing
from engine.cluster.binding import Binder
from engine.cluster.client import CORE, ApiClient, Limits, connect, path_of
from engine.cluster.events import Events, PodEvent
from engine.cluster.lease import LeaderGate, Lease, micro_time
from engine.cluster.requeue import PodEnds, Requeuer, SchedulerLease
from engine.counting.in_flight_pods import PLACING_SECONDS, Schedulers
from engine.decision.journal import Journal
from engine.decision.placement import CountGate, ReplicaRole, open_gate
from engine.decision.recent_answers import AfterDecision, LastAnswers, RejectedPods
from engine.decision.registry import Registry
from engine.enforced import EnforcedPolicies
from engine.engine import Engine
from engine.errors import ApiError, ApiUnreachableError, NotSyncedError, why
from engine.facts import Facts
from engine.objects.peer import Peer
from engine.objects.request_pod import ObjectCodec, RequestPod
from engine.program.policy_time import DecisionTime, PolicyTimes, WorkClock
from engine.work import shared_pause, until_next
from grammar.meaning.schema import Schema
from grammar.values.time import SECOND, Timestamp
from policies.resource import PolicyStatus, StatusCondition
from server.answers import ClusterStatus, LeaseStatus, WatchedResource
from server.capabilities.capability import LedCluster, Site
from server.capabilities.policy_statuses import (
    EXPENSIVE,
    UNMET,
    Outcomes,
    Reported,
    Statuses,
    write,
)
from server.capabilities.table import CAPABILITIES
from server.http.health import ReadinessCheck
from server.metrics.families import Sample
from server.options import Options
from server.runtime.file_cluster import ClusterSource, leave_uncollected
from server.runtime.observers import LogObserver
from server.runtime.policies import PolicyReader, PolicyReloader
from server.settings import is_loopback
from server.supervisor import Background, Work

_PERIOD_SECONDS = 1.0


@dataclass(slots=True)
class StatusReporter:
    """The reporter of statuses writes what has changed once a second, while this replica leads.

    Whatever a duty meets, it must not keep the others from their work. So each of `duties` is to
    run as a task of its own, until it is cancelled. `ends` says that the server is shutting down.
    """

    cluster: LedCluster
    deciding: Deciding
    statuses: Statuses
    requeuer: Requeuer
    ends: Callable[[], bool]
    _lost_under: EnforcedPolicies | None = None

    @property
    def duties(self) -> Mapping[str, Callable[[], Awaitable[None]]]:
        """The duties by name."""
        return {
            "statuses": lambda: self._repeat(self._write_statuses, "write statuses of policies"),
            "events": lambda: self._repeat(self._send_events, "write events"),
            "requeues": lambda: self._repeat(self._requeue, "requeue pods"),
            "held-pods": lambda: self._repeat(self._show_held, "show held pods"),
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
        woken, is_woken = self.deciding.engine.woken, asyncio.Event()
        woken.wake = is_woken.set
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(until_next(_PERIOD_SECONDS)):
                    await is_woken.wait()
            is_woken.clear()
            if (binder := self.deciding.binder) is not None:
                if self.ends():
                    binder.end_waits()
                binder.review()
            if uids := woken.take():
                await self._do(partial(self.requeuer.wake, uids), "requeue pods at once")

    def _outcomes(self, objects: Iterable[str], enforced: EnforcedPolicies) -> Outcomes:
        """The outcomes of the policies in force, and of the objects that another overrules."""
        engine, lost = self.deciding.engine, self.deciding.observer.lost
        if enforced is not self._lost_under:
            # What was seen under other policies may be over.
            self._lost_under = enforced
            lost.clear()
        conflicts = {
            name: f"`{winner}` governs pods that this policy selects too"
            for name in (objects if lost else ())
            if (program := enforced.programs.get(name)) is not None
            and (winner := lost.get(program.address))
        }
        return Outcomes(conflicts, engine.expensive, engine.unmet)

    async def _write_statuses(self, snapshot: Snapshot, now: str) -> None:
        if not self.cluster.leads():
            return
        objects, enforced = self.cluster.objects(), self.deciding.enforced()
        outcomes, reports = self._outcomes(objects, enforced), []
        for report in self.statuses.reports(enforced, objects, snapshot, outcomes):
            reports.append(report)
            if (changed := readiness_news(report)) is not None:
                kind, reason, note = changed
                self.cluster.tell(report.name, kind, reason, "Enforce", note)
            await asyncio.sleep(0)
        await write(self.cluster.api, reports, f"{now[:19]}Z")

    async def _send_events(self, _snapshot: Snapshot, now: str) -> None:
        about_pods, events = list(self.deciding.events()), self.cluster.events
        if not self.cluster.leads():
            events.forget()
            return
        enforced, tell = self.deciding.enforced(), self.cluster.tell
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

    async def _show_held(self, _snapshot: Snapshot, _now: str) -> None:
        if (binder := self.deciding.binder) is not None:
            await binder.held.show(self.cluster.events.add, leads=self.cluster.leads())

    async def _requeue(self, snapshot: Snapshot, now: str) -> None:
        await self.requeuer.notice(snapshot.pending, self.deciding.engine.registry)
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


# Seconds for one chunk of a list that a draft is tried on, and its objects. Decisions wait while a
# chunk is received, so these chunks are smaller than the chunks of a watch.
_LIST_SECONDS, _PART = 30.0, 100
# The pause between two looks at kube-scheduler's Lease and at pods whose time is over.
_LOOK_SECONDS = 2.0
# From a rejection to the first requeue, and the longest pause between two requeues.
_FIRST_PAUSE, _MOST_PAUSE = 1.0, 60.0


@asynccontextmanager
async def open_cluster(
    options: Options, schema: Schema, needs: Needs, background: Background
) -> AsyncIterator[ClusterRuntime]:
    """A connected cluster, for as long as the block runs. Raises ClusterConfigurationError."""
    connecting = connect(
        options.kubeconfig,
        options.context,
        version=options.version,
        limits=Limits(options.kube_api_qps, options.kube_api_burst),
    )
    async with connecting as client:
        identity = f"{socket.gethostname()}_{uuid.uuid4()}"
        lease = None
        if options.lease is not None:
            lease = Lease(
                client,
                options.lease,
                identity,
                # While the server shuts down, the Lease is let go on request.
                ends=lambda: background.shutdown.has_begun,
                report=background.report,
            )
            # If no other replica is there, this one takes over with its first lists.
            await lease.turn()
        background.log.info("watching the cluster at %s", client.host)
        events = Events(client, identity)
        cluster = ClusterRuntime(client, lease, options, schema, needs, events, background)
        try:
            yield cluster
        finally:
            await cluster.informers.stop()


class ClusterRuntime(ClusterSource):
    """The informers of a cluster, the Lease, and the tasks that follow both.

    `gate` lets the engine decide by counts only while the Lease is held. `answers` are the memory
    of filter's answers, for an engine and its binder, if there is one.
    """

    def __init__(
        self,
        client: ApiClient,
        lease: Lease | None,
        options: Options,
        schema: Schema,
        needs: Needs,
        events: Events,
        background: Background,
    ) -> None:
        codec = ObjectCodec(schema, needs.annotations)
        # What is not followed is decided wrongly.
        start = partial(background.supervisor.start, is_vital=True)
        timing = Timing(idle=options.watch_idle)
        self.informers = Informers(client, codec, timing, start, background.report)
        self._leader = LeaderGate(lease, stands_by=options.standby) if lease is not None else None
        self.gate: CountGate = self._leader.waiting if self._leader is not None else open_gate
        self.answers = LastAnswers() if options.schedulers.call_bind else None
        if self.answers is not None:
            self.informers.cache.add_event_handler(self.answers.pod_changed)
        self.api = client
        self._lease = lease
        self._schema = schema
        self._options = options
        self._background = background
        self._is_standby = options.standby
        # Others call it, and another replica can answer them as well.
        self._is_shared = not is_loopback(options.host)
        self._loop = asyncio.get_running_loop()
        self._needs = self._watched(needs)
        self.led = LedCluster(
            client,
            self.informers.cache,
            self.informers.snapshot,
            lambda: self.informers.policies,
            lambda: lease is None or lease.held,
            events,
            background.report,
        )
        # Whether the first lists come under the Lease, so that the first term needs no others.
        self._has_listed = False
        self._taken_over = False
        self._rejected: RejectedPods | None = None
        self._statuses: Statuses | None = None

    def follow(self, deciding: Deciding) -> None:
        """Watches the cluster and reports to it until the background ends."""
        engine, cache, run = deciding.engine, self.informers.cache, self._background.run
        own = (*engine.pod_handlers, deciding.rejected.pod_changed, self._new_pod_seen)
        for handler in filter(None, (*own, *(each.pod_changed for each in deciding.opened))):
            cache.add_event_handler(handler)
        self._rejected = deciding.rejected
        self._lead(deciding)
        self._report(deciding)
        if not deciding.schedulers.call_bind:
            # With a bindVerb it does not matter what an ended kube-scheduler had in hand.
            run("in-flight", self._ends_in_flight(engine, deciding.schedulers.lease))
        for each in deciding.opened:
            for name, work in each.work.items():
                run(name, self._synced(work))
        self.informers.start(self._needs)
        run("sync", partial(self._until_synced, deciding), is_vital=True)

    def binder(self, engine: Engine, schedulers: Schedulers) -> Binder | None:
        """The binder of this cluster for an engine, which admits each pod; None without bind."""
        lease = self._lease
        if self.answers is None:
            return None
        return Binder(
            self.api,
            self.informers.cache,
            engine,
            self.answers,
            schedulers,
            leads_until=lambda: math.inf if lease is None else lease.held_until,
            report=self.led.report,
        )

    def _lead(self, deciding: Deciding) -> None:
        """Follows the Lease, and binds pods under it."""
        lease, leader, run = self._lease, self._leader, self._background.run
        if lease is not None and leader is not None:
            self._has_listed = lease.held
            run("lease", lease.run)
            run("leader", lambda: leader.run(partial(self._take_over, deciding)))
        if (binder := deciding.binder) is not None:
            # What is being bound was allowed under the Lease, and is finished under it.
            self._background.stack.push_async_callback(binder.idle)
            run("bound-pods", binder.follow)

    async def _take_over(self, deciding: Deciding, term_began: float) -> None:
        """The work of a new leader before it may decide."""
        if not self._has_listed:
            await self.informers.list_pods_anew()
        self._has_listed = False
        await self.informers.synced()
        taken = deciding.engine.take_over(self.informers.snapshot(), term_began)
        self._tell_cost(taken, deciding.schedulers)

    def _report(self, deciding: Deciding) -> None:
        """Writes statuses and events, and requeues pods, while this replica leads."""
        engine, schedulers, observer = deciding.engine, deciding.schedulers, deciding.observer
        run, binds = self._background.run, schedulers.call_bind
        topics = [each.status for each in deciding.opened]
        self._statuses = Statuses(self.informers.cache, engine.portion, topics, binds=binds)
        requeuer = Requeuer(self.api, engine.looks, deciding.rejected, observer.gave_up, schedulers)
        shutdown = self._background.shutdown
        reporter = StatusReporter(
            self.led, deciding, self._statuses, requeuer, lambda: shutdown.has_begun
        )
        for name, duty in reporter.duties.items():
            run(name, duty)

    def _synced(self, follow: Work) -> Work:
        """Work that begins as soon as the whole cluster is known."""

        async def begun() -> None:
            await self.informers.synced()
            await follow()

        return begun

    def _new_pod_seen(self, old: Peer | None, new: Peer | None, revision: int) -> None:
        """Measures how late the event of a new pod is."""
        # The first list has pods of any age, and the binder knows of a pod without a revision.
        if old is None and new is not None and revision and new.created and self._taken_over:
            age = max(0, Timestamp.now().nanos - new.created.nanos)
            self._background.metrics.pod_seen(age / SECOND)

    def _ends_in_flight(self, engine: Engine, lease_name: tuple[str, str]) -> Work:
        """The work of ending pods in flight: by kube-scheduler's Lease, and when they are due."""
        api, in_flight, report = self.api, engine.in_flight, self.led.report
        looks = (
            SchedulerLease(api, lease_name, in_flight.scheduler_replaced, report).look,
            PodEnds(api, in_flight, self.informers.list_pods_anew, self.led.has, report).look,
        )

        async def follow() -> None:
            while True:
                for look in looks if len(in_flight) and self.led.leads() else ():
                    await look()
                await shared_pause(_LOOK_SECONDS)

        return follow

    def adopt(self, needs: Needs) -> None:
        """Watches what the policies read now; from any thread."""
        self._loop.call_soon_threadsafe(self._adopt, needs)

    def _adopt(self, needs: Needs) -> None:
        is_new = not needs.annotations <= self._needs.annotations
        self._needs = self._watched(needs)
        if is_new:
            self.informers.read_anew(ObjectCodec(self._schema, needs.annotations))
        self.informers.start(self._needs)

    def _watched(self, needs: Needs) -> Needs:
        """Nothing is watched for repairs that this server does not make."""
        return replace(needs, repairs=needs.repairs and self._options.repair != "off")

    def policies(self) -> Mapping[str, bytes] | None:
        return self.informers.policies if self.informers.knows_policies else None

    def node_count(self) -> int:
        return len(self.pods.nodes) if self.informers.missing() is None else 0

    @property
    def pods(self) -> Cache:
        return self.informers.cache

    def snapshot(self) -> Snapshot:
        """The cluster now. Raises NotSyncedError."""
        snapshot = self.informers.snapshot()
        if not self._taken_over:
            raise NotSyncedError("not synced: waiting for policies before serving")
        return snapshot

    def checks(self) -> Sequence[ReadinessCheck]:
        """Readiness: the whole cluster is known, and this replica is the one that answers."""
        try:
            self.snapshot()
        except NotSyncedError as error:
            return (ReadinessCheck("cluster", str(error)),)
        if self._is_shared and self._lease is not None and self._lease.is_cut_off:
            # Calls go to another replica, and the Lease follows them.
            return (ReadinessCheck("cluster"), ReadinessCheck("lease", self._lease.failure))
        if not self._is_standby or self._lease is None or self._lease.held:
            return (ReadinessCheck("cluster"),)
        holder = f"`{self._lease.holder}` holds" if self._lease.holder else "no replica holds"
        reason = self._lease.failure or f"{holder} the Lease"
        return (ReadinessCheck("cluster"), ReadinessCheck("lease", f"standing by: {reason}"))

    def status(self) -> ClusterStatus:
        """The state of each watched resource, for the view."""
        missing, lease = self.checks()[0].failure, self._lease
        # Only the leader counts them.
        statuses = self._statuses if self.led.leads() else None
        return ClusterStatus(
            missing=missing,
            lease=LeaseStatus(lease.identity, lease.holder, lease.held, lease.failure)
            if lease is not None
            else None,
            rejected=self._rejected.status() if self._rejected is not None else None,
            beyondBounds=statuses.beyond_bounds if statuses is not None else None,
            tasks=len(asyncio.all_tasks()),
            failing=self._background.failures.failing,
            background=self._background.supervisor.status(),
            resources={i.resource.name: _status(i) for i in self.informers.informers},
        )

    async def pods_named(self, keys: Collection[str]) -> Mapping[str, bytes]:
        """One request each."""
        asked = {key: await self.led.pod(key) for key in keys}
        return {key: body for key, body in asked.items() if body is not None}

    async def pods_on(self, node: str) -> Mapping[str, bytes | msgspec.Raw]:
        params = [("fieldSelector", f"spec.nodeName={node}")]
        listed = await self.api.request("GET", path_of(CORE, "pods", ""), params=params)
        return await asyncio.to_thread(bodies, [listed], "Pod")

    async def documents(self, needs: Needs) -> AsyncIterator[bytes]:
        """As lists in chunks."""
        for resource in object_lists(needs).values():
            chunks = list_watch.bodies(self.informers.source, resource, _PART, _LIST_SECONDS)
            try:
                async for chunk in chunks:
                    yield chunk
            except (GarbageError, ContinueExpiredError) as error:
                reason = str(error) or "the API server has forgotten its version"
                raise NotSyncedError(f"the list of {resource.name} broke off: {reason}") from None

    async def compare(self) -> Mapping[str, object]:
        """The differences between the cache and the API server. Raises EngineError.

        A resource with a difference is listed again at the next sign of its watch.
        """
        self.snapshot()
        watched = [informer for informer in self.informers.informers if informer.synced]
        differences: list[Difference] = []
        for informer in watched:
            found = await compare(informer, self.informers.source)
            if found:
                informer.reflector.ask_relist("compare")
            differences += found
        objects = {i.resource.name: len(i.store) for i in watched}
        return {"objects": objects, "differences": differences, "count": len(differences)}

    async def _until_synced(self, deciding: Deciding) -> None:
        await self.informers.synced()
        # Nobody is answered before the watched policies decide, and know all that they read.
        await deciding.reloader.catch_up()
        await self.informers.synced()
        snapshot = self.informers.snapshot()
        if self._lease is None and (taken := deciding.engine.take_over(snapshot)):
            self._tell_cost(taken, deciding.schedulers)
        self._taken_over = True
        counts = self.node_count(), len(self.pods.every())
        self._background.log.info("cluster of %d nodes and %d pods", *counts)
        if undefined := self.informers.undefined:
            self._background.log.info("%s", undefined)
        leave_uncollected()

    def _tell_cost(self, taken: int, schedulers: Schedulers) -> None:
        """Logs a start of decisions by counts, and its cost: pods that count on every node."""
        cost = ""
        if taken:
            plain = PLACING_SECONDS + schedulers.permit_timeout
            other = schedulers.bind_timeout + schedulers.permit_timeout
            cost = (
                f"; {taken} pending pods count on every node until it is known where they go, for"
                f" at most {plain:g} s ({other:g} s with claims)"
            )
        self._background.log.info("this replica decides by counts from now on%s", cost)


def _status(informer: Informer) -> WatchedResource:
    reflector = informer.reflector
    return WatchedResource(
        objects=len(informer.store),
        resourceVersion=reflector.resource_version,
        synced=reflector.synced,
        secondsSinceLastEvent=reflector.last_event_age,
        relists=dict(reflector.relists),
        failure=reflector.failure,
        failures=dict(reflector.failures),
        unreadable=reflector.bad_objects,
        lastUnreadable=reflector.bad_object,
    )


class Deciding:
    """The deciding part of a server: the engine, its policies, and who hears of its decisions.

    `rejected` are the pods to look at again, and `opened` are the capabilities. `binder` binds
    pods; it is None where nobody does.
    """

    def __init__(
        self,
        options: Options,
        schema: Schema,
        view: ClusterSource,
        policies: PolicyReader,
        background: Background,
    ) -> None:
        """`policies` have been read."""
        cluster = view if isinstance(view, ClusterRuntime) else None
        codec = ObjectCodec(schema)
        schedulers = self.schedulers = options.schedulers
        self.journal, self.observer = Journal(), LogObserver(background.log, background.metrics)
        self.rejected = RejectedPods(time.monotonic, _FIRST_PAUSE, _MOST_PAUSE)
        work = WorkClock()
        background.stack.callback(work.close)
        told = self.observer.expensive, self.observer.charged
        times = PolicyTimes(time.monotonic, work, *told, view.node_count)
        self.engine = Engine(
            policies.enforced.registry,
            view,
            codec,
            self.observer,
            exemptions=options.exemptions,
            role=ReplicaRole(
                cluster.gate if cluster is not None else open_gate,
                schedulers.call_bind,
                cluster is not None,
                self._hold if cluster is not None else None,
                schedulers,
            ),
            time=DecisionTime(policies=times),
            after=AfterDecision(
                journal=self.journal,
                rejected=self.rejected if cluster is not None else None,
                answers=cluster.answers if cluster is not None else None,
                later=asyncio.get_running_loop().call_soon,
            ),
        )
        self.reloader = PolicyReloader(
            policies,
            view,
            self.engine,
            background.log,
            binds=schedulers.call_bind,
            adopted=self._adopted,
        )
        site = Site(
            socket.gethostname(),
            self.engine,
            view,
            cluster.led if cluster is not None else None,
            cluster.api if cluster is not None else None,
            options,
            background,
            codec,
            times,
            self.enforced,
            self.reloader.catch_up,
        )
        self.opened = [each.open(site) for each in CAPABILITIES]
        self._adopted(policies.enforced.registry)
        self.binder = cluster.binder(self.engine, schedulers) if cluster is not None else None

    def _adopted(self, registry: Registry) -> None:
        for each in self.opened:
            each.adopted(registry)

    def _hold(self, pod: RequestPod) -> None:
        """Raises BriefWaitError for a pod that a capability holds."""
        for each in self.opened:
            each.hold(pod)

    def events(self) -> Iterator[PodEvent]:
        for each in self.opened:
            yield from each.events()

    def patch(self, body: bytes) -> Sequence[object]:
        """The JSON patch of a new pod by all capabilities. Raises BadObjectError."""
        return [change for each in self.opened for change in each.patch(body)]

    def facts(self) -> Facts:
        """The tables of all capabilities that have rows."""
        return {name: rows for e in self.opened for name, rows in e.facts().items() if rows}

    def samples(self) -> Iterator[Sample]:
        for each in self.opened:
            yield from each.samples()

    def enforced(self) -> EnforcedPolicies:
        """What is in force now."""
        return self.reloader.enforced
