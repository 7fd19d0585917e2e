"""Informers: one reflector and store for each resource that is needed, all filling one cache.

`compare` lists a resource again and finds where the cache differs from the API server.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import msgspec

from engine.cache import list_watch, store
from engine.cache.cache import Cache
from engine.cache.list_watch import ListerWatcher, Resource, head
from engine.cache.node_table import Snapshot
from engine.cache.policy_objects import PolicyObjects
from engine.cache.reflector import Reflector, Report, Timing, unreported
from engine.cache.store import ObjectStore
from engine.errors import ApiError, BadObjectError, NotSyncedError
from engine.objects.decoding import revision_of
from engine.objects.disruption_budget import decode_budget
from engine.objects.peer import FAILED, WATCHED
from engine.objects.pod_group import GROUP_VERSIONS, KUBERNETES
from engine.objects.request_pod import ObjectCodec
from engine.objects.resources import decode_quota
from engine.work import shared_pause
from policies.manifest_text import GROUP

_POLL_SECONDS = 0.05
# The seconds between two looks for room for policies that were refused.
_AGAIN_SECONDS = 2.0

# Starts background work under this name; the work begins anew if it fails.
StartTask = Callable[[str, Callable[[], Awaitable[None]]], asyncio.Task[None]]

NODES = Resource("nodes", "/api/v1/nodes")
# Pods that have ended take no resources, and there may be more of them than of all others.
PODS = Resource(
    "pods", "/api/v1/pods", field_selector="status.phase!=Succeeded,status.phase!=Failed"
)
# For counts of pods that have ended. The watch above says of those only that they are gone.
ENDED_PODS = Resource(
    "endedpods",
    "/api/v1/pods",
    field_selector="status.phase!=Pending,status.phase!=Running,status.phase!=Unknown",
)
# For rules about earlier pods of the same controller.
FAILED_PODS = Resource("failedpods", "/api/v1/pods", field_selector=f"status.phase={FAILED}")
NAMESPACES = Resource("namespaces", "/api/v1/namespaces")
# A cluster without our definitions has none of these.
POLICIES = tuple(
    Resource(name, f"/apis/{GROUP}/v1/{name}", optional=True)
    for name in ("placementpolicies", "clusterplacementpolicies")
)
# Without the right to watch them, the API server alone says that an eviction breaks one.
BUDGETS = Resource(
    "poddisruptionbudgets", "/apis/policy/v1/poddisruptionbudgets", optional=True, awaited=False
)
# Without the right to watch them, nobody says which one keeps members of a gang from being made.
QUOTAS = Resource("resourcequotas", "/api/v1/resourcequotas", optional=True, awaited=False)
# A cluster may serve none of these, and its pods name no group then.
GROUPS: Mapping[str, Resource] = {
    api: Resource(
        "podgroups" if api == KUBERNETES else f"podgroups.{api}",
        f"/apis/{api}/{newest}/podgroups",
        optional=True,
        awaited=False,
        others=tuple(f"/apis/{api}/{version}/podgroups" for version in older),
    )
    for api, (newest, *older) in GROUP_VERSIONS.items()
}
CONTROLLERS: Mapping[str, Resource] = {
    kind: Resource(name := f"{kind.lower()}s", f"/apis/{version}/{name}")
    for kind, version in WATCHED.items()
}


@dataclass(frozen=True, slots=True)
class Needs:
    """The needs of rules: optional parts of a cluster; `annotations` are keys of other pods.

    `groups`: rules are about the PodGroups of pods. `ended`: they count pods that have ended.
    `failures`: they are about earlier pods that have failed. `quotas`: pods wait for others.
    `repairs`: pods are evicted that break a rule, as their namespaces, workloads and budgets allow.
    """

    namespaces: bool = False
    workloads: bool = False
    groups: bool = False
    ended: bool = False
    failures: bool = False
    quotas: bool = False
    annotations: frozenset[str] = frozenset()
    repairs: bool = False


def object_lists(needs: Needs) -> Mapping[str, Resource]:
    """What is watched of a cluster for these needs, without policies: resources by kind."""
    found = {"Node": NODES, "Pod": PODS}
    if needs.ended or needs.failures:
        found["ended Pod"] = ENDED_PODS if needs.ended else FAILED_PODS
    if needs.namespaces or needs.repairs:
        found["Namespace"] = NAMESPACES
    if needs.repairs:
        found["PodDisruptionBudget"] = BUDGETS
    if needs.quotas:
        found["ResourceQuota"] = QUOTAS
    if needs.groups:
        found |= {f"PodGroup of {api}": resource for api, resource in GROUPS.items()}
    return {**found, **CONTROLLERS} if needs.workloads or needs.repairs else found


@dataclass(frozen=True, slots=True)
class Informer:
    """An informer: a resource, its reflector, the store that this fills, and the running task.

    `known` says that an earlier reflector has seen all objects once.
    """

    resource: Resource
    reflector: Reflector
    store: ObjectStore[Any]
    task: asyncio.Task[None]
    known: bool = False

    @property
    def synced(self) -> bool:
        return self.known or self.reflector.synced


@dataclass(eq=False, slots=True)
class Informers:
    """The informers of a live cluster, as the engine sees it between `start` and `stop`.

    All of it runs on one event loop, so no event is half applied when a snapshot is taken.
    """

    source: ListerWatcher
    _codec: ObjectCodec
    _timing: Timing
    _start_task: StartTask
    _report: Report = unreported
    cache: Cache = field(default_factory=Cache)
    _informers: dict[str, Informer] = field(default_factory=dict)
    _policies: PolicyObjects = field(init=False)
    _refused: asyncio.Task[None] | None = None
    _has_stopped: bool = False
    # Whether all objects have been seen once: then they stay so until more is watched.
    _is_synced: bool = False

    def __post_init__(self) -> None:
        self._policies = PolicyObjects(self.cache.accounts)

    def start(self, needs: Needs) -> None:
        """Watch nodes, pods, policies and other objects that are needed. Call it on an event loop.

        Policies may be read while a server ends: after `stop` nothing is watched any more.
        """
        if self._has_stopped:
            return
        for resource, objects in self._stores(needs):
            if resource.name not in self._informers:
                self._informers[resource.name] = self._informer(resource, objects)
        if self._refused is None:
            self._refused = self._start_task("refused-policies", self._take_refused)

    def _due(self) -> Iterator[Resource]:
        """What was refused, one object each, and would have room now."""
        if self.knows_policies:
            yield from self._policies.due()
        for namespace, (api, name) in self.cache.groups_due():
            if (informer := self._informers.get(GROUPS[api].name)) is not None:
                now = informer.reflector.resource
                path = now.path.replace("/podgroups", f"/namespaces/{namespace}/podgroups")
                yield replace(now, path=path, field_selector=f"metadata.name={name}")

    async def _take_refused(self) -> None:
        """Takes policies and PodGroups that were refused, when there is room for them."""
        while True:
            await shared_pause(_AGAIN_SECONDS)
            for one in self._due():
                known = self._informers[one.name].store
                async for _, chunk in list_watch.chunks(self.source, one, "", 0, _REQUEST_SECONDS):
                    for raw in chunk.items or ():
                        key, version = head(raw)
                        known.distrust(key)
                        known.upsert(key, version, raw)

    def read_anew(self, codec: ObjectCodec) -> None:
        """Decode pods with another codec from now on.

        Until all pods have been decoded again, the cluster is not synced.
        """
        self._codec = codec
        for resource in (PODS, ENDED_PODS, FAILED_PODS):
            if (pods := self._informers.pop(resource.name, None)) is not None:
                pods.task.cancel()
                pods.store.decode = codec.peer
                pods.store.distrust()
                self._informers[resource.name] = self._informer(resource, pods.store)

    async def list_pods_anew(self) -> None:
        """Return when a list of the pods that was requested after this call is complete.

        The known pods stay in use until then.
        """
        if (pods := self._informers.get(PODS.name)) is None:
            return
        pods.task.cancel()
        fresh = self._informer(PODS, pods.store, known=pods.synced)
        self._informers[PODS.name] = fresh
        while not fresh.reflector.synced:  # noqa: ASYNC110 - a reflector has no event for it
            await asyncio.sleep(_POLL_SECONDS)

    async def stop(self) -> None:
        self._has_stopped = True
        tasks = [informer.task for informer in self._informers.values()]
        tasks += [self._refused] if self._refused is not None else []
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task
        self._informers.clear()

    @property
    def policies(self) -> Mapping[str, bytes]:
        """The JSON of each policy object, by `resource/key`. A change replaces the mapping."""
        return self._policies.bodies

    def snapshot(self) -> Snapshot:
        """The cluster now. Raises NotSyncedError until all objects have been seen."""
        if (missing := self.missing()) is not None:
            raise NotSyncedError(missing)
        budgets = self._informers.get(BUDGETS.name)
        # After a failure they may be old, and an old budget may allow what is not allowed any more.
        is_known = budgets is not None and budgets.synced and not budgets.reflector.failure
        self.cache.trust_budgets(known=is_known)
        return self.cache.snapshot()

    async def synced(self) -> None:
        """Return when all objects have been seen once."""
        while self.missing() is not None:  # noqa: ASYNC110 - a reflector has no event for it
            await asyncio.sleep(_POLL_SECONDS)

    def missing(self) -> str | None:
        """The resources that are not synced, as a message; None if all are."""
        if not self._informers:
            return "not synced: nothing is watched yet"
        if self._is_synced:
            return None
        waiting = [i for i in self._informers.values() if i.resource.awaited and not i.synced]
        if not waiting:
            self._is_synced = True
            return None
        # One reason is enough: mostly all fail for the same one.
        if failure := next((f for i in waiting if (f := i.reflector.failure)), ""):
            return f"not synced: {failure}"
        parts = (f"{i.resource.name} {len(i.store):,} so far" for i in waiting)
        return f"not synced: {', '.join(parts)}"

    @property
    def knows_policies(self) -> bool:
        watched = (self._informers.get(resource.name) for resource in POLICIES)
        return all(informer is not None and informer.synced for informer in watched)

    @property
    def undefined(self) -> str:
        """Says which kinds of policies the API server does not know, and the remedy; or empty."""
        watched = (self._informers.get(resource.name) for resource in POLICIES)
        names = [each.resource.name for each in watched if each and each.reflector.absent]
        if not names:
            return ""
        remedy = "`placet crds | kubectl apply --server-side -f -` installs them"
        return f"the API server has no {' and no '.join(names)} ({remedy})"

    @property
    def informers(self) -> Collection[Informer]:
        return self._informers.values()

    def _informer(
        self, resource: Resource, objects: ObjectStore[Any], *, known: bool = False
    ) -> Informer:
        reflector = Reflector(
            resource, self.source, objects, timing=self._timing, report=self._report
        )
        self._is_synced = False
        task = self._start_task(f"reflector/{resource.name}", reflector.run)
        return Informer(resource, reflector, objects, task, known)

    def _stores(self, needs: Needs) -> Iterator[tuple[Resource, ObjectStore[Any]]]:
        for kind, resource in object_lists(needs).items():
            match kind:
                case "Node":
                    yield resource, store.nodes(self._codec, self.cache)
                case "Pod":
                    yield resource, store.pods(self._codec, self.cache)
                case "ended Pod":
                    yield resource, store.ended_pods(self._codec, self.cache)
                case "Namespace":
                    yield resource, store.namespaces(self.cache)
                case "PodDisruptionBudget":
                    yield resource, store.plain(decode_budget, self.cache, self.cache.budgets)
                case "ResourceQuota":
                    yield resource, store.plain(decode_quota, self.cache, self.cache.quotas)
                case _ if kind in CONTROLLERS:
                    yield resource, store.controllers(kind, self.cache)
                case _:
                    yield resource, store.groups(kind.removeprefix("PodGroup of "), self.cache)
        for resource in POLICIES:
            yield resource, self._policies.store(resource.name)


# ---- the comparison with the API server

# Events on their way look like differences, so a difference must last: it is looked for again this
# often, with so many seconds between.
_TRIES = 5
_PAUSE = 1.0
_TURN = 500  # objects between two turns of the event loop
_REQUEST_SECONDS = 60.0

Kind = Literal["missing", "extra", "old", "wrong"]


class Difference(msgspec.Struct, frozen=True):
    """A difference: the cache lacks an object (missing), has a deleted one (extra), or errs.

    `old` means an old version, `wrong` the right version with another content. `there` and `here`
    are the versions of the API server and of the cache.
    """

    resource: str
    key: str
    kind: Kind
    there: str
    here: str


async def compare(
    informer: Informer,
    source: ListerWatcher,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> list[Difference]:
    """The differences of one resource that last for some seconds.

    Raises ApiError and ApiUnreachableError.
    """
    found: list[Difference] = []
    for attempt in range(_TRIES):
        if attempt:
            await sleep(_PAUSE)
        found = [d async for d in _differences(informer, source)]
        if not found:
            break
    return found


async def _differences(informer: Informer, source: ListerWatcher) -> AsyncIterator[Difference]:
    listed: dict[str, tuple[str, msgspec.Raw]] = {}
    list_version = ""
    # In the version that is watched.
    resource = informer.reflector.resource
    chunks = list_watch.chunks(source, resource, "", list_watch.CHUNK, _REQUEST_SECONDS)
    try:
        async for _, chunk in chunks:
            list_version = chunk.metadata.resourceVersion
            for raw in chunk.items or ():
                key, version = head(raw)
                listed[key] = version, raw
    except ApiError as error:
        # A resource without a definition has no objects.
        if not (informer.resource.optional and list_watch.is_absent(error)):
            raise
    store, name = informer.store, informer.resource.name
    for count, (key, (version, raw)) in enumerate(listed.items()):
        if not count % _TURN:
            await asyncio.sleep(0)
        kind = _difference(store, key, version, raw)
        if kind is not None:
            yield Difference(name, key, kind, version, str(store.revisions.get(key, "")))
    for key, revision in store.revisions.items():
        # A newer object was created after the list.
        if key not in listed and revision <= revision_of(list_version):
            yield Difference(name, key, "extra", "", str(revision))


def _difference(
    store: ObjectStore[object], key: str, version: str, raw: msgspec.Raw
) -> Kind | None:
    here, there = store.known(key), revision_of(version)
    if here == 0:
        return "missing"
    if here != there:
        return "old" if here < there else None
    if key not in store.revisions:
        return "missing"
    try:
        return None if store.holds(key, store.decode(raw)) else "wrong"
    except BadObjectError:
        return "wrong"
