"""Watching: how sources of tables of data do, and those that say when they change.

A DataKeeper keeps a SourceState for each source. Each function that watches is the work of a
source, and runs until it is cancelled. A ConfigMap and objects are followed by a reflector, as
nodes and pods are; of an object only its row is kept. A file is looked at every second, in a
thread, as policies are.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from dataclasses import replace
from functools import partial
from hashlib import sha256
from http import HTTPStatus
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from engine.cache.list_watch import Resource
from engine.cache.reflector import Backoff, Reflector, Timing
from engine.cache.store import ObjectStore
from engine.cluster.client import CORE, path_of
from engine.cluster.data_fetching import DataApi, SourceError, refusal, with_right
from engine.data import (
    MOST_OBJECTS,
    DataError,
    NoRoomError,
    Row,
    RowSample,
    equal_rows,
    form_of_name,
    row_of_both,
    row_of_object,
    rows_of_text,
)
from engine.errors import ApiError, ApiUnreachableError
from engine.fairness import ByteAccounts
from engine.program.frame import Frame
from engine.program.tables import (
    MOST_BYTES,
    Labels,
    SourceStatus,
    Table,
    TableSpec,
    source_label,
)
from engine.work import shared_pause
from grammar.messages.texts import os_reason, shown
from grammar.tree.policy import FromConfigMap
from grammar.values.time import NEVER, SECOND, Timestamp
from policies.disk import Disk, Visit, contents
from policies.loader import Watcher
from policies.resource import read_json

# Changes that come within this time are one change.
_BATCH_SECONDS = 0.1
# The longest step between two turns of the event loop.
_STEP_SECONDS = 0.005
# So that what waits for a row is looked at again within two seconds.
_LOOK_SECONDS = 1.0
# After too many objects, all are listed again when there are so few: not at each one that goes.
_FEW_AGAIN = MOST_OBJECTS * 9 // 10
# A right that is given is used within half a minute.
_TIMING = Timing(backoff_most=15.0, backoff_reset=60.0)
_MOST_SHOWN, _MOST_ERROR = 120, 400
# What statuses say of a source that is asked again and again changes so often at most, while the
# reason stays.
_TOLD_SECONDS = 60.0
# Is told how a source of this `source_label` does: the reason of a failure, and its text.
# Both are empty when it works again. The reason `left_out` has no text: other rows were read.
Note = Callable[[str, str, str], None]
# Rows, made in a thread. Raises DataError.
Parse = Callable[[Callable[[], RowSample | None]], Awaitable[RowSample | None]]
# Why there are no rows of a text.
_NO_ROOM = "its rows take more memory than is left for its namespace"


class SourceState:
    """State of a source: the last table, and the present problem.

    The rows of a ConfigMap are on the account of its namespace, whoever reads them. `parse` runs a
    function in a thread. `now` is in nanoseconds.
    """

    def __init__(
        self,
        spec: TableSpec,
        changed: Callable[[], None],
        note: Note,
        now: Callable[[], int],
        accounts: ByteAccounts,
        parse: Parse,
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
        self.now = now
        self.parse = parse

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
            self.fail("no_room", _NO_ROOM)
            return
        if not self.spec.source.is_watched:
            times = (row.time.nanos for row in sample.rows.values())
            self._newest = max(times, default=self.now())
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
        self.since = self.now()
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
        now, table, spec = self.now(), self.table, self.spec
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


class _TextRows:
    """The rows of a text that may change: only another text is read again."""

    def __init__(self, watched: SourceState) -> None:
        self._watched = watched
        # The digest of the last text, and what is wrong with it.
        self._last = b""
        self._wrong: tuple[str, str] | None = None

    async def read(self, text: Callable[[], bytes], name: str) -> None:
        """Takes the rows of a text, which is made in a thread; that may raise SourceError."""
        try:
            found = await self._watched.parse(lambda: self._rows(text(), name))
        except NoRoomError:
            self._last, self._wrong = b"", ("no_room", _NO_ROOM)
        except DataError as error:
            self._wrong = "unusable", str(error)
        except SourceError as error:
            self._last, self._wrong = b"", (error.reason, str(error))
        else:
            if found is not None:
                self._wrong = None
                self._watched.take(found)
                return
        self.again()

    def again(self) -> None:
        """The text is as it was."""
        if self._wrong is not None:
            self._watched.fail(*self._wrong)
        else:
            self._watched.works()

    def _rows(self, text: bytes, name: str) -> RowSample | None:
        watched, digest = self._watched, sha256(text).digest()
        if digest == self._last:
            return None
        self._last = digest
        form, at = form_of_name(name), watched.now()
        return rows_of_text(watched.spec, text, form, at, room=watched.room())


# ---- files


class FileWatch:
    """A file, and whether it has changed since it was read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._disk = Disk()
        self._watcher: Watcher | None = None
        self._is_due = True

    def look(self) -> bytes | None:
        """The text if it may have changed; in a thread. Raises OSError."""
        if self._watcher is None:
            self._watcher = Watcher(lambda _: [self.path], self._disk)
        self._is_due |= self._watcher.changed()
        if not self._is_due:
            return None
        text = self._disk.run(self._read)
        self._is_due = False
        return text

    def _read(self, visit: Visit) -> bytes:
        visit(self.path)
        return contents(self.path, MOST_BYTES, takes_pipes=False)


