"""Rules about tables, while tables, nodes, pods and the time change: as the plain evaluator says.

The engine remembers what it has evaluated. Whatever changes, it says what a plain evaluation of
the rule says at that moment, with the rows that are not stale.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.cache.cache import Cache
from engine.decision.registry import Registry
from engine.decision.verdict import Feasible
from engine.engine import Engine
from engine.program.policy_time import DecisionTime
from engine.program.tables import Table
from grammar.clauses.filter import Filter
from grammar.meaning.evaluator import evaluate
from grammar.tree.ast import Expr
from grammar.tree.policy import of_kind
from grammar.values.errors import EvaluationError, MissingError
from grammar.values.quantity import Quantity
from grammar.values.time import NEVER, SECOND, Timestamp
from tests.engine.program.test_changed_tables import NODES as OF_TABLES
from tests.engine.program.test_changed_tables import POLICY, TIMED
from tests.engine.program.test_changed_tables import World as TablesWorld
from tests.engine.program.test_tables import World
from tests.support import builders
from tests.support.books import examples
from tests.support.builders import Object, node, pod, raw
from tests.support.engines import CODEC, Known, Silent, node_of, peer_of, registry_of
from tests.support.rows import rows

RULES = (
    'data.load[node.name].cpu < quantity("4")',
    "node.name in data.load",
    "size(data.load) <= 2",
    "data.load.exists(name, name != node.name)",
    'data.load[node.name].age < duration("20s")',
    "data.load[?node.name].hasValue()",
    'data.load[node.name].cpu + node.since(data.load[node.name].time)["cpu"] < quantity("4")',
    'data.load[node.name].cpu < quantity("4") || node.labels["pool"] == "a"',
    "data.load[node.name].time < now",
    'data.load[pod.labels["like"]].cpu < quantity("4")',
)
NAMES = ("n1", "n2")
STALE = 60


class Changing(World):
    """A world in which everything changes that a rule about a table reads."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.rule = draw.choice(RULES)
        missing = draw.choice(("", "missing pass"))
        self.passes_missing = bool(missing)
        when = draw.choice(("", "when size(data.load) > 0 "))
        super().__init__(f'filter "f" {when}{{ require {self.rule} {missing} }}')
        self.pod = builders.raw(builders.pod("a", "shop", labels={"like": "n1"}))
        self.at, self.until = 0, NEVER
        self.rows: Mapping[str, Any] = {}
        self.pods = 0

    def step(self) -> None:
        draw = self.draw
        match draw.randrange(5):
            case 0:
                names = draw.sample(("n1", "n2", "n3"), draw.randint(0, 3))
                self.at = self.nanos - draw.randint(0, 50) * SECOND
                self.until = draw.choice((NEVER, self.nanos + draw.randint(1, 50) * SECOND))
                self.rows = {
                    name: self.spec.row(
                        time=Timestamp(self.at - draw.randint(0, 20) * SECOND),
                        cpu=draw.choice((None, Quantity.parse(str(draw.randint(0, 7))))),
                    )
                    for name in names
                }
                table = Table(self.spec, self.rows, self.until)
                self.engine.take_tables({self.spec.digest: table})
            case 1:
                self.nanos += draw.choice((1, 7, 30)) * SECOND
            case 2:
                made = builders.node(draw.choice(NAMES), labels={"pool": draw.choice("ab")})
                self.cache.put_node(node_of(made))
            case 3:
                self.pods += 1
                made = builders.pod(f"p{self.pods}", cpu="1", on=draw.choice(NAMES))
                began = draw.choice((None, str(Timestamp(self.nanos - 30 * SECOND))))
                made["status"]["startTime"] = began
                self.cache.put_pod(CODEC.peer(builders.raw(made)))
            case _:
                pass

    def plainly(self, name: str) -> bool:
        (clause,) = of_kind(self.engine.registry.programs[0].source.policy.items, Filter)
        environment = self.engine.registry.programs[0].source.environment
        variables = {
            "pod": CODEC.pod(self.pod),
            "node": self.cache.snapshot().node(name),
            "now": Timestamp(self.nanos),
            "data.load": self._live(),
        }

        def value(expr: Expr) -> object:
            return evaluate(expr, variables, environment)

        try:
            if clause.when is not None and value(clause.when) is not True:
                return True
        except MissingError:
            return True
        try:
            return value(clause.requires[0]) is True
        except MissingError:
            return self.passes_missing
        except EvaluationError:
            return False

    def _live(self) -> Mapping[str, Any]:
        now = self.nanos
        return {
            name: row
            for name, row in self.rows.items()
            if now < min(self.until, row.time.nanos + STALE * SECOND)
        }


