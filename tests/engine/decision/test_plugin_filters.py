"""Nodes that kube-scheduler would never ask about are no reason to requeue a rejected pod."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engine.engine import Engine
from engine.errors import DeadlineExceededError
from engine.program.policy_time import PORTION_SECONDS, DecisionTime, PolicyTimes
from tests.support.builders import Object, node, pod, raw
from tests.support.engines import cache_of, engine_over, node_of
from tests.support.rows import rows

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
    """A cluster, and the pod that is asked about."""

    nodes: list[Object]
    pods: list[Object]
    asked: Object

    def __post_init__(self) -> None:
        self.cache = cache_of(self.nodes, self.pods)
        self.engine: Engine = engine_over(CLOSED, self.cache)

    def put(self, made: Object) -> None:
        self.cache.put_node(node_of(made))

    @property
    def would_pass(self) -> bool:
        return self.engine.looks.would_pass(self.engine.looks.read(raw(self.asked)))


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


@rows(("made", "pods", "asked"), REJECTED)
def test_nodes_that_its_own_plugins_reject(made: Object, pods: list[Object], asked: Object) -> None:
    scene = Scene([node("w"), made], list(pods), asked)
    assert not scene.would_pass
    # A change of the node that no plugin minds.
    scene.put(made | {"status": {**made["status"], "conditions": []}})
    assert not scene.would_pass
    scene.put(node("x", labels={"disk": "ssd"}))
    for each in pods:
        scene.cache.remove_pod(f"shop/{each['metadata']['name']}")
    assert scene.would_pass


def test_a_resource_that_no_node_has_is_ignored() -> None:
    """Else kube-scheduler would ask about no node."""
    asked = asking()
    asked["spec"]["containers"][0]["resources"] = {"requests": {"example.com/card": "1"}}
    assert Scene([node("w"), node("x")], [], asked).would_pass
    has = node("w", resources={"example.com/card": "4"})
    assert not Scene([has, node("x")], [], asked).would_pass


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
