"""ClusterRuntime: the live cluster of a server, and what the server writes there.

A ClusterRuntime is opened on the event loop that serves, with its Lease, and watches until the end.
Nobody is answered before everything that the policies read has been seen once. PortablePods
tell others of the policies: webhooks and statuses.
"""

from __future__ import annotations

import asyncio
import math
import socket
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from http import HTTPStatus
from logging import Logger
from pathlib import Path

import msgspec

from engine.cache import list_watch
from engine.cache.cache import Cache, PodEventHandler
from engine.cache.cluster_file import bodies
from engine.cache.informers import Difference, Informer, Informers, Needs, compare, object_lists
from engine.cache.list_watch import ContinueExpiredError, GarbageError
from engine.cache.node_table import Snapshot
from engine.cache.reflector import Timing
from engine.cluster.binding import Binder
from engine.cluster.client import CORE, ApiClient, Limits, connect, path_of
from engine.cluster.events import Events
from engine.cluster.in_flight_ends import OverduePods, SchedulerLease, UnseenPods
from engine.cluster.lease import LeaderGate, Lease, TakeOver
from engine.cluster.requeue import GangReviewer, Requeuer
from engine.counting.in_flight_pods import PLACING_SECONDS, Schedulers
from engine.decision.journal import Journal
from engine.decision.placement import CountGate, open_gate
from engine.decision.recent_answers import LastAnswers, RejectedPods
from engine.drift.drift_document import DriftDocument, RepairMode
from engine.drift.repairs import Repairs
from engine.drift.survey import Survey
from engine.engine import Engine
from engine.errors import ApiError, NotSyncedError
from engine.objects.codec import ObjectCodec
from engine.objects.peer import Peer, key_of
from engine.work import shared_pause
from grammar.meaning.costs import ClusterSize
from grammar.meaning.schema import Schema
from grammar.values.time import SECOND, Timestamp
from server.answers.view_answers import ClusterStatus, LeaseStatus, WatchedResource
from server.api_failures import ApiFailures
from server.http.health import ReadinessCheck
from server.runtime.card_report import CardReport, UsualPods
from server.runtime.data_tables import DataTables, source_part
from server.runtime.drift_watching import DriftWatch, drift_part, drifting_since
from server.runtime.file_cluster import leave_uncollected
from server.runtime.missed_pods import EarlyPods, UngatedPods
from server.runtime.observers import LogObserver
from server.runtime.policy_first import PolicyFirst
from server.runtime.policy_statuses import (
    AuditStatuses,
    Statuses,
    StatusTopic,
    gang_numbers,
    work_at_bind,
)
from server.runtime.portable_pods import PortablePods, portable_part
from server.runtime.reloader import PolicyReloader
from server.runtime.repairing import Repairer, RepairSources
from server.runtime.status_reporting import LedCluster, PolicyOutcomes, StatusReporter
from server.supervisor import Supervisor, Work, end

# Seconds for one chunk of a list that a draft is tried on, and its objects. Decisions wait while a
# chunk is received, so these chunks are smaller than the chunks of a watch.
_LIST_SECONDS, _PART = 30.0, 100
# The pause between two looks at kube-scheduler's Lease and at pods whose time is over.
_LOOK_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Access:
    """The access to a cluster: the kubeconfig, and the Lease that replicas share.

    `lease` is a namespace and a name; None if there are no other replicas. A `standby` is ready
    only while it holds the Lease. One that `is_shared` gets the calls of other hosts, which another
    replica can answer as well. `timing` says how patiently the cluster is watched, and `repair`
    whether pods that break rules are evicted.
    """

    kubeconfig: Path | None
    context: str | None
    lease: tuple[str, str] | None
    standby: bool = False
    limits: Limits = field(default_factory=Limits)
    timing: Timing = field(default_factory=Timing)
    is_shared: bool = False
    repair: RepairMode = "off"


