"""Pauses of work that repeats: all that pause for as long wake at the same moment.

To wake a process takes longer than most of its small work. Six tasks that look once a second, each
at a moment of its own, cost three times as much as six that look together.
"""

from __future__ import annotations

import asyncio


def until_next(seconds: float) -> float:
    """The seconds until the clock of the event loop is at the next multiple of `seconds`."""
    return seconds - asyncio.get_running_loop().time() % seconds


async def shared_pause(seconds: float) -> None:
    """Waits for `seconds` at most; see `until_next`."""
    await asyncio.sleep(until_next(seconds))
