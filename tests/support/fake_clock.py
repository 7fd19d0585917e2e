"""Fake clock: an event loop whose time stands still while there is work, and skips all waiting.

A test that is marked `fake_clock` runs on it, with its fixtures. Then a wait of an hour takes a
moment, and no timeout comes earlier because the machine is busy. The time of the loop begins as
`time.monotonic`, because Placet compares the two, and moves only when nothing else is left to do.
While a job of an executor runs, it is that of the machine. Sockets are real. A test that waits for
another process, or for a thread that is no job of an executor, needs the usual event loop.
"""

from __future__ import annotations

import asyncio
import fcntl
import math
import selectors
import struct
import sys
import termios
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
# What the kernel may take to deliver between two sockets of this process: nothing, or a while on a
# busy machine. It has more time before more time is skipped, as a wrong skip would do more harm.
_LEAST_SECONDS, _MOST_SECONDS, _SHARE = 0.001, 0.1, 0.02
# How long to wait for a job before those who wait look again.
_LOOK_SECONDS = 0.01


class Waits(selectors.DefaultSelector):
    """A selector that moves its time in place of waiting, and tells those who wait for that."""

    def __init__(self) -> None:
        super().__init__()
        self.now = time.monotonic()
        # The jobs of executors that have not ended.
        self.jobs = 0
        # Whether a socket was closed, whose peer is to be told, since nothing was left to do.
        self._has_closed = False
        # Those who wait until nothing is left to do, and the time has passed this one.
        self.waiting: list[tuple[float, asyncio.Future[None]]] = []

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0:
            return super().select(timeout)
        if self.jobs:
            return self._wait_for_jobs(timeout)
        if timeout is None and not self.waiting:
            return super().select(None)
        ready = self._delivered(0.0 if timeout is None else min(timeout * _SHARE, _MOST_SECONDS))
        if not ready and not self._tell() and timeout is not None:
            self.now += timeout
        return ready

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        self._has_closed = True
        return super().unregister(fileobj)

    def _delivered(self, seconds: float) -> list[tuple[selectors.SelectorKey, int]]:
        """What the kernel delivers, for so long at most as something may be on its way."""
        # Where a loop has only the socket that wakes it up, nothing is on its way.
        ready = super().select(_LEAST_SECONDS if len(self.get_map()) > 1 else 0)
        ends = time.monotonic() + seconds
        while not ready and time.monotonic() < ends and (self._has_closed or self._is_sending()):
            ready = super().select(_LEAST_SECONDS)
        self._has_closed = self._has_closed and bool(ready)
        return ready

    def _is_sending(self) -> bool:
        """Whether something that a socket has sent may still be on its way to the peer."""
        keys = self.get_map().values()
        return sys.platform != "linux" or any(
            key.events & selectors.EVENT_WRITE or _not_acknowledged(key.fd) for key in keys
        )

    def _wait_for_jobs(self, timeout: float | None) -> list[tuple[selectors.SelectorKey, int]]:
        """Waits as long as it takes; the time goes on as that of the machine."""
        if self.waiting:
            timeout = _LOOK_SECONDS if timeout is None else min(timeout, _LOOK_SECONDS)
        began = time.monotonic()
        ready = super().select(timeout)
        took = time.monotonic() - began
        self.now += took if timeout is None else min(took, timeout) if ready else timeout
        if not ready:
            self._tell()
        return ready

    def _tell(self) -> bool:
        """Tells those who wait for this. Whether there was somebody."""
        told = [each for after, each in self.waiting if after < self.now]
        self.waiting = [(after, each) for after, each in self.waiting if after >= self.now]
        for each in told:
            if not each.done():
                each.set_result(None)
        return bool(told)


def _not_acknowledged(descriptor: int) -> int:
    """The bytes that a socket has sent and its peer has not acknowledged, on Linux."""
    try:
        answer = fcntl.ioctl(descriptor, termios.TIOCOUTQ, bytes(4))
    except OSError:  # It listens, or is none.
        return 0
    return int(struct.unpack("i", answer)[0])


@dataclass
class HandClock:
    """A clock that a test sets."""

    seconds: float = 0.0

    def __call__(self) -> float:
        return self.seconds


class FakeClockLoop(asyncio.SelectorEventLoop):
    """The event loop of tests that are marked `fake_clock`."""

    def __init__(self, waits: Waits | None = None) -> None:
        self._waits = waits or Waits()
        super().__init__(self._waits)

    def time(self) -> float:
        return self._waits.now

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        job = super().run_in_executor(executor, func, *args)
        self._waits.jobs += 1
        job.add_done_callback(self._ended)
        return job

    async def shutdown_default_executor(self, *seconds: Any) -> None:
        """As any loop. It has a thread of its own, which newer versions of Python bound in time."""
        self._waits.jobs += 1
        try:
            await super().shutdown_default_executor(*seconds)
        finally:
            self._ended(None)

    def _ended(self, _: object) -> None:
        self._waits.jobs -= 1

    @property
    def has_jobs(self) -> bool:
        return self._waits.jobs > 0

    async def idle(self, after: float = -math.inf) -> None:
        """Returns when nothing is left to do but wait, and it is later than this.

        While jobs run, it returns from time to time.
        """
        self._waits.waiting.append((after, told := self.create_future()))
        await told


def run(work: Coroutine[Any, Any, T]) -> T:
    """As `asyncio.run`, for a test that is no coroutine."""
    with asyncio.Runner(loop_factory=FakeClockLoop) as runner:
        return runner.run(work)


async def settled() -> None:
    """Returns when nothing is left to do but wait, and no job of an executor runs.

    Only in a test that is marked `fake_clock`.
    """
    loop = _loop()
    await loop.idle()
    while loop.has_jobs:
        await loop.idle()


async def until(holds: Callable[[], object], seconds: float = 60.0) -> None:
    """Returns when something holds. It is looked at when nothing is left to do but wait.

    Only in a test that is marked `fake_clock`. Raises TimeoutError after so many seconds.
    """
    loop, looked = _loop(), -math.inf
    async with asyncio.timeout(seconds):
        while not holds():
            await loop.idle(looked)
            looked = loop.time()


def _loop() -> FakeClockLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, FakeClockLoop), "the test is not marked `fake_clock`"
    return loop