@dataclass(frozen=True, slots=True)
class Deciding:
    """What decides about a cluster: the engine, its policies, and who hears of its decisions.

    `rejected` are the pods to look at again, `schedulers` those that ask, and `portable` tells
    others of policies. `data` are the tables that the engine reads. `first` has pods wait for older
    policies, None where none do.
    """

    engine: Engine
    journal: Journal
    observer: LogObserver
    rejected: RejectedPods
    reloader: PolicyReloader
    portable: PortablePods
    schedulers: Schedulers
    data: DataTables
    first: PolicyFirst | None = None


@dataclass(frozen=True, slots=True)
class Background:
    """The background of a server: its tasks, who hears of failures, and whether it shuts down."""

    log: Logger
    supervisor: Supervisor
    failures: ApiFailures
    ends: Callable[[], bool] = lambda: False

    def run(self, stack: AsyncExitStack, name: str, work: Work, *, is_vital: bool = False) -> None:
        """Runs a task until the stack ends."""
        task = self.supervisor.start(name, work, is_vital=is_vital)
        stack.push_async_callback(end, task)


@asynccontextmanager
async def open_cluster(
    access: Access,
    schema: Schema,
    needs: Needs,
    version: str,
    background: Background,
) -> AsyncIterator[ClusterRuntime]:
    """A connected cluster, for as long as the block runs. Raises ClusterConfigurationError."""
    connecting = connect(access.kubeconfig, access.context, version=version, limits=access.limits)
    async with connecting as client:
        identity = f"{socket.gethostname()}_{uuid.uuid4()}"
        lease = None
        if access.lease is not None:
            report = background.failures.report
            # While the server shuts down, the Lease is let go on request.
            lease = Lease(client, access.lease, identity, ends=background.ends, report=report)
            # If no other replica is there, this one takes over with its first lists.
            await lease.turn()
        background.log.info("watching the cluster at %s", client.host)
        events = Events(client, identity)
        cluster = ClusterRuntime(client, lease, access, schema, needs, events, background)
        try:
            yield cluster
        finally:
            await cluster.informers.stop()


class StandbyGate:
    """The gate of a `--standby`, to which calls come only by mistake while it is not ready.

    A proxy may send calls to all replicas, whether they are ready or not. If each took the Lease
    for its calls, none would hold it for long. So calls move the Lease only without `--standby`.
    """

    def __init__(self, lease: Lease, gate: LeaderGate) -> None:
        self._lease = lease
        self._gate = gate

    def waiting(self, *, asked: bool = True) -> str:
        """The reason why this replica may not count now, or empty."""
        holder = self._lease.holder
        if self._lease.held or self._lease.failure or holder in ("", self._lease.identity):
            return self._gate.waiting(asked=asked and self._lease.held)
        return f"`{holder}` is the leader, and this replica stands by"


