"""Answering: what all verbs share: the body, a place in the queue, the decision, and its errors.

Decisions are made one at a time. Addresses take turns; the calls of one are decided in the order in
which they were read. Whatever goes wrong, kube-scheduler gets an answer in the form of its verb.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from aiohttp import web

from engine.decision.preemption import Victims
from engine.decision.verdict import Decision, Scores
from engine.errors import DeadlineExceededError, HandoverError
from server.call import Aside, CallRecord
from server.errors import CallFailure, Outcome, RequestError
from server.http.bodies import BodyReader, refuse_encoded
from server.http.connections import ENDED, AnswerAtOnce
from server.http.middleware import CallRecorder
from server.settings import MEBIBYTE, Settings

# A request that is read this soon after a long decision may have arrived during it.
_SOON_SECONDS = 0.02
# The end of short decisions: during a longer one, other calls may arrive.
_LONG_SECONDS = 0.005
# The bytes that are sent at once of a large answer.
_PART = MEBIBYTE // 4
# Rounds of the event loop between an accepted connection and its handler.
_MANY_LOOKS = 8


class Decider(Protocol):
    """An engine that decides the verbs. All raise EngineError.

    `pod` and `nodes` are JSON as received; `deadline` is in seconds of `time.monotonic`.
    """

    def filter(
        self, pod: bytes, names: Sequence[str], nodes: Sequence[bytes] | None, deadline: float
    ) -> Decision:
        """A verdict per name, in their order."""
        ...

    def prioritize(
        self, pod: bytes, names: Sequence[str], nodes: Sequence[bytes] | None, deadline: float
    ) -> Scores | None:
        """A score 0..10 per name, in their order; None where no score applies."""
        ...

    def preempt(
        self, pod: bytes, victims: Mapping[str, Victims], deadline: float
    ) -> Mapping[str, Victims]:
        """The nodes where pods may be evicted, with their victims."""
        ...


Answer = bytes | Coroutine[None, None, bytes]


class Verb(Protocol):
    """One verb: from the body of a request to that of its answer."""

    def decide(self, body: bytes, call: CallRecord) -> Answer:
        """The answer, or what waits for it. Fills in the call.

        Raises RequestError, EngineError and others.
        """
        ...

    def refuse(self, failure: CallFailure) -> tuple[int, bytes]:
        """The status of the answer of a call that failed, and its body."""
        ...


@dataclass(eq=False, slots=True)
class VerbAnswerer:
    """Answers the calls of all verbs of a server."""

    queue: DecisionQueue
    settings: Settings
    bodies: BodyReader
    recorder: CallRecorder
    clock: Callable[[], float] = time.monotonic

    async def answer(self, verb: Verb, request: web.Request, call: CallRecord) -> web.Response:
        """The response to a request. Never raises but for cancellation."""
        limit, seconds = self.settings.body_limit, self.settings.decision_seconds
        try:
            if (refusal := refuse_encoded(request, call)) is not None:
                return refusal
            call.arrived = min(call.arrived, self.queue.arrival())
            call.deadline = call.arrived + seconds
            body = await self.bodies.read(request, call, limit)
            with self.queue.counted(call.client) as aside:
                call.aside = aside
                if request.transport is not None:
                    call.ended = request.transport.get_extra_info(ENDED)
                await self.queue.begin(call.deadline, call.client)
                try:
                    answer = verb.decide(body, call)
                finally:
                    self.queue.end()
                return json_response(answer if isinstance(answer, bytes) else await answer)
        except Exception as error:  # noqa: BLE001  # whatever it is, kube-scheduler gets its answer
            status, text = verb.refuse(call.fail(error))
            response = (
                json_response(text)
                if status == 200
                else web.Response(
                    status=status, body=text, content_type="text/plain", charset="utf-8"
                )
            )
            if isinstance(error, HandoverError):
                # A balancer has the client connect to the replica that decides.
                response.force_close()
            return response

    def at_once(self, name: str, verb: Verb) -> AnswerAtOnce:
        """What answers the whole requests of a verb that mostly need not wait. It never raises.

        An interrupted call has changed nothing that `answer` does not change again.
        """
        queue, recorder, clock = self.queue, self.recorder, self.clock
        in_flight, shutdown = recorder.metrics.in_flight(name), recorder.shutdown
        most, seconds = min(self.settings.body_limit, MEBIBYTE), self.settings.decision_seconds

        def answer(body: bytes, agent: str) -> bytes | None:
            if len(body) > most or shutdown.has_begun or not queue.begin_at_once():
                return None
            # None has arrived during a long decision: those are read while the queue rests.
            call = CallRecord(name, clock(), agent, received=len(body))
            call.deadline = call.arrived + seconds
            in_flight.value += 1
            try:
                found = verb.decide(body, call)
                if not isinstance(found, bytes):
                    found.close()
                    return None
            except HandoverError:
                return None
            except Exception as error:  # noqa: BLE001  # as in `VerbAnswerer.answer`
                _, found = verb.refuse(call.fail(error))
            finally:
                in_flight.value -= 1
                queue.rest()
            asyncio.get_running_loop().call_soon(recorder.record, call, 200, len(found), clock())
            return found

        return answer


def json_response(body: bytes) -> web.Response:
    # aiohttp copies twice what cannot be sent at once.
    if len(body) <= MEBIBYTE:
        return web.Response(body=body, content_type="application/json")
    length = {"Content-Length": str(len(body))}
    return web.Response(body=_parts(body), headers=length, content_type="application/json")


async def _parts(body: bytes) -> AsyncIterator[memoryview]:
    view = memoryview(body)
    for start in range(0, len(view), _PART):
        yield view[start : start + _PART]


class DecisionQueue:
    """A queue of the calls in flight, in the order of their decisions.

    A call is in flight from when its body is whole, also while the call waits for a turn or binds.
    Addresses take turns, and each has a share of the calls in flight. So a call waits for one
    decision per foreign address at most, and for all decisions of its own address.

    Decisions are synchronous: while one is made, nothing else happens. Between two decisions the
    event loop looks at sockets and timers, so that new calls are counted at once, and the Lease is
    renewed. On one event loop.
    """

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._clock = clock
        self._began = self._ended = float("-inf")
        self._was_long = False
        # The rounds of the event loop before the next decision.
        self._rests = 0
        # A turn has begun, or is given to a call that goes on in the next round.
        self._is_taken = False
        # The calls that wait for a turn, by address. The first address is the next one.
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        # The calls in flight.
        self._by_address: Counter[str] = Counter()
        self.in_flight = 0

    def arrival(self) -> float:
        """The earliest possible arrival of a call that is read now, in seconds of the clock."""
        now = self._clock()
        return self._began if self._was_long and now - self._ended < _SOON_SECONDS else now

    @contextmanager
    def counted(self, client: str) -> Iterator[Aside]:
        """Counts a call of this address for the block, but in the contexts that it gives.

        Raises RequestError where too many are in flight, unless the address has less than its share
        of them: what it would have if all had as many.
        """
        own = self._by_address[client]
        share = self._most // (len(self._by_address) + (not own))
        if self.in_flight >= self._most and own >= max(share, 1):
            text = f"too many calls at once: Placet takes {self._most}, see --max-in-flight"
            raise RequestError(text, Outcome.OVERLOADED)
        self._add(client, 1)
        try:
            yield partial(self._aside, client)
        finally:
            self._add(client, -1)

    @contextmanager
    def _aside(self, client: str) -> Iterator[None]:
        """Does not count a call of this address for the block; others bound those that are held."""
        self._add(client, -1)
        try:
            yield
        finally:
            self._add(client, 1)

    def _add(self, client: str, by: int) -> None:
        self.in_flight += by
        self._by_address[client] += by
        if not self._by_address[client]:
            del self._by_address[client]

    async def begin(self, deadline: float, client: str = "") -> None:
        """Waits for the turn of a call. What follows until `end` must not wait.

        Raises DeadlineExceededError where the turn comes too late.
        """
        if self._is_taken or self._rests or self._waiting:
            await self._turn(deadline, client)
        self._is_taken = True
        self._began = self._clock()

    async def _turn(self, deadline: float, client: str) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(client, deque()).append(turn)
        try:
            async with asyncio.timeout_at(deadline):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                # It came in the moment in which the call gave up.
                self._is_taken = False
                self._give_turn()
            else:
                self._waiting[client].remove(turn)
                if not self._waiting[client]:
                    del self._waiting[client]
            if isinstance(error, TimeoutError):
                text = "the request waited too long for its turn"
                raise DeadlineExceededError(text) from None
            raise

    def _give_turn(self) -> None:
        """Gives the turn to the next address that waits for one, which then is the last one."""
        for client, turns in list(self._waiting.items()):
            turn = next((each for each in turns if not each.done()), None)
            if turn is None:
                continue
            turns.remove(turn)
            self._waiting.move_to_end(client)
            if not turns:
                del self._waiting[client]
            self._is_taken = True
            turn.set_result(None)
            return

    def begin_at_once(self) -> bool:
        """Begins a turn if it is free and not too many calls are in flight, else returns False.

        Its end is `rest`: who decides at once does not wait, so nobody else has to be kept out.
        """
        if self._rests or self._waiting or self._is_taken or self.in_flight >= self._most:
            return False
        self._began = self._clock()
        return True

    def rest(self) -> None:
        """Ends a decision. The next one comes after some rounds of the event loop."""
        # INVARIANT: it is 0. Nobody decides while it is not, or while another one has the turn.
        assert not self._rests
        self._ended = self._clock()
        self._was_long = self._ended - self._began > _LONG_SECONDS
        self._rests = _MANY_LOOKS if self._was_long else 1
        asyncio.get_running_loop().call_soon(self._look)

    def end(self) -> None:
        """Ends a turn, with or without a decision."""
        self._is_taken = False
        self.rest()

    def _look(self) -> None:
        self._rests -= 1
        if self._rests:
            asyncio.get_running_loop().call_soon(self._look)
        else:
            self._give_turn()
