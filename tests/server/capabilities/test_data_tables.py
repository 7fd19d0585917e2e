"""The sources of data of a server: how many there may be, and what is kept of those that go."""

from __future__ import annotations

import logging
from asyncio import Task
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from engine.cache.cache import Cache
from engine.cluster.data_sources import SourceState
from engine.data.reading import RowSample
from engine.engine import Engine
from engine.fairness import ByteAccounts
from server.capabilities import data as module_of_data
from server.capabilities.data import DataTables
from server.metrics.metrics import Metrics
from server.options import Options
from server.supervisor import Background
from tests.support.engines import CODEC, Known, Silent, registry_of


class Started:
    """A task that is never run."""

    def cancel(self) -> None:
        pass


class Server:
    """The tables of a server whose sources are not asked."""

    def __init__(self) -> None:
        self.running: list[str] = []
        self.states: dict[str, SourceState] = {}
        engine = Engine(registry_of(""), Known(Cache()), CODEC, Silent())
        metrics, log = Metrics(CollectorRegistry(), "0"), logging.getLogger("placet")
        background = Background(AsyncExitStack(), log, metrics)
        background.supervisor.start = self.start  # type: ignore[method-assign]
        self.tables = DataTables(Options(), None, engine, background, ByteAccounts())

    def start(self, name: str, work: Callable[[], Awaitable[None]], **_: Any) -> Task[None]:
        assert isinstance(work, partial)
        self.running.append(name)
        self.states[name] = work.args[0]
        return Started()  # type: ignore[return-value]

    def adopt(self, *policies: str) -> None:
        self.running.clear()
        self.tables.adopt(registry_of("\n".join(policies)))


def of_namespace(name: str, count: int) -> str:
    columns = 'key "x.csv" by "a" columns { b: int }'
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
