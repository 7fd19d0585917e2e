"""PolicyObjects: the JSON of the policy objects of a cluster, as far as there is room for it.

Objects of a namespace are counted before they are kept, with what is made of them: see
ByteAccounts. Beyond its room the newest objects of a namespace are refused: of them their heads
alone are kept, with a text that says so, until there is room again. Informers own one.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from engine.cache.list_watch import Resource
from engine.cache.store import ObjectStore
from engine.fairness import ByteAccounts
from policies.admission import refused
from policies.manifest_text import GROUP
from policies.resource import Metadata

# What is made of an object: a policy of its own, and syntax trees and closures of its rules, for
# each byte of these. Measured; with long texts in rules it is less.
_OBJECT_BYTES, _BYTES_OF_RULES = 48 << 10, 120
# What the heads of refused objects take at most, and each besides its text.
MOST_OF_HEADS, _HEAD_BYTES = 4 << 20, 8 << 10


class _WrittenRules(msgspec.Struct, frozen=True):
    rules: str | None = None


class _WrittenStatus(msgspec.Struct, frozen=True):
    inForce: _WrittenRules | None = None


class _MeasuredObject(msgspec.Struct, frozen=True):
    metadata: Metadata = Metadata()
    spec: _WrittenRules = _WrittenRules()
    status: _WrittenStatus | None = None


# When an object was created, its name, and the bytes that it takes: older objects come first.
_Known = tuple[str, str, int]


def _measured(name: str, raw: bytes) -> _Known:
    try:
        read = msgspec.json.decode(raw, type=_MeasuredObject)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return "", name, _OBJECT_BYTES + len(raw)
    last = read.status.inForce if read.status is not None else None
    longest = max(len(read.spec.rules or ""), len(last.rules or "") if last is not None else 0)
    size = _OBJECT_BYTES + len(raw) + _BYTES_OF_RULES * longest
    return read.metadata.creationTimestamp, name, size


class PolicyObjects:
    """The policy objects, by `resource/key`. A change replaces the mapping of `bodies`."""

    def __init__(self, accounts: ByteAccounts) -> None:
        self.bodies: Mapping[str, bytes] = {}
        self._accounts = accounts
        self._heads = ByteAccounts(MOST_OF_HEADS)
        # What is kept whole, and what is refused, by name.
        self._kept: dict[str, _Known] = {}
        self._refused: dict[str, _Known] = {}
        # Whether the first lists are not complete, so that nothing of them is in force yet.
        self._is_first = True

    def store(self, resource: str) -> ObjectStore[bytes]:

        def holds(key: str, raw: bytes) -> bool:
            name = f"{resource}/{key}"
            return name in self._refused or _content(self.bodies.get(name, b"{}")) == _content(raw)

        return ObjectStore(
            bytes,
            lambda key, raw, *_: self._put(f"{resource}/{key}", raw),
            lambda key: self._remove(f"{resource}/{key}"),
            holds,
        )

    def due(self) -> list[Resource]:
        """The refused objects for which there is room, as resources, one of each namespace.

        All objects have been seen once.
        """
        self._is_first = False
        found: dict[str, Resource] = {}
        for _, name, size in sorted(self._refused.values()):
            # One that is too large for what is left does not keep out those after it.
            namespace = namespace_of(name)
            if namespace not in found and size <= self._accounts.room(namespace, name):
                kind, short = name.partition("/")[0], name.rpartition("/")[2]
                within = f"/namespaces/{namespace}" if namespace else ""
                path = f"/apis/{GROUP}/v1{within}/{kind}"
                found[namespace] = Resource(kind, path, field_selector=f"metadata.name={short}")
        return list(found.values())

    def _put(self, name: str, raw: bytes) -> None:
        known, namespace = _measured(name, raw), namespace_of(name)
        if not self._makes_room(namespace, known):
            self._refuse(namespace, known, raw)
            return
        self._accounts.keep(namespace, name, known[2])
        self._heads.drop(name)
        self._refused.pop(name, None)
        self._kept[name] = known
        self.bodies = {**self.bodies, name: raw}

    def _makes_room(self, namespace: str, wanted: _Known) -> bool:
        """Whether there is room for an object.

        The objects of a list come in any order, so newer ones go for it while none is in force.
        """
        _, name, size = wanted
        lacking = size - self._accounts.room(namespace, name)
        newer = [
            each
            for each in (self._kept.values() if lacking > 0 and self._is_first else ())
            if each[:2] > wanted[:2] and namespace_of(each[1]) == namespace
        ]
        if lacking > sum(each[2] for each in newer):
            return False
        for other in sorted(newer, reverse=True):
            if size <= self._accounts.room(namespace, name):
                break
            self._refuse(namespace, other, self.bodies[other[1]])
        return True

    def _refuse(self, namespace: str, known: _Known, raw: bytes) -> None:
        """Keeps the head of an object. An earlier version of it stays in force, and counted."""
        name = known[1]
        stays = name in self._kept and not self._is_first
        if not stays:
            self._remove(name)
        self._refused[name] = known
        why = f"what is kept of namespace `{namespace}` takes more memory than it may"
        head = refused(raw, why, with_last=stays)
        if stays or self._heads.keep(namespace, name, _HEAD_BYTES + len(head)):
            self.bodies = {**self.bodies, name: head}

    def _remove(self, name: str) -> None:
        self._kept.pop(name, None)
        self._refused.pop(name, None)
        self._accounts.drop(name)
        self._heads.drop(name)
        self.bodies = {key: body for key, body in self.bodies.items() if key != name}


def namespace_of(name: str) -> str:
    """The namespace of `placementpolicies/shop/web`; empty for a cluster policy."""
    return name.partition("/")[2].rpartition("/")[0]


def _content(raw: bytes) -> object:
    """The object without kind and version, which a list names only once."""
    content = msgspec.json.decode(raw)
    return {key: value for key, value in content.items() if key not in ("kind", "apiVersion")}
