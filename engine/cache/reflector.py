"""The times of a reflector, in seconds: those of client-go unless a line says why not."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Protocol

import msgspec

from engine.cache import list_watch
from engine.cache.list_watch import (
    ContinueExpiredError,
    Event,
    GarbageError,
    Kind,
    ListerWatcher,
    Resource,
    head,
    read_event,
)
from engine.errors import ApiError, ApiUnreachableError, BadObjectError


@dataclass(frozen=True, slots=True)
class Timing:
    """How patient a reflector is."""

    backoff_first: float = 0.8
    backoff_most: float = 30.0
    # Without a failure for so long, the next one is the first.
    backoff_reset: float = 120.0
    # A server that asks for more than this is not believed.
    retry_after_most: float = 300.0
    # So many errors of a server in a row, and a watch is given up for a list: client-go tries for
    # a minute.
    broken_most: int = 5
    # The server ends a watch after a time between these, so that clients spread over its replicas.
    watch_least: float = 300.0
    watch_most: float = 600.0
    # A watch that ended sooner and told nothing new is a failure, or it would be repeated at once.
    watch_shortest: float = 1.0
    # Bookmarks come each minute: two of them missing is a connection that has died silently.
    idle: float = 120.0
    # One page of a list.
    request: float = 60.0
    # Until a resource whose definition is not installed is looked for again.
    absent: float = 30.0


# ---- How long to wait after a failure: longer each time, never for all clients the same.


class Backoff:
    """client-go's exponential backoff manager: its calm is measured from failure to failure."""

    def __init__(
        self, timing: Timing, clock: Callable[[], float], random: Callable[[], float]
    ) -> None:
        self._timing = timing
        self._clock = clock
        self._random = random
        self._base = timing.backoff_first
        self._last = clock()

    def next(self) -> float:
        """Seconds to wait: at least the base of this time, at most twice that."""
        now = self._clock()
        if now - self._last > self._timing.backoff_reset:
            self._base = self._timing.backoff_first
        self._last = now
        base = self._base
        self._base = min(base * 2, self._timing.backoff_most)
        return base * (1 + self._random())


# ---- Where a reflector puts objects: a store, and a count of what the store could not read.

_TURN = 200  # objects between two chances for others to run


class Store(Protocol):
    """Where objects go. A key is `namespace/name`, or the name where there are no namespaces."""

    def upsert(self, key: str, version: str, raw: bytes | msgspec.Raw) -> None:
        """Takes an object's newest state. Raises BadObjectError."""
        ...

    def remove(self, key: str, version: str) -> None:
        """Forgets an object, which may not be there; `version` is that of its deletion."""
        ...

    def retain(self, keys: Collection[str]) -> None:
        """Forgets all objects but these."""
        ...

    def __len__(self) -> int: ...


class StoreWriter:
    """Puts objects into a store. One that cannot be read is counted, and leaves what was there."""

    def __init__(self, store: Store) -> None:
        self.bad_objects = 0
        self.bad_object = ""
        self._store = store
        self._taken = 0

    async def apply(self, event: Event) -> str | None:
        """The key of an object that is there now."""
        match event.kind:
            case Kind.PUT:
                await self._put(event.key, event.version, event.object)
                return event.key
            case Kind.REMOVED:
                self._store.remove(event.key, event.version)
            case _:
                pass
        return None

    async def put(self, raw: msgspec.Raw) -> str:
        """The key of an object of a list. Raises GarbageError for one without a name."""
        named = head(raw)
        await self._put(named.key, named.version, raw)
        return named.key

    async def _put(self, key: str, version: str, raw: bytes | msgspec.Raw) -> None:
        self._taken += 1
        if self._taken % _TURN == 0:
            # Ten thousand objects may be here without any waiting between them.
            await asyncio.sleep(0)
        try:
            self._store.upsert(key, version, raw)
        except BadObjectError as error:
            self._bad(key, error)

    def _bad(self, key: str, error: BadObjectError) -> None:
        self.bad_objects += 1
        self.bad_object = f"`{key}`: {error}"


# ---- Keeps a store equal to a resource of the API server: lists it, then watches it, for ever.
#
# client-go's reflector is the model. Its promise: the store becomes equal to the server, whatever
# happened in between, and an object's states are applied in the server's order, some left out.
#
# listing --all objects seen--> watching --the stream ends--> watching from where it ended
# ^---- the server has forgotten where that was, or someone asks ----+


