"""Object store: the newest version of each object of a resource, on its way to the cache.

A reflector fills it, and an informer owns it. The cache holds the objects; the store holds their
resource versions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Generic, TypeVar

import msgspec

from engine.cache.cache import Cache
from engine.objects.decoding import revision_of
from engine.objects.peer import Controller, Peer, decode_controller
from engine.objects.pod_group import GroupName, PodGroup, decode_group
from engine.objects.remembered import Remembered
from engine.objects.request_pod import Namespace, Node, ObjectCodec, decode_namespace

T = TypeVar("T")


@dataclass(eq=False, slots=True)
class ObjectStore(Generic[T]):
    """The objects of one resource. An event that is older than the known state changes nothing.

    A key is `namespace/name`, or the name of an object without a namespace.

    Resource versions of one resource compare as numbers (KEP-5504). A version that is not a number
    counts as newer than any.

    `put` (key, object, version, JSON) and `remove` receive the changes. Nothing is remembered of an
    object that is not kept, for which `put` is false. `holds` says whether a state is the one that
    the cache has. `reached` hears of the version up to which all changes have come.
    """

    decode: Callable[[bytes], T]
    _put: Callable[[str, T, int, bytes | msgspec.Raw], bool | None]
    _remove: Callable[[str], None]
    holds: Callable[[str, T], bool]
    _reached: Callable[[int], None] = lambda _: None
    _revisions: dict[str, int] = field(default_factory=dict)
    # Events about an object may come after that of its deletion.
    _deleted: Remembered[str, int] = field(default_factory=Remembered)

    def __len__(self) -> int:
        return len(self._revisions)

    @property
    def revisions(self) -> Mapping[str, int]:
        """The resource version of each object by its key, 0 if it is not a number."""
        return self._revisions

    def upsert(self, key: str, version: str, raw: bytes | msgspec.Raw) -> None:
        """Add or replace an object. Raises BadObjectError, and then nothing has changed."""
        revision = revision_of(version)
        if revision and revision <= self.known(key):
            return
        if self._put(key, self.decode(raw), revision, raw) is not False:
            self._revisions[key] = revision

    def remove(self, key: str, version: str) -> None:
        """Remove an object; `version` is that of its deletion."""
        revision = revision_of(version)
        if revision and revision < self.known(key):
            return
        self._deleted.put(key, revision)
        if self._revisions.pop(key, None) is not None:
            self._remove(key)

    def reach(self, version: str) -> None:
        """Take the news that every change up to a version of the resource has come."""
        self._reached(revision_of(version))

    def retain(self, keys: Collection[str]) -> None:
        """Remove all objects but these."""
        for key in self._revisions.keys() - keys:
            del self._revisions[key]
            self._remove(key)

    def distrust(self, key: str = "") -> None:
        """Take an object, or every one, again when it is next seen: it is decoded differently."""
        self._revisions.update(dict.fromkeys([key] if key else self._revisions, 0))

    def known(self, key: str) -> int:
        """The newest resource version of an object or of its deletion, 0 if unknown."""
        known = self._revisions.get(key)
        return (self._deleted.peek(key) or 0) if known is None else known


def nodes(codec: ObjectCodec, cache: Cache) -> ObjectStore[Node]:

    def holds(key: str, node: Node) -> bool:
        # A watch names kind and version in each object, a list only once.
        known = cache.nodes.get(key)
        return known is not None and known == replace(
            node, kind=known.kind, apiVersion=known.apiVersion
        )

    return ObjectStore(
        codec.node,
        lambda _, node, *__: cache.put_node(node),
        cache.remove_node,
        holds,
        lambda revision: cache.shown.update(nodes=revision),
    )


def pods(codec: ObjectCodec, cache: Cache) -> ObjectStore[Peer]:
    return ObjectStore(
        codec.peer,
        lambda _, pod, revision, raw: cache.put_pod(pod, revision, raw),
        cache.remove_pod,
        cache.holds_pod,
        lambda revision: cache.shown.update(pods=revision),
    )


def namespaces(cache: Cache) -> ObjectStore[Namespace]:
    return ObjectStore(
        decode_namespace,
        lambda _, namespace, *__: cache.put_namespace(namespace),
        cache.remove_namespace,
        lambda key, namespace: cache.namespace(key) == namespace,
    )


def plain(decode: Callable[[bytes], T], cache: Cache, among: dict[str, T]) -> ObjectStore[T]:
    """The store of objects that the cache keeps as they are, by `namespace/name`."""
    return ObjectStore(
        decode,
        lambda key, found, *_: cache.keep(among, key, found),
        lambda key: cache.keep(among, key, None),
        lambda key, found: among.get(key) == found,
    )


def controllers(kind: str, cache: Cache) -> ObjectStore[Controller]:
    """The store of controllers of one kind. The cache has them by uid, the API by name."""
    uids: dict[str, str] = {}

    def put(key: str, controller: Controller, *_: object) -> None:
        uid = controller.workload.uid
        if uids.get(key, uid) != uid:
            cache.remove_controller(uids[key])
        uids[key] = uid
        cache.put_controller(controller)

    return ObjectStore(
        partial(decode_controller, kind),
        put,
        lambda key: cache.remove_controller(uids.pop(key)),
        lambda _, controller: cache.controller(controller.workload.uid) == controller,
    )


def ended_pods(codec: ObjectCodec, cache: Cache) -> ObjectStore[Peer]:
    """The store of the pods that have ended. The cache remembers them when they are gone."""
    return ObjectStore(
        codec.peer,
        lambda _, pod, *__: cache.put_ended(pod),
        lambda _: None,
        lambda _, pod: cache.holds_ended(pod),
    )


def groups(api: str, cache: Cache) -> ObjectStore[PodGroup]:
    """The store of the PodGroups of one API."""

    def named(key: str) -> tuple[str, GroupName]:
        namespace, _, name = key.partition("/")
        return namespace, GroupName(api, name)

    return ObjectStore(
        decode_group,
        lambda key, group, *_: cache.put_group(*named(key), group),
        lambda key: cache.remove_group(*named(key)),
        lambda key, group: cache.groups.get(named(key), group) == group,
    )
