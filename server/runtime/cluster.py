"""A server's view of the cluster itself: connected, watched, and kept to what policies read."""

from __future__ import annotations

import asyncio
import gc
import socket
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from logging import Logger
from pathlib import Path

from engine.cache.cache import Cache
from engine.cache.comparison import Difference, compare
from engine.cache.informers import Informer, Informers, Needs
from engine.cache.reflector import Timing
from engine.cache.snapshot import Snapshot
from engine.cluster.binding import Binder, Binding
from engine.cluster.client import ApiClient, Limits, connect
from engine.cluster.lease import LeaderGate, Lease
from engine.decision.rejected_pods import RejectedPods
from engine.engine import Engine
from engine.errors import NotSyncedError
from engine.objects.codec import ObjectCodec
from grammar.schema import Schema
from server.health import Check
from server.runtime.reloader import PolicyReloader
from server.runtime.status_reporting import StatusReporter

# How long after it was refused a pod may be nudged, and at the most between two nudges.
_FIRST_NUDGE_SECONDS, _MOST_NUDGE_SECONDS = 1.0, 60.0


@dataclass(frozen=True, slots=True)
class Access:
    """How to reach the cluster, and the Lease by which its replicas agree.

    `lease` is a namespace and a name; None if there are no other replicas. A `standby` is ready
    only while it holds the Lease.
    """

    kubeconfig: Path | None
    context: str | None
    lease: tuple[str, str] | None
    standby: bool = False
    limits: Limits = field(default_factory=Limits)


