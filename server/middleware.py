"""Who may ask what: a server that wants client certificates knows its clients by them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from logging import Logger
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from server.call import CallRecord, entry_of
from server.errors import Outcome
from server.metrics import Metrics
from server.misconfiguration import MisconfigurationWarnings
from server.runtime.shutdown import Shutdown


def access(
    names: Collection[str], open_paths: Collection[str], reading_paths: Collection[str]
) -> Middleware:
    """A middleware that raises HTTPUnauthorized and HTTPForbidden.

    What is not open is for those who have shown a certificate, and what is not for reading is for
    those with one of these names, where there are any: an unknown path too. A certificate of a CA
    that is not ours never gets as far as this.
    """

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path not in open_paths:
            certificate = _certificate(request)
            if not certificate:
                raise web.HTTPUnauthorized(text=f"{request.path} takes a client certificate")
            if names and request.path not in reading_paths:
                own = tuple(names_of(certificate))
                if not any(name in names for name in own):
                    listed = ", ".join(f"`{name}`" for name in own) or "nobody"
                    text = f"the client certificate is of {listed}, whom no --client-name lets in"
                    raise web.HTTPForbidden(text=text)
        return await handler(request)

    return guard


def names_of(certificate: Mapping[str, Any]) -> Iterator[str]:
    """The common names and alternative names of what `SSLObject.getpeercert` returns."""
    for parts in certificate.get("subject", ()):
        yield from (value for key, value in parts if key == "commonName")
    for _kind, name in certificate.get("subjectAltName", ()):
        # Kinds with structure, such as DirName, are no names that a flag could hold.
        if isinstance(name, str):
            yield name


def _certificate(request: web.Request) -> Mapping[str, Any]:
    """The certificate that TLS has verified, empty if there is none."""
    transport = request.transport
    found = transport.get_extra_info("peercert") if transport is not None else None
    return found or {}


# ---- What is done around every call of a verb: measured, logged, and answered in plain words.

VerbHandler = Callable[[web.Request, CallRecord], Awaitable[web.Response]]

# Those of answered calls, unless the log is verbose.
MOST_LINES_A_SECOND = 10
# No verb: the path is none of ours.
_NO_VERB = "none"
_REFUSED = {401: Outcome.UNAUTHENTICATED, 403: Outcome.FORBIDDEN}


class _Lines:
    """How many lines about answered calls may be written, of which there are hundreds a second.

    A line takes as long to write as the decision that it is about.
    """

    def __init__(self) -> None:
        self._since = float("-inf")
        self._written = self._left_out = 0

    def take(self, now: float) -> bool:
        """Whether there may be one more, at this time in seconds."""
        if now - self._since >= 1.0:
            self._since, self._written = now, 0
        if self._written == MOST_LINES_A_SECOND:
            self._left_out += 1
            return False
        self._written += 1
        return True

    def collect(self) -> int:
        """How many were left out since this was asked last."""
        count, self._left_out = self._left_out, 0
        return count


class Observation:
    """Makes aiohttp handlers of verb handlers, and keeps the books."""

    def __init__(
        self,
        metrics: Metrics,
        log: Logger,
        shutdown: Shutdown,
        warnings: MisconfigurationWarnings,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._metrics = metrics
        self._log = log
        self._shutdown = shutdown
        self._warnings = warnings
        self._clock = clock
        self._lines = _Lines()

    def of(self, verb: str, handle: VerbHandler) -> Handler:
        """The handler of a verb's calls."""
        in_flight = self._metrics.in_flight(verb)

        async def observed(request: web.Request) -> web.Response:
            call = CallRecord(verb, self._clock(), request.headers.get("User-Agent", ""))
            in_flight.value += 1
            try:
                response = await handle(request, call)
            finally:
                in_flight.value -= 1
            if self._shutdown.has_begun:
                # Whoever comes again is to come to another one.
                response.force_close()
            if not request.content.is_eof():
                # What is left of the body is no request: aiohttp reads on for a while, so that the
                # client gets to read the answer, and then closes.
                response.force_close()
            # Nobody waits for the books: they are kept when the answer has been sent.
            loop = asyncio.get_running_loop()
            loop.call_soon(self._record, call, response, self._clock())
            return response

        return observed

    def _record(self, call: CallRecord, response: web.Response, ended: float) -> None:
        seconds, code, sent = ended - call.arrived, response.status, response.content_length or 0
        self._warnings.look(call)
        if call.offered:
            self._metrics.decided(call.verb, call.offered, call.returned)
        self._metrics.answered(call.verb, code, call.outcome, seconds, call.received, sent)
        level = logging.INFO if call.outcome is Outcome.ANSWERED else logging.WARNING
        if not self._log.isEnabledFor(level):
            return
        # What people apply is rare, and each time of interest.
        is_routine = level == logging.INFO and call.admitted is None
        bounded = is_routine and not self._log.isEnabledFor(logging.DEBUG)
        if not bounded or self._lines.take(ended):
            self._log.log(level, "%s", entry_of(call, code, seconds, self._lines.collect()))

    def rejected_pods(self, verbs: Mapping[str, str]) -> Middleware:
        """A middleware that says plainly what is wrong with path, method or client.

        `verbs` are by path.
        """

        @web.middleware
        async def refuse(request: web.Request, handler: Handler) -> web.StreamResponse:
            arrived = self._clock()
            why = ""
            try:
                return await handler(request)
            except web.HTTPMethodNotAllowed as error:
                outcome = Outcome.WRONG_METHOD
                allowed = ", ".join(sorted(error.allowed_methods))
                text = f"{request.path} takes {allowed}, not {request.method}\n"
                response = web.Response(status=405, text=text, headers={"Allow": allowed})
            except web.HTTPNotFound:
                outcome = Outcome.UNKNOWN_PATH
                text = f"there is nothing at {request.path}\n"
                response = web.Response(status=404, text=text)
            except (web.HTTPUnauthorized, web.HTTPForbidden) as error:
                outcome = _REFUSED[error.status]
                why = error.text or ""
                response = web.Response(status=error.status, text=f"{why}\n")
                # Who may not ask is not listened to.
                response.force_close()
            verb = verbs.get(request.path, _NO_VERB)
            call = CallRecord(verb, arrived, outcome=outcome, error=why)
            self._record(call, response, self._clock())
            return response

        return refuse
