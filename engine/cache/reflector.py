"""Reflector: keeps a store equal to a resource of the API server.

client-go's reflector is the model. Its promise: the store becomes equal to the server, whatever
happened before, and the states of an object are applied in the server's order, some left out.

    listing --all objects seen--> watching --the stream ends--> watching from where it ended
       ^                             |
       +--the server has forgotten --+
          that version, or a caller
          asks for a new list

An informer owns it as long as the resource is watched.
"""

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
    GarbageError,
    Kind,
    ListerWatcher,
    Resource,
    WatchEvent,
    head,
    read_event,
)
from engine.errors import ApiError, ApiUnreachableError, BadObjectError, why

# ---- times


@dataclass(frozen=True, slots=True)
class Timing:
    """The timing of a reflector in seconds: as in client-go, unless a comment says otherwise."""

    backoff_first: float = 0.8
    # In client-go 30 s, and starting again after 120 s without a failure. There are few replicas,
    # and pods under strict counts wait for what a watch has missed.
    backoff_most: float = 8.0
    # The backoff starts again after so long without a failure. It is longer than any wait.
    backoff_reset: float = 20.0
    # The longest wait that a server may ask for.
    retry_after_most: float = 300.0
    # After so many server errors in a row a list replaces the watch; client-go tries for a minute.
    broken_most: int = 5
    # The server ends a watch after a time between these, so that clients spread over its replicas.
    watch_least: float = 300.0
    watch_most: float = 600.0
    # A shorter watch without an event is a failure; otherwise it would be repeated at once.
    watch_shortest: float = 1.0
    # Bookmarks come each minute. If two are missing, the connection has died silently.
    idle: float = 120.0
    # The limit for one chunk of a list.
    request: float = 60.0
    # The first pause before a resource without a definition is looked for again, and the longest:
    # each time it is twice as long. After that it is seen that the resource is there.
    absent: float = 2.0
    absent_most: float = 20.0


class Backoff:
    """Exponential backoff with jitter, as in client-go: the reset is measured between failures."""

    def __init__(
        self, timing: Timing, clock: Callable[[], float], random: Callable[[], float]
    ) -> None:
        self._timing = timing
        self._clock = clock
        self._random = random
        self._base = timing.backoff_first
        self._last = clock()

    def next(self) -> float:
        """The seconds to wait: between the current base and twice that."""
        now = self._clock()
        if now - self._last > self._timing.backoff_reset:
            self._base = self._timing.backoff_first
        self._last = now
        base = self._base
        self._base = min(base * 2, self._timing.backoff_most)
        return base * (1 + self._random())


# ---- the reports of failures

# Takes what is being done, and why it fails: see `why`. The text is empty when it works again.
Report = Callable[[str, str], None]


def unreported(_work: str, _failure: str) -> None:
    """The listener where nobody wants to know."""


# ---- the store

_TURN = 200  # objects between two turns of the event loop


class Store(Protocol):
    """The store of the objects of a resource, as `engine.cache.store.ObjectStore` is."""

    def upsert(self, key: str, version: str, raw: bytes | msgspec.Raw) -> None: ...

    def remove(self, key: str, version: str) -> None: ...

    def retain(self, keys: Collection[str]) -> None: ...

    def reach(self, version: str) -> None: ...


# ---- the reflector