class ClusterRuntime:
    """The informers of a cluster, the Lease, and the tasks that follow both.

    `gate` lets the engine decide by counts only while the Lease is held.
    """

    def __init__(
        self,
        client: ApiClient,
        lease: Lease | None,
        access: Access,
        schema: Schema,
        needs: Needs,
        events: Events,
        background: Background,
    ) -> None:
        codec = ObjectCodec(schema, needs.annotations)
        # What is not followed is decided wrongly.
        start = partial(background.supervisor.start, is_vital=True)
        self._report = background.failures.report
        self.informers = Informers(client, codec, access.timing, start, self._report)
        leader_gate = LeaderGate(lease) if lease is not None else None
        self.gate: CountGate = open_gate
        if lease is not None and leader_gate is not None:
            standby = StandbyGate(lease, leader_gate)
            self.gate = standby.waiting if access.standby else leader_gate.waiting
        self._client = client
        self._lease = lease
        self._leader_gate = leader_gate
        self._schema = schema
        self._log = background.log
        self._events = events
        self._background = background
        self._is_standby = access.standby
        self._is_shared = access.is_shared
        self._loop = asyncio.get_running_loop()
        self._repair = access.repair
        self._needs = self._watched(needs)
        self._taken_over = False
        self._rejected: RejectedPods | None = None
        self._statuses: Statuses | None = None
        self._cards: CardReport | None = None
        self._drift: DriftWatch | None = None

    def last_answers(self) -> LastAnswers:
        """The memory of filter's answers about this cluster, for an engine and its binder."""
        answers = LastAnswers()
        self.informers.cache.add_event_handler(answers.pod_changed)
        return answers

    @property
    def api(self) -> ApiClient:
        return self._client

    def binder(self, engine: Engine, answers: LastAnswers, schedulers: Schedulers) -> Binder:
        """The binder of this cluster; `answers` are those of the engine, which admits each pod."""
        lease = self._lease
        return Binder(
            self._client,
            self.informers.cache,
            engine,
            answers,
            schedulers,
            leads_until=lambda: math.inf if lease is None else lease.held_until,
            report=self._report,
        )

    async def follow(
        self,
        stack: AsyncExitStack,
        deciding: Deciding,
        binder: Binder | None,
        pod_seen: Callable[[float], None],
    ) -> None:
        """Watches the cluster and reports to it until the stack ends.

        `pod_seen` is told the age of each new pod in seconds.
        """
        engine, schedulers = deciding.engine, deciding.schedulers
        cache = self.informers.cache
        repairs = Repairs(cache, self._repair, time.monotonic)
        followers = (engine.in_flight, engine.gangs, engine.audits.log, deciding.rejected, repairs)
        for follower in followers:
            cache.add_event_handler(follower.pod_changed)
        cache.add_event_handler(self._lag_of_new_pods(pod_seen))
        self._rejected = deciding.rejected
        lease, gate = self._lease, self._leader_gate
        run = partial(self._background.run, stack)
        self._drift = self._drift_watch(deciding, repairs)
        if lease is not None and gate is not None:
            take_over = self._take_over_with(engine, schedulers, is_listed=lease.held)
            run("lease", lease.run)
            run("leader", lambda: gate.run(take_over))
        if binder is not None:
            # What is being bound was allowed under the Lease, and is finished under it.
            stack.push_async_callback(binder.idle)
            run("bound-pods", binder.follow)
        requeuer = Requeuer(
            self._client, engine.looks, deciding.rejected, deciding.observer.gave_up, schedulers
        )
        for name, duty in self._reporter(deciding, requeuer, self._drift).duties.items():
            run(name, duty)
        ends, snapshot = self._background.ends, self.informers.snapshot
        reviewer = GangReviewer(engine.gangs, requeuer, snapshot, self._report, ends, binder)
        run("gangs", reviewer.run)
        if not schedulers.call_bind:
            # With a bindVerb it does not matter what an ended kube-scheduler had in hand.
            run("in-flight", self._follow_scheduler(engine, schedulers.lease))
        run("usual-pods", self._synced(UsualPods(engine.cards, self.pods).follow))
        if (first := deciding.first) is not None:
            policies = deciding.reloader
            run("policy-first", partial(first.follow, self._client, policies, self._report))
        self._cards = CardReport(engine.cards, self.informers.snapshot)
        run("cards", self._synced(self._cards.follow))
        run("drift", self._synced(self._drift.follow))
        repairer = self._repairer(deciding, repairs, self._drift)
        run("repair", self._synced(repairer.follow))
        self.informers.start(self._needs)
        sync = partial(self._until_synced, engine, deciding.reloader, schedulers)
        run("sync", sync, is_vital=True)

    def _reporter(
        self, deciding: Deciding, requeuer: Requeuer, drift: DriftWatch
    ) -> StatusReporter:
        """What writes statuses and events, and requeues pods, while this replica leads."""
        engine, schedulers, observer = deciding.engine, deciding.schedulers, deciding.observer
        cache, client = self.informers.cache, self._client
        ungated = UngatedPods(cache, schedulers, lambda: engine.exemptions)
        if schedulers.gate:
            cache.add_event_handler(ungated.pod_changed)
        early, audits = EarlyPods(deciding.journal.has_decided, Timestamp.now()), engine.audits.log
        at_bind = partial(work_at_bind, binds=schedulers.call_bind)
        audited, portable = AuditStatuses(audits), deciding.portable.portability
        topics: tuple[StatusTopic, ...] = (
            lambda: gang_numbers(engine.gangs.statuses()),
            lambda: drift_part(drift.by_policy(), drift.repairs),
            lambda: ungated.part,
            lambda: early.part,
            lambda: audited.part,
            lambda: at_bind,
            lambda: source_part(deciding.data.statuses),
            lambda: portable_part(cache, portable),
        )
        self._statuses = Statuses(cache, engine.portion, topics)
        return StatusReporter(
            LedCluster(
                client,
                self.informers,
                self._leads,
                self._report,
            ),
            PolicyOutcomes(
                lambda: deciding.reloader.enforced,
                observer.lost,
                lambda: engine.expensive,
                lambda: engine.unmet,
            ),
            self._statuses,
            ungated,
            self._events,
            requeuer,
        )

    def _leads(self) -> bool:
        return self._lease is None or self._lease.held

    def _drift_watch(self, deciding: Deciding, repairs: Repairs) -> DriftWatch:
        """What surveys the pods on nodes while this replica leads."""
        survey = Survey(
            socket.gethostname(),
            deciding.engine,
            self,
            time.monotonic,
            drifting=lambda: drifting_since(
                deciding.reloader.enforced.programs, self.informers.policies
            ),
        )
        return DriftWatch(survey, self.pod, repairs, self._leads, self._report)

    def _repairer(self, deciding: Deciding, repairs: Repairs, drift: DriftWatch) -> Repairer:
        """What evicts pods while this replica leads."""
        sources = RepairSources(
            lambda: drift.document,
            lambda: deciding.reloader.enforced,
            lambda: self.informers.policies,
            self.pod,
        )
        engine, cache, report = deciding.engine, self.informers.cache, self._report
        return Repairer(
            self._client, engine, cache, repairs, sources, self._leads, self._events, report
        )

    def _synced(self, follow: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
        """Work that begins as soon as the whole cluster is known."""

        async def begun() -> None:
            await self.informers.synced()
            await follow()

        return begun

    def _lag_of_new_pods(self, pod_seen: Callable[[float], None]) -> PodEventHandler:
        """The handler that finds how late the events of new pods are."""

        def pod_changed(old: Peer | None, new: Peer | None, revision: int) -> None:
            # The first list has pods of any age, and the binder knows of a pod without a revision.
            if old is not None or new is None or not revision or not self._taken_over:
                return
            if new.created is not None:
                pod_seen(max(0, Timestamp.now().nanos - new.created.nanos) / SECOND)

        return pod_changed

    def _take_over_with(
        self, engine: Engine, schedulers: Schedulers, *, is_listed: bool
    ) -> TakeOver:
        """The work of a new leader before it may decide; `is_listed` skips the first new list."""

        async def take_over(term_began: float) -> None:
            nonlocal is_listed
            if not is_listed:
                await self.informers.list_pods_anew()
            is_listed = False
            await self.informers.synced()
            taken = engine.take_over(self.informers.snapshot(), term_began)
            self._log.info("this replica decides by counts from now on%s", _cost(taken, schedulers))

        return take_over

    def _follow_scheduler(
        self, engine: Engine, lease_name: tuple[str, str]
    ) -> Callable[[], Awaitable[None]]:
        """The work of ending pods in flight: by kube-scheduler's Lease, and when they are due."""
        in_flight, report = engine.in_flight, self._report
        lease = SchedulerLease(self._client, lease_name, in_flight.scheduler_replaced, report)
        overdue = OverduePods(self._client, in_flight, self.informers.list_pods_anew, report)
        unseen = UnseenPods(self._client, in_flight, self._has, report)

        async def follow() -> None:
            while True:
                if len(in_flight) and (self._lease is None or self._lease.held):
                    await lease.look()
                    await overdue.look()
                    await unseen.look()
                await shared_pause(_LOOK_SECONDS)

        return follow

    def _has(self, pod: Peer) -> bool:
        """Whether the cache has this pod, not only another of the same name."""
        known = self.informers.cache.pod(key_of(pod))
        return known is not None and known.uid == pod.uid

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
        return replace(needs, repairs=needs.repairs and self._repair != "off")

    def policies(self) -> Mapping[str, bytes] | None:
        """The cluster's policies as JSON by resource and key; None while they are not known."""
        return self.informers.policies if self.informers.knows_policies else None

    def cluster_size(self) -> ClusterSize:
        return self.informers.cache.size

    def stirs(self) -> bool:
        """False: there are no files."""
        return False

    def refresh(self) -> None:
        """Does nothing: watches keep the cache up to date."""

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
        missing, lease, drift = self.checks()[0].failure, self._lease, self._drift
        # Only the leader counts them.
        statuses = self._statuses if self._leads() else None
        return ClusterStatus(
            synced=not missing,
            missing=missing,
            lease=_lease_status(lease) if lease is not None else None,
            rejected=self._rejected.status() if self._rejected is not None else None,
            cards=self._cards.status() if self._cards is not None else {},
            drift=drift.by_policy() if drift is not None else None,
            repairs=drift.repairs if drift is not None else (),
            beyondBounds=statuses.beyond_bounds if statuses is not None else None,
            tasks=len(asyncio.all_tasks()),
            failing=self._background.failures.failing,
            background=self._background.supervisor.status(),
            resources={i.resource.name: _status(i) for i in self.informers.informers},
        )

    @property
    def drift(self) -> DriftDocument | None:
        """What has drifted; None before the cluster is followed."""
        return self._drift.document if self._drift is not None else None

    async def pod(self, key: str) -> bytes | None:
        """The JSON of a pod, None if there is none. Raises ApiError and ApiUnreachableError."""
        namespace, _, name = key.partition("/")
        path = path_of(CORE, "pods", namespace, name)
        try:
            return await self._client.request("GET", path)
        except ApiError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return None
            raise

    async def pods_named(self, keys: Collection[str]) -> Mapping[str, bytes]:
        """The JSON of pods by `namespace/name`, one request each. Raises EngineError."""
        asked = {key: await self.pod(key) for key in keys}
        return {key: body for key, body in asked.items() if body is not None}

    async def pods_on(self, node: str) -> Mapping[str, bytes | msgspec.Raw]:
        """The JSON of the pods on a node by `namespace/name`. Raises EngineError."""
        params = [("fieldSelector", f"spec.nodeName={node}")]
        listed = await self._client.request("GET", path_of(CORE, "pods", ""), params=params)
        return await asyncio.to_thread(bodies, [listed], "Pod")

    async def documents(self, needs: Needs) -> AsyncIterator[bytes]:
        """The objects that the API server has now, as lists in chunks. Raises EngineError."""
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

    async def _until_synced(
        self, engine: Engine, reloader: PolicyReloader, schedulers: Schedulers
    ) -> None:
        await self.informers.synced()
        # Nobody is answered before the watched policies decide, and know all that they read.
        await reloader.catch_up()
        await self.informers.synced()
        snapshot = self.informers.snapshot()
        if self._lease is None and (cost := _cost(engine.take_over(snapshot), schedulers)):
            self._log.info("this replica decides by counts from now on%s", cost)
        self._taken_over = True
        size = self.cluster_size()
        self._log.info("cluster of %d nodes and %d pods", size.nodes, size.pods)
        if undefined := self.informers.undefined:
            self._log.info("%s", undefined)
        leave_uncollected()


def _cost(taken: int, schedulers: Schedulers) -> str:
    """What a start costs: the pods that count on every node, as the end of a sentence."""
    if not taken:
        return ""
    plain = PLACING_SECONDS + schedulers.permit_timeout
    other = schedulers.bind_timeout + schedulers.permit_timeout
    return (
        f"; {taken} pending pods count on every node until it is known where they go, for at most"
        f" {plain:g} s ({other:g} s with claims)"
    )


def _lease_status(lease: Lease) -> LeaseStatus:
    return LeaseStatus(lease.identity, lease.holder, lease.held, lease.failure)


def _status(informer: Informer) -> WatchedResource:
    reflector = informer.reflector
    return WatchedResource(
        objects=len(informer.store),
        resourceVersion=reflector.resource_version,
        synced=reflector.synced,
        secondsSinceLastEvent=reflector.last_event_age,
        relists=dict(reflector.relists),
        failure=reflector.failure,
        failures=reflector.failures.total(),
        failuresByKind=dict(reflector.failures),
        unreadable=reflector.bad_objects,
        lastUnreadable=reflector.bad_object,
    )
