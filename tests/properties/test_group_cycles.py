"""PodGroups beside strict counts: no bound is passed, and a group that fits is placed.

The model places groups as kube-scheduler 1.36 and 1.37 do: in one cycle it asks about the members
once for each placement, which is the nodes of a rack, and chooses among these at the end. A parent
group has placements of its own, which are zones, and asks about its groups within each.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

import pytest

from engine.cache.cache import Cache
from engine.decision.recent_answers import AfterDecision, LastAnswers
from engine.decision.verdict import Feasible
from engine.engine import Engine
from engine.errors import EngineError
from tests.support.books import examples
from tests.support.builders import Object, node, pod, raw
from tests.support.engines import cache_of, engine_over, peer_of

WEB = 'pods where peer.labels["app"] == "web"'
# A node has so many places, and an attempt gives a group so many cycles.
ROOM, CYCLES = 3, 6
Places = dict[str, str]


@dataclass(frozen=True)
class Rule:
    """A strict clause, the group of a node, and whether the clause allows the numbers of pods."""

    clause: str
    key: str
    allows: Callable[[Sequence[int]], bool]


def limit(per: str, key: str, most: int) -> Rule:
    text = f'limit "l" {{ {WEB} per {per} at most {most} strict }}'
    return Rule(text, key, lambda numbers: max(numbers) <= most)


def spread(over: str, key: str, skew: int) -> Rule:
    text = f'spread "s" {{ {WEB} over {over} skew at most {skew} strict }}'
    return Rule(text, key, lambda numbers: max(numbers) - min(numbers) <= skew)


RULES = [
    limit("node", "name", 1),
    limit("node", "name", 2),
    limit('node.labels["rack"]', "rack", 3),
    limit("node.zone", "zone", 4),
    limit('node.labels["kind"]', "kind", 3),
    spread("node.zone", "zone", 2),
    spread('node.labels["rack"]', "rack", 3),
]


@dataclass
class World:
    """A cluster, Placet, and a kube-scheduler: `assumed` pods are bound, and no watch shows it."""

    rule: Rule
    random: Random
    binds: bool = False
    assumed: Places = field(default_factory=dict)
    bound: Places = field(default_factory=dict)
    pods: dict[str, Object] = field(default_factory=dict)
    asked: int = 0

    def __post_init__(self) -> None:
        random = self.random
        self.nodes: dict[str, Mapping[str, str]] = {}
        for rack in range(random.randint(1, 4)):
            for _ in range(random.randint(1, 3)):
                name = f"n{len(self.nodes)}"
                kind = random.choice("xy")
                self.nodes[name] = {
                    "name": name,
                    "rack": f"r{rack}",
                    "zone": f"z{rack % 2}",
                    "kind": kind,
                }
        made = [node(name, of["zone"], labels=of) for name, of in self.nodes.items()]
        self.cache: Cache = cache_of(made)
        self.answers = LastAnswers()
        after = AfterDecision(lambda: 0.0, answers=self.answers)
        policy = f"cluster policy p {{ {self.rule.clause} }}"
        self.engine: Engine = engine_over(policy, self.cache, after=after)
        self.cache.add_event_handler(self.engine.in_flight.pod_changed)

    # ---- what happens in the cluster

    def create(self, name: str, group: str = "") -> None:
        spec = {"schedulingGroup": {"podGroupName": group}} if group else {}
        self.pods[name] = pod(name, labels={"app": "web"}, spec=spec)
        self.write(name)

    def write(self, name: str) -> None:
        """A new version of a pod, which a watch shows."""
        self.pods[name]["metadata"]["resourceVersion"] = str(
            len(self.pods) + self.random.getrandbits(30)
        )
        self.cache.put_pod(peer_of(self.pods[name]))

    def show(self) -> None:
        """A watch shows some of the bindings."""
        for name in [each for each in self.assumed if self.random.random() < 0.5]:
            self.bound[name] = on = self.assumed.pop(name)
            self.pods[name]["spec"]["nodeName"] = on
            self.write(name)

    def holds(self, *more: Places) -> bool:
        """Whether the rule allows what is bound, assumed, and would be there, too."""
        numbers = Counter({of[self.rule.key]: 0 for of in self.nodes.values()})
        for places in (self.bound, self.assumed, *more):
            numbers.update(self.nodes[on][self.rule.key] for on in places.values())
        return self.rule.allows(list(numbers.values()))

    def has_room(self, name: str, taken: Places) -> bool:
        there = (*self.bound.values(), *self.assumed.values(), *taken.values())
        return there.count(name) < ROOM

    # ---- kube-scheduler

    def chosen(self, name: str, nodes: Sequence[str], taken: Places) -> str | None:
        """The node that one pod gets; None without any. Raises EngineError for an error."""
        left = [each for each in nodes if self.has_room(each, taken)]
        if not left:
            return None
        self.asked += 1
        decided = self.engine.filter(raw(self.pods[name]), left, None, math.inf)
        offered = [n for n, v in zip(left, decided, strict=True) if isinstance(v, Feasible)]
        return self.random.choice(offered) if offered else None

    def by(self, key: str, nodes: Sequence[str]) -> Sequence[Sequence[str]]:
        """The placements: the nodes with each value of a label, in any order."""
        values = sorted({self.nodes[each][key] for each in nodes})
        self.random.shuffle(values)
        return [[each for each in nodes if self.nodes[each][key] == value] for value in values]

    def placed(
        self, members: Sequence[str], least: int, nodes: Sequence[str], taken: Places
    ) -> Places:
        """The members of a group on their nodes, in one rack; none of them if too few fit."""
        found: list[Places] = []
        for placement in self.by("rack", nodes):
            there: Places = {}
            for number, member in enumerate(members):
                on = self.chosen(member, placement, taken | there)
                if on is not None:
                    there[member] = on
                elif len(there) + len(members) - number - 1 < least and self.random.random() < 0.5:
                    # 1.37 ends a placement early.
                    break
            if len(there) >= least:
                found.append(there)
        return self.random.choice(found) if found else {}

    def cycle(self, groups: Mapping[str, Sequence[str]], least: int) -> bool:
        """One cycle of a group, or of the groups of a parent, which all need a zone."""
        found: list[Places] = []
        names = list(self.nodes)
        try:
            for placement in self.by("zone", names) if len(groups) > 1 else [names]:
                taken: Places = {}
                for members in groups.values():
                    there = self.placed(members, least, placement, taken)
                    if not there:
                        break
                    taken |= there
                else:
                    found.append(taken)
        except EngineError:
            found = []
        members = [each for group in groups.values() for each in group]
        # Another extender, or a plugin at Permit, refuses it now and then.
        is_placed = bool(found) and self.random.random() < 0.8
        if is_placed:
            places = self.random.choice(found)
            for name, on in places.items():
                answer = self.answers.find(self.pods[name]["metadata"]["uid"])
                assert answer is not None
                assert answer.offers(on), "what the cycle was offered may be bound"
            self.assumed |= places
            assert self.holds(), "a bound is passed"
        if self.random.random() < 0.5:
            for name in [each for each in members if each not in self.assumed]:
                self.write(name)
        return is_placed

    def single(self, name: str) -> None:
        try:
            on = self.chosen(name, list(self.nodes), {})
        except EngineError:
            return
        if on is not None and self.random.random() < 0.8:
            self.assumed[name] = on
            assert self.holds(), "a bound is passed"

    def fits(self, members: Sequence[str], least: int) -> bool:
        """Whether so many of the members fit in one rack, one after another."""

        def more(there: Places, nodes: Sequence[str]) -> bool:
            if len(there) >= least:
                return True
            name = members[len(there)]
            places = ({**there, name: on} for on in nodes if self.has_room(on, there))
            return any(self.holds(each) and more(each, nodes) for each in places)

        return any(more({}, nodes) for nodes in self.by("rack", list(self.nodes)))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.clause.partition("== ")[2])
@pytest.mark.parametrize("seed", range(examples(120)))
def test_groups_beside_strict_counts(rule: Rule, seed: int) -> None:
    random = Random(seed)
    world = World(rule, random)
    waiting: dict[str, Mapping[str, Sequence[str]]] = {}
    for number in range(random.randint(1, 4)):
        size, parts = random.randint(1, 4), random.choice((1, 1, 2))
        waiting[f"g{number}"] = {
            f"g{number}-{part}": [f"g{number}-{part}-{each}" for each in range(size)]
            for part in range(parts)
        }
    for groups in waiting.values():
        for group, members in groups.items():
            for member in members:
                world.create(member, group)
    singles = [f"s{number}" for number in range(random.randint(0, 5))]
    for name in singles:
        world.create(name)
    for _ in range(12):
        if singles and random.random() < 0.6:
            world.single(name := random.choice(singles))
            if name in world.assumed:
                singles.remove(name)
        elif waiting:
            name = random.choice(sorted(waiting))
            size = len(next(iter(waiting[name].values())))
            if world.cycle(waiting[name], random.randint(1, size)):
                del waiting[name]
        world.show()
    # Nothing else happens any more: what fits is placed.
    last = next((name for name in waiting if len(waiting[name]) == 1), "")
    kept = {*world.assumed, *world.bound, *(m for g in waiting.get(last, {}).values() for m in g)}
    for name in world.pods.keys() - kept:
        world.cache.remove_pod(f"default/{name}")
    while world.assumed:
        world.show()
    if last:
        (members,) = waiting[last].values()
        fits, size = world.fits(members, len(members)), len(members)
        assert any(world.cycle(waiting[last], size) for _ in range(CYCLES)) == fits