class Reflector:
    """A reflector fills one store from one resource while `run` runs. Read its state any time.

    `synced` says whether all objects have been seen once, and `absent` whether the API server
    does not know the resource, in any version, which is why there are none. `relists` counts
    complete lists by reason. `failure` is the reason why there are no events now, or empty, and
    `failures` counts them by kind. It is reported, with what failed; so is an empty one when
    events come again. `bad_objects` counts the objects that could not be read, which do not
    change the store; `bad_object` is the last one with its error.
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
        report: Report = unreported,
    ) -> None:
        self.resource = resource
        # The versions of the resource that the API server did not know, one after another.
        self._absent_versions = 0
        self._absent_pause = 0.0
        self.synced = False
        self.absent = False
        self.resource_version = ""
        self.relists: Counter[str] = Counter()
        self.failure = ""
        self.failures: Counter[str] = Counter()
        self.bad_objects = 0
        self.bad_object = ""
        self._taken = 0
        self._source = source
        self._store = store
        self._timing = timing
        self._clock = clock
        self._sleep = sleep
        self._random = random
        self._report = report
        self._backoff = Backoff(timing, clock, random)
        # A version expires when an API server is back, after failures whose pauses have grown.
        self._expiries = Backoff(timing, clock, random)
        self._last_event: float | None = None
        # The reason why a list is due, and the oldest version that it may have ("": the newest).
        self._due: str | None = "first"
        self._floor = ""
        # A server that cannot stream a list is not asked to again. After a stream that broke off,
        # the next list comes in chunks, because chunks make progress.
        self._streams = True
        self._broke_off = False
        self._broken = 0

    @property
    def last_event_age(self) -> float | None:
        """The seconds since the last event or bookmark; None before the first."""
        return None if self._last_event is None else self._clock() - self._last_event

    def ask_relist(self, reason: str) -> None:
        """List everything again at the next event or bookmark, which is within about a minute."""
        if self._due is None:
            self._list_due(reason, self.resource_version)

    async def run(self) -> None:
        """Run until cancelled. No answer of a server ends it."""
        while True:
            await self._sleep(await self._turn())

    async def _turn(self) -> float:
        """List or watch until that ends. Returns the seconds to wait."""
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
            silent = (
                self._clock() - began >= self._timing.idle and (self._last_event or 0.0) < began
            )
            if silent and self._due is None:
                # A server that was restored from a backup is silent until it reaches our version.
                self._list_due("silent", self.resource_version)
            return self._failed(error)

    async def _list_pages(self) -> None:
        limit, seconds = list_watch.CHUNK, self._timing.request
        while True:
            keys, version = set[str](), ""
            chunks = list_watch.chunks(self._source, self.resource, self._floor, limit, seconds)
            try:
                async for _, chunk in chunks:
                    self._note_event()
                    version = chunk.metadata.resourceVersion
                    for item in chunk.items or ():
                        key, item_version = head(item)
                        self._put(key, item_version, item)
                        keys.add(key)
                        if not self._taken % _TURN:
                            await asyncio.sleep(0)
            except ContinueExpiredError:
                limit = 0  # one chunk: it cannot expire between chunks
            else:
                self._listed(keys, version)
                return

    async def _stream(self, *, initial: bool) -> float:
        timing, before, began = self._timing, self.resource_version, self._clock()
        seconds = timing.watch_least + (timing.watch_most - timing.watch_least) * self._random()
        make_params = list_watch.initial_params if initial else list_watch.watch_params
        params = make_params(self.resource, self._floor if initial else before, seconds)
        async with self._source.stream(self.resource.path, params, timing.idle) as lines:
            if await self._follow(lines, initial=initial):
                return 0.0
        if self._due is not None:
            return self._failed(GarbageError("the list ended before all objects had come"))
        if before == self.resource_version and self._clock() - began < timing.watch_shortest:
            return self._failed(GarbageError("the API server ended a watch at once"))
        return 0.0

    async def _follow(self, lines: AsyncIterator[bytes], *, initial: bool) -> bool:
        """Apply events until the stream ends (False) or a new list is due (True)."""
        keys = set[str]() if initial else None
        self._broke_off = initial
        async for line in lines:
            self._note_event()
            event = read_event(line)
            if keys is None:
                if self._due is not None:
                    return True
                self.apply(event)
                self.resource_version = event.version
                self._store.reach(event.version)
            elif event.kind is Kind.END:
                self._listed(keys, event.version)
                keys = None
            elif key := self.apply(event):
                # Initial objects come in the order of keys, so their versions are not the list's.
                keys.add(key)
            if not self._taken % _TURN:
                # Thousands of objects may arrive in one piece, without an await between them.
                await asyncio.sleep(0)
        return False

    def apply(self, event: WatchEvent) -> str | None:
        """Apply an event to the store. Returns the key of an object that exists now."""
        if event.kind is Kind.PUT:
            self._put(event.key, event.version, event.object)
            return event.key
        if event.kind is Kind.REMOVED:
            self._store.remove(event.key, event.version)
        return None

    def _put(self, key: str, version: str, raw: bytes | msgspec.Raw) -> None:
        self._taken += 1
        try:
            self._store.upsert(key, version, raw)
        except BadObjectError as error:
            self.bad_objects += 1
            self.bad_object = f"`{key}`: {error}"

    def _note_event(self) -> None:
        # The first time too: the reflector may replace one that failed.
        if self.failure or self._last_event is None:
            self.failure = ""
            self._report(self._work, "")
        self._last_event = self._clock()
        self._broken = 0

    def _listed(self, keys: set[str], version: str) -> None:
        self._store.retain(keys)
        self.relists[self._due or ""] += 1
        self.resource_version = version
        self._store.reach(version)
        self.synced = True
        self.absent, self._absent_pause = False, 0.0
        self._due = None
        self._broke_off = False

    def _list_due(self, reason: str, floor: str) -> None:
        self._due = reason
        self._floor = floor

    def _refused(self, error: ApiError, *, streaming: bool) -> float:
        listing = self._due is not None
        if self.resource.optional and list_watch.is_absent(error):
            self._note_event()
            self._store.retain(())
            self.synced = True
            self._list_due("absent", "")
            self.resource = self.resource.other
            self._absent_versions += 1
            every = 1 + len(self.resource.others)
            if self._absent_versions % every:
                return 0.0
            self.absent = True
            pause = 2 * self._absent_pause or self._timing.absent
            self._absent_pause = min(pause, self._timing.absent_most)
            return self._absent_pause
        self._broken += list_watch.is_broken(error)
        unknown = list_watch.is_gone(error) or list_watch.is_ahead(error)
        if unknown and not listing:
            # Not a failure. The wait is for a server that knows no version at all.
            self._list_due("expired", self.resource_version)
            return self._expiries.next()
        if unknown and self._floor:
            self._floor = ""
            return 0.0
        if list_watch.is_not_understood(error) and streaming and listing:
            self._streams = False
            return 0.0
        if list_watch.is_not_understood(error) or self._broken >= self._timing.broken_most:
            self._list_due(self._due or "refused", "")
        wait = min(error.retry_after_seconds or 0.0, self._timing.retry_after_most)
        return max(self._failed(error), wait)

    @property
    def _work(self) -> str:
        return f"watch {self.resource.name}"

    def _failed(self, error: Exception) -> float:
        self.failure = why(self._work, error)
        self.failures[_kind(error)] += 1
        self._report(self._work, self.failure)
        return self._backoff.next()


def _kind(error: Exception) -> str:
    """The kind of a failure, one of few: a label of metrics."""
    match error:
        case ApiError() if error.is_denied:
            return "denied"
        case ApiError() if error.is_transient:
            return "server"
        case ApiError():
            return "refused"
        case ApiUnreachableError():
            return "unreachable"
        case _:
            return "garbage"