@given(st.integers(0, 2**32))
@settings(max_examples=examples(300))
def test_what_is_remembered_is_what_a_plain_evaluation_says(seed: int) -> None:
    world = Changing(random.Random(seed))
    world.take({})
    for _ in range(25):
        world.step()
        names = world.draw.sample(NAMES, world.draw.randint(1, 2))
        decided = world.engine.filter(world.pod, names, None, math.inf)
        found = {n: isinstance(v, Feasible) for n, v in zip(names, decided, strict=True)}
        # Nobody received the offer.
        world.engine.in_flight.forget("a")
        assert found == {name: world.plainly(name) for name in names}, world.rule


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("more", ["", TIMED], ids=["tables", "time"])
def test_answers_are_those_of_an_engine_that_is_new(seed: int, more: str) -> None:
    chance = random.Random(seed)
    world = TablesWorld(POLICY.replace('filter "both"', f'{more} filter "both"'))
    for _ in range(60):
        for _ in range(chance.randrange(1, 4)):
            match chance.randrange(5):
                case 0:
                    labels = {"kind": chance.choice("ab"), "zone": chance.choice("yz")}
                    world.label(chance.choice(OF_TABLES), **labels)
                case 1 | 2:
                    rows = {n: chance.randrange(8) for n in OF_TABLES if chance.random() < 0.8}
                    world.take("load", rows, old=chance.randrange(70))
                case 3:
                    rows = {n: chance.randrange(12) for n in OF_TABLES if chance.random() < 0.8}
                    world.take("rows", rows)
                case _:
                    world.nanos += chance.randrange(400) * SECOND
        assert world.answers() == world.expected()


# ---- rules that read the time: an engine that has been asked before answers as a new one does


MINUTE = 60 * SECOND
START = Timestamp.parse("2026-11-21T12:00:00Z").nanos
NODES = ("n0", "n1", "n2")

# The moment at which these change is known.
EXACT = {
    "an age": 'filter "f" { require node.age > duration("1h") }',
    "an age, both ways": 'filter "f" { require node.age <= duration("90m") || node.name == "n1" }',
    "pods": 'filter "f" { require !node.pods.exists(p, p.age < duration("30m")) }',
    "all pods": 'filter "f" { require node.pods.all(p, duration("30m") <= p.age) }',
    "the pod": 'filter "f" { require now < pod.metadata.creationTimestamp + duration("2h") }',
    "when": 'filter "f" when now > timestamp("2026-11-21T12:10:00Z") { require node.name != "n1" }',
    "a moment": 'filter "f" { require now == timestamp("2026-11-21T12:10:00Z") || '
    'node.name == "n1" }',
    "no moment": 'filter "f" { require timestamp("2026-11-21T12:10:00Z") != now }',
    "let": 'let old = now - node.metadata.creationTimestamp  filter "f" { '
    'require old >= duration("1h") }',
    "def": "def since(t: timestamp, more: duration): duration = now - more - t "
    'filter "f" { require since(node.metadata.creationTimestamp, duration("10m")) '
    '< duration("1h") }',
    "out of range": 'filter "f" { require now - timestamp("1500-01-01T00:00:00Z") > '
    'duration("1h") || node.age > duration("1h") }',
    "a score": 'score "s" weight 1 { value node.age > duration("1h") ? 100 : 0 }',
    "a score among nodes": 'score "s" weight 1 { value node.pods.filter(p, '
    'p.age < duration("30m")).size() range minmax }',
    "a limit": 'limit "l" { pods where peer.labels["app"] == "old" && '
    'peer.age < duration("30m") per node at most 0 strict }',
    "a limit of all": 'limit "l" { all pods where peer.labels["app"] == "old" && '
    'peer.age >= duration("30m") per cluster at most 2 strict }',
    "a sum": 'limit "l" { sum peer.requests["cpu"] of pods where '
    'peer.age < duration("30m") && peer.labels["app"] == "old" per node at most "1" strict }',
    "a spread": 'spread "s" { pods where peer.labels["app"] == "old" && peer.age < '
    'duration("30m") || peer.name == pod.name over node.name skew at most 1 strict }',
    "a share": 'share "s" { pods where peer.labels["app"] == "old" on nodes where '
    'node.age > duration("1h") at most 1 strict }',
    "a count from a moment on": 'limit "l" when now >= timestamp("2026-11-21T12:10:00Z") '
    '{ pods where peer.labels["app"] == "old" per node at most 0 strict }',
}
# These may change at any time, so what they gave holds for a second.
OTHER = {
    "minutes": 'filter "f" { require node.age.getMinutes() < 40 }',
    "hours of a day": 'filter "f" { require now.getMinutes() < 30 || node.name == "n0" }',
    "a conditional": 'filter "f" { require (node.name == "n0" ? now : '
    'timestamp("2026-11-21T12:10:00Z")) < timestamp("2026-11-21T12:20:00Z") }',
    "twice": 'filter "f" { require now - (now - node.age) < duration("1h") }',
    "kept": 'filter "f" { require now.getMinutes() + pod.metadata.creationTimestamp.getMinutes() '
    '+ 1 < 40 || node.name == "n0" }',
    "a score": 'score "s" weight 1 { value node.age.getMinutes() }',
    "a limit": 'limit "l" { pods where peer.labels["app"] == "old" && peer.age.getMinutes() > 40 '
    "per node at most 0 strict }",
}


