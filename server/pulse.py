"""Whether the event loop that decides still turns, and what it last knew: for other threads."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from server.health import Check, Readiness

_BEAT_SECONDS = 0.5
# A decision takes seconds at the most, and after one of them other things have their turn.
STUCK_SECONDS = 10.0


class Pulse:
    """Written by one event loop, read from any thread: everything is replaced whole.

    `seconds` without a beat are an event loop that is stuck.
    """

    def __init__(
        self,
        readiness: Readiness,
        seconds: float = STUCK_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._readiness = readiness
        self._seconds = seconds
        self._clock = clock
        self._last: tuple[float, Sequence[Check]] = (clock(), [Check("start", "not yet")])

    async def run(self) -> None:
        """Beats until it is cancelled, on the event loop that is watched."""
        while True:
            self.beat()
            await asyncio.sleep(_BEAT_SECONDS)

    def beat(self) -> None:
        """It turns, and this is what it knows."""
        self._last = (self._clock(), tuple(self._readiness()))

    def liveness(self) -> Sequence[Check]:
        silent = self._clock() - self._last[0]
        if silent <= self._seconds:
            return (Check("loop"),)
        return (Check("loop", f"the event loop has not turned for {silent:.0f} seconds"),)

    def readiness(self) -> Sequence[Check]:
        return (*self.liveness(), *self._last[1])
