"""How long to wait after a failure: longer each time, never for all clients the same."""

from __future__ import annotations

from collections.abc import Callable

from engine.cache.timing import Timing


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
