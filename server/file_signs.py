"""FileSigns: tells whoever follows files when it is time to look at them, at little cost.

A whole look takes threads and lists folders, some 0.6 ms. So a thread only asks four times a second
whether anything stirs. That is no promise: it may wait for a mount that is silent, and a folder can
change without a sign. So whoever waits looks every LOOK_SECONDS anyway. Each follower owns one.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from policies.loader import INTERVAL_SECONDS

LOOK_SECONDS = 5.0


class FileSigns:
    """Waits until `stirs` is true, which a thread asks that may have to wait for a file."""

    def __init__(self, stirs: Callable[[], bool]) -> None:
        self._stirs = stirs
        # Over these two, which say who is to be told, and whether the thread is there.
        self._lock = threading.Lock()
        self._tell: Callable[[], object] | None = None
        self._is_asking = False

    async def next(self, seconds: float = LOOK_SECONDS) -> None:
        """Returns when something stirs, and after so many seconds at the latest."""
        woken = asyncio.Event()
        tell = partial(asyncio.get_running_loop().call_soon_threadsafe, woken.set)
        with self._lock:
            self._tell, has_thread, self._is_asking = tell, self._is_asking, True
        if not has_thread:
            threading.Thread(target=self._ask, name="signs", daemon=True).start()
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await woken.wait()
        finally:
            with self._lock:
                self._tell = None

    def _ask(self) -> None:
        """Asks as long as somebody waits."""
        is_asked = True
        while is_asked:
            time.sleep(INTERVAL_SECONDS)
            stirs = self._stirs()
            with self._lock:
                is_asked = self._is_asking = self._tell is not None
                if stirs and self._tell is not None:
                    self._tell()
