"""A server's view of the cluster itself: connected, watched, and kept to what policies read."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Mapping
from contextlib import AsyncExitStack
from logging import Logger
from pathlib import Path

from cli.version import version
from engine.cache.cache import Cache
from engine.cache.comparison import Difference, compare
from engine.cache.informers import Informer, Informers
from engine.cache.snapshot import Snapshot
from engine.cache.timing import Timing
from engine.cluster.client import connect
from engine.engine import Engine
from engine.errors import NotSyncedError
from engine.objects import ObjectCodec
from engine.program.needs import Needs
from grammar.schema import Schema
from server.health import Check


class Live:
    """Nothing is known until `connect` has been called, from the event loop that serves."""

    def __init__(
        self,
        kubeconfig: Path | None,
        context: str | None,
        timing: Timing,
        schema: Schema,
        log: Logger,
    ) -> None:
        self._kubeconfig = kubeconfig
        self._context = context
        self._timing = timing
        self._schema = schema
        self._log = log
        self._needs = Needs()
        self._taken_over = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self.informers: Informers | None = None

    async def connect(self, stack: AsyncExitStack, engine: Engine) -> None:
        """Connects, and watches until the stack ends; tells the engine what it must follow.

        Raises ClusterConfigurationError.
        """
        client = await stack.enter_async_context(
            connect(self._kubeconfig, self._context, version=version())
        )
        self._loop = asyncio.get_running_loop()
        self.informers = Informers(client, self._codec(), self._timing)
        stack.push_async_callback(self.informers.stop)
        self.informers.cache.listeners.append(engine.pod_changed)
        self.informers.start(self._needs)
        self._log.info("watching the cluster at %s", client.host)
        syncing = asyncio.create_task(self._until_synced(engine))
        stack.callback(syncing.cancel)

    def adopt(self, needs: Needs) -> None:
        """Watches what the policies read now; from any thread."""
        fresh = not needs.annotations <= self._needs.annotations
        self._needs = needs
        if self._loop is not None and self.informers is not None:
            if fresh:
                self._loop.call_soon_threadsafe(self.informers.read_anew, self._codec())
            self._loop.call_soon_threadsafe(self.informers.start, needs)

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
            return len(self.snapshot().table.places)
        except NotSyncedError:
            return None

    def check(self) -> Check:
        """Whether all of the cluster is known."""
        try:
            self.snapshot()
        except NotSyncedError as error:
            return Check("cluster", str(error))
        return Check("cluster")

    def status(self) -> Mapping[str, object]:
        """Each resource that is watched, for `/debug/cache`."""
        watched = self.informers.informers if self.informers is not None else ()
        missing = self.check().problem
        return {
            "synced": not missing,
            **({"missing": missing} if missing else {}),
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

    async def _until_synced(self, engine: Engine) -> None:
        assert self.informers is not None
        await self.informers.synced()
        snapshot = self.informers.snapshot()
        engine.take_over(snapshot)
        self._taken_over = True
        nodes, pods = len(snapshot.table.places), len(snapshot.pods())
        self._log.info("cluster of %d nodes and %d pods", nodes, pods)
        # What is there now mostly stays; looking through it for garbage would stop the server.
        gc.collect()
        gc.freeze()

    def _codec(self) -> ObjectCodec:
        return ObjectCodec(self._schema, self._needs.annotations)


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
