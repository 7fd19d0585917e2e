"""Turns: who goes over a cluster on the event loop, and who waits for that.

Work ends a step of the loop after some milliseconds. A line has the questions that are answered one
after the other, in turns by namespace, and lets only some wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
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
# Questions that wait for their turn, half of them of one namespace, and the seconds of one.
_MOST_WAITING, _MOST_SECONDS = 8, 20.0
# The longest step on the event loop of who only reads.
STEP_SECONDS = 0.001


@dataclass(eq=False, slots=True)
class Line:
    """A line of questions of one kind, of which one is answered at a time.

    `questions` names a question, and `busy` is the text where too many wait.
    """

    questions: str
    busy: str
    _shares: FairShares = field(default_factory=lambda: FairShares(_MOST_WAITING), init=False)
    # One has the turn; others wait here.
    _is_taken: bool = field(default=False, init=False)
    _queue: FairQueue[asyncio.Future[None]] = field(
        default_factory=lambda: FairQueue(_MOST_IN_QUEUE), init=False
    )

    @asynccontextmanager
    async def one(self, namespace: str = "") -> AsyncIterator[None]:
        """The turn of a question that is counted elsewhere. Raises TimeoutError."""
        async with asyncio.timeout(_MOST_SECONDS):
            await self._wait(namespace)
            try:
                yield
            finally:
                self._pass_on()

    async def turn(self, answer: Coroutine[None, None, T], namespace: str = "") -> T:
        """The answer, when the others have ended. Raises HTTPException.

        `namespace` is that of who asks, empty for who may ask about all.
        """
        if not self._shares.has_room(namespace):
            answer.close()
            raise web.HTTPTooManyRequests(text=f"{self.busy}\n")
        self._shares.add(namespace, 1)
        try:
            async with self.one(namespace):
                return await answer
        except TimeoutError:
            text = f"{self.questions} takes longer than {_MOST_SECONDS:.0f} s\n"
            raise web.HTTPServiceUnavailable(text=text) from None
        finally:
            self._shares.add(namespace, -1)
            answer.close()

    async def _wait(self, namespace: str) -> None:
        if not self._is_taken:
            self._is_taken = True
            return
        turn = asyncio.get_running_loop().create_future()
        self._queue.put(namespace, turn)
        try:
            await turn
        except BaseException:
            if turn.done() and not turn.cancelled():
                # It came in the moment in which the question gave up.
                self._pass_on()
            raise

    def _pass_on(self) -> None:
        """Gives the turn to the next namespace that waits for one."""
        while len(self._queue):
            if not (turn := self._queue.take()).done():
                turn.set_result(None)
                return
        self._is_taken = False


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
    yield from snapshot.pending.values()
    for view in snapshot.table.nodes:
        yield from (view.pods or ()) if view is not None else ()
