"""FileSigns: tells whoever follows files when it is time to look at them, at little cost.

A whole look takes threads and lists folders, some 0.6 ms. So a thread only asks four times a second
whether anything stirs. That is no promise: it may wait for a mount that is silent, and a folder can
change without a sign. So whoever waits looks every LOOK_SECONDS anyway. Each follower owns one.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress

from policies.loader import INTERVAL_SECONDS

LOOK_SECONDS = 5.0


class FileSigns:
    """Waits until `stirs` is true, which a thread asks that may have to wait for a file."""

    def __init__(self, stirs: Callable[[], bool]) -> None:
        self._stirs = stirs
        self._is_asking = False

    async def next(self, seconds: float = LOOK_SECONDS) -> None:
        """Returns when something stirs, and after so many seconds at the latest."""
        woken, ended = asyncio.Event(), threading.Event()
        # One that still waits for a silent file is all that waits.
        if not self._is_asking:
            self._is_asking = True
            ask = (asyncio.get_running_loop(), woken, ended)
            threading.Thread(target=self._ask, args=ask, name="signs", daemon=True).start()
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await woken.wait()
        finally:
            ended.set()

    def _ask(
        self, loop: asyncio.AbstractEventLoop, woken: asyncio.Event, ended: threading.Event
    ) -> None:
        try:
            while not ended.wait(INTERVAL_SECONDS):
                if self._stirs():
                    with suppress(RuntimeError):  # the loop is closed
                        loop.call_soon_threadsafe(woken.set)
                    return
        finally:
            self._is_asking = False
