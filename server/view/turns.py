"""Turns: ends a step of the event loop after some milliseconds, for who goes over a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from engine.cache.node_table import Snapshot
from engine.objects.peer import Peer

# The longest step on the event loop, and what is done between two looks at the clock.
_STEP_SECONDS, _PER_LOOK = 0.004, 32


class Turns:
    """The turns of one question."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._ends = clock() + _STEP_SECONDS
        self._number = 0

    async def take(self) -> None:
        """Lets others have the loop at the end of a step."""
        self._number += 1
        if self._number % _PER_LOOK == 0 and self._clock() >= self._ends:
            await asyncio.sleep(0)
            self._ends = self._clock() + _STEP_SECONDS


def waiting_first(snapshot: Snapshot) -> Iterator[Peer]:
    """Every pod, those that wait first."""
    yield from snapshot.pending.values()
    for view in snapshot.table.nodes:
        yield from (view.pods or ()) if view is not None else ()