async def watch_file(watched: SourceState, file: FileWatch) -> None:
    """Looks at a file again and again."""
    rows, failure = _TextRows(watched), ""
    while True:
        try:
            text = await asyncio.to_thread(file.look)
        except OSError as error:
            found = f"`{shown(str(file.path), _MOST_SHOWN)}` cannot be read: {os_reason(error)}"
            if found != failure:
                watched.fail("unreadable", found)
            failure = found
        else:
            if text is not None:
                failure = ""
                await rows.read(partial(bytes, text), file.path.name)
        await shared_pause(_LOOK_SECONDS)


# ---- what a reflector follows


class _Reflected:
    """A reflector, and the work that is done when something has changed."""

    def __init__(
        self,
        watched: SourceState,
        api: DataApi,
        resource: Resource,
        store: ObjectStore[Any],
        changed: asyncio.Event,
    ) -> None:
        self.changed = changed
        self._watched = watched
        self._seen: Counter[str] = Counter()
        self.reflector = Reflector(
            resource, api, store, timing=_TIMING, report=lambda _, failure: self._report(failure)
        )

    @property
    def is_current(self) -> bool:
        """Whether all objects are known as they are now."""
        return self.reflector.synced and not self.reflector.failure

    async def run(self, apply: Callable[[], Awaitable[None]]) -> None:
        """Follows the resource; `apply` is called some time after changes."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.reflector.run())
            group.create_task(self._apply(apply))

    async def _apply(self, apply: Callable[[], Awaitable[None]]) -> None:
        while True:
            await self.changed.wait()
            await asyncio.sleep(_BATCH_SECONDS)
            self.changed.clear()
            await apply()

    def _report(self, failure: str) -> None:
        if not failure:
            self.changed.set()
            return
        counts = self.reflector.failures
        reason = next((kind for kind, n in counts.items() if n > self._seen[kind]), "refused")
        self._seen = Counter(counts)
        self._watched.fail(reason, with_right(failure))


# ---- a ConfigMap


class _ConfigMap(msgspec.Struct, frozen=True):
    data: dict[str, str] | None = None


async def watch_configmap(watched: SourceState, api: DataApi, name: str, entry: str) -> None:
    """Follows one ConfigMap, `namespace/name`, of which one entry is read."""
    namespace, _, short = name.partition("/")
    path, changed = path_of(CORE, "configmaps", namespace), asyncio.Event()
    resource = Resource("configmaps", path, field_selector=f"metadata.name={short}")
    # The ConfigMap as JSON, None once its rows have been read.
    found: dict[str, bytes | None] = {}
    rows, shown_name = _TextRows(watched), f"`{shown(name, _MOST_SHOWN)}`"

    def put(key: str, raw: bytes) -> None:
        found[key] = raw
        changed.set()

    def remove(key: str) -> None:
        found.pop(key, None)
        changed.set()

    store = ObjectStore[bytes](bytes, lambda key, raw, *_: put(key, raw), remove, lambda *_: True)
    following = _Reflected(watched, api, resource, store, changed)

    def text(raw: bytes) -> bytes:
        if (configmap := read_json(raw, _ConfigMap)) is None:
            raise SourceError("garbage", f"the ConfigMap {shown_name} cannot be read")
        written: str | None = (configmap.data or {}).get(entry)
        if written is None:
            lacks = f"has no entry `{shown(entry, _MOST_SHOWN)}` in `data`"
            raise SourceError("absent", f"the ConfigMap {shown_name} {lacks}")
        return written.encode("utf-8", "replace")

    async def apply() -> None:
        if not following.is_current:
            return
        if name not in found:
            watched.fail("absent", f"there is no ConfigMap {shown_name}")
        elif (raw := found[name]) is None:
            rows.again()
        else:
            await rows.read(partial(text, raw), entry)
            if found.get(name) is raw:
                found[name] = None

    await following.run(apply)


# ---- objects of any kind


class _ApiResource(msgspec.Struct, frozen=True):
    name: str
    kind: str
    verbs: list[str] = []


class _ApiResourceList(msgspec.Struct, frozen=True):
    resources: list[_ApiResource]


async def resource_of(api: DataApi, kind: str, part: str = "") -> Resource:
    """What to watch for `v1/Pod` or `apps/v1/Deployment`, or has a part. Raises SourceError."""
    version, _, name = kind.rpartition("/")
    base = "/apis/" if "/" in version else "/api/"
    path = base + "/".join(quote(part, safe="") for part in version.split("/"))
    unknown = f"the cluster has no `{shown(kind, _MOST_SHOWN)}` that can be watched"
    try:
        body = await api.request("GET", path, timeout_seconds=5.0, most_bytes=MOST_BYTES)
    except (ApiError, ApiUnreachableError) as error:
        if isinstance(error, ApiError) and error.status == HTTPStatus.NOT_FOUND:
            raise SourceError("absent", unknown) from None
        raise refusal(f"find `{shown(kind, _MOST_SHOWN)}`", error) from None
    if (found := read_json(body, _ApiResourceList)) is None:
        raise SourceError("garbage", f"the API server's answer about {path} is no list")
    parts = {each.name for each in found.resources}
    for each in found.resources:
        can = f"{each.name}/{part}" in parts if part else {"list", "watch"} <= {*each.verbs}
        if each.kind == name and "/" not in each.name and can:
            return Resource(each.name, f"{path}/{quote(each.name, safe='')}")
    raise SourceError("absent", unknown)


class ObjectRows:
    """The rows of objects, which come as JSON and are made into rows in short steps.

    A key that two objects have has what they are together, by columns with `sum`, `max` or `count`.
    Without such a column it has no row: nobody knows which of them is meant, and who may make
    objects must not replace the row of another one.
    """

    def __init__(self, spec: TableSpec, now: Callable[[], int], changed: asyncio.Event) -> None:
        # Whether some object has no row because there were too many.
        self.lacks = False
        self.left_out, self.cause = 0, ""
        self._spec = spec
        self._now = now
        self._began, self._time = 0.0, Timestamp(now())
        self._changed = changed
        self._waiting: dict[str, bytes | msgspec.Raw | None] = {}
        # The key of the row of each object, and the row.
        self._known: dict[str, tuple[str, Row]] = {}
        # The objects of each key, in any order.
        self.owners: dict[str, dict[str, None]] = {}
        self._rows: dict[str, Row] = {}
        self.store = ObjectStore[Any](
            lambda raw: raw, lambda key, raw, *_: self._wait(key, raw), self._gone, lambda *_: True
        )

    @property
    def rows(self) -> Mapping[str, Row]:
        """A copy, which never changes."""
        return dict(self._rows)

    def _wait(self, key: str, raw: bytes | msgspec.Raw) -> None:
        self._changed.set()
        is_full = max(len(self._known), len(self._waiting)) >= MOST_OBJECTS
        if is_full and key not in self._known and key not in self._waiting:
            self.lacks = True
            return
        self._waiting[key] = raw

    def _gone(self, key: str) -> None:
        self._waiting[key] = None
        self._changed.set()

    async def apply(self) -> bool:
        """Makes rows of what waits; whether any row has changed."""
        due = dict[str, None]()
        while self._waiting:
            await self._turn()
            name, raw = self._waiting.popitem()
            due |= dict.fromkeys(self._put(name, self._row(name, raw)))
        return any([await self._settle(key) for key in due])

    async def _turn(self) -> None:
        """Gives the event loop its turn after a step; the rows of a step share one time."""
        if time.perf_counter() - self._began > _STEP_SECONDS:
            await asyncio.sleep(0)
            self._began, self._time = time.perf_counter(), Timestamp(self._now())

    def _row(self, key: str, raw: bytes | msgspec.Raw | None) -> tuple[str, Row] | None:
        if raw is None:
            return None
        if (found := read_json(raw)) is None:
            return None
        # A frame keeps values, so each object has its own.
        frame = Frame(None, self._time, slots=self._spec.slots)
        made = row_of_object(self._spec, found, frame)
        if made is None:
            self.left_out += 1
            self.cause = f"`{shown(key, _MOST_SHOWN)}` has no key"
        return made

    def _put(self, name: str, made: tuple[str, Row] | None) -> Iterator[str]:
        """Takes the row of an object in place of the one it had, and yields their keys."""
        old = self._known.pop(name, None)
        if old is not None:
            yield old[0]
            del self.owners[old[0]][name]
        if made is None or len(self._known) >= MOST_OBJECTS:
            self.lacks |= made is not None
            return
        yield made[0]
        if old is not None and old[0] == made[0] and equal_rows(old[1], made[1]):
            made = old
        self._known[name] = made
        self.owners.setdefault(made[0], {})[name] = None

    async def _settle(self, key: str) -> bool:
        """Puts the row of a key in force; whether it is another one."""
        new: Row | None = None
        await self._turn()
        if not (owners := self.owners.get(key)):
            self.owners.pop(key, None)
        elif len(owners) == 1 or any(column.over for column in self._spec.columns):
            for row in (self._known[name][1] for name in owners):
                await self._turn()
                new = row if new is None else row_of_both(self._spec, new, row)
        else:
            self.left_out += 1
            names = ", ".join(shown(each, _MOST_SHOWN) for each in sorted(islice(owners, 2)))
            self.cause = f"the key `{shown(key, _MOST_SHOWN)}` is that of two objects: {names}"
        old = self._rows.pop(key, None)
        is_same = equal_rows(old, new)
        if new is not None:
            self._rows[key] = old if is_same else new
        return not is_same


async def watch_objects(watched: SourceState, api: DataApi, kind: str) -> None:
    """Follows all objects of a kind."""
    resource = await _discovered(watched, api, kind)
    changed = asyncio.Event()
    rows = ObjectRows(watched.spec, watched.now, changed)
    following = _Reflected(watched, api, resource, rows.store, changed)
    is_first, is_due, lists = True, False, -1

    async def apply() -> None:
        nonlocal is_first, is_due, lists
        is_due |= await rows.apply()
        if not following.is_current:
            return
        made = following.reflector.relists.total()
        if rows.lacks:
            watched.fail("too_large", f"there are more than {MOST_OBJECTS:,} objects")
            if len(rows.store) <= _FEW_AGAIN:
                rows.lacks = False
                rows.store.distrust()
                following.reflector.ask_relist("too many")
                lists = made
        elif made == lists:
            return
        elif is_first or is_due:
            is_first = is_due = False
            shared = frozenset(key for key, owners in rows.owners.items() if len(owners) > 1)
            watched.take(RowSample(rows.rows, rows.left_out, rows.cause, shared=shared))
            rows.left_out, rows.cause = 0, ""
        else:
            watched.works()

    await following.run(apply)


async def _discovered(watched: SourceState, api: DataApi, kind: str) -> Resource:
    """The resource of a kind, as soon as the cluster has it."""
    backoff = Backoff(_TIMING, time.monotonic, partial(float, 0))
    while True:
        try:
            return await resource_of(api, kind)
        except SourceError as error:
            watched.fail(error.reason, str(error))
        await asyncio.sleep(backoff.next())
