"""FileSigns: tells whoever follows files when it is time to look at them, at little cost.

A whole look takes threads and lists folders, some 0.6 ms. So a thread only asks twice a second
whether anything stirs, and sooner while it does. That is no promise: a folder can change without a
sign, so whoever waits looks every LOOK_SECONDS anyway. While the thread waits for a mount that is
silent, every wait is as short as its own. Each follower owns one.
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
_ASK_SECONDS = 0.5
# A thread that has not asked for so long waits for a silent mount.
_SILENT_SECONDS = 1.0


class FileSigns:
    """Signs of files: waits until `stirs` is true, which a thread asks: a file may not answer."""

    def __init__(self, stirs: Callable[[], bool]) -> None:
        self._stirs = stirs
        # Guards who is to be told, and whether there is a thread that asks.
        self._lock = threading.Lock()
        self._tell: Callable[[], object] | None = None
        self._is_asking = False
        self._asked_at = 0.0

    async def next(self, seconds: float = LOOK_SECONDS) -> None:
        """Returns when something stirs, and after so many seconds at the latest."""
        woken = asyncio.Event()
        tell = partial(asyncio.get_running_loop().call_soon_threadsafe, woken.set)
        with self._lock:
            self._tell, has_thread, self._is_asking = tell, self._is_asking, True
        if not has_thread:
            self._asked_at = time.monotonic()
            threading.Thread(target=self._ask, name="signs", daemon=True).start()
        elif time.monotonic() - self._asked_at > _SILENT_SECONDS:
            seconds = min(seconds, INTERVAL_SECONDS)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await woken.wait()
        finally:
            with self._lock:
                self._tell = None

    def _ask(self) -> None:
        """Asks as long as somebody waits."""
        is_asked, stirs = True, False
        while is_asked:
            time.sleep(INTERVAL_SECONDS if stirs else _ASK_SECONDS)
            self._asked_at = time.monotonic()
            stirs = self._stirs()
            with self._lock:
                is_asked = self._is_asking = self._tell is not None
                if stirs and self._tell is not None:
                    self._tell()
