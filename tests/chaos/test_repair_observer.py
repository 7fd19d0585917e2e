"""The observer of repairs: which evictions are a fault, and which are not."""

from __future__ import annotations

import json
from typing import Any

from tests.chaos.observer import EVICTED, NODES, PODS
from tests.chaos.repair_observer import PER_MINUTE, RepairObserver
from tests.chaos.schedule import REPAIRED
from tests.e2e.control_plane import Change
from tests.e2e.manifests import node, pod

_TAKEN = [{"type": "DisruptionTarget", "status": "True", "reason": EVICTED}]


class World:
    """Two spot nodes and a steady one, with two workloads of six pods, all of them on spot."""

    def __init__(self) -> None:
        self.now, self.troubled = 1000.0, 0.0
        self.observer = RepairObserver(lambda: self.now, lambda: self.troubled)
        self._numbers = {"repaired-0": 6, "repaired-1": 6}
        for name in ("spot-0", "spot-1", "steady"):
            self.node(name)
        for workload in self._numbers:
            for number in range(6):
                self.pod(f"{workload}-{number}", f"spot-{number % 2}")

    @property
    def found(self) -> list[str]:
        self.observer.look()
        return [each.kind for each in self.observer.findings]

    def node(self, name: str, **spec: Any) -> None:
        labels = {"topology.kubernetes.io/zone": "a", "capacity": name.partition("-")[0]}
        self._tell(f"{NODES}{name}", node(name, labels) | {"spec": spec})

    def pod(self, name: str, on: str = "", *, evicted: bool = False) -> None:
        made = pod(name, "ns", {"app": REPAIRED}, **({"nodeName": on} if on else {}))
        made["metadata"]["uid"] = name
        made["status"] = {"conditions": _TAKEN if evicted else []}
        self._tell(f"{PODS}ns/{name}", made)

    def evict(self, workload: str, number: int, *, placed: bool = True) -> None:
        """Evict a pod; another one comes, and has a node two seconds later if it is placed."""
        name = f"{workload}-{number}"
        self.pod(name, "spot-0", evicted=True)
        self.now += 1.0
        self._tell(f"{PODS}ns/{name}", None)
        if placed:
            self.now += 1.0
            self.pod(f"{workload}-{self._numbers[workload]}", "steady")
            self._numbers[workload] += 1

    def delete(self, name: str) -> None:
        self._tell(f"{PODS}ns/{name}", None)

    def _tell(self, key: str, value: dict[str, Any] | None) -> None:
        text = None if value is None else json.dumps(value).encode()
        self.observer.change(Change(key, 1, text))


def test_one_after_the_other() -> None:
    world = World()
    for number in range(6):
        world.evict("repaired-0", number)
        world.now += 20.0
    assert (world.found, world.observer.evictions) == ([], 6)


def test_an_eviction_before_the_last_pod_has_its_place() -> None:
    world = World()
    world.evict("repaired-0", 0, placed=False)
    world.evict("repaired-1", 0)
    assert world.found == ["evicted too early"]


def test_pods_that_others_take_are_not_waited_for() -> None:
    world = World()
    world.evict("repaired-0", 0, placed=False)
    world.delete("repaired-0-1")
    world.evict("repaired-1", 0)
    world.now += 60.0
    assert world.found == []


def test_too_many_in_a_minute() -> None:
    world = World()
    for number in range(PER_MINUTE):
        world.evict("repaired-0", number)
    assert world.found == []
    world.evict("repaired-1", 0)
    assert world.found == ["evicted too fast"]


def test_no_place_or_nothing_to_repair() -> None:
    world = World()
    world.node("steady", unschedulable=True)
    world.now += 40.0
    world.evict("repaired-0", 0)
    assert world.found == [], "a watch may be late"
    world.now += 40.0
    world.evict("repaired-0", 1)
    assert world.found == ["evicted without a place"]

    world = World()
    for workload in ("repaired-0", "repaired-1"):
        for number in range(4):
            world.now += 20.0
            world.evict(workload, number)
    assert world.found == []
    world.now += 60.0
    world.evict("repaired-1", 4)
    assert world.found == ["evicted in vain"]


def test_a_replacement_has_its_node_soon_where_nothing_is_in_its_way() -> None:
    world = World()
    world.troubled = world.now + 5.0
    world.evict("repaired-0", 0, placed=False)
    world.now += 30.0
    assert world.found == [], "a fault may be the reason"
    world = World()
    world.evict("repaired-0", 0, placed=False)
    world.now += 8.0
    assert world.found == []
    world.now += 3.0
    assert world.found == ["evicted, and not placed"]
