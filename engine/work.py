"""Work beside others: in portions, between which these have their turn, and with shared pauses.

A generator yields after each portion and returns the result. Who runs it decides how long it rests.

All that pause for as long wake at the same moment, because to wake a process takes longer than most
of its small work. Six tasks that look once a second, each at a moment of its own, cost three times
as much as six that look together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")
Work = Generator[None, None, T]


def finished(work: Work[T]) -> T:
    """The result of work beside which nobody else waits."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            found: T = end.value
            return found


def until_next(seconds: float) -> float:
    """The seconds until the clock of the event loop is at the next multiple of `seconds`."""
    return seconds - asyncio.get_running_loop().time() % seconds


async def shared_pause(seconds: float) -> None:
    """Waits for `seconds` at most; see `until_next`."""
    await asyncio.sleep(until_next(seconds))
