"""Tables of data: what expressions read of them, when rows are stale, and what is forgotten."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import count
from typing import Any

import pytest

from engine.cache.cache import Cache
from engine.decision.verdict import Feasible, Rejected
from engine.engine import Engine
from engine.program.policy_time import DecisionTime
from engine.program.tables import Table, TableSpec
from grammar.values.quantity import Quantity
from grammar.values.time import SECOND, Timestamp
from tests.support import builders
from tests.support.engines import CODEC, Known, Silent, node_of, registry_of

RULE = 'filter "f" { require data.load[node.name].cpu < quantity("4") missing pass }'
SCORE = 'score "s" weight 1 { value data.load[node.name].cpu range "4" .. "0" missing 50 }'


class World:
    """Nodes, an engine with rules about a table, and a clock."""

    def __init__(self, rules: str = RULE, source: str = "from metrics for at most 60s") -> None:
        self.nanos = 1_000 * SECOND
        self.cache = cache = Cache()
        # An engine that is called often within a short time reports a loop.
        clock = count(step=3600.0)
        self.text = f'cluster policy p {{ for pods where true data "load" {{ {source} }} {rules} }}'
        self.engine = Engine(
            registry_of(self.text),
            Known(cache),
            CODEC,
            Silent(),
            time=DecisionTime(lambda: next(clock), lambda: Timestamp(self.nanos)),
        )
        for name in ("n1", "n2"):
            cache.put_node(node_of(builders.node(name)))
        self.pod = builders.raw(builders.pod("a", "shop"))

    @property
    def spec(self) -> TableSpec:
        (spec,) = self.engine.registry.tables.values()
        return spec

    def take(self, rows: Mapping[str, Any], *, old: float = 0, until: int = 2**63 - 1) -> None:
        """Takes a table with this cpu of each node, from so many seconds ago."""
        at = self.nanos - int(old * SECOND)
        made = {
            name: self.spec.row(time=Timestamp(at), cpu=Quantity.parse(str(cpu)))
            for name, cpu in rows.items()
        }
        self.engine.take_tables({self.spec.digest: Table(self.spec, made, until)})

    def passing(self) -> list[str]:
        decided = self.engine.filter(self.pod, ["n1", "n2"], None, math.inf)
        verdicts = zip(["n1", "n2"], decided, strict=True)
        return [name for name, verdict in verdicts if isinstance(verdict, Feasible)]

    def scores(self) -> list[int]:
        found = self.engine.prioritize(self.pod, ["n1", "n2"], None, math.inf)
        assert found is not None
        return [int(each) for each in found.points]


def test_a_filter_reads_the_row_of_each_node() -> None:
    world = World()
    assert world.passing() == ["n1", "n2"], "nothing is known, and missing values pass"
    world.take({"n1": 5, "n2": 1})
    assert world.passing() == ["n2"]
    world.take({"n1": 1, "n2": 5})
    assert world.passing() == ["n1"], "what was evaluated from the old table is forgotten"


def test_a_node_without_a_row_is_not_told_the_words_of_the_clause() -> None:
    rule = 'filter "f" { require data.load[node.name].cpu < quantity("4") message "it is hot" }'
    world = World(rule)

    def told() -> list[str]:
        decided = world.engine.filter(world.pod, ["n1", "n2"], None, math.inf)
        return [each.reason for each in decided if isinstance(each, Rejected)]

    assert told() == ["policy p: f: no rows in `data.load`"] * 2
    world.take({"n1": 5, "10.0.0.1:9100": 5})
    assert told() == ["policy p: it is hot", "policy p: f: no row in `data.load`"]
    world.nanos += 61 * SECOND
    stale = "policy p: f: only a stale row in `data.load`"
    assert told() == [stale, "policy p: f: no row in `data.load`"]


def test_a_score_reads_it_too() -> None:
    world = World(SCORE)
    assert world.scores() == [5, 5]
    world.take({"n1": 4, "n2": 0})
    assert world.scores() == [0, 10]
    world.take({"n1": 0})
    assert world.scores() == [10, 5]


def test_a_stale_row_is_missing() -> None:
    world = World()
    world.take({"n1": 5, "n2": 5}, old=30)
    assert world.passing() == []
    world.nanos += 29 * SECOND
    assert world.passing() == []
    world.nanos += 2 * SECOND
    assert world.passing() == ["n1", "n2"]


def test_a_source_that_failed_is_missing_from_a_moment_on() -> None:
    columns = "columns { cpu = quantity(object.cpu) }"
    world = World(source=f'from objects "v1/Node" by object.metadata.name {columns}')
    world.take({"n1": 5}, until=world.nanos + 10 * SECOND)
    assert world.passing() == ["n2"]
    world.nanos += 10 * SECOND
    assert world.passing() == ["n1", "n2"]
    world.take({"n1": 5}, old=10_000)
    assert world.passing() == ["n2"], "a source that is watched holds for as long as it is"


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ('require "n1" in data.load', ["n1", "n2"]),
        ('require !("n3" in data.load)', ["n1", "n2"]),
        ("require size(data.load) == 1", ["n1", "n2"]),
        ('require data.load.all(name, name == "n1")', ["n1", "n2"]),
        ("require data.load[?node.name].optMap(row, true).orValue(false)", ["n1"]),
        ("require has(data.load[node.name].cpu)", ["n1"]),
        ("require has(data.load[node.name].memory)", []),
        ('require data.load[node.name].age == duration("20s")', ["n1"]),
        ('require data.load["n1"].time < now', ["n1", "n2"]),
        ("when size(data.load) == 0 { require false }", ["n1", "n2"]),
    ],
)
def test_what_can_be_asked_of_a_table(rule: str, expected: list[str]) -> None:
    when, _, body = rule.partition("{")
    clause = f'filter "f" {rule}' if body else f'filter "f" {{ {when} }}'
    world = World(clause)
    world.take({"n1": 5}, old=20)
    assert world.passing() == expected


def test_the_same_block_in_two_policies_is_one_table() -> None:
    block = 'data "load" { from metrics }'
    more = f"cluster policy q {{ for pods where true {block} {RULE} }}"
    often = block.replace("}", "every 10s }")
    other = f"cluster policy r {{ for pods where true {often} {RULE} }}"
    first = f"cluster policy p {{ for pods where true {block} {RULE} }}"
    registry = registry_of(f"{first} {more} {other}")
    assert len(registry.tables) == 2


BURST = """score "s" weight 1 {
  value (data.load[node.name].cpu + node.since(data.load[node.name].time)["cpu"]) / quantity("8")
  range 1 .. 0
}"""


def test_pods_that_came_after_the_sample_are_counted_beside_it() -> None:
    """Pods that the kubelet took before the sample are in it; the others are not."""
    world = World(BURST)
    world.take({"n1": 0, "n2": 4}, old=30)
    assert world.scores() == [10, 5]
    at = Timestamp(world.nanos - 40 * SECOND), Timestamp(world.nanos - 20 * SECOND)
    for number, started in enumerate((*at, None)):
        made = builders.pod(f"p{number}", cpu="2", on="n1")
        made["status"]["startTime"] = None if started is None else str(started)
        world.cache.put_pod(CODEC.peer(builders.raw(made)))
    assert world.scores() == [5, 5]
    world.take({"n1": 6, "n2": 4})
    assert world.scores() == [0, 5]