def at(minutes: int) -> str:
    return str(Timestamp(START + minutes * MINUTE))


numbers = st.integers(0, 4)
minutes = st.integers(-9, 4).map(lambda tens: 10 * tens)
exact_steps = st.sampled_from([0, 1, SECOND, 10 * MINUTE - 1, 10 * MINUTE, 10 * MINUTE + 1, -1])
whole_steps = st.sampled_from([SECOND, 10 * MINUTE, 25 * MINUTE, -10 * MINUTE])


def events(steps: st.SearchStrategy[int]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.one_of(
        st.tuples(st.just("time"), steps),
        st.tuples(st.just("time"), steps),
        st.tuples(st.just("pod"), numbers, st.sampled_from([*NODES, None]), minutes),
        st.tuples(st.just("no pod"), numbers),
        st.tuples(st.just("node"), st.sampled_from(NODES), minutes),
    )


@cache
def registry(clauses: str) -> Registry:
    return registry_of(f"cluster policy p {{ {clauses} }}")


class TimeWorld:
    """An engine that is asked again and again, and new ones over the same cache."""

    def __init__(self, clauses: str) -> None:
        self.registry = registry(clauses)
        self.cache, self.now = Cache(), START
        for i, name in enumerate(NODES):
            self.cache.put_node(node_of(node(name, created=at(-40 - 10 * i))))
        self.engine = self.new()
        self.asked = 0

    def new(self) -> Engine:
        return Engine(
            self.registry,
            Known(self.cache),
            CODEC,
            Silent(),
            time=DecisionTime(now=lambda: Timestamp(self.now)),
        )

    def happens(self, event: tuple[Any, ...]) -> None:
        match event:
            case ("time", step):
                self.now += step
            case ("pod", number, where, created):
                self.cache.put_pod(peer_of(old_pod(number, where, created)))
            case ("no pod", number):
                self.cache.remove_pod(f"default/p{number}")
            case ("node", name, created):
                self.cache.put_node(node_of(node(name, created=at(created))))
            case _:
                raise AssertionError(event)

    def answers(self, engine: Engine, asked: bytes) -> tuple[list[int], list[int] | None]:
        """The nodes that are offered, and the scores."""
        decided = engine.filter(asked, NODES, None, math.inf)
        scores = engine.prioritize(asked, NODES, None, math.inf)
        return [int(code == 0) for code in decided.codes], None if scores is None else [*scores]

    def look(self) -> None:
        self.asked += 1
        # Another pod of the same shape each time, which no rule counts.
        asked = raw(pod(f"asked-{self.asked}", labels={"app": "new"}, created=at(-90)))
        expected = self.answers(self.new(), asked)
        assert self.answers(self.engine, asked) == expected


def old_pod(number: int, where: str | None, created: int) -> Object:
    return pod(f"p{number}", labels={"app": "old"}, cpu="1", on=where, created=at(created))


@rows("clauses", EXACT)
@settings(max_examples=examples(40))
@given(happened=st.lists(events(exact_steps), min_size=3, max_size=12))
def test_what_changes_at_a_known_moment(clauses: str, happened: list[tuple[Any, ...]]) -> None:
    world = TimeWorld(clauses)
    world.look()
    for event in happened:
        world.happens(event)
        world.look()


@rows("clauses", OTHER)
@settings(max_examples=examples(40))
@given(happened=st.lists(events(whole_steps), min_size=3, max_size=12))
def test_what_may_change_at_any_time(clauses: str, happened: list[tuple[Any, ...]]) -> None:
    """A second later."""
    world = TimeWorld(clauses)
    world.look()
    for event in happened:
        world.happens(event)
        world.look()
