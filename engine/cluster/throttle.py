"""How much the API server may be asked: so many requests a second, and so many at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Requests a second in the long run, requests that may come together, requests in flight.

    As much as kube-scheduler binds pods by default, and some more. Watches are not counted.
    """

    requests_per_second: float = 200.0
    burst: int = 400
    in_flight: int = 32


class TokenBucket:
    """Tokens that come back at a steady rate; taking one more than there are costs waiting."""

    def __init__(self, per_second: float, burst: int, clock: Callable[[], float]) -> None:
        self._per_second = per_second
        self._burst = burst
        self._clock = clock
        self._tokens = float(burst)
        self._counted = clock()

    def take(self) -> float:
        """Takes a token, and says how many seconds from now it may be used."""
        now = self._clock()
        self._tokens += (now - self._counted) * self._per_second
        self._tokens = min(self._tokens, float(self._burst)) - 1.0
        self._counted = now
        return max(0.0, -self._tokens / self._per_second)

    def give_back(self) -> None:
        """Returns a token that was not used."""
        self._tokens += 1.0


class Throttle:
    """Lets requests pass within limits."""

    def __init__(self, limits: Limits, clock: Callable[[], float]) -> None:
        self._bucket = TokenBucket(limits.requests_per_second, limits.burst, clock)
        self._in_flight = asyncio.Semaphore(limits.in_flight)

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Holds a request's place, from when it may be sent until its answer is read."""
        async with self._in_flight:
            if seconds := self._bucket.take():
                try:
                    await asyncio.sleep(seconds)
                except asyncio.CancelledError:
                    self._bucket.give_back()
                    raise
            yield
