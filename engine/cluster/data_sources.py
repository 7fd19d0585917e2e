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
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar, assert_never

from engine.cache.informers import StartTask
from engine.cluster.data_fetching import DataApi, PrometheusClient, SourceError, metrics_of_nodes
from engine.cluster.data_watching import (
    NO_ROOM,
    FileWatch,
    WatchedSource,
    watch_configmap,
    watch_file,
    watch_objects,
)
from engine.data import DataError, RowSample, rows_of_metrics, rows_of_prometheus
from engine.fairness import ByteAccounts
from engine.program.tables import Labels, SourceStatus, Table, TableSpec, source_label
from grammar.messages.texts import shown
from grammar.tree.policy import FromConfigMap, FromFile, FromMetrics, FromObjects, FromPrometheus
from grammar.values.time import NEVER, SECOND

# The longest wait for an answer.
_MOST_WAIT = 10.0
# What statuses say of a source that is asked again and again changes so often at most, while the
# reason stays.
_TOLD_SECONDS = 60.0
_NO_CLUSTER = "this server has no cluster to read it from"
_NO_FOLDER = "this server has no `--data-folder`"
_MOST_ERROR = 400

# Takes all tables that there are, by their digests.
TakeTables = Callable[[Mapping[str, Table]], None]
# Is told how a source of this `source_label` does: the reason of a failure, and its text.
# Both are empty when it works again. The reason `left_out` has no text: other rows were read.
Note = Callable[[str, str, str], None]
Now = Callable[[], int]
_Rows = TypeVar("_Rows")


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


class SourceState:
    """State of a source: the last table, and the present problem.

    The rows of a ConfigMap are on the account of its namespace, whoever reads them.
    """

    def __init__(
        self,
        spec: TableSpec,
        changed: Callable[[], None],
        note: Note,
        now: Now,
        accounts: ByteAccounts,
    ) -> None:
        """`changed` is called when there is another table."""
        self.spec = spec
        source = spec.source
        self._owner = source.name.partition("/")[0] if isinstance(source, FromConfigMap) else ""
        self._accounts = accounts
        self._key = f"data/{spec.digest}"
        self.table: Table | None = None
        self.error = self.reason = self.told_error = ""
        # When it began to fail, in nanoseconds.
        self.since: int | None = None
        # When the told error was new, by the event loop.
        self._told_at = 0.0
        # The room for rows when it failed last.
        self._lacking = 0
        self._newest = 0
        self._left_out, self._cause, self._doubt = 0, "", ""
        self._changed = changed
        self._note = note
        self._now = now

    @property
    def label(self) -> str:
        return source_label(self.spec.name, self.spec.source.word)

    def room(self) -> int | None:
        """The most bytes of rows, None without a bound."""
        return self._accounts.room(self._owner, self._key) if self._owner else None

    @property
    def may_have_room(self) -> bool:
        """Whether there is more room than when there was too little."""
        return self.reason == "no_room" and (self.room() or 0) > self._lacking

    def close(self) -> None:
        """Nobody reads the rows any more."""
        self._accounts.drop(self._key)
        self.table = None

    def take(self, sample: RowSample) -> None:
        """There are other rows, or the same at another time."""
        if not self._accounts.keep(self._owner, self._key, sample.bytes):
            self.fail("no_room", NO_ROOM)
            return
        if not self.spec.source.is_watched:
            times = (row.time.nanos for row in sample.rows.values())
            self._newest = max(times, default=self._now())
        self._left_out, self._cause, self._doubt = sample.left_out, sample.cause, sample.doubt
        self._heal()
        if sample.left_out:
            self._note(self.label, "left_out", "")
        self.table = Table(self.spec, sample.rows, shared=sample.shared)
        self._changed()

    def works(self) -> None:
        """The rows are as they were, and the source says so."""
        self._heal()
        if self.table is not None and self.table.until != NEVER:
            self.table = replace(self.table, until=NEVER)
            self._changed()

    def fail(self, reason: str, error: str) -> None:
        """There is nothing new from now on: the last rows of what is watched hold for a while."""
        self.error = shown(error, _MOST_ERROR)
        self._lacking = self.room() or 0
        is_watched, now = self.spec.source.is_watched, asyncio.get_running_loop().time()
        if reason != self.reason or is_watched or now >= self._told_at + _TOLD_SECONDS:
            self.reason, self.told_error, self._told_at = reason, self.error, now
        self._note(self.label, reason, self.error)
        if self.since is not None:
            return
        self.since = self._now()
        if self.table is not None and is_watched:
            until = self.since + int(self.spec.stale * SECOND)
            self.table = replace(self.table, until=until)
            self._changed()

    def _heal(self) -> None:
        if self.error:
            self._note(self.label, "", "")
        self.error = self.reason = self.told_error = ""
        self.since = None

    def status(
        self, policies: tuple[str, ...], nodes: Labels, keys: Collection[str]
    ) -> SourceStatus:
        """How it does; rows should have the `keys` of nodes, if a policy reads them so."""
        now, table, spec = self._now(), self.table, self.spec
        until = self._newest + int(spec.stale * SECOND)
        until = table.until if table is not None and spec.source.is_watched else until
        is_stale = table is None or until <= now
        # Rows that are not read any more say nothing about the nodes that there are.
        read = None if self.error and is_stale else table
        useless, lacking = ("", None) if read is None else read.use(nodes, keys)
        odd, reason = useless or self._doubt, "useless" if useless else "doubtful"
        return SourceStatus(
            spec.name,
            spec.digest,
            spec.source.word,
            policies,
            rows=0 if table is None else len(table.rows),
            age=None if table is None else self._age(now),
            error=self.error or odd,
            reason=self.reason or (reason if odd else ""),
            told_error=self.told_error or odd,
            is_stale=is_stale,
            left_out=self._left_out,
            cause=self._cause,
            lacking=lacking,
        )

    def _age(self, now: int) -> float:
        """The seconds since the source last said so: 0 while a watch works."""
        since = (self.since or now) if self.spec.source.is_watched else self._newest
        return max(0, now - since) / SECOND


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

        state = SourceState(spec, changed, self._note, self._now, self._parts.accounts)
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
        watched = WatchedSource(
            spec, state.take, state.works, state.fail, self._parse, self._now, state.room
        )
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
                    await watch_file(watched, FileWatch(parts.files / path))
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
                await watch_configmap(watched, _known(parts.api), name, entry)
            case FromObjects(kind):
                await watch_objects(watched, _known(parts.api), kind)
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
