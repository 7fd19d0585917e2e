"""Comparison: lists a resource again and finds where the cache differs from the API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Literal

import msgspec

from engine.cache import list_watch
from engine.cache.informers import Informer
from engine.cache.list_watch import ListerWatcher, head
from engine.cache.store import ObjectStore
from engine.errors import ApiError, BadObjectError
from engine.objects.decoding import revision_of

# Events on their way look like differences, so a difference must last: it is looked for again this
# often, with so many seconds between.
_TRIES = 5
_PAUSE = 1.0
_TURN = 500  # objects between two turns of the event loop
_REQUEST_SECONDS = 60.0

Kind = Literal["missing", "extra", "old", "wrong"]


class Difference(msgspec.Struct, frozen=True):
    """An object that the cache lacks (missing), has though it is deleted (extra), or has wrongly.

    `old` means an old version, `wrong` the right version with another content. `there` and `here`
    are the versions of the API server and of the cache.
    """

    resource: str
    key: str
    kind: Kind
    there: str
    here: str


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
    listed: dict[str, tuple[str, msgspec.Raw]] = {}
    list_version = ""
    # In the version that is watched.
    resource = informer.reflector.resource
    chunks = list_watch.chunks(source, resource, "", list_watch.CHUNK, _REQUEST_SECONDS)
    try:
        async for chunk in chunks:
            list_version = chunk.metadata.resourceVersion
            for raw in chunk.items or ():
                key, version = head(raw)
                listed[key] = version, raw
    except ApiError as error:
        # A resource without a definition has no objects.
        if not (informer.resource.optional and list_watch.is_absent(error)):
            raise
    store, name = informer.store, informer.resource.name
    for count, (key, (version, raw)) in enumerate(listed.items()):
        if not count % _TURN:
            await asyncio.sleep(0)
        kind = _difference(store, key, version, raw)
        if kind is not None:
            yield Difference(name, key, kind, version, str(store.revisions.get(key, "")))
    for key, revision in store.revisions.items():
        # A newer object was created after the list.
        if key not in listed and revision <= revision_of(list_version):
            yield Difference(name, key, "extra", "", str(revision))


def _difference(
    store: ObjectStore[object], key: str, version: str, raw: msgspec.Raw
) -> Kind | None:
    here, there = store.known(key), revision_of(version)
    if here == 0:
        return "missing"
    if here != there:
        return "old" if here < there else None
    if key not in store.revisions:
        return "missing"
    try:
        return None if store.holds(key, store.decode(raw)) else "wrong"
    except BadObjectError:
        return "wrong"
