"""The sources of data of a server: how many there may be, and what is kept of those that go."""

from __future__ import annotations

import logging
import time
from asyncio import Task
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from engine.cache.cache import Cache, NodeStore
from engine.cluster.data_watching import SourceState
from engine.data import RowSample
from engine.engine import Engine
from engine.fairness import ByteAccounts
from grammar.values.time import SECOND, Timestamp
from server.capabilities import data as module_of_data
from server.capabilities.data import DataTables, data_facts, data_samples
from server.metrics.metrics import Metrics
from server.options import Options
from server.supervisor import Background
from tests.support.engines import CODEC, Known, Silent, cache_of, registry_of


class Started:
    """A task that is never run."""

    def cancel(self) -> None:
        pass


class Server:
    """The tables of a server whose sources are not asked."""

    def __init__(self) -> None:
        self.running: list[str] = []
        self.looks = 0
        racks = {"n1": {"rack": "r1"}, "n2": {"rack": "r2"}, "n3": {}}
        nodes = ({"metadata": {"name": n, "labels": labels}} for n, labels in racks.items())
        self.known = cache_of(nodes).nodes
        self.states: dict[str, SourceState] = {}
        engine = Engine(registry_of(""), Known(Cache()), CODEC, Silent())
        metrics, log = Metrics(CollectorRegistry(), "0"), logging.getLogger("placet")
        background = Background(AsyncExitStack(), log, metrics)
        background.supervisor.start = self.start  # type: ignore[method-assign]
        self.tables = DataTables(
            Options(),
            None,
            engine,
            background,
            ByteAccounts(),
            self.nodes,
        )

    def nodes(self) -> NodeStore:
        self.looks += 1
        return self.known

    def start(self, name: str, work: Callable[[], Awaitable[None]], **_: Any) -> Task[None]:
        assert isinstance(work, partial)
        self.running.append(name)
        self.states[name] = work.args[0]
        return Started()  # type: ignore[return-value]

    def adopt(self, *policies: str) -> None:
        self.running.clear()
        self.tables.adopt(registry_of("\n".join(policies)))


def of_namespace(name: str, count: int) -> str:
    columns = 'file "x.csv" by "a" columns { b: int }'
    tables = (
        f'data "{name}{number}" {{ from configmap "{name}/c{number}" {columns} }}'
        for number in range(count)
    )
    return f'policy p in namespace "{name}" {{ {" ".join(tables)} }}'


OPERATORS = 'cluster policy z { for pods where true data "load" { from metrics } }'


def test_a_namespace_has_a_limited_number_of_sources() -> None:
    server = Server()
    server.adopt(of_namespace("shop", 12), of_namespace("web", 2), OPERATORS)
    assert len(server.running) == 10 + 2 + 1
    refused = [each for each in server.tables.statuses if "more than" in each.error]
    assert {each.error for each in refused} == {"the policies of `shop` read more than 10 sources"}
    assert [each.policies for each in refused] == [("shop/p",), ("shop/p",)]
    server.adopt(of_namespace("shop", 3))
    assert not any("more than" in each.error for each in server.tables.statuses)


def test_nobody_looks_at_nodes_before_there_are_rows() -> None:
    """`/readyz` asks again and again while a large cluster is read."""
    server = Server()
    server.adopt(OPERATORS)
    assert [each.rows for each in server.tables.statuses] == [0]
    assert server.looks == 0


def test_those_of_operators_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module_of_data, "MOST_SOURCES", 3)
    server = Server()
    server.adopt(of_namespace("shop", 5), OPERATORS)
    assert server.running[0] == "data/load (metrics)"
    assert len(server.running) == 3
    errors = [each.error for each in server.tables.statuses if each.error]
    assert errors == ["all policies read more than 3 sources"] * 3


def test_namespaces_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module_of_data, "MOST_SOURCES", 6)
    server = Server()
    first = [of_namespace(f"a{number}", 3) for number in range(3)]
    server.adopt(*first, of_namespace("z", 3))
    assert [name for name in server.running if "/z" in name] == ["data/z0 (configmap)"]
    assert [name[5:7] for name in server.running] == ["a0", "a1", "a2", "z0", "a0", "a1"]