class ClusterRuntime:
    """Nothing is known until `connect` has been called, from the event loop that serves."""

    def __init__(
        self,
        access: Access,
        timing: Timing,
        schema: Schema,
        log: Logger,
        version: str,
        ends: Callable[[], bool] = lambda: False,
    ) -> None:
        """`ends` says whether the server is about to: the Lease is then had for the asking."""
        self._access = access
        self._ends = ends
        self._timing = timing
        self._schema = schema
        self._log = log
        self._version = version
        self._needs = Needs()
        self._taken_over = False
        self._lease: Lease | None = None
        self._binder: Binder | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.informers: Informers | None = None

    async def connect(self, stack: AsyncExitStack, reloader: PolicyReloader) -> None:
        """Connects, and watches until the stack ends; tells the engine what it must follow.

        Raises ClusterConfigurationError.
        """
        access, engine = self._access, reloader.engine
        client = await stack.enter_async_context(
            connect(access.kubeconfig, access.context, version=self._version, limits=access.limits)
        )
        self._loop = asyncio.get_running_loop()
        self._log.info("watching the cluster at %s", client.host)
        self.informers = Informers(client, self._codec(), self._timing)
        stack.push_async_callback(self.informers.stop)
        self.informers.cache.listeners.append(engine.pod_changed)
        self._binder = binder = Binder(client, self.informers.cache, engine.admit)
        engine.listeners.append(binder.heard)
        identity = f"{socket.gethostname()}_{uuid.uuid4()}"
        if access.lease is not None:
            lease = Lease(client, *access.lease, identity, ends=self._ends)
            await self._agree(stack, lease, engine)
        # What is being bound was allowed under the Lease, and is finished under it.
        stack.push_async_callback(binder.idle)
        self._report(stack, client, reloader, identity)
        self.informers.start(self._needs)
        syncing = asyncio.create_task(self._until_synced(reloader))
        stack.callback(syncing.cancel)

    def _report(
        self, stack: AsyncExitStack, client: ApiClient, reloader: PolicyReloader, identity: str
    ) -> None:
        """Writes statuses, events and nudges while the Lease is held, or nobody else is there."""
        assert self.informers is not None, "it is connected"
        engine, lease = reloader.engine, self._lease
        rejected_pods = RejectedPods(time.monotonic, _FIRST_NUDGE_SECONDS, _MOST_NUDGE_SECONDS)
        engine.listeners.append(rejected_pods.heard)
        self.informers.cache.listeners.append(rejected_pods.changed)
        lost = reloader.observer.lost
        reporter = StatusReporter(
            client,
            self.informers,
            reloader.policies,
            engine,
            lost,
            rejected_pods,
            identity,
            self._log,
        )
        work = reporter.run(lambda: lease is None or lease.held)
        stack.push_async_callback(_end, asyncio.create_task(work))

    async def _agree(self, stack: AsyncExitStack, lease: Lease, engine: Engine) -> None:
        """Follows the Lease, and lets the engine decide by counts only while it is held."""
        self._lease = lease
        # If nobody else is there, the first lists are those to take over with.
        await lease.turn()
        fresh = lease.held

        async def take_over() -> None:
            nonlocal fresh
            assert self.informers is not None
            if not fresh:
                await self.informers.list_pods_anew()
            fresh = False
            await self.informers.synced()
            engine.take_over(self.informers.snapshot())
            self._log.info("this replica decides by counts from now on")

        engine.count_gate = gate = LeaderGate(lease, take_over)
        for work in (lease.run(), gate.run()):
            stack.push_async_callback(_end, asyncio.create_task(work))

    def adopt(self, needs: Needs) -> None:
        """Watches what the policies read now; from any thread."""
        fresh = not needs.annotations <= self._needs.annotations
        self._needs = needs
        if self._loop is not None and self.informers is not None:
            if fresh:
                self._loop.call_soon_threadsafe(self.informers.read_anew, self._codec())
            self._loop.call_soon_threadsafe(self.informers.start, needs)

    def policies(self) -> Mapping[str, bytes] | None:
        """The policies that the cluster has, as JSON by resource and key; None if nobody knows."""
        informers = self.informers
        return informers.policies if informers is not None and informers.knows_policies else None

    def refresh(self) -> None:
        """Nothing: it is refreshed by its watches."""

    @property
    def pods(self) -> Cache:
        """The pods, for counting."""
        return self.informers.cache if self.informers is not None else Cache()

    def snapshot(self) -> Snapshot:
        """Raises NotSyncedError."""
        if self.informers is None:
            raise NotSyncedError("not synced: not connected yet")
        snapshot = self.informers.snapshot()
        if not self._taken_over:
            raise NotSyncedError("not synced: about to take over")
        return snapshot

    def size(self) -> int | None:
        """How many nodes there are, None while not all are known."""
        try:
            return len(self.snapshot().table.rows)
        except NotSyncedError:
            return None

    def checks(self) -> Sequence[Check]:
        """Whether all of the cluster is known, and whether it is this replica that answers."""
        try:
            self.snapshot()
        except NotSyncedError as error:
            return (Check("cluster", str(error)),)
        if not self._access.standby or self._lease is None or self._lease.held:
            return (Check("cluster"),)
        holder = self._lease.failure or f"`{self._lease.holder}` holds the Lease"
        return (Check("cluster"), Check("lease", f"standing by: {holder}"))

    def status(self) -> Mapping[str, object]:
        """Each resource that is watched, for `/debug/cache`."""
        watched = self.informers.informers if self.informers is not None else ()
        missing = self.checks()[0].failure
        lease = self._lease
        return {
            "synced": not missing,
            **({"missing": missing} if missing else {}),
            **({"lease": _lease_status(lease)} if lease is not None else {}),
            "tasks": len(asyncio.all_tasks()),
            "resources": {i.resource.name: _status(i) for i in watched},
        }

    async def compare(self) -> Mapping[str, object]:
        """Where the cache is not what the API server has. Raises EngineError.

        What is not as it is there is listed again, as soon as its watch shows a sign.
        """
        self.snapshot()
        assert self.informers is not None, "there is a snapshot"
        watched = list(self.informers.informers)
        differences: list[Difference] = []
        for informer in watched:
            found = await compare(informer, self.informers.source)
            if found:
                informer.reflector.ask_relist("compare")
            differences += found
        objects = {i.resource.name: len(i.store) for i in watched}
        return {"objects": objects, "differences": differences, "count": len(differences)}

    async def bind(self, binding: Binding, deadline: float) -> None:
        """Returns when the pod is on the node. Raises EngineError where it is not."""
        if self._binder is None:
            raise NotSyncedError("not synced: not connected yet")
        await self._binder.bind(binding, deadline)

    async def _until_synced(self, reloader: PolicyReloader) -> None:
        assert self.informers is not None
        await self.informers.synced()
        # Nobody is answered before the policies that were watched decide, and know all they read.
        await reloader.catch_up()
        await self.informers.synced()
        snapshot = self.informers.snapshot()
        if self._lease is None:
            reloader.engine.take_over(snapshot)
        self._taken_over = True
        nodes, pods = len(snapshot.table.rows), len(snapshot.pods())
        self._log.info("cluster of %d nodes and %d pods", nodes, pods)
        # What is there now mostly stays; looking through it for garbage would stop the server.
        gc.collect()
        gc.freeze()

    def _codec(self) -> ObjectCodec:
        return ObjectCodec(self._schema, self._needs.annotations)


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def _lease_status(lease: Lease) -> Mapping[str, object]:
    return {
        "identity": lease.identity,
        "holder": lease.holder,
        "held": lease.held,
        "failure": lease.failure,
    }


def _status(informer: Informer) -> Mapping[str, object]:
    reflector = informer.reflector
    return {
        "objects": len(informer.store),
        "resourceVersion": reflector.resource_version,
        "synced": reflector.synced,
        "secondsSinceLastEvent": reflector.last_event_age,
        "relists": dict(reflector.relists),
        "failure": reflector.failure,
        "failures": reflector.failures,
        "unreadable": reflector.intake.bad_objects,
        "lastUnreadable": reflector.intake.bad_object,
    }
