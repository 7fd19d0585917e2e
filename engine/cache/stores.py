"""What reflectors fill: each object's newest state goes to the cache, older ones nowhere."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Generic, TypeVar

import msgspec
from cachetools import LRUCache

from engine.cache.cache import Cache
from engine.cache.controllers import Controller, ControllerDecoder
from engine.cache.namespace import Namespace, NamespaceDecoder
from engine.objects import Node, ObjectCodec
from engine.peer import Peer

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


def revision_of(version: str) -> int:
    return int(version) if version.isascii() and version.isdigit() and len(version) < 20 else 0


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
