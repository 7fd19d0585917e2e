"""Policy objects: what a namespace has written is counted before it is kept."""

from __future__ import annotations

import json

from engine.cache.policy_objects import PolicyObjects
from engine.cache.store import ObjectStore
from engine.fairness import ByteAccounts

KIND = "placementpolicies"
MEBIBYTE = 1 << 20


class Objects:
    """The objects of a cluster with so many MiB for all namespaces."""

    def __init__(self, mebibytes: int) -> None:
        self.kept = PolicyObjects(ByteAccounts(mebibytes * MEBIBYTE))
        self.store: ObjectStore[bytes] = self.kept.store(KIND)
        self.version = 0

    def put(self, name: str, size: int = MEBIBYTE, created: int = 0, namespace: str = "a") -> None:
        self.version += 1
        metadata = {
            "name": name,
            "namespace": namespace,
            "uid": name,
            "generation": self.version,
            "creationTimestamp": f"2026-01-01T00:00:{created:02}Z",
            "annotations": {"a": "x" * size},
        }
        raw = {"apiVersion": "v1", "kind": "P", "metadata": metadata, "spec": {"rules": "x"}}
        key = f"{namespace}/{name}"
        self.store.upsert(key, str(self.version), json.dumps(raw).encode())

    def remove(self, name: str, namespace: str = "a") -> None:
        self.version += 1
        self.store.remove(f"{namespace}/{name}", str(self.version))

    @property
    def refused(self) -> list[str]:
        return sorted(
            name.split("/")[-1]
            for name, raw in self.kept.bodies.items()
            if json.loads(raw).get("refused")
        )


def test_the_newest_is_refused_and_comes_when_there_is_room() -> None:
    objects = Objects(8)
    for number in range(5):
        objects.put(f"p{number}", created=number)
    assert objects.refused == ["p3", "p4"]
    assert all(
        len(raw) < 1000 for raw in objects.kept.bodies.values() if json.loads(raw).get("refused")
    )
    assert not objects.kept.due()
    objects.remove("p0")
    assert [each.field_selector for each in objects.kept.due()] == ["metadata.name=p3"]


def test_the_order_of_the_first_list_does_not_matter() -> None:
    objects = Objects(8)
    for number in reversed(range(5)):
        objects.put(f"p{number}", created=number)
    assert objects.refused == ["p3", "p4"]


def test_an_update_beyond_the_room_leaves_the_version_in_force_counted() -> None:
    objects = Objects(8)
    objects.put("p0", size=3 * MEBIBYTE)
    objects.kept.due()
    objects.put("p0", size=5 * MEBIBYTE)
    objects.put("p1", size=2 * MEBIBYTE)
    assert objects.refused == ["p0", "p1"]
    objects.put("p0", size=100)
    assert objects.refused == ["p1"]
    assert len(objects.kept.due()) == 1


def test_another_namespace_has_room() -> None:
    objects = Objects(8)
    for number in range(20):
        objects.put(f"p{number}", created=number)
    objects.put("other", namespace="z")
    assert "other" not in objects.refused


def test_thousands_of_refused_objects_take_little() -> None:
    objects = Objects(1)
    for number in range(3000):
        objects.put(f"p{number}", created=0, size=1000)
    assert len(objects.kept.bodies) < 700
    for number in range(3000):
        objects.remove(f"p{number}")
    assert not objects.kept.bodies
    assert not objects.kept.due()
