"""One reflector for each resource that is needed, all filling one cache: the live cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from engine.cache import stores
from engine.cache.cache import Cache
from engine.cache.list_watch import ListerWatcher, Resource
from engine.cache.reflector import Reflector
from engine.cache.snapshot import Snapshot
from engine.cache.stores import ObjectStore
from engine.cache.timing import Timing
from engine.errors import NotSyncedError
from engine.objects import ObjectCodec
from engine.program.needs import Needs

_LOOK_SECONDS = 0.05

NODES = Resource("nodes", "/api/v1/nodes")
# A pod that has ended takes nothing, and there may be more of them than of all others.
PODS = Resource(
    "pods", "/api/v1/pods", field_selector="status.phase!=Succeeded,status.phase!=Failed"
)
NAMESPACES = Resource("namespaces", "/api/v1/namespaces")
CONTROLLERS: Mapping[str, Resource] = {
    "ReplicaSet": Resource("replicasets", "/apis/apps/v1/replicasets"),
    "Deployment": Resource("deployments", "/apis/apps/v1/deployments"),
    "StatefulSet": Resource("statefulsets", "/apis/apps/v1/statefulsets"),
    "Job": Resource("jobs", "/apis/batch/v1/jobs"),
}


@dataclass(frozen=True, slots=True)
class Informer:
    """A resource, what fills the cache with it, and what is filled."""

    resource: Resource
    reflector: Reflector
    store: ObjectStore[Any]
    task: asyncio.Task[None]


class Informers:
    """The live cluster: a view for the engine, as long as `run` runs.

    Everything here happens on one event loop: no event is half applied when a snapshot is taken.
    """

    def __init__(self, source: ListerWatcher, codec: ObjectCodec, timing: Timing) -> None:
        self.cache = Cache()
        self.source = source
        self._codec = codec
        self._timing = timing
        self._informers: dict[str, Informer] = {}

    # ---- what is watched

    def start(self, needs: Needs) -> None:
        """Watches nodes, pods and what else is needed; from an event loop."""
        for resource, store in self._wanted(needs):
            if resource.name not in self._informers:
                self._informers[resource.name] = self._informer(resource, store)

    def read_anew(self, codec: ObjectCodec) -> None:
        """Pods are decoded by another codec from now on; until all have been, nothing is known."""
        self._codec = codec
        if (pods := self._informers.pop(PODS.name, None)) is not None:
            pods.task.cancel()
            pods.store.decode = codec.peer
            pods.store.distrust()
            self._informers[PODS.name] = self._informer(PODS, pods.store)

    async def stop(self) -> None:
        """Ends every watch."""
        tasks = [informer.task for informer in self._informers.values()]
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task
        self._informers.clear()

    # ---- what is known

    @property
    def pods(self) -> Cache:
        """The pods, for counting."""
        return self.cache

    def snapshot(self) -> Snapshot:
        """The cluster as it is known now. Raises NotSyncedError until all of it has been seen."""
        if (missing := self.missing()) is not None:
            raise NotSyncedError(missing)
        return self.cache.snapshot()

    async def synced(self) -> None:
        """Returns when all of what is watched has been seen once."""
        while self.missing() is not None:  # noqa: ASYNC110 - a reflector says so only when asked
            await asyncio.sleep(_LOOK_SECONDS)

    def missing(self) -> str | None:
        """What has not been seen completely yet, or None."""
        if not self._informers:
            return "not synced: nothing is watched yet"
        waiting = [i for i in self._informers.values() if not i.reflector.synced]
        if not waiting:
            return None
        parts = (f"{i.resource.name} {len(i.store):,} so far" for i in waiting)
        return f"not synced: {', '.join(parts)}"

    @property
    def informers(self) -> Collection[Informer]:
        return self._informers.values()

    def _informer(self, resource: Resource, store: ObjectStore[Any]) -> Informer:
        reflector = Reflector(resource, self.source, store, timing=self._timing)
        task = asyncio.create_task(reflector.run(), name=f"informer {resource.name}")
        return Informer(resource, reflector, store, task)

    def _wanted(self, needs: Needs) -> Iterator[tuple[Resource, ObjectStore[Any]]]:
        cache = self.cache
        yield NODES, stores.nodes(self._codec, cache)
        yield PODS, stores.pods(self._codec, cache)
        if needs.namespaces:
            yield NAMESPACES, stores.namespaces(cache)
        if needs.workloads:
            for kind, resource in CONTROLLERS.items():
                yield resource, stores.controllers(kind, cache)
