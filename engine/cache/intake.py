"""Where a reflector puts objects: a store, and a count of what the store could not read."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Protocol

import msgspec

from engine.cache.watch_events import Event, Kind, head
from engine.errors import BadObjectError

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


class Intake:
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
