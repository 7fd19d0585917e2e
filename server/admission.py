"""The admission webhooks: the API server asks before it stores an object."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from logging import Logger
from typing import Protocol

import msgspec
from aiohttp import web

from grammar.errors import EvaluationError
from grammar.values.duration import SECOND, Duration
from policies.admission import Findings, changes_spec
from policies.defaults import additions
from policies.forms import GROUP
from server.body import is_encoded, read_body
from server.call import Admitted, Call
from server.errors import Outcome, problem_of
from server.metrics import Metrics
from server.review import MOST_BYTES, Review, allow, decode_review, deny
from server.settings import DECISION_SHARE, Settings

# A check is work for one core, on which kube-scheduler is answered too.
_AT_ONCE = 2


class Examiner(Protocol):
    """Who knows what is wrong with an object."""

    def examine(self, name: str, raw: bytes, old: bytes = b"") -> Findings:
        """All that is, in any thread; `old` is what the object replaces."""


@dataclass(frozen=True, slots=True)
class Ruling:
    """An answer, and what is to be known of it: `error` says why the object is refused."""

    answer: bytes
    error: str = ""
    outcome: Outcome = Outcome.ANSWERED


class Admission:
    """Both webhooks as HTTP calls. Nothing is changed by them: a dry run is a call like any other.

    What cannot be understood is 400, what goes wrong is 500; the failurePolicy of the webhook says
    what follows.
    """

    def __init__(
        self, examiner: Examiner, settings: Settings, metrics: Metrics, log: Logger
    ) -> None:
        self._examiner = examiner
        self._settings = settings
        self._metrics = metrics
        self._log = log
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def mutate(self, request: web.Request, call: Call) -> web.Response:
        """Fills in what the object leaves out."""
        return await self._answer(request, call, _mutated)

    async def validate(self, request: web.Request, call: Call) -> web.Response:
        """Refuses what is no policy."""
        return await self._answer(request, call, self._validated)

    async def _answer(
        self, request: web.Request, call: Call, decide: Callable[[Review], Ruling]
    ) -> web.Response:
        try:
            if is_encoded(request):
                call.outcome = Outcome.ENCODED_BODY
                return web.Response(status=415, text="the body must not be compressed\n")
            limit = min(self._settings.body_limit, MOST_BYTES)
            body = await read_body(request, limit, self._settings.body_seconds)
            call.received = len(body)
            review = decode_review(body)
            ruling = await self._ruling(review, decide, call.arrived + self._seconds(request))
        except Exception as error:  # noqa: BLE001  # whatever it is, the API server gets its answer
            problem = problem_of(error)
            call.outcome, call.error = problem.outcome, problem.text
            if problem.outcome is Outcome.INTERNAL:
                self._log.error("unexpected error in %s", call.verb, exc_info=error)
            status = 500 if problem.outcome is Outcome.INTERNAL else 400
            return web.Response(status=status, text=f"{problem.text}\n")
        call.outcome, call.error = ruling.outcome, ruling.error
        call.admitted = Admitted(review.operation, review.key, allowed=not ruling.error)
        self._metrics.admitted(call.verb, call.admitted)
        return web.Response(body=ruling.answer, content_type="application/json")

    async def _ruling(
        self, review: Review, decide: Callable[[Review], Ruling], deadline: float
    ) -> Ruling:
        if review.group != GROUP:
            # A webhook with rules that are too wide must not stop the cluster.
            group = review.group or "the core group"
            return Ruling(allow(review, [f"Placet has no say in objects of {group}"]))
        if review.operation not in {"CREATE", "UPDATE"} or review.subresource:
            return Ruling(allow(review))
        try:
            return await self._aside(lambda: decide(review), deadline)
        except TimeoutError:
            text = "there was no time to check this: try again, or with shorter rules"
            answer = deny(review, [text], code=504, reason="Timeout")
            return Ruling(answer, text, Outcome.DEADLINE)

    async def _aside(self, work: Callable[[], Ruling], deadline: float) -> Ruling:
        """What a thread makes of it; it keeps its turn until it ends. Raises TimeoutError."""
        async with asyncio.timeout_at(deadline):
            await self._turns.acquire()
            working = asyncio.ensure_future(asyncio.to_thread(work))
            working.add_done_callback(lambda _: self._turns.release())
            return await asyncio.shield(working)

    def _validated(self, review: Review) -> Ruling:
        # What is stored and broken can still get a label, or lose a finalizer.
        if review.old and not changes_spec(review.raw, review.old):
            return Ruling(allow(review))
        found = self._examiner.examine(review.key, review.raw, review.old)
        if found.errors:
            return Ruling(deny(review, found.errors, found.warnings), found.errors[0])
        return Ruling(allow(review, found.warnings))

    def _seconds(self, request: web.Request) -> float:
        """How long an answer may take: the API server says how long it waits, as `?timeout=5s`."""
        most = self._settings.decision_seconds
        try:
            asked = Duration.parse(request.query["timeout"]).nanos / SECOND
        except (KeyError, EvaluationError):
            return most
        return min(most, asked * DECISION_SHARE)


def _mutated(review: Review) -> Ruling:
    if review.old and not changes_spec(review.raw, review.old):
        return Ruling(allow(review))
    try:
        value = msgspec.json.decode(review.raw)
    except (ValueError, RecursionError):
        # What is wrong with it is for the other webhook to say.
        return Ruling(allow(review))
    return Ruling(allow(review, patch=additions(value)))
