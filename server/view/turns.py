"""Turns: who goes over a cluster on the event loop, and who waits for that.

Work ends a step of the loop after some milliseconds. A line has the questions that are answered one
after the other, in turns by who asks, and lets only some wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from aiohttp import web

from engine.cache.node_table import Snapshot
from engine.fairness import FairQueue, FairShares
from engine.objects.peer import Peer
from engine.work import Work

T = TypeVar("T")
# More than connections of a view, so that none leaves the queue for another.
_MOST_IN_QUEUE = 1000
# Questions that wait for their turn, half of them of one owner, and the seconds of a wait.
_MOST_WAITING, _MOST_SECONDS = 8, 20.0
# The longest step on the event loop of who only reads.
STEP_SECONDS = 0.001


@dataclass(eq=False, slots=True)
class Line:
    """A line of questions of one kind, of which one is answered at a time.

    `kind` names one of them, and an answer takes at most `seconds` once its turn has come.
    """

    kind: str
    seconds: float = _MOST_SECONDS
    _shares: FairShares = field(default_factory=lambda: FairShares(_MOST_WAITING), init=False)
    # One has the turn; others wait here.
    _is_taken: bool = field(default=False, init=False)
    _queue: FairQueue[asyncio.Future[None]] = field(
        default_factory=lambda: FairQueue(_MOST_IN_QUEUE), init=False
    )

    @asynccontextmanager
    async def one(self, owner: str = "") -> AsyncIterator[None]:
        """The turn of a question that is counted elsewhere. Raises HTTPException."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        self._queue.put(owner, turn)
        try:
            async with asyncio.timeout(_MOST_SECONDS) as limit:
                if not self._is_taken:
                    self._pass_on()
                await turn
                limit.reschedule(loop.time() + self.seconds)
                yield
        except TimeoutError:
            text = f"the {self.kind} takes longer than {self.seconds:.0f} s\n"
            raise web.HTTPServiceUnavailable(text=text) from None
        finally:
            # It may also have come in the moment in which the question gave up.
            if turn.done() and not turn.cancelled():
                self._pass_on()

    @asynccontextmanager
    async def turn(self, owner: str = "") -> AsyncIterator[None]:
        """The turn of a question of an owner, see `Reader`, whose first one always waits for it.

        Raises HTTPException.
        """
        if self._shares.of(owner) and not self._shares.has_room(owner):
            raise web.HTTPTooManyRequests(text=f"several other {self.kind}s have not ended\n")
        self._shares.add(owner, 1)
        try:
            async with self.one(owner):
                yield
        finally:
            self._shares.add(owner, -1)

    def _pass_on(self) -> None:
        """Gives the turn to the next owner that waits for one."""
        self._is_taken = False
        while len(self._queue) and not self._is_taken:
            if not (turn := self._queue.take()).done():
                turn.set_result(None)
                self._is_taken = True


async def done(work: Work[T], rest: float, clock: Callable[[], float], step: float = 0.0) -> T:
    """The result of work in portions, with a rest after each, or after steps of some seconds."""
    ends = clock() + step
    while True:
        try:
            next(work)
        except StopIteration as end:
            found: T = end.value
            return found
        if clock() >= ends:
            await asyncio.sleep(rest)
            ends = clock() + step


def waiting_first(snapshot: Snapshot) -> Iterator[Peer]:
    """Every pod, those that wait first."""
    yield from {**snapshot.pending, **snapshot.strays}.values()
    for view in snapshot.table.nodes:
        yield from (view.pods or ()) if view is not None else ()
