"""What reflectors fill: each object's newest state goes to the cache, older ones nowhere."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import msgspec
from cachetools import LRUCache

from engine.cache.cache import Cache
from engine.cache.list_watch import ListerWatcher, Resource
from engine.cache.reflector import Reflector, Timing
from engine.cache.snapshot import Snapshot
from engine.errors import NotSyncedError
from engine.objects.codec import Namespace, NamespaceDecoder, Node, ObjectCodec
from engine.objects.controllers import Controller, ControllerDecoder
from engine.objects.decoding import revision_of
from engine.objects.peer import Peer
from policies.forms import GROUP


@dataclass(frozen=True, slots=True)
class Needs:
    """Whether a rule reads namespaces or workloads, and which annotations of other pods."""

    namespaces: bool = False
    workloads: bool = False
    annotations: frozenset[str] = frozenset()


T = TypeVar("T")

# So many deleted objects are remembered, for events about them that come late.
_GRAVES = 10_000


class ObjectStore(Generic[T]):
    """Objects of one resource. An event that is older than what is known changes nothing.

    Resource versions of one resource can be compared as numbers (KEP-5504); one that is no number
    is taken as newer than any.
    """

    def __init__(
        self,
        decode: Callable[[bytes], T],
        put: Callable[[str, T, int], None],
        remove: Callable[[str], None],
        holds: Callable[[str, T], bool],
    ) -> None:
        """`put`, with the resource version, and `remove` are told of changes.

        `holds` says whether a state is the one that is there.
        """
        self.decode = decode
        self.holds = holds
        self._put = put
        self._remove = remove
        self._revisions: dict[str, int] = {}
        self._graves: LRUCache[str, int] = LRUCache(_GRAVES)

    def __len__(self) -> int:
        return len(self._revisions)

    @property
    def revisions(self) -> Mapping[str, int]:
        """The resource version of each object by its key, 0 for one that is no number."""
        return self._revisions

    def upsert(self, key: str, version: str, raw: bytes | msgspec.Raw) -> None:
        """Takes an object's state. Raises BadObjectError, and then what was there stays."""
        revision = revision_of(version)
        if revision and revision <= self.known(key):
            return
        self._put(key, self.decode(raw), revision)
        self._revisions[key] = revision

    def remove(self, key: str, version: str) -> None:
        """Forgets an object; `version` is that of its deletion."""
        revision = revision_of(version)
        if revision and revision < self.known(key):
            return
        self._graves[key] = revision
        if self._revisions.pop(key, None) is not None:
            self._remove(key)

    def retain(self, keys: Collection[str]) -> None:
        """Forgets every object but these."""
        for key in self._revisions.keys() - keys:
            del self._revisions[key]
            self._remove(key)

    def distrust(self) -> None:
        """Takes every object anew when it is seen next: what is read of them has changed."""
        self._revisions = dict.fromkeys(self._revisions, 0)

    def known(self, key: str) -> int:
        """The newest resource version that an object, or its deletion, was seen with."""
        known = self._revisions.get(key)
        return self._graves.get(key, 0) if known is None else known


def nodes(codec: ObjectCodec, cache: Cache) -> ObjectStore[Node]:
    return ObjectStore(
        codec.node,
        lambda _, node, __: cache.put_node(node),
        cache.remove_node,
        lambda key, node: _same(cache.nodes.get(key), node),
    )


def _same(known: Node | None, node: Node) -> bool:
    """Kind and version aside: watches name them in each object, and lists once for all."""
    return known is not None and known == replace(
        node, kind=known.kind, apiVersion=known.apiVersion
    )


def pods(codec: ObjectCodec, cache: Cache) -> ObjectStore[Peer]:
    return ObjectStore(
        codec.peer,
        lambda _, pod, revision: cache.put_pod(pod, revision),
        cache.remove_pod,
        cache.holds_pod,
    )


def namespaces(cache: Cache) -> ObjectStore[Namespace]:
    return ObjectStore(
        NamespaceDecoder().decode,
        lambda _, namespace, __: cache.put_namespace(namespace),
        cache.remove_namespace,
        lambda key, namespace: cache.namespace(key) == namespace,
    )


def controllers(kind: str, cache: Cache) -> ObjectStore[Controller]:
    """Controllers of one kind: by uid in the cache, by name in the API."""
    decoder = ControllerDecoder()
    uids: dict[str, str] = {}

    def put(key: str, controller: Controller, _: int) -> None:
        uid = controller.workload.uid
        if uids.get(key, uid) != uid:
            cache.remove_controller(uids[key])
        uids[key] = uid
        cache.put_controller(controller)

    return ObjectStore(
        lambda raw: decoder.decode(kind, raw),
        put,
        lambda key: cache.remove_controller(uids.pop(key)),
        lambda _, controller: cache.controller(controller.workload.uid) == controller,
    )


