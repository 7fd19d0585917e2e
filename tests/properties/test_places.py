"""Places of in-flight pods: nodes by name, however nodes go, come back, and replace each other."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from random import Random

import pytest

from engine.cache.cache import Cache
from engine.decision.verdict import Feasible
from engine.engine import Engine
from engine.errors import EngineError
from tests.support.builders import node, pod, raw
from tests.support.engines import cache_of, engine_over, node_of, peer_of
from tests.support.examples import examples

NAMES = "wxyz"
LIMIT = """cluster policy p {
  for pods where "app" in pod.labels
  limit "one" { pods where true per node at most 1 strict }
}"""


@dataclass
class World:
    """A cluster whose nodes come and go, and a kube-scheduler that binds whenever it likes.

    `offered` has the nodes that each pod in flight was offered last.
    """

    nodes: set[str] = field(default_factory=lambda: set(NAMES))
    offered: dict[str, list[str]] = field(default_factory=dict)
    bound: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.cache: Cache = cache_of([node(name) for name in NAMES])
        self.engine: Engine = engine_over(LIMIT, self.cache)
        self.cache.add_event_handler(self.engine.in_flight.pod_changed)

    def leave(self, *names: str) -> None:
        for name in names:
            self.nodes.discard(name)
            self.cache.remove_node(name)
            self.cache.snapshot()

    def come(self, *names: str) -> None:
        for name in names:
            self.nodes.add(name)
            self.cache.put_node(node_of(node(name)))
            self.cache.snapshot()

    def ask(self, name: str, nodes: str, *, labels: bool = True) -> str:
        asked = pod(name, labels={"app": "web"} if labels else {})
        try:
            verdicts = self.engine.filter(raw(asked), list(nodes), None, math.inf)
        except EngineError:
            self.offered.pop(name, None)
            return ""
        offered = [n for n, v in zip(nodes, verdicts, strict=True) if isinstance(v, Feasible)]
        self.offered[name] = offered
        return "".join(offered)

    def bind(self, name: str, to: str) -> None:
        del self.offered[name]
        self.bound[name] = to
        self.cache.put_pod(peer_of(pod(name, labels={"app": "web"}, on=to)))

    def delete(self, name: str) -> None:
        del self.bound[name]
        self.cache.remove_pod(f"default/{name}")


# ---- nodes that leave, and nodes that come, while a pod is on its way to `x`


@pytest.mark.parametrize(
    ("leave", "come"),
    [
        pytest.param("x", "x", id="it is back"),
        pytest.param("xy", "xy", id="two are back"),
        pytest.param("xy", "yx", id="in another order"),
        pytest.param("x", "vx", id="a new node came first"),
        pytest.param("xyz", "uvxyz", id="a zone is back, and is larger"),
    ],
)
def test_a_pod_counts_on_the_node_of_that_name(leave: str, come: str) -> None:
    world = World()
    assert world.ask("p1", "x") == "x"
    for name in leave:
        world.leave(name)
        world.ask("other", "w", labels=False)
    for name in come:
        world.come(name)
        world.ask("other", "w", labels=False)
    assert world.ask("p2", "x") == ""
    assert world.ask("p3", "y") == "y", "it is on its way to no other node"


def test_a_node_that_comes_to_be_known_after_it_was_offered() -> None:
    """kube-scheduler may know of a node earlier than Placet."""
    world = World()
    world.leave("x")
    # A pod that no policy concerns is offered all of its nodes, and counts for others.
    assert world.ask("p1", "x", labels=False) == "x"
    world.come("x")
    assert world.ask("p2", "x") == ""


@pytest.mark.parametrize("seed", range(3))
def test_no_limit_is_passed_whatever_nodes_come_and_go(seed: int) -> None:
    """A pod may be bound to any node that it was offered last, as soon as there is one."""
    random, world = Random(seed), World()
    for step in range(examples(8000)):
        nodes = random.sample("vwxyz", random.randint(1, 2))
        match random.choice(("leave", "come", "ask", "ask again", "bind", "bind", "delete")):
            case "leave":
                world.leave(*nodes)
            case "come":
                world.come(*nodes)
            case "ask":
                world.ask(f"p{step}", "".join(nodes))
            case "ask again" if world.offered:
                world.ask(random.choice([*world.offered]), "".join(nodes))
            case "bind":
                there = [(p, n) for p, each in world.offered.items() for n in each]
                there = [(p, n) for p, n in there if n in world.nodes]
                if there:
                    world.bind(*random.choice(there))
            case "delete" if world.bound:
                world.delete(random.choice([*world.bound]))
        assert max(Counter(world.bound.values()).values(), default=0) <= 1, step


# ---- rows


def test_rows_are_used_again() -> None:
    """A cluster whose nodes are replaced every day has no more rows after a year."""
    world = World()
    for number in range(500):
        world.come(f"new-{number}")
        world.ask("p1", f"new-{number}")
        world.bind("p1", f"new-{number}")
        world.delete("p1")
        world.leave(f"new-{number}")
    assert len(world.cache.snapshot().table.nodes) < 2 * len(NAMES)


def test_a_row_is_not_used_again_while_a_pod_is_on_its_way_to_its_node() -> None:
    world = World()
    world.ask("p1", "x")
    row = world.cache.snapshot().table.rows["x"]
    world.leave("x")
    for number in range(20):
        world.come(f"new-{number}")
        world.leave(f"new-{number}")
    assert row not in world.cache.snapshot().table.rows.values()
    world.come("x")
    assert world.cache.snapshot().table.rows["x"] == row
