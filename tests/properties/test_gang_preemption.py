"""Gangs that make room: nobody is evicted in vain, and all are who are in the way of one that fits.

The model evicts as kube-scheduler does, for one member at a time: on a node without room for it,
pods of lower priority go, as few as have to, beside the members that are nominated there.
"""

from __future__ import annotations

import math
from random import Random

import pytest

from engine.decision.preemption import Victims
from engine.errors import EngineError
from tests.engine.gangs.test_gangs import World
from tests.support import builders
from tests.support.books import examples

PROTECT = 'preempt "kept" { protect pods where victim.labels[?"kept"].orValue("") == "yes" }'


class Cluster(World):
    """Nodes with pods of one cpu each, and a gang of high priority."""

    def __init__(self, random: Random) -> None:
        self.random, self.evicted, self.nominated = random, 0, dict[str, str]()
        self.size = {f"n{number}": random.randint(1, 3) for number in range(random.randint(1, 6))}
        self.racks = {name: random.choice("ab") for name in self.size}
        self.within = random.random() < 0.5
        labels = {name: {"rack": rack} for name, rack in self.racks.items()}
        parts = 'within node.labels["rack"]' if self.within else ""
        cpu = {name: str(size) for name, size in self.size.items()}
        super().__init__(cpu, parts, clauses=PROTECT, labels=labels)
        self.there: dict[str, list[str]] = {name: [] for name in self.size}
        for node, size in self.size.items():
            for number in range(random.randint(0, size)):
                name = f"{node}-{number}"
                kept = {"kept": "yes"} if random.random() < 0.15 else {}
                priority = random.choice((0, 0, 0, 100))
                self.pods[name] = builders.pod(
                    name, "shop", cpu="1", labels=kept, on=node, priority=priority
                )
                self.watch(name)
                self.there[node].append(name)
        self.members = [f"m{number}" for number in range(random.randint(1, 5))]
        self.create(*self.members, members=len(self.members), priority=50)

    def may_go(self, name: str) -> bool:
        pod = self.pods[name]
        return pod["spec"]["priority"] < 50 and not pod["metadata"]["labels"]

    def free(self, node: str, member: str) -> int:
        ahead = [n for n, on in self.nominated.items() if on == node and n != member]
        placed = [n for n, on in self.on().items() if on == node and n in self.members]
        return self.size[node] - len(self.there[node]) - len(ahead) - len(placed)

    def fits(self) -> bool:
        """Whether the members fit where kube-scheduler proposes victims, or there is room."""
        room = dict.fromkeys(self.racks.values() if self.within else "x", 0)
        for node, size in self.size.items():
            left = size - len(self.there[node])
            # Where one member has room, nobody is proposed.
            lower = [n for n in self.there[node] if self.pods[n]["spec"]["priority"] < 50]
            left = left or (len(lower) if all(map(self.may_go, lower)) else 0)
            room[self.racks[node] if self.within else "x"] += left
        return max(room.values()) >= len(self.members)

    def preempt(self, member: str) -> None:
        proposed = dict[str, list[str]]()
        for node, there in self.there.items():
            lower = [name for name in there if self.pods[name]["spec"]["priority"] < 50]
            lacks = 1 - self.free(node, member)
            if 0 < lacks <= len(lower):
                proposed[node] = self.random.sample(lower, lacks)
        uids = {
            node: Victims([self.pods[name]["metadata"]["uid"] for name in names], 0)
            for node, names in proposed.items()
        }
        kept = self.engine.preempt(builders.raw(self.pods[member]), uids, math.inf)
        if not kept:
            return
        node = self.random.choice(sorted(kept))
        self.nominated[member] = node
        for name in proposed[node]:
            self.there[node].remove(name)
            self.delete(name)
            self.evicted += 1

    def cycle(self, member: str) -> None:
        """kube-scheduler asks about a member: filter where there is room, else preempt."""
        nodes = [node for node in self.size if self.free(node, member) > 0]
        try:
            offered = self.ask(member, *nodes) if nodes else ""
        except EngineError:
            return
        if isinstance(offered, list):
            self.nominated.pop(member, None)
            (node,) = offered
            self.bind(member, node)
        else:
            self.preempt(member)


@pytest.mark.parametrize("seed", range(examples(400)))
def test_as_many_are_evicted_as_let_the_gang_run(seed: int) -> None:
    random = Random(seed)
    cluster = Cluster(random)
    fits, waiting = cluster.fits(), list(cluster.members)
    for _ in range(8):
        random.shuffle(waiting)
        for member in waiting:
            if member not in cluster.on():
                cluster.cycle(member)
            cluster.now += 0.3
    whole = len([m for m in cluster.members if m in cluster.on()]) == len(cluster.members)
    assert cluster.evicted == 0 or whole, "evicted in vain"
    assert whole == fits
    assert cluster.evicted <= len(cluster.members)
