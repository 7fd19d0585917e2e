"""DataKeeper: asks and watches the sources of tables of data, each in a task of its own.

A server has a DataKeeper for life, on its event loop. Equal declarations of several policies are
one source. Whatever a source does, it stays in its task: a table changes only when a whole sample
of it is good, and a source that hangs or lies is stale after the time that its policy says.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar, assert_never

from engine.cache.informers import StartTask
from engine.cluster.data_fetching import DataApi, PrometheusClient, SourceError, metrics_of_nodes
from engine.cluster.data_watching import (
    FileWatch,
    Note,
    SourceState,
    watch_configmap,
    watch_file,
    watch_objects,
)
from engine.data import DataError, RowSample, rows_of_metrics, rows_of_prometheus
from engine.fairness import ByteAccounts
from engine.program.tables import Labels, SourceStatus, Table, TableSpec
from grammar.tree.policy import FromConfigMap, FromFile, FromMetrics, FromObjects, FromPrometheus

# The longest wait for an answer.
_MOST_WAIT = 10.0
_NO_CLUSTER = "this server has no cluster to read it from"
_NO_FOLDER = "this server has no `--data-folder`"

_Rows = TypeVar("_Rows")

# Takes all tables that there are, by their digests.
TakeTables = Callable[[Mapping[str, Table]], None]


@dataclass(frozen=True, slots=True)
class SourceParts:
    """What sources are asked with; `api` is None without a cluster.

    `files` is the folder of the files that policies name, None if they may name none. Rows are on
    `accounts`.
    """

    api: DataApi | None
    prometheus: PrometheusClient
    files: Path | None = None
    accounts: ByteAccounts = field(default_factory=ByteAccounts)


@dataclass(eq=False, slots=True)
class DataKeeper:
    """Keeper of the data that policies declare: sources and last tables. On one event loop."""

    _parts: SourceParts
    _start_task: StartTask
    _take: TakeTables
    _note: Note
    _now: Callable[[], int] = time.time_ns
    _states: dict[str, SourceState] = field(default_factory=dict)
    _tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _policies: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    _keys: Mapping[str, Collection[str]] = field(default_factory=dict)
    # One text at a time, always in the same thread: what an allocator keeps, it keeps once.
    _reader: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "data"))

    def adopt(
        self,
        specs: Mapping[str, TableSpec],
        policies: Mapping[str, tuple[str, ...]],
        keys: Mapping[str, Collection[str]] = MappingProxyType({}),
    ) -> None:
        """Asks these sources from now on; what stays goes on undisturbed.

        `policies` has the addresses of those that declare each, `keys` the keys of nodes in rows.
        """
        self._policies, self._keys = policies, keys
        gone = self._tasks.keys() - specs.keys()
        had_tables = any(self._states[digest].table is not None for digest in gone)
        for digest in gone:
            self._tasks.pop(digest).cancel()
            self._states.pop(digest).close()
        for digest, spec in specs.items():
            if digest not in self._tasks:
                self._begin(digest, spec)
        if had_tables:
            self._publish()

    def look_for_room(self) -> None:
        """Asks the sources again whose rows had no room, where there is more now."""
        for digest, state in self._states.items():
            if state.may_have_room:
                self._tasks.pop(digest).cancel()
                self._start(digest, state)

    def statuses(self, nodes: Labels = MappingProxyType({})) -> Sequence[SourceStatus]:
        """The state of each source, by name; `nodes` are those that there are."""
        found = [
            state.status(self._policies.get(digest, ()), nodes, self._keys.get(digest, ()))
            for digest, state in self._states.items()
        ]
        return sorted(found, key=lambda each: (each.name, each.kind, each.digest))

    async def close(self) -> None:
        """Ends all tasks, and the connections to Prometheus."""
        tasks = [*self._tasks.values()]
        for state in self._states.values():
            state.close()
        self._tasks.clear()
        self._states.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._reader.shutdown(wait=False, cancel_futures=True)
        await self._parts.prometheus.close()

    def _begin(self, digest: str, spec: TableSpec) -> None:
        def changed() -> None:
            # A task that was cancelled may still come this far.
            if self._states.get(digest) is state:
                self._publish()

        given = self._note, self._now, self._parts.accounts, self._parse
        state = SourceState(spec, changed, *given)
        self._states[digest] = state
        self._start(digest, state)

    def _start(self, digest: str, state: SourceState) -> None:
        self._tasks[digest] = self._start_task(f"data/{state.label}", partial(self._keep, state))

    @property
    def tables(self) -> Mapping[str, Table]:
        """The last table of each source, by digest."""
        return {digest: s.table for digest, s in self._states.items() if s.table is not None}

    def _publish(self) -> None:
        self._take(self.tables)

    async def _keep(self, state: SourceState) -> None:
        """The work of one source."""
        spec, parts = state.spec, self._parts
        source = spec.source
        match source:
            case FromPrometheus(url, query):
                await self._poll(
                    state,
                    lambda seconds: parts.prometheus.query(url, query, seconds),
                    lambda body: rows_of_prometheus(spec, body, self._now()),
                )
            case FromFile(path):
                if parts.files is None:
                    state.fail("no_folder", _NO_FOLDER)
                    await asyncio.Event().wait()
                else:
                    await watch_file(state, FileWatch(parts.files / path))
            case FromMetrics() | FromConfigMap() | FromObjects() if parts.api is None:
                state.fail("no_cluster", _NO_CLUSTER)
                await asyncio.Event().wait()
            case FromMetrics():
                await self._poll(
                    state,
                    lambda seconds: metrics_of_nodes(_known(parts.api), seconds),
                    lambda body: rows_of_metrics(spec, body, self._now()),
                )
            case FromConfigMap(name, entry):
                await watch_configmap(state, _known(parts.api), name, entry)
            case FromObjects(kind):
                await watch_objects(state, _known(parts.api), kind)
            case _:
                assert_never(source)

    async def _poll(
        self,
        state: SourceState,
        fetch: Callable[[float], Awaitable[bytes]],
        parse: Callable[[bytes], RowSample],
    ) -> None:
        """Asks every so many seconds, also while it fails."""
        while True:
            began, seconds = time.monotonic(), min(state.spec.every, _MOST_WAIT)
            try:
                async with asyncio.timeout(seconds):
                    body = await fetch(seconds)
                state.take(await self._parse(partial(parse, body)))
            except TimeoutError:
                state.fail("late", f"there is no whole answer within {seconds:g} s")
            except SourceError as error:
                state.fail(error.reason, str(error))
            except DataError as error:
                state.fail("unusable", str(error))
            await asyncio.sleep(max(0.0, began + state.spec.every - time.monotonic()))

    async def _parse(self, parse: Callable[[], _Rows]) -> _Rows:
        """Rows, made in a thread. Raises DataError."""
        return await asyncio.get_running_loop().run_in_executor(self._reader, parse)


def _known(api: DataApi | None) -> DataApi:
    assert api is not None
    return api
