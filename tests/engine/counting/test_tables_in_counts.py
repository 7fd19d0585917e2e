"""Counting clauses that read tables of data: other rows count at once, and stale ones do not."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import count

import pytest

from engine.cache.cache import Cache
from engine.decision.verdict import Feasible
from engine.engine import Engine
from engine.program.policy_time import DecisionTime
from engine.program.tables import Table
from grammar.values.time import SECOND, Timestamp
from tests.support.builders import node, pod, raw
from tests.support.engines import CODEC, Known, Silent, cache_of, peer_of, registry_of

NAMES = ["n1", "n2"]
DATA = 'data "t" { from file "t.csv" by "key" columns { most: int, kind: string } for at most 60s }'


class World:
    """Two nodes with a pod of `web` on the first, an engine with one clause, and a clock."""

    def __init__(self, clause: str) -> None:
        self.nanos = 1_000 * SECOND
        clock = count(step=3600.0)
        there = pod("web-0", "shop", labels={"app": "web"}, on="n1")
        self.cache: Cache = cache_of([node("n1", "a"), node("n2", "b")], [there])
        registry = registry_of(f"cluster policy p {{ {DATA} {clause} }}")
        self.engine = Engine(
            registry,
            Known(self.cache),
            CODEC,
            Silent(),
            time=DecisionTime(lambda: next(clock), lambda: Timestamp(self.nanos)),
        )
        self._asked = count()

    def take(self, rows: Mapping[str, Mapping[str, object]], until: int = 2**63 - 1) -> None:
        (spec,) = self.engine.registry.tables.values()
        at = Timestamp(self.nanos)
        made = {key: spec.row(time=at, **row) for key, row in rows.items()}
        self.engine.take_tables({spec.digest: Table(spec, made, until)})

    def passing(self) -> list[str]:
        body = pod(f"web-{next(self._asked) + 1}", "shop", labels={"app": "web"})
        verdicts = self.engine.filter(raw(body), NAMES, None, math.inf)
        self.engine.in_flight.forget(peer_of(body).uid)
        return [n for n, v in zip(NAMES, verdicts, strict=True) if isinstance(v, Feasible)]


@pytest.mark.parametrize(
    ("clause", "before", "after"),
    [
        ("per node at most data.t[node.name].most strict", {"n1": 1, "n2": 1}, {"n1": 2, "n2": 0}),
        ("per zone at most data.t[zone.value].most strict", {"a": 1, "b": 1}, {"a": 2}),
        ("per cluster at most data.t[pod.name.split('-')[0]].most strict", {"web": 1}, {"web": 2}),
    ],
)
def test_a_bound_reads_a_table(
    clause: str, before: Mapping[str, int], after: Mapping[str, int]
) -> None:
    world = World(f'limit "l" {{ pods where peer.labels["app"] == "web" {clause} }}')
    assert world.passing() == [], "there is no row yet"
    world.take({key: {"most": most} for key, most in before.items()})
    first = world.passing()
    assert first == ([] if "cluster" in clause else ["n2"])
    world.take({key: {"most": most} for key, most in after.items()})
    assert world.passing() == (["n1", "n2"] if "cluster" in clause else ["n1"])
    assert world.passing() == (["n1", "n2"] if "cluster" in clause else ["n1"])


def test_a_group_and_a_table() -> None:
    """The power of a rack, for example: a bound reads the row of its group."""
    world = World(
        'group zone by node.zone limit "l" { pods where peer.labels["app"] == "web" '
        "per zone at most data.t[zone.value].most * zone.nodes strict }"
    )
    world.take({"a": {"most": 1}, "b": {"most": 1}})
    assert world.passing() == ["n2"]
    world.take({"a": {"most": 2}, "b": {"most": 0}})
    assert world.passing() == ["n1"]


def test_the_number_of_a_group_is_stale_with_its_row() -> None:
    world = World(
        'group zone by node.zone limit "l" { pods where peer.labels["app"] == "web" '
        "per zone at most data.t[zone.value].most * zone.nodes strict }"
    )
    world.take({"a": {"most": 9}, "b": {"most": 9}}, until=world.nanos + 10 * SECOND)
    assert world.passing() != []
    world.nanos += 10 * SECOND
    assert world.passing() == []


def test_a_domain_reads_a_table() -> None:
    world = World(
        'limit "l" { pods where peer.labels["app"] == "web" '
        "per data.t[node.name].kind at most 1 strict }"
    )
    world.take({"n1": {"kind": "x"}, "n2": {"kind": "y"}})
    assert world.passing() == ["n2"]
    world.take({"n1": {"kind": "x"}, "n2": {"kind": "x"}})
    assert world.passing() == []


def test_a_share_reads_a_table() -> None:
    world = World(
        'share "s" { pods where peer.labels["app"] == "web" '
        'on nodes where data.t[node.name].kind == "cheap" at most 1 strict }'
    )
    world.take({"n1": {"kind": "cheap"}, "n2": {"kind": "cheap"}})
    assert world.passing() == []
    world.take({"n1": {"kind": "cheap"}, "n2": {"kind": "dear"}})
    assert world.passing() == ["n2"]


@pytest.mark.parametrize(
    "pods",
    [
        'pods where data.t[peer.labels["app"]].kind == "counts"',
        'sum data.t[peer.labels["app"]].kind == "counts" ? 1 : 0 of pods where true',
    ],
)
def test_which_pods_count_is_in_a_table(pods: str) -> None:
    """With other rows all is counted anew, and a pod counts as its row says until that is stale."""
    world = World(f'limit "l" {{ {pods} per node at most 1 strict }}')
    world.take({"web": {"kind": "counts"}})
    assert world.passing() == ["n2"]
    world.take({"web": {"kind": "else"}})
    assert world.passing() == NAMES
    world.take({"web": {"kind": "counts"}}, until=world.nanos + 10 * SECOND)
    assert world.passing() == ["n2"]
    world.nanos += 11 * SECOND
    assert world.passing() == ([] if "sum" in pods else NAMES), "its own amount is missing"
