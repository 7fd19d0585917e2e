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
from engine.fairness import FairShares
from engine.objects.peer import Peer
from engine.work import Work
from server.verbs.answering import DecisionQueue

T = TypeVar("T")
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
    # Who answers has the turn of a decision.
    _queue: DecisionQueue = field(default_factory=lambda: DecisionQueue(_MOST_WAITING), init=False)

    @asynccontextmanager
    async def one(self, namespace: str = "") -> AsyncIterator[None]:
        """The turn of a question that is counted elsewhere. Raises TimeoutError."""
        async with asyncio.timeout(_MOST_SECONDS):
            await self._queue.begin(None, namespace)
            try:
                yield
            finally:
                self._queue.end()

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
