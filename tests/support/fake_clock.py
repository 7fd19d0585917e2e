"""Fake clock: an event loop whose time stands still while there is work, and skips all waiting.

A test that is marked `fake_clock` runs on it, with its fixtures. Then a wait of an hour takes a
moment, and no timeout comes earlier because the machine is busy. The time of the loop begins as
`time.monotonic`, because Placet compares the two, and moves only when nothing else is left to do.
While a job of an executor runs, it is that of the machine. Sockets are real. A test that waits for
another process, or for a thread that is no job of an executor, needs the usual event loop.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from typing import Any, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
# What the kernel may take to deliver between two sockets of this process.
_MOMENT_SECONDS = 0.001


class _Selector(selectors.DefaultSelector):
    """A selector that skips what it would wait, and adds it to its time."""

    def __init__(self) -> None:
        super().__init__()
        self.now = time.monotonic()
        # The jobs of executors that have not ended.
        self.jobs = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout <= 0:
            return super().select(timeout)
        if self.jobs:
            began = time.monotonic()
            ready = super().select(timeout)
            self.now += min(timeout, time.monotonic() - began) if ready else timeout
            return ready
        ready = super().select(min(timeout, _MOMENT_SECONDS))
        if not ready:
            self.now += timeout
        return ready


class FakeClockLoop(asyncio.SelectorEventLoop):
    """The event loop of tests that are marked `fake_clock`."""

    def __init__(self) -> None:
        self._waits = _Selector()
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

    def _ended(self, _: object) -> None:
        self._waits.jobs -= 1


def run(work: Coroutine[Any, Any, T]) -> T:
    """As `asyncio.run`, for a test that is no coroutine."""
    with asyncio.Runner(loop_factory=FakeClockLoop) as runner:
        return runner.run(work)


async def settled() -> None:
    """Returns when nothing is left to do but wait. Only in a test that is marked `fake_clock`."""
    assert isinstance(asyncio.get_running_loop(), FakeClockLoop)
    await asyncio.sleep(1e-6)


async def until(holds: Callable[[], object], seconds: float = 60.0) -> None:
    """Returns when something holds, looked at whenever there is nothing else to do.

    Only in a test that is marked `fake_clock`. Raises TimeoutError after so many seconds.
    """
    assert isinstance(asyncio.get_running_loop(), FakeClockLoop)
    async with asyncio.timeout(seconds):
        while not holds():  # noqa: ASYNC110 - it is a question, no event
            await asyncio.sleep(0.01)