class Reflector:
    """Fills one store from one resource while `run` runs. Its attributes may be read any time.

    `synced`: all objects have been seen once. `relists`: complete lists by reason. `failure`: why
    there is no news now, or empty; `failures` counts. `intake` counts what could not be read.
    """

    def __init__(
        self,
        resource: Resource,
        source: ListerWatcher,
        store: Store,
        *,
        timing: Timing = Timing(),
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        random: Callable[[], float] = random.random,
    ) -> None:
        self.resource = resource
        self.synced = False
        self.resource_version = ""
        self.relists: Counter[str] = Counter()
        self.failure = ""
        self.failures = 0
        self._source = source
        self._store = store
        self.intake = StoreWriter(store)
        self._timing = timing
        self._clock = clock
        self._sleep = sleep
        self._random = random
        self._backoff = Backoff(timing, clock, random)
        self._heard: float | None = None
        # Why a list is due, and how old its state may be ("": it must be the newest).
        self._due: str | None = "first"
        self._floor = ""
        # A server that cannot stream a list is not asked again. One whose stream broke off is
        # asked for pages next, as making progress is better than streaming.
        self._streams = True
        self._broke_off = False
        self._broken = 0

    @property
    def count(self) -> int:
        """The objects there are, so far."""
        return len(self._store)

    @property
    def last_event_age(self) -> float | None:
        """Seconds since the server was last heard of, if only by a bookmark."""
        return None if self._heard is None else self._clock() - self._heard

    def ask_relist(self, reason: str) -> None:
        """Has everything listed again at the next sign of the server: within a minute or so."""
        if self._due is None:
            self._list_due(reason, self.resource_version)

    async def run(self) -> None:
        """Until it is cancelled: no answer of a server ends it."""
        while True:
            await self._sleep(await self._turn())

    async def _turn(self) -> float:
        """Lists or watches until that ends; returns the seconds to wait then."""
        listing = self._due is not None
        streaming = listing and self._streams and not self._broke_off
        began = self._clock()
        try:
            if listing and not streaming:
                await self._list_pages()
                return 0.0
            return await self._stream(initial=listing)
        except ApiError as error:
            return self._refused(error, streaming=streaming)
        except (ApiUnreachableError, GarbageError) as error:
            silent = self._clock() - began >= self._timing.idle and (self._heard or 0.0) < began
            if silent and self._due is None:
                # So is a server that was restored from a backup, to whom our version is to come.
                self._list_due("silent", self.resource_version)
            return self._failed(str(error))

    async def _list_pages(self) -> None:
        limit, seconds = list_watch.PAGE, self._timing.request
        while True:
            keys, version = set[str](), ""
            pages = list_watch.pages(self._source, self.resource, self._floor, limit, seconds)
            try:
                async for page in pages:
                    self._hear()
                    version = page.metadata.resourceVersion
                    for item in page.items or ():
                        keys.add(await self.intake.put(item))
            except ContinueExpiredError:
                limit = 0  # what comes in one piece cannot expire between pieces
            else:
                self._listed(keys, version)
                return

    async def _stream(self, *, initial: bool) -> float:
        timing, before, began = self._timing, self.resource_version, self._clock()
        seconds = timing.watch_least + (timing.watch_most - timing.watch_least) * self._random()
        asked = list_watch.initial_params if initial else list_watch.watch_params
        params = asked(self.resource, self._floor if initial else before, seconds)
        async with self._source.stream(self.resource.path, params, timing.idle) as lines:
            if await self._follow(lines, initial=initial):
                return 0.0
        if self._due is not None:
            return self._failed("the API server ended a list before all objects had come")
        if before == self.resource_version and self._clock() - began < timing.watch_shortest:
            return self._failed("the API server ended a watch at once")
        return 0.0

    async def _follow(self, lines: AsyncIterator[bytes], *, initial: bool) -> bool:
        """Applies what comes until nothing more does (False), or a list is due again (True)."""
        keys = set[str]() if initial else None
        self._broke_off = initial
        async for line in lines:
            self._hear()
            event = read_event(line)
            if keys is None:
                if self._due is not None:
                    return True
                await self.intake.apply(event)
                self.resource_version = event.version
            elif event.kind is Kind.END:
                self._listed(keys, event.version)
                keys = None
            elif key := await self.intake.apply(event):
                # An object's version is not the list's: initial ones come in the order of keys.
                keys.add(key)
        return False

    def _hear(self) -> None:
        self._heard = self._clock()
        self._broken = 0
        self.failure = ""

    def _listed(self, keys: set[str], version: str) -> None:
        self._store.retain(keys)
        self.relists[self._due or ""] += 1
        self.resource_version = version
        self.synced = True
        self._due = None
        self._broke_off = False

    def _list_due(self, reason: str, floor: str) -> None:
        self._due = reason
        self._floor = floor

    def _refused(self, error: ApiError, *, streaming: bool) -> float:
        listing = self._due is not None
        if self.resource.optional and list_watch.is_absent(error):
            self._hear()
            self._store.retain(())
            self.synced = True
            self._list_due("absent", "")
            return self._timing.absent
        self._broken += list_watch.is_broken(error)
        unknown = list_watch.is_gone(error) or list_watch.is_ahead(error)
        if unknown and not listing:
            # No failure, but a server to which every version is unknown must not be hurried.
            self._list_due("expired", self.resource_version)
            return self._backoff.next()
        if unknown and self._floor:
            self._floor = ""
            return 0.0
        if list_watch.is_not_understood(error) and streaming and listing:
            self._streams = False
            return 0.0
        if list_watch.is_not_understood(error) or self._broken >= self._timing.broken_most:
            self._list_due(self._due or "refused", "")
        asked = min(error.retry_after_seconds or 0.0, self._timing.retry_after_most)
        return max(self._failed(str(error)), asked)

    def _failed(self, text: str) -> float:
        self.failure = text
        self.failures += 1
        return self._backoff.next()
