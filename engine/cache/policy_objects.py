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
_MOST_OF_HEADS, _HEAD_BYTES = 8 << 20, 8 << 10


class _LastRules(msgspec.Struct, frozen=True):
    rules: str | None = None


class _WrittenStatus(msgspec.Struct, frozen=True):
    inForce: _LastRules | None = None


class _WrittenSpec(msgspec.Struct, frozen=True):
    rules: str | None = None


class _MeasuredObject(msgspec.Struct, frozen=True):
    metadata: Metadata = Metadata()
    spec: _WrittenSpec = _WrittenSpec()
    status: _WrittenStatus | None = None


# When an object was created, and its name: older objects come first.
_Age = tuple[str, str]


def _measured(raw: bytes) -> tuple[str, int]:
    """When an object was created, and the bytes that it takes."""
    try:
        read = msgspec.json.decode(raw, type=_MeasuredObject)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return "", _OBJECT_BYTES + len(raw)
    last = read.status.inForce if read.status is not None else None
    longest = max(len(read.spec.rules or ""), len(last.rules or "") if last is not None else 0)
    return read.metadata.creationTimestamp, _OBJECT_BYTES + len(raw) + _BYTES_OF_RULES * longest


class PolicyObjects:
    """The policy objects, by `resource/key`. A change replaces the mapping of `bodies`."""

    def __init__(self, accounts: ByteAccounts) -> None:
        self.bodies: Mapping[str, bytes] = {}
        self._accounts = accounts
        self._heads = ByteAccounts(_MOST_OF_HEADS)
        # The ages and bytes of what is kept whole, and of what is refused, by namespace and name.
        self._kept: dict[str, dict[str, tuple[_Age, int]]] = {}
        self._refused: dict[str, dict[str, tuple[_Age, int]]] = {}
        # Whether the first lists are not complete, so that nothing of them is in force yet.
        self._is_first = True

    def store(self, resource: str) -> ObjectStore[bytes]:

        def holds(key: str, raw: bytes) -> bool:
            name = f"{resource}/{key}"
            if name in self._refused.get(namespace_of(name), ()):
                return True
            return _content(self.bodies.get(name, b"{}")) == _content(raw)

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
        found = []
        for namespace, known in self._refused.items():
            (_, name), size = min(known.values())
            if size <= self._accounts.room(namespace, name):
                kind, short = name.partition("/")[0], name.rpartition("/")[2]
                within = f"/namespaces/{namespace}" if namespace else ""
                path = f"/apis/{GROUP}/v1{within}/{kind}"
                found.append(Resource(kind, path, field_selector=f"metadata.name={short}"))
        return found

    def _put(self, name: str, raw: bytes) -> None:
        created, size = _measured(raw)
        namespace, known = namespace_of(name), ((created, name), size)
        if not self._makes_room(namespace, known):
            self._refuse(namespace, known, raw)
            return
        self._accounts.keep(namespace, name, size)
        self._heads.drop(name)
        _pop(self._refused, namespace, name)
        self._kept.setdefault(namespace, {})[name] = known
        self.bodies = {**self.bodies, name: raw}

    def _makes_room(self, namespace: str, wanted: tuple[_Age, int]) -> bool:
        """Whether there is room for an object.

        The objects of a list come in any order, so newer ones go for it while none is in force.
        """
        (age, size), kept = wanted, self._kept.get(namespace, {})
        newer = sorted(each for each in kept.values() if self._is_first and each[0] > age)
        if size > self._accounts.room(namespace, age[1]) + sum(each[1] for each in newer):
            return False
        while size > self._accounts.room(namespace, age[1]):
            other = newer.pop()
            self._refuse(namespace, other, self.bodies[other[0][1]])
        return True

    def _refuse(self, namespace: str, known: tuple[_Age, int], raw: bytes) -> None:
        """Keeps the head of an object. An earlier version of it stays in force, and counted."""
        name = known[0][1]
        stays = name in self._kept.get(namespace, ()) and not self._is_first
        if not stays:
            self._accounts.drop(name)
            _pop(self._kept, namespace, name)
        self._refused.setdefault(namespace, {})[name] = known
        why = f"what is kept of namespace `{namespace}` takes more memory than it may"
        head = refused(raw, why, with_last=stays)
        self.bodies = {key: body for key, body in self.bodies.items() if key != name}
        if stays or self._heads.keep(namespace, name, _HEAD_BYTES + len(head)):
            self.bodies = {**self.bodies, name: head}

    def _remove(self, name: str) -> None:
        for known in (self._kept, self._refused):
            _pop(known, namespace_of(name), name)
        self._accounts.drop(name)
        self._heads.drop(name)
        self.bodies = {key: body for key, body in self.bodies.items() if key != name}


def _pop(known: dict[str, dict[str, tuple[_Age, int]]], namespace: str, name: str) -> None:
    own = known.get(namespace, {})
    own.pop(name, None)
    if not own:
        known.pop(namespace, None)


def namespace_of(name: str) -> str:
    """The namespace of `placementpolicies/shop/web`; empty for a cluster policy."""
    return name.partition("/")[2].rpartition("/")[0]


def _content(raw: bytes) -> object:
    """The object without kind and version, which a list names only once."""
    content = msgspec.json.decode(raw)
    return {key: value for key, value in content.items() if key not in ("kind", "apiVersion")}
