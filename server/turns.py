"""How many calls are in flight, and whose turn it is: decisions are made one at a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from engine.errors import DeadlineExceededError
from server.errors import Outcome, RequestError

# A request that is seen so soon after a decision may have come while it was made.
_SOON_SECONDS = 0.005
# Turns of the event loop between a connection that waits to be accepted and its handler.
_MANY_LOOKS = 8


class Turns:
    """In flight is a call whose body is being read, that waits for its turn, or that binds.

    Decisions are synchronous: while one is made, nothing else happens. Between any two of them the
    event loop looks at its sockets and timers, so that calls are counted when they come, and what
    else there is to do, such as renewing the Lease, gets done. On one event loop.
    """

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._clock = clock
        self._lock = asyncio.Lock()
        self._began = self._ended = float("-inf")
        self.in_flight = 0

    def arrival(self) -> float:
        """When a call came that is seen now, at the earliest; in seconds of the clock."""
        now = self._clock()
        return self._began if now - self._ended < _SOON_SECONDS else now

    def enter(self) -> None:
        """Counts a call, until `leave`. Raises RequestError where there are too many."""
        if self.in_flight >= self._most:
            text = f"too many calls at once: Placet takes {self._most}, see --max-in-flight"
            raise RequestError(text, Outcome.OVERLOADED)
        self.in_flight += 1

    def leave(self) -> None:
        """The call is over."""
        self.in_flight -= 1

    async def begin(self, deadline: float) -> None:
        """Waits until everybody who came before has decided; what follows, up to `end`, must not.

        Raises DeadlineExceededError where it did not come to that.
        """
        if self._lock.locked():
            try:
                async with asyncio.timeout_at(deadline):
                    await self._lock.acquire()
            except TimeoutError:
                raise DeadlineExceededError("the request waited too long for its turn") from None
        else:
            await self._lock.acquire()
        self._began = self._clock()

    def end(self) -> None:
        """The decision is made, or cannot be."""
        self._ended = self._clock()
        is_long = self._ended - self._began > _SOON_SECONDS
        self._release(_MANY_LOOKS if is_long else 1)

    def _release(self, looks: int) -> None:
        """Once the event loop has looked that often who else is there."""
        act = self._lock.release if looks == 1 else lambda: self._release(looks - 1)
        asyncio.get_running_loop().call_soon(act)
