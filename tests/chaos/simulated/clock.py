"""Clock: an event loop that skips all waiting, and the time of the whole process.

A minute of a cluster takes a second. Every module of Placet takes `time.monotonic` and `time.time`
as they are when it is imported, so `install` comes before all other imports.

The clocks begin at a time of the seed: tasks pause until the next whole second, and a budget is
another one every other minute, so a run depends on when it begins.
"""

from __future__ import annotations

import os
import selectors
import time
from collections.abc import Callable
from random import Random

from tests.support.fake_clock import FakeClockLoop, Waits

# The wait for a job of another thread or process. It takes no time, unless it takes this long.
_JOB_SECONDS, _LONG_JOB_SECONDS = 0.01, 10.0
# The earliest time of the clocks, and what repeats itself in the times that policies read.
_WALL_SECONDS, _SECONDS, _PERIOD_SECONDS = 1_767_225_600, 1000.0, 120.0


class SimulatedWaits(Waits):
    """Waits of a simulation: nothing outside of it takes time."""

    def __init__(self) -> None:
        super().__init__()
        self._job_began: float | None = None
        # Whether anything came since time was skipped last.
        self._came = False

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        wait = selectors.DefaultSelector.select
        if timeout is not None and timeout <= 0:
            return wait(self, timeout)
        if self.jobs:
            began = self._job_began = self._job_began or _monotonic()
            ready = wait(self, _JOB_SECONDS)
            if not ready and _monotonic() - began > _LONG_JOB_SECONDS:
                self.now += _JOB_SECONDS
            return ready
        self._job_began = None
        # What one socket of this process sends, the other one has at once. A busy machine may be
        # late with it, but a processor that is given up there comes back late too: so this gives it
        # up only where sockets are in use.
        ready = wait(self, 0)
        if not ready and self._came:
            os.sched_yield()
            ready = wait(self, 0)
        self._came = bool(ready)
        if ready:
            return ready
        if timeout is not None:
            self.now += timeout
        return []


_monotonic: Callable[[], float] = time.monotonic


class SimulatedLoop(FakeClockLoop):
    """The loop of the simulation. Each run on it begins with `begin`."""

    def __init__(self, waits: SimulatedWaits, began: float) -> None:
        super().__init__(waits)
        self._began = waits.now = began

    def begin(self) -> None:
        """Skips time until policies and pauses see that of the first run again."""
        self._waits.now += (self._began - self._waits.now) % _PERIOD_SECONDS


def install(seed: int) -> SimulatedLoop:
    """The loop of the simulation, whose time is that of the process from now on."""
    dice, waits = Random(seed), SimulatedWaits()
    began = _SECONDS + dice.uniform(0.0, _PERIOD_SECONDS)
    wall = round((_WALL_SECONDS + dice.uniform(0.0, _PERIOD_SECONDS)) * 1e9)
    loop = SimulatedLoop(waits, began)

    def nanos() -> int:
        return wall + round((waits.now - began) * 1e9)

    time.monotonic = loop.time
    time.time_ns = nanos
    time.time = lambda: nanos() / 1e9
    return loop
