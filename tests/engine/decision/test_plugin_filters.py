"""Nodes that kube-scheduler would never ask about are no reason to requeue a rejected pod."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from engine.decision.plugin_filters import AskedNodes
from engine.engine import Engine
from engine.errors import DeadlineExceededError
from engine.program.policy_time import PORTION_SECONDS, DecisionTime, PolicyTimes
from tests.support.builders import Object, node, pod, raw
from tests.support.engines import cache_of, engine_over, node_of, peer_of

# `w` nodes are full for policies, `x` nodes pass them.
CLOSED = 'cluster policy p { filter "f" { require node.name.startsWith("x") } }'
TAINT = {"key": "team", "value": "a", "effect": "NoSchedule"}
PORT = {"ports": [{"containerPort": 80, "hostPort": 80}]}


def with_spec(made: Object, **spec: Any) -> Object:
    return made | {"spec": {**made.get("spec", {}), **spec}}


def asking(**spec: Any) -> Object:
    return pod("asked", "shop", cpu="2", memory="1Gi", spec=spec)


@dataclass
class Scene:
    """A cluster, the pod that is asked about, and the nodes of the last call about it."""

    nodes: list[Object]
    pods: list[Object]
    asked: Object
    names: list[str] | None = None

    def __post_init__(self) -> None:
        self.cache = cache_of(self.nodes, self.pods)
        self.engine: Engine = engine_over(CLOSED, self.cache)
        self.call = self.asks(self.names) if self.names is not None else None

    def asks(self, names: list[str]) -> AskedNodes:
        return AskedNodes.of(self.cache.snapshot().table, names)

    def put(self, made: Object) -> None:
        self.cache.put_node(node_of(made))

    @property
    def would_pass(self) -> bool:
        return self.engine.looks.would_pass(self.engine.looks.read(raw(self.asked)), self.call)


PORTS = asking()
PORTS["spec"]["containers"][0] |= PORT
TAKES_PORT = pod("there", "shop", on="x")
TAKES_PORT["spec"]["containers"][0] |= PORT
REJECTED = {
    "tainted": (with_spec(node("x"), taints=[TAINT]), (), asking()),
    "cordoned": (node("x", unschedulable=True), (), asking()),
    "not selected": (node("x"), (), asking(nodeSelector={"disk": "ssd"})),
    "full": (node("x", cpu="3"), [pod("there", "shop", cpu="2", on="x")], asking()),
    "too many pods": (node("x", pods="1"), [pod("there", "shop", on="x")], asking()),
    "ports": (node("x"), [TAKES_PORT], PORTS),
}


@pytest.mark.parametrize("names", [None, ["w"]], ids=["another replica", "asked here"])
@pytest.mark.parametrize(("made", "pods", "asked"), REJECTED.values(), ids=REJECTED)
def test_nodes_that_its_own_plugins_reject(
    made: Object, pods: list[Object], asked: Object, names: list[str] | None
) -> None:
    scene = Scene([node("w"), made], list(pods), asked, names)
    assert not scene.would_pass
    # A change of the node that no plugin minds.
    scene.put(made | {"status": {**made["status"], "conditions": []}})
    assert not scene.would_pass
    scene.put(node("x", labels={"disk": "ssd"}))
    for each in pods:
        scene.cache.remove_pod(f"shop/{each['metadata']['name']}")
    assert scene.would_pass


def test_a_node_that_the_last_call_left_out_is_one_that_a_plugin_rejects() -> None:
    """Nobody has told us of volumes, or of the affinity of other pods."""
    scene = Scene([node("w"), node("x")], [], asking(), ["w"])
    assert not scene.would_pass


@pytest.mark.parametrize(
    "changed",
    [
        node("x", labels={"a": "b"}),
        node("x", cpu="16"),
        with_spec(node("x"), taints=[{**TAINT, "effect": "PreferNoSchedule"}]),
    ],
    ids=["labels", "resources", "taints"],
)
def test_until_the_node_changes(changed: Object) -> None:
    scene = Scene([node("w"), node("x")], [], asking(), ["w"])
    assert not scene.would_pass
    scene.put(changed)
    assert scene.would_pass


def test_a_pod_that_comes_or_goes_is_a_change() -> None:
    scene = Scene([node("w"), node("x")], [pod("there", "shop", on="x")], asking(), ["w"])
    assert not scene.would_pass
    scene.cache.remove_pod("shop/there")
    assert scene.would_pass


def test_a_heartbeat_is_none() -> None:
    scene = Scene([node("w"), node("x")], [pod("there", "shop", on="x")], asking(), ["w"])
    assert not scene.would_pass
    scene.put(node("x", ready=False))
    scene.cache.put_pod(peer_of(pod("there", "shop", on="x", annotations={"a": "b"})))
    assert not scene.would_pass


def test_a_new_node_is_a_change() -> None:
    scene = Scene([node("w")], [], asking(), ["w"])
    assert not scene.would_pass
    scene.put(node("x"))
    assert scene.would_pass


def test_a_node_that_was_asked_about_passes_whatever_is_known_of_plugins() -> None:
    """As where another scheduler, or a profile, has no such plugin."""
    scene = Scene([node("w"), node("x", unschedulable=True)], [], asking(), ["w", "x"])
    assert scene.would_pass


def test_what_this_kube_scheduler_does_not_look_at_is_ignored() -> None:
    """An extender manages the resource; nodes that change are not known from the last call."""
    asked = asking()
    amounts = {"cpu": "1", "example.com/card": "1"}
    asked["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
    has = node("w", resources={"example.com/card": "4"})
    scene = Scene([has, node("w2"), node("x")], [], asked, ["w", "w2"])
    scene.put(node("x", labels={"a": "b"}))
    assert scene.would_pass
    scene.call = scene.asks(["w"])
    scene.put(node("x", labels={"a": "c"}))
    assert not scene.would_pass


def test_a_resource_that_no_node_has_is_ignored() -> None:
    """Else kube-scheduler would ask about no node."""
    asked = asking()
    asked["spec"]["containers"][0]["resources"] = {"requests": {"example.com/card": "1"}}
    assert Scene([node("w"), node("x")], [], asked).would_pass
    has = node("w", resources={"example.com/card": "4"})
    assert not Scene([has, node("x")], [], asked).would_pass


def test_a_sample_leaves_out_nodes_that_pass() -> None:
    names = [f"w{number}" for number in range(100)]
    nodes = [*map(node, names), node("x"), node("x2")]
    assert Scene(nodes, [], asking(), names).would_pass
    assert not Scene(nodes, [], asking(), names[1:]).would_pass
    assert not Scene([*map(node, names)], [], asking(), names).would_pass


def test_a_look_ends_with_its_portion_and_continues() -> None:
    ticks = [0]

    def clock() -> float:
        ticks[0] += 1
        return ticks[0] * PORTION_SECONDS / 4

    times = PolicyTimes(clock, clock, print, print, lambda: 0)
    nodes = [node(f"x{number}", unschedulable=True) for number in range(1000)]
    engine = engine_over(
        "cluster policy p { }",
        cache_of([*nodes, node("w")]),
        time=DecisionTime(clock, policies=times),
    )
    asked, portions = engine.looks.read(raw(asking(nodeSelector={"a": "b"}))), 0
    for portions in range(100):  # noqa: B007
        try:
            assert not engine.looks.would_pass(asked)
        except DeadlineExceededError:
            continue
        break
    assert 1 < portions < 20