async def test_sources_that_do_not_exist_come_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after more namespaces than there are places."""
    monkeypatch.setattr(module_of_data, "MOST_SOURCES", 2)
    server = Server()
    policies = [of_namespace(name, 1) for name in ("a", "b", "z")]
    server.adopt(*policies)
    assert server.running == ["data/a0 (configmap)", "data/b0 (configmap)"]
    server.states["data/a0 (configmap)"].fail("absent", "there is none")
    server.states["data/b0 (configmap)"].take(RowSample({}))
    server.adopt(*policies)
    assert server.running == ["data/z0 (configmap)"]


def test_a_source_that_two_policies_declare_is_one() -> None:
    server = Server()
    server.adopt(OPERATORS, OPERATORS.replace("policy z", "policy y"))
    assert server.running == ["data/load (metrics)"]
    (status,) = server.tables.statuses
    assert sorted(status.policies) == ["y", "z"]


@pytest.mark.parametrize(
    ("key", "keys", "said"),
    [
        ("here", "", "it has no rows"),
        (
            "node.name",
            "10.0.0.1:9100 10.2",
            "no key of its 2 rows is a node, as in `10.0.0.1:9100`",
        ),
        ("node.name", "n1 n2 gone", ""),
        ('node.labels["rack"]', "r1", ""),
        ("there", "r1", ""),
        (
            'node.labels["rack"]',
            "n1 n2",
            "no key of its 2 rows is the label `rack` of a node, as in `n1`",
        ),
        ('node.labels["none"]', "r1", ""),
        ('pod.labels["rack"]', "x", ""),
        ("pod.namespace", "x", ""),
    ],
)
async def test_rows_without_a_node_are_of_no_use(key: str, keys: str, said: str) -> None:
    """Where policies read them by the name or a label of a node; no other key is judged."""
    server = Server()
    source = 'from prometheus "http://127.0.0.1:9" query "up" by "node"'
    lets = 'let here = node.name let there = node.labels["rack"]'
    table = f'{lets} data "load" {{ {source} }}'
    clause = f'filter "f" {{ require data.load[{key}].value < 1.0 }}'
    server.adopt(f"cluster policy z {{ {table} {clause} }}")
    (state,) = server.states.values()
    at = Timestamp(time.time_ns())
    state.take(RowSample({key: state.spec.row(time=at, value=0.5) for key in keys.split()}))
    (status,), (check,) = server.tables.statuses, server.tables.checks()
    of_name = 3 if key in ("here", "node.name") else 2
    lacking = {"n1 n2 gone": 1, "r1": None if "none" in key else 1, "x": None}.get(keys, of_name)
    whole = f"{said}; {lacking} nodes without a row" if said else ""
    assert (status.reason, status.error, status.lacking) == (
        "useless" if said else "",
        whole,
        lacking,
    )
    assert (check.failure, check.is_warning) == (whole, True)


async def test_a_partial_answer_is_doubtful_and_read() -> None:
    server = Server()
    server.adopt(OPERATORS)
    (state,) = server.states.values()
    row = state.spec.row(time=Timestamp(time.time_ns()))
    state.take(RowSample({"n1": row, "n2": row}, doubt="Prometheus warns: store is away"))
    (status,) = server.tables.statuses
    assert (status.reason, status.error) == ("doubtful", "Prometheus warns: store is away")
    state.take(RowSample({"n1": row, "n2": row}))
    assert server.tables.statuses[0].reason == ""


async def test_what_is_not_known_any_more_is_not_told_of_nodes() -> None:
    """Rows without a node are useless while they come, and what is no longer read is unknown."""
    server = Server()
    source = 'data "load" { from prometheus "http://p:9090" query "load" by "node" }'
    rule = 'filter "f" { require data.load[node.name].value < 1.0 }'
    server.adopt(f"cluster policy z {{ {source} {rule} }}")
    (state,) = server.states.values()
    seconds = int(state.spec.stale) + 1

    def told() -> tuple[str, int | None, bool, bool]:
        found = server.tables.statuses
        names = {name for name, *_ in data_samples(found)}
        useless = next(v for name, _, v in data_samples(found) if name == "placet_data_useless")
        return (
            found[0].reason,
            found[0].lacking,
            bool(useless),
            "placet_data_lacking_nodes" in names,
        )

    for age, wanted in ((0, ("denied", 3, False, True)), (seconds, ("denied", None, False, False))):
        at = Timestamp(time.time_ns() - age * SECOND)
        state.take(RowSample({"10.0.0.1": state.spec.row(time=at, value=0.5)}))
        assert told() == ("useless", 3, True, True)
        state.fail("denied", "it answers 401")
        assert told() == wanted


async def test_a_source_that_nobody_has_read_yet_is_not_well() -> None:
    server = Server()
    server.adopt(OPERATORS)
    said = [each.failure for each in server.tables.checks()]
    (row,) = data_facts(server.tables.statuses)["data"]
    assert (said, row["state"]) == (["it was not read yet"], "stale: not read yet")
    (state,) = server.states.values()
    state.take(RowSample({"n1": state.spec.row(time=Timestamp(time.time_ns()))}))
    assert [each.failure for each in server.tables.checks()] == [""]
