"""The observer itself: what it takes for a fault, and what it does not."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.chaos.observer import (
    EVALUATE,
    EVICTED,
    HOSTILE,
    NODES,
    PODS,
    POLICY_OBJECTS,
    TAKEN,
    Observer,
    Offer,
)
from tests.chaos.repair_observer import PER_MINUTE, RepairObserver
from tests.chaos.schedule import REPAIRED
from tests.e2e.control_plane import Change
from tests.e2e.manifests import node, pod
from tests.support.rows import rows


class Told:
    """Answers about calls that a test gives."""

    def __init__(self) -> None:
        self.offers: dict[str, Offer] = {}
        self.refusals: set[str] = set()
        self.thawed: dict[str, float] = {}
        self.started: list[float] = []

    def offer(self, pod: str) -> Offer | None:
        return self.offers.get(pod)

    def refused(self, pod: str) -> bool:
        return pod in self.refusals

    def frozen(self, scheduler: str, since: float) -> bool:
        return self.thawed.get(scheduler, 0.0) >= since

    def starts(self, since: float) -> int:
        return sum(at >= since for at in self.started)


class World:
    """A cluster of three zones with a spot and a steady node each, told as etcd tells it."""

    def __init__(self, *, binds: bool = True) -> None:
        self.now = 1000.0
        self.told = Told()
        self.observer = Observer(
            self.told, lambda: self.now, lambda: self.now, binds=binds, skew=0.0
        )
        self._version = 0
        for number in range(6):
            self.node(number)
        self.now += 60.0

    def node(self, number: int, *, labels: dict[str, str] | None = None, **spec: Any) -> None:
        """Tell a state of a node, which has other labels than in the beginning."""
        first = {
            "topology.kubernetes.io/zone": "abc"[number % 3],
            "capacity": "spot" if number < 3 else "steady",
            "pool": "xy"[number % 2],
        }
        found = node(f"n{number}", first | (labels or {})) | {"spec": spec}
        self._tell(f"{NODES}n{number}", found)

    def pod(
        self,
        name: str,
        app: str,
        on: str = "",
        woken: str = "",
        cards: str = "",
        *,
        labels: Mapping[str, str] = {},
        ends: bool = False,
        **spec: Any,
    ) -> None:
        """Tell a state of a pod."""
        found = pod(name, "ns", {"app": app, **labels}, schedulerName="default-scheduler")
        if ends:
            found["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        if cards:
            found["metadata"]["annotations"] = {TAKEN: cards}
        found["metadata"]["uid"] = name
        found["spec"] |= spec | ({"nodeName": on} if on else {})
        if woken:
            found["status"] = {"conditions": [{"type": EVALUATE, "reason": woken}]}
        self._tell(f"{PODS}ns/{name}", found)

    def wants(self, rules: str) -> None:
        """Tell a state of the policy of the app `pooled`."""
        self._tell(f"{POLICY_OBJECTS}ns/pooled", {"spec": {"rules": rules}})

    def gone(self, name: str) -> None:
        self._tell(f"{PODS}ns/{name}", None)

    def bind(self, app: str, *nodes: str) -> None:
        """Tell of pods that come and are bound at once."""
        for number, name in enumerate(nodes):
            self.bind_one(f"{app}-{number}", app, name)

    def bind_one(self, name: str, app: str, node: str) -> None:
        """Tell of a pod that comes and is bound at once."""
        self.pod(name, app)
        self.pod(name, app, node)

    def kinds(self) -> list[str]:
        return [each.kind for each in self.observer.findings]

    def _tell(self, key: str, value: dict[str, Any] | None) -> None:
        self._version += 1
        written = None if value is None else json.dumps(value).encode()
        self.observer.change(Change(key, self._version, written))


@pytest.mark.parametrize(
    ("app", "within", "over"),
    [
        ("limited", ["n0", "n0", "n1"], "n0"),
        ("summed", ["n0", "n0", "n1"], "n0"),
        ("even", ["n0", "n1", "n2", "n0"], "n3"),
        ("shared", ["n3", "n4", "n0"], "n1"),
    ],
)
def test_binding_above_a_bound(app: str, within: Sequence[str], over: str) -> None:
    world = World()
    world.bind(app, *within)
    assert world.observer.findings == []

    world.pod("last", app)
    world.pod("last", app, over)

    assert world.kinds() == ["overrun"]
    assert world.observer.bindings == len(within) + 1


def test_a_budget_of_the_minute() -> None:
    world = World()
    world.now = 6030.0
    for number in range(24):
        world.bind_one(f"even-{number}", "budget", f"n{number % 6}")
    assert world.observer.findings == []
    # So many may stay, and none may come, in an odd minute.
    world.now = 6085.0
    world.bind_one("odd", "budget", "n0")
    assert world.kinds() == ["overrun"]
    # Who has seen the even minute may be late.
    world.gone("odd")
    world.now = 6125.0
    world.gone("even-0")
    world.now = 6175.0
    world.bind_one("again", "budget", "n0")
    assert world.kinds() == ["overrun"]


def tell(world: World, story: str) -> None:
    """Tells a world of steps: pods of an app that come to nodes, a pod, times, and offers."""
    for step in story.split("; "):
        match step.split():
            case ["wait", seconds]:
                world.now += float(seconds)
            case ["gone", name]:
                world.gone(name)
            case ["offered", name, ago]:
                world.told.offers[name] = Offer(world.now - float(ago), "1")
            case ["thawed", ago]:
                world.told.thawed["1"] = world.now - float(ago)
            case [app, *nodes] if app.endswith(":"):
                world.bind(app.removesuffix(":"), *nodes)
            case [name, app, *on]:
                world.pod(name, app, *on)
            case _:
                raise AssertionError(step)


@rows(
    ("story", "kinds", "exceptions"),
    {
        "who is gone or moved does not count": (
            "limited: n0 n0; gone limited-0; limited-1 even n0; a limited n0; b limited n0",
            [],
            {},
        ),
        "another pod was moved into the count a moment before": (
            "limited: n0; moved even n0; moved limited n0; wait 1; last limited n0",
            [],
            {"drift": 1},
        ),
        "whoever bound a pod counts it where it was before it was relabelled": (
            (
                "limited: n0 n0; even: n0 n1 n2 n3; moved even; moved limited; moved limited n0; "
                "next even; next even n1"
            ),
            [],
            {"drift": 1},
        ),
        # Whoever does not know of the relabelling counts two pods in zone c; there is one.
        "another pod is bound right after one that was relabelled": (
            (
                "even: n0 n1 n2 n3 n4; next even; moved even; moved limited; moved limited n5; "
                "next even n0"
            ),
            [],
            {"drift": 1},
        ),
        "a move of long ago is known": (
            (
                "limited: n0; moved even n0; moved limited n0; wait 60; offered last 0.1; "
                "last limited n0"
            ),
            ["overrun"],
            {},
        ),
        "the whole shrinks": (
            "shared: n3 n4 n5 n0; waits shared; wait 60; gone shared-0; wait 1; waits shared n1",
            ["overrun"],
            {"drift": 1},
        ),
    },
)
def test_what_others_may_not_have_seen(
    story: str, kinds: Sequence[str], exceptions: Mapping[str, int]
) -> None:
    world = World()
    tell(world, story)
    assert world.kinds() == kinds
    assert world.observer.exceptions == exceptions


@pytest.mark.parametrize("binds", [True, False])
@pytest.mark.parametrize(
    ("told", "excuse"),
    [("offered last 5; thawed 1", "frozen kube-scheduler"), ("offered last 31", "late Binding")],
)
def test_kube_scheduler_is_excused_where_it_binds(told: str, excuse: str, binds: bool) -> None:
    world = World(binds=binds)
    tell(world, f"limited: n0 n0; {told}; last limited n0")
    assert world.kinds() == (["overrun"] if binds else [])
    assert world.observer.exceptions == ({} if binds else {excuse: 1})


def test_wake_ups() -> None:
    world = World()
    world.told.refusals = {"web", "gated", "foreign"}
    for number in range(1, 5):
        world.pod("web", "plain", woken=f"Generation{number}")
    assert world.observer.wake_ups(world.now) == {"web": 4}
    assert world.observer.findings == []

    world.pod("web", "plain", woken="Generation5")
    assert world.kinds() == ["woken too often"]
    world.pod("gated", "plain", woken="Generation1", schedulingGates=[{"name": "x/y"}])
    world.pod("foreign", "plain", woken="Generation1", schedulerName="another")
    world.pod("new", "plain", woken="Generation1")

    assert [each.text for each in world.observer.findings[1:]] == [
        "gated is gated",
        "foreign is of another scheduler",
        "new was never refused",
    ]


def test_a_placet_that_starts_knows_of_the_last_wake_up_alone() -> None:
    world = World()
    world.told.refusals = {"web"}
    world.told.started = [world.now]
    for number in range(1, 9):
        world.pod("web", "plain", woken=f"Generation{number}")
    assert world.observer.findings == []
    world.pod("web", "plain", woken="Generation9")
    assert world.kinds() == ["woken too often"]


def test_a_card_has_no_more_pods_than_fit() -> None:
    """Whatever pods of others say of it."""
    world = World()
    part = '{"gpu":{"cards":[1],"take":{"milli":600}}}'
    world.pod("a", "cards", "n0", cards=part)
    world.pod("b", "cards", "n1", cards=part)
    world.pod("c", "cards", "n0", cards=part.replace("[1]", "[0]"))
    world.pod("foreign", "cards", "n0", cards=part, schedulerName="another")
    assert world.observer.findings == []

    world.pod("d", "cards", "n0", cards=part)
    assert world.kinds() == ["overrun"]


@pytest.mark.parametrize(
    ("cards", "kinds"),
    [
        ('{"gpu":{"cards":[1],"take":{"milli":600}}}', []),
        ("", ["overrun"]),
        ('{"gpu":{"cards":[2],"take":{"milli":600}}}', ["overrun"]),
        ('{"gpu":{"cards":[1],"take":{"milli":-600}}}', ["overrun"]),
    ],
)
def test_a_pod_that_takes_cards_has_some_that_there_are(cards: str, kinds: Sequence[str]) -> None:
    world = World()
    world.pod("a", "cards", "n0", cards=cards)
    assert world.kinds() == kinds


def test_what_hostile_pods_say_counts_nowhere() -> None:
    world = World()
    for name in "abc":
        world.pod(name, "summed", "n0", labels={HOSTILE: "true"}, schedulerName="another")
    world.now += 60.0
    world.bind("summed", "n0", "n0")
    assert world.observer.findings == []
    world.pod("last", "summed", "n0")
    assert world.kinds() == ["overrun"]


@pytest.mark.parametrize(
    ("app", "nodes", "last", "kinds"),
    [("limited", ["n0", "n0"], "n0", ["overrun"]), ("shared", ["n3", "n4", "n0"], "n1", [])],
)
def test_pods_that_end_are_there_for_a_limit_alone(
    app: str, nodes: Sequence[str], last: str, kinds: Sequence[str]
) -> None:
    world = World()
    world.bind(app, *nodes)
    world.pod(f"{app}-{len(nodes) - 1}", app, nodes[-1], ends=True)
    world.pod("new", app)
    world.now += 60.0
    world.pod("new", app, last)
    assert world.kinds() == kinds


def test_a_pod_goes_where_the_filter_wants_it() -> None:
    """As somebody who was cut off may have seen it."""
    world = World()
    world.wants('filter "pool" { require node.labels["pool"] == "x" }')
    world.now += 60.0
    world.pod("a", "pooled", "n0")
    assert world.observer.findings == []
    world.pod("b", "pooled", "n1")
    assert world.kinds() == ["against a filter"]

    world.observer.findings.clear()
    world.node(3, labels={"pool": "x"})
    world.wants("nonsense {")
    world.wants('filter "pool" { require node.labels["pool"] == "y" }')
    world.now += 10.0
    for number, name in enumerate(["n0", "n1", "n3"]):
        world.pod(f"c-{number}", "pooled", name)
    assert world.observer.findings == []
    world.now += 60.0
    world.pod("d", "pooled", "n3")
    assert world.kinds() == ["against a filter"]


def test_nobody_is_woken_for_nodes_that_are_closed() -> None:
    """They have room, but kube-scheduler places no pod there."""
    world = World()
    world.told.refusals = {"waits"}
    world.node(5, unschedulable=True)
    world.bind("limited", *[f"n{number}" for number in range(5)] * 2)
    world.pod("waits", "limited")
    world.now += 10.0
    world.pod("waits", "limited", woken="Generation1")
    assert world.observer.findings == []
    world.now += 30.0
    world.told.started = [world.now - 20.0]
    world.pod("waits", "limited", woken="Generation2")
    assert world.observer.findings == [], "a Placet was cut off"
    world.told.started = []
    world.pod("waits", "limited", woken="Generation3")
    assert world.kinds() == ["woken in vain"]


def test_a_closed_zone_does_not_hold_up_the_others() -> None:
    """Nor does a node count there before its pods come back with it."""
    world = World()
    world.bind("even", "n0", "n1", "n2")
    for closed in ({"unschedulable": True}, {"taints": [{"effect": "NoSchedule"}]}):
        world.node(0, **closed)
        world.node(3, **closed)
        world.now += 60.0
        world.pod("next", "even")
        world.pod("next", "even", "n1")
        assert world.observer.findings == []
        world.gone("next")
        world.node(0)
        world.node(3)
    world.now += 60.0
    world.pod("over", "even")
    world.pod("over", "even", "n1")
    assert world.observer.findings == []
    world.pod("last", "even")
    world.pod("last", "even", "n4")
    assert world.kinds() == ["overrun"]


def test_a_node_that_changes_sides_is_drift() -> None:
    """A pod was on its way there."""
    world = World()
    world.bind("shared", "n3", "n4", "n0")
    world.pod("waits", "shared")
    world.now += 60.0
    world.node(5, labels={"capacity": "spot"})

    world.pod("waits", "shared", "n5")

    assert world.observer.findings == []
    assert world.observer.exceptions == {"drift": 1}


def test_wake_ups_of_an_hour_are_not_too_many() -> None:
    world = World()
    world.told.refusals = {"web"}
    for number in range(1, 60):
        world.now += 20.0
        world.pod("web", "plain", woken=f"Generation{number}")
    assert world.observer.findings == []


def test_pods_that_fit_are_unplaced() -> None:
    world = World()
    world.bind("plain", "n0")
    world.pod("waits", "even")
    world.pod("gated", "even", schedulingGates=[{"name": "x/y"}])
    world.pod("foreign", "even", schedulerName="another")
    assert [each.name for each in world.observer.unplaced()] == ["waits"]


def test_pods_without_room_under_a_limit_fit_nowhere() -> None:
    world = World()
    world.pod("waits", "limited")
    assert [each.name for each in world.observer.unplaced()] == ["waits"]
    world.bind("limited", *[f"n{number}" for number in range(6)] * 2)
    assert world.observer.unplaced() == []


# ---- the observer of repairs: which evictions are a fault, and which are not


_TAKEN = [{"type": "DisruptionTarget", "status": "True", "reason": EVICTED}]


class RepairObserverWorld:
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
    world = RepairObserverWorld()
    for number in range(6):
        world.evict("repaired-0", number)
        world.now += 20.0
    assert (world.found, world.observer.evictions) == ([], 6)


def test_an_eviction_before_the_last_pod_has_its_place() -> None:
    world = RepairObserverWorld()
    world.evict("repaired-0", 0, placed=False)
    world.evict("repaired-1", 0)
    assert world.found == ["evicted too early"]


def test_pods_that_others_take_are_not_waited_for() -> None:
    world = RepairObserverWorld()
    world.evict("repaired-0", 0, placed=False)
    world.delete("repaired-0-1")
    world.evict("repaired-1", 0)
    world.now += 60.0
    assert world.found == []


def test_too_many_in_a_minute() -> None:
    world = RepairObserverWorld()
    for number in range(PER_MINUTE):
        world.evict("repaired-0", number)
    assert world.found == []
    world.evict("repaired-1", 0)
    assert world.found == ["evicted too fast"]


def test_no_place_or_nothing_to_repair() -> None:
    world = RepairObserverWorld()
    world.node("steady", unschedulable=True)
    world.now += 40.0
    world.evict("repaired-0", 0)
    assert world.found == [], "a watch may be late"
    world.now += 40.0
    world.evict("repaired-0", 1)
    assert world.found == ["evicted without a place"]

    world = RepairObserverWorld()
    for workload in ("repaired-0", "repaired-1"):
        for number in range(4):
            world.now += 20.0
            world.evict(workload, number)
    assert world.found == []
    world.now += 60.0
    world.evict("repaired-1", 4)
    assert world.found == ["evicted in vain"]


def test_a_replacement_has_its_node_soon_where_nothing_is_in_its_way() -> None:
    world = RepairObserverWorld()
    world.troubled = world.now + 5.0
    world.evict("repaired-0", 0, placed=False)
    world.now += 30.0
    assert world.found == [], "a fault may be the reason"
    world = RepairObserverWorld()
    world.evict("repaired-0", 0, placed=False)
    world.now += 8.0
    assert world.found == []
    world.now += 3.0
    assert world.found == ["evicted, and not placed"]
