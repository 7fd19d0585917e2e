"""Offers are as wide as the rule of docs/language/counting.md says, call by call, and never wider.

The oracle knows the bounds, the bindings and the offers, and nothing of the engine.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random

import pytest

from engine.cache.cache import Cache
from engine.decision.verdict import Feasible, HeldBack
from engine.engine import Engine
from engine.errors import EngineError
from tests.support.books import examples
from tests.support.builders import Object, node, pod, raw
from tests.support.engines import cache_of, engine_over, node_of, peer_of
from tests.support.rows import rows

WEB = 'pods where peer.labels["app"] == "web"'


@dataclass(frozen=True)
class Rule:
    """A clause, the group of a node, and whether so many pods may be in a group.

    The last one gets the pods that may be in each group, and those that are there.
    """

    clause: str
    group_of: Callable[[str], str]
    holds: Callable[[Counter[str], Counter[str], str], bool]


@dataclass
class Play:
    """One burst of pods: what was offered to whom, and who is bound where."""

    rule: Rule
    zones: Mapping[str, str]
    random: Random
    offers: dict[str, frozenset[str]] = field(default_factory=dict)
    bound: dict[str, str] = field(default_factory=dict)

    def counts(self) -> tuple[Counter[str], Counter[str]]:
        """The pods that may be in each group, and those that are."""
        low = Counter(self.rule.group_of(name) for name in self.bound.values())
        high = Counter(low)
        for offered in self.offers.values():
            high.update({self.rule.group_of(name) for name in offered})
        return high, low

    def fitting(self, offer: frozenset[str] = frozenset(), *, without: bool = False) -> set[str]:
        """The nodes where a pod fits, whatever becomes of those on their way and of an offer.

        With `without`, those where it fits if the pods on their way end where it helps.
        """
        high, low = self.counts()
        if without:
            high, low = low, high
        high.update({self.rule.group_of(name) for name in offer})
        return {
            name
            for name in self.zones
            if self.rule.holds(high + Counter([group := self.rule.group_of(name)]), low, group)
        }


def limit(scope: str, most: int) -> Rule:
    text = f'limit "l" {{ {WEB} per {scope} at most {most} strict }}'
    group_of = str if scope == "node" else _zone
    return Rule(text, group_of, lambda high, _, group: high[group] <= most)


def spread(skew: int) -> Rule:
    text = f'spread "s" {{ {WEB} over node.zone skew at most {skew} strict }}'

    def holds(high: Counter[str], low: Counter[str], group: str) -> bool:
        # A zone is not compared with itself: a pod on its way would be on both sides.
        return high[group] - min(low[zone] for zone in {"z0", "z1", "z2"} - {group}) <= skew

    return Rule(text, _zone, holds)


def _zone(name: str) -> str:
    return f"z{int(name[1:]) % 3}"


RULES = [
    *(limit("node", most) for most in (1, 2, 3, 50)),
    *(limit("node.zone", most) for most in (1, 4, 300)),
    *(spread(skew) for skew in (1, 2, 5)),
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.clause.partition("where")[2])
@pytest.mark.parametrize("seed", range(examples(12)))
def test_an_offer_is_as_wide_as_it_may_be(rule: Rule, seed: int) -> None:
    random = Random(seed)
    zones = {f"n{number}": f"z{number % 3}" for number in range(random.randint(3, 9))}
    names = [f"p{number}" for number in range(random.choice((1, 3, 12, 60)))]
    web: dict[str, Object] = {name: pod(name, labels={"app": "web"}) for name in names}
    cache = cache_of([node(name, zone) for name, zone in zones.items()], list(web.values()))
    engine = engine_over(f"cluster policy p {{ {rule.clause} }}", cache)
    cache.add_event_handler(engine.in_flight.pod_changed)
    play = Play(rule, zones, random)
    seen = Counter[str]()
    for _ in range(6 * len(names)):
        if play.offers and random.random() < 0.5:
            name = random.choice(sorted(play.offers))
            play.bound[name] = on = random.choice(sorted(play.offers.pop(name)))
            cache.put_pod(peer_of(pod(name, labels={"app": "web"}, on=on)))
        waiting = [name for name in names if name not in play.offers and name not in play.bound]
        if not waiting:
            continue
        name = waiting[0]
        try:
            found = engine.filter(raw(web[name]), list(zones), None, math.inf)
        except EngineError:
            assert not play.fitting(), "a pod waits where it would fit"
            seen["waits"] += 1
            continue
        verdicts = dict(zip(zones, found, strict=True))
        offered = frozenset(n for n, v in verdicts.items() if isinstance(v, Feasible))
        held = {n for n, v in verdicts.items() if isinstance(v, HeldBack)}
        opened = play.fitting()
        assert offered | (held & opened) == opened
        assert offered | held == play.fitting(without=True), "a node that is full is told as that"
        held &= opened
        if held:
            groups = {rule.group_of(each) for each in opened}
            left = len(groups) - len({rule.group_of(each) for each in offered})
            assert not play.fitting(frozenset(opened)), "the next pod fits all the same"
            assert play.fitting(offered), "the next pod does not fit all the same"
            assert left == min(len(waiting) - 1, len(groups) - 1), "one place for each that waits"
            seen["narrow"] += 1
        elif offered:
            fits = play.fitting(offered) or len(waiting) == 1
            assert fits or len({rule.group_of(each) for each in opened}) == 1
            seen["wide"] += 1
        if offered:
            play.offers[name] = offered
    assert seen["wide"] + seen["narrow"], "nothing was offered"


# ---- places of in-flight pods: nodes by name, however nodes go, come back, and replace each other


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


@rows(
    ("leave", "come"),
    {
        "it is back": ("x", "x"),
        "two are back": ("xy", "xy"),
        "in another order": ("xy", "yx"),
        "a new node came first": ("x", "vx"),
        "a zone is back, and is larger": ("xyz", "uvxyz"),
    },
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
