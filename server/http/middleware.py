"""Middleware: access by client certificate; and CallRecorder, which measures and logs each call.

MisconfigurationWarnings look at each call for signs of a bad configuration of its caller.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from logging import Logger
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from grammar.messages.texts import shown
from server.call import CallRecord, LimitedLog, LogEntry, RecentNews, log_entry
from server.errors import Outcome
from server.http.bodies import BodyReader
from server.http.health import ReadinessCheck
from server.http.places import address_of
from server.http.sockets import Shutdown
from server.metrics.metrics import Metrics

VerbHandler = Callable[[web.Request, CallRecord], Awaitable[web.Response]]

# The verb of a call whose path is unknown.
_NO_VERB = "none"
# The levels of log lines by outcome; the others are warnings.
_LEVELS = {
    Outcome.ANSWERED: logging.INFO,
    # MisconfigurationWarnings warns of these, once in a while.
    Outcome.UNSUPPORTED: logging.DEBUG,
}
# Up to this number kube-scheduler offers all feasible nodes (minFeasibleNodesToFind).
_LEAST_SAMPLE = 100
_FULL_NODES = (
    "kube-scheduler sends whole nodes and will score them as if they were empty "
    "(kubernetes#141781): set nodeCacheCapable: true in the extender's configuration"
)
_SAMPLED = (
    "kube-scheduler offers a sample of the nodes, and a pod that fits on none of them stays "
    "pending: set percentageOfNodesToScore: 100 in its configuration"
)


_WEBHOOKS = frozenset({"validate", "pods", "gate"})
_FAILED = "the webhook `{}` failed: the log has the reason"
# A sign is shown for so long after it was seen last.
_SEEN_SECONDS = 900.0
_DENIED = {401: Outcome.UNAUTHENTICATED, 403: Outcome.FORBIDDEN}


def access(
    names: Collection[str], open_paths: Collection[str], reading_paths: Collection[str]
) -> Middleware:
    """A middleware that raises HTTPUnauthorized and HTTPForbidden.

    Open paths need no client certificate. Reading paths need a certificate of the client CA. All
    other paths, also unknown paths, need a certificate with one of the names, if any are given.
    """

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path not in open_paths:
            # TLS has verified it, and has refused certificates of other CAs.
            certificate = request.get_extra_info("peercert")
            if not certificate:
                raise web.HTTPUnauthorized(text=f"{request.path} requires a client certificate")
            if names and request.path not in reading_paths:
                found = common_name(certificate)
                if found not in names:
                    text = (
                        f"the client certificate is for `{shown(found)}`, which no --client-name"
                        " allows"
                        if found
                        else "the client certificate has no common name"
                    )
                    raise web.HTTPForbidden(text=text)
        return await handler(request)

    return guard


def common_name(certificate: Mapping[str, Any]) -> str:
    """The common name of a result of `SSLObject.getpeercert`; empty without one.

    kube-apiserver takes the same for the name of a client: of several ones the last. No alternative
    name counts, since a CA may let clients choose some of them, such as addresses of mail.
    """
    names = [
        value
        for parts in certificate.get("subject", ())
        for key, value in parts
        if key == "commonName"
    ]
    return names[-1] if names else ""


@dataclass(eq=False, slots=True)
class MisconfigurationWarnings:
    """Warns of whole nodes in requests, of sampled nodes, and of a verb that does not exist.

    `nodes` is the number of nodes in the cluster, 0 while it is not known.
    """

    log: Logger
    metrics: Metrics
    nodes: Callable[[], int]
    clock: Callable[[], float] = time.monotonic
    _news: RecentNews = field(init=False)
    # When each was seen last, and of what.
    _seen: dict[str, tuple[float, str]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._news = RecentNews(self.clock)

    def checks(self) -> Sequence[ReadinessCheck]:
        """What was seen lately, for `/readyz`."""
        return [
            ReadinessCheck(name, text, is_warning=True)
            for text, (at, name) in self._seen.items()
            if self.clock() - at < _SEEN_SECONDS
        ]

    def look(self, call: CallRecord) -> None:
        """Warns and counts if the request of a call is a sign; called after the answer."""
        if call.verb in _WEBHOOKS:
            if call.outcome is Outcome.INTERNAL:
                # The log has it already.
                self._seen[_FAILED.format(call.verb)] = self.clock(), "webhooks"
            return
        if call.outcome is Outcome.UNSUPPORTED:
            self._warn(call.error, verb=call.verb)
            return
        if call.full_nodes:
            # Other clients, such as simulators or curl, may send whole nodes for good reasons.
            if call.agent.startswith("Go-http-client"):
                self.metrics.count("placet_full_node_requests_total", call.verb)
                self._warn(_FULL_NODES, verb=call.verb)
            return
        if call.verb != "filter" or call.offered < _LEAST_SAMPLE:
            return
        nodes = self.nodes()
        if call.offered == sample_size(nodes) < nodes:
            self.metrics.count("placet_sampled_requests_total")
            self._warn(_SAMPLED, offered=call.offered, nodes=nodes)

    def _warn(self, text: str, **fields: str | int) -> None:
        self._seen[text] = self.clock(), "requests"
        if self._news.is_new(text):
            self.log.warning("%s", LogEntry(text, fields))


def sample_size(nodes: int) -> int:
    """The number of feasible nodes that kube-scheduler looks for by default (C12).

    A request can have fewer nodes for other reasons, but hardly this number by coincidence.
    """
    percentage = max(50 - nodes // 125, 5)
    return min(nodes, max(_LEAST_SAMPLE, nodes * percentage // 100))


@dataclass(frozen=True, slots=True)
class CallRecorder:
    """Wraps verb handlers: records each call in the metrics and the log after its answer.

    One recorder serves all verbs of a server. Whoever answers without a handler does the same with
    `metrics.in_flight`, `shutdown` and `record`.
    """

    metrics: Metrics
    log: Logger
    limited: LimitedLog
    shutdown: Shutdown
    warnings: MisconfigurationWarnings
    bodies: BodyReader
    clock: Callable[[], float] = time.monotonic

    def handler(self, verb: str, handle: VerbHandler) -> Handler:
        """The aiohttp handler of a verb."""
        in_flight = self.metrics.in_flight(verb)

        async def recorded(request: web.Request) -> web.Response:
            agent, client = request.headers.get("User-Agent", ""), address_of(request.remote or "")
            call = CallRecord(verb, self.clock(), agent, client)
            in_flight.value += 1
            try:
                response = await handle(request, call)
            finally:
                in_flight.value -= 1
                self.bodies.release(call)
            # During shutdown, the client's next call must go to another replica. If part of the
            # body is unread, it cannot be read as a request: aiohttp drains it for a while, so that
            # the client can read the answer, and then closes.
            if self.shutdown.has_begun or not request.content.is_eof():
                response.force_close()
            sent, ended = response.content_length or 0, self.clock()
            asyncio.get_running_loop().call_soon(self.record, call, response.status, sent, ended)
            return response

        return recorded

    def plain_errors(self, verbs: Mapping[str, str]) -> Middleware:
        """A middleware that answers a wrong path, method or client with one line of text.

        `verbs` gives the verb of each path.
        """

        @web.middleware
        async def answer(request: web.Request, handler: Handler) -> web.StreamResponse:
            arrived = self.clock()
            why = ""
            try:
                return await handler(request)
            except web.HTTPMethodNotAllowed as error:
                outcome = Outcome.WRONG_METHOD
                allowed = ", ".join(sorted(error.allowed_methods))
                text = f"{request.path} accepts {allowed}, not {request.method}\n"
                response = web.Response(status=405, text=text, headers={"Allow": allowed})
            except web.HTTPNotFound:
                outcome = Outcome.UNKNOWN_PATH
                text = f"{request.path} is not a path of this server\n"
                response = web.Response(status=404, text=text)
            except (web.HTTPUnauthorized, web.HTTPForbidden) as error:
                outcome = _DENIED[error.status]
                why = error.text or ""
                response = web.Response(status=error.status, text=f"{why}\n")
                # The body of a client without access is not read.
                response.force_close()
            verb = verbs.get(request.path, _NO_VERB)
            call = CallRecord(verb, arrived, outcome=outcome, error=why)
            self.record(call, response.status, response.content_length or 0, self.clock())
            return response

        return answer

    def record(self, call: CallRecord, code: int, sent: int, ended: float) -> None:
        """Records a call: its status, bytes of its answer, and when that was made.

        After the answer is sent, so that the client does not wait for it.
        """
        # A held call says nothing of how fast Placet is.
        seconds = ended - call.arrived - call.held_seconds
        self.warnings.look(call)
        self.metrics.ended(call, code, seconds, sent)
        if call.fault is not None:
            entry = LogEntry(f"unexpected error in {call.verb}", {})
            self.limited.write(logging.ERROR, "fault", entry, call.fault)
        level = _LEVELS.get(call.outcome, logging.WARNING)
        if not self.log.isEnabledFor(level):
            return
        # A verbose log has every call that was answered, but no log has every mistake of a client.
        if level == logging.INFO and self.log.isEnabledFor(logging.DEBUG):
            left_out: int | None = 0
        else:
            # Reviews of policies are rare, and are not to be lost among other calls.
            left_out = self.limited.take(
                call.outcome if call.reviewed is None else f"reviewed {call.verb}"
            )
        if left_out is not None:
            self.log.log(level, "%s", log_entry(call, code, seconds, left_out))