# ---- One reflector for each resource that is needed, all filling one cache: the live cluster.

_LOOK_SECONDS = 0.05

NODES = Resource("nodes", "/api/v1/nodes")
# A pod that has ended takes nothing, and there may be more of them than of all others.
PODS = Resource(
    "pods", "/api/v1/pods", field_selector="status.phase!=Succeeded,status.phase!=Failed"
)
NAMESPACES = Resource("namespaces", "/api/v1/namespaces")
# Ours: a cluster in which they are not defined has none.
POLICIES = tuple(
    Resource(name, f"/apis/{GROUP}/v1/{name}", optional=True)
    for name in ("placementpolicies", "clusterplacementpolicies")
)
CONTROLLERS: Mapping[str, Resource] = {
    "ReplicaSet": Resource("replicasets", "/apis/apps/v1/replicasets"),
    "Deployment": Resource("deployments", "/apis/apps/v1/deployments"),
    "StatefulSet": Resource("statefulsets", "/apis/apps/v1/statefulsets"),
    "Job": Resource("jobs", "/apis/batch/v1/jobs"),
}


@dataclass(frozen=True, slots=True)
class Informer:
    """A resource, what fills the cache with it, and what is filled.

    `known` says that all of it has been seen once, if not by this reflector.
    """

    resource: Resource
    reflector: Reflector
    store: ObjectStore[Any]
    task: asyncio.Task[None]
    known: bool = False

    @property
    def synced(self) -> bool:
        return self.known or self.reflector.synced


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
        # The JSON of each policy object, by resource and key; another mapping after each change.
        self.policies: Mapping[str, bytes] = {}

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

    async def list_pods_anew(self) -> None:
        """Returns when the pods have been listed by a request that began after this was called.

        What is known of them meanwhile counts as known.
        """
        if (pods := self._informers.get(PODS.name)) is None:
            return
        pods.task.cancel()
        fresh = self._informer(PODS, pods.store, known=pods.synced)
        self._informers[PODS.name] = fresh
        while not fresh.reflector.synced:  # noqa: ASYNC110 - a reflector says so only when asked
            await asyncio.sleep(_LOOK_SECONDS)

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
        waiting = [i for i in self._informers.values() if not i.synced]
        if not waiting:
            return None
        parts = (f"{i.resource.name} {len(i.store):,} so far" for i in waiting)
        return f"not synced: {', '.join(parts)}"

    @property
    def knows_policies(self) -> bool:
        """Whether all policy objects have been seen."""
        watched = (self._informers.get(resource.name) for resource in POLICIES)
        return all(informer is not None and informer.synced for informer in watched)

    @property
    def informers(self) -> Collection[Informer]:
        return self._informers.values()

    def _informer(
        self, resource: Resource, store: ObjectStore[Any], *, known: bool = False
    ) -> Informer:
        reflector = Reflector(resource, self.source, store, timing=self._timing)
        task = asyncio.create_task(reflector.run(), name=f"informer {resource.name}")
        return Informer(resource, reflector, store, task, known)

    def _policies(self, resource: Resource) -> ObjectStore[bytes]:
        def put(key: str, raw: bytes, _: int) -> None:
            self.policies = {**self.policies, f"{resource.name}/{key}": raw}

        def remove(key: str) -> None:
            gone = f"{resource.name}/{key}"
            self.policies = {k: v for k, v in self.policies.items() if k != gone}

        def holds(key: str, raw: bytes) -> bool:
            return _same_json(self.policies.get(f"{resource.name}/{key}", b""), raw)

        return ObjectStore(bytes, put, remove, holds)

    def _wanted(self, needs: Needs) -> Iterator[tuple[Resource, ObjectStore[Any]]]:
        cache = self.cache
        yield NODES, nodes(self._codec, cache)
        yield PODS, pods(self._codec, cache)
        for resource in POLICIES:
            yield resource, self._policies(resource)
        if needs.namespaces:
            yield NAMESPACES, namespaces(cache)
        if needs.workloads:
            for kind, resource in CONTROLLERS.items():
                yield resource, controllers(kind, cache)


def _same_json(known: bytes, raw: bytes) -> bool:
    """Kind and version aside, which a list has once for all."""
    objects = [msgspec.json.decode(each or b"{}") for each in (known, raw)]
    for each in objects:
        each.pop("kind", None)
        each.pop("apiVersion", None)
    return bool(objects[0] == objects[1])
