"""Lists everything once more, and says where the cache is not what the API server has."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

import msgspec

from engine.cache import list_watch
from engine.cache.informers import Informer, ObjectStore
from engine.cache.list_watch import ListerWatcher, head
from engine.errors import ApiError, BadObjectError
from engine.objects.decoding import revision_of

# What is on its way is no difference: so often it is looked again, so many seconds later.
_TRIES = 5
_PAUSE = 1.0
_TURN = 500
_REQUEST_SECONDS = 60.0


class Difference(msgspec.Struct, frozen=True):
    """An object that the cache lacks, has though it is gone, has in an old state, or has wrong."""

    resource: str
    key: str
    kind: Literal["missing", "extra", "old", "wrong"]
    there: str
    here: str


@dataclass(frozen=True, slots=True)
class _Listed:
    """An object as the API server lists it."""

    version: str
    raw: msgspec.Raw


async def compare(
    informer: Informer,
    source: ListerWatcher,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> list[Difference]:
    """The differences of one resource that last for some seconds.

    Raises ApiError and ApiUnreachableError.
    """
    found: list[Difference] = []
    for attempt in range(_TRIES):
        if attempt:
            await sleep(_PAUSE)
        found = [d async for d in _differences(informer, source)]
        if not found:
            break
    return found


async def _differences(informer: Informer, source: ListerWatcher) -> AsyncIterator[Difference]:
    listed: dict[str, _Listed] = {}
    version = ""
    pages = list_watch.pages(source, informer.resource, "", list_watch.PAGE, _REQUEST_SECONDS)
    try:
        async for page in pages:
            version = page.metadata.resourceVersion
            for raw in page.items or ():
                named = head(raw)
                listed[named.key] = _Listed(named.version, raw)
    except ApiError as error:
        # What is not defined has no objects.
        if not (informer.resource.optional and list_watch.is_absent(error)):
            raise
    store, name = informer.store, informer.resource.name
    for count, (key, item) in enumerate(listed.items()):
        if not count % _TURN:
            await asyncio.sleep(0)
        kind = _judge(store, key, item)
        if kind is not None:
            here = str(store.revisions.get(key, ""))
            yield Difference(name, key, kind, item.version, here)
    for key, revision in store.revisions.items():
        # What is newer than the list was made after it.
        if key not in listed and revision <= revision_of(version):
            yield Difference(name, key, "extra", "", str(revision))


def _judge(
    store: ObjectStore[object], key: str, item: _Listed
) -> Literal["missing", "old", "wrong"] | None:
    here, there = store.known(key), revision_of(item.version)
    if here == 0:
        return "missing"
    if here != there:
        return "old" if here < there else None
    if key not in store.revisions:
        return "missing"
    try:
        return None if store.holds(key, store.decode(item.raw)) else "wrong"
    except BadObjectError:
        return "wrong"
