"""Connections: how many a server has, how long each may take, and what it does about bad HTTP.

`Connections` belongs to one server and lives as long as it does; a `Connection` is one of them.

Most calls arrive as a whole, and need not wait for anything. A connection answers these as soon as
aiohttp has parsed them. aiohttp itself makes a task, a request and a response of each call, and
comes back to the event loop three times, which takes as long as the decision about 500 nodes.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from aiohttp import HttpVersion11, StreamReader, web
from aiohttp.helpers import rfc822_formatted_time
from aiohttp.http import SERVER_SOFTWARE, HttpProcessingError, RawRequestMessage

from server.call import LogEntry
from server.http.bodies import ByteBudget
from server.log_limit import LimitedLog
from server.metrics.metrics import Metrics
from server.settings import KEEP_ALIVE_SECONDS, MEBIBYTE, Settings

# What a connection reads ahead of its handler is at most twice this and what one read returns,
# which asyncio limits to 256 KiB. With less than that, reading would stop and begin at each read.
# Bodies are read as they come; this is not in the byte budget.
_READ_AHEAD = 128 * 1024
# Lines of headers, of up to 8190 bytes each. kube-scheduler sends six.
_MOST_HEADERS = 64
# Requests that arrive before the answer to the one before.
_MOST_WAITING = 2
_HEAD = (
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n"
    f"Date: {{}}\r\nServer: {SERVER_SOFTWARE}\r\n\r\n"
)

# Answers a whole request, from its body and its User-Agent, with the body of a 200 in JSON; None
# where the call has to wait.
AnswerAtOnce = Callable[[bytes, str], bytes | None]


def connection_options(settings: Settings) -> dict[str, Any]:
    """The options of aiohttp for connections; its own defaults are meant for browsers."""
    return {
        "access_log": None,
        # Compressed bodies are refused, so there is nothing to unpack.
        "auto_decompress": False,
        "keepalive_timeout": KEEP_ALIVE_SECONDS,
        # Seconds in which the rest of a refused body is read, so that the client reads the answer.
        "lingering_time": settings.http_timeout,
        "max_headers": _MOST_HEADERS,
        "read_bufsize": _READ_AHEAD,
    }


class Connections:
    """The connections of a server: lets in as many as the settings say, half of them per address.

    An address cannot keep others out alone. Behind address translation many clients are one.

    `at_once` has by path what answers whole requests with POST.
    """

    def __init__(
        self,
        settings: Settings,
        budget: ByteBudget,
        metrics: Metrics,
        log: LimitedLog,
        at_once: Mapping[str, AnswerAtOnce] | None = None,
    ) -> None:
        self.at_once = at_once or {}
        self._settings = settings
        self._most = settings.connections
        self._metrics = metrics
        self._log = log
        self._hosts: dict[Connection, str] = {}
        self._by_host: Counter[str] = Counter()
        self.budget = budget
        # Seconds for the headers of a request, and for a client to read its answer.
        self.seconds = settings.http_timeout

    def adopt(self, settings: Settings) -> None:
        """Takes other settings; connections that are open already stay."""
        self._settings = settings
        self._most = settings.connections
        self.seconds = settings.http_timeout

    def admit(self, server: web.Server, host: str) -> Connection | None:
        """The protocol of an accepted connection, None if there are too many; see `leave`."""
        if len(self._hosts) >= self._most:
            self.refused("too_many", host)
            return None
        if self._by_host[host] >= max(self._most // 2, 1):
            self.refused("too_many_of_address", host)
            return None
        connection = Connection(server, self, host, connection_options(self._settings))
        self._hosts[connection] = host
        self._by_host[host] += 1
        return connection

    def leave(self, connection: Connection) -> None:
        """Forgets a connection that has ended; may be called again."""
        host = self._hosts.pop(connection, None)
        if host is None:
            return
        self._by_host[host] -= 1
        if not self._by_host[host]:
            del self._by_host[host]

    def refused(self, reason: str, host: str, why: str = "") -> None:
        """Counts and logs a connection that is not let in or is closed; reasons are constants."""
        self._metrics.connection_refused(reason)
        fields = {"reason": reason, "client": host} | ({"err": why} if why else {})
        self._log.write(logging.WARNING, reason, LogEntry("refused connection", fields))

    def exhausted(self, error: OSError) -> None:
        """Logs that the process cannot accept connections."""
        why = (error.strerror or str(error)).lower()
        self._log.write(logging.ERROR, "accept", LogEntry("cannot accept", {"err": why}))

    def failed(self, error: BaseException | None) -> None:
        """Logs a fault of Placet that no handler has caught."""
        entry = LogEntry("unexpected error in an answer", {})
        self._log.write(logging.ERROR, "fault", entry, error)


class Connection(web.RequestHandler):
    """One HTTP connection: aiohttp's, with limits of time and of unsent bytes.

    aiohttp itself gives headers as long as an idle connection has, and an answer as long as the
    client likes to read it.
    """

    __slots__ = ("_connections", "_header_timer", "_host", "_send_timer", "_socket", "_unsent")

    def __init__(
        self,
        server: web.Server,
        connections: Connections,
        host: str,
        options: Mapping[str, Any],
    ) -> None:
        super().__init__(server, loop=asyncio.get_running_loop(), **options)
        self._connections = connections
        self._host = host
        # aiohttp forgets its transport when it closes, although that still sends what it has.
        self._socket: asyncio.Transport | None = None
        self._header_timer: asyncio.TimerHandle | None = None
        self._send_timer: asyncio.TimerHandle | None = None
        # Bytes of the budget for an answer that was made at once and that nobody reads.
        self._unsent = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        assert isinstance(transport, asyncio.Transport)
        self._socket = transport

    def connection_lost(self, exc: BaseException | None) -> None:  # noqa: ARG002 - see below
        self._stop_header_timer()
        self._all_is_sent()
        self._socket = None
        self._connections.leave(self)
        # An error here would be raised where an answer waits to be sent, and would keep it until
        # the next garbage collection. There is nothing to do about any.
        super().connection_lost(None)

    def data_received(self, data: bytes) -> None:
        before = self._request_count
        # Nobody is woken before it is known whether there is anything left to do.
        waiter, self._waiter = self._waiter, None
        try:
            super().data_received(data)
        finally:
            self._waiter = waiter
        if self._messages and waiter is not None and not waiter.done() and not self._answers():
            waiter.set_result(None)
        if self._request_count != before:
            self._stop_header_timer()
            # Each request that waits here has a part of its body. Go lets none wait.
            if len(self._messages) > _MOST_WAITING:
                self._refuse("pipelined")
        elif self._header_timer is None and (self._is_between_requests() or not before):
            # The time begins with the first byte: Go opens connections that it uses much later.
            self._header_timer = self._loop.call_later(
                self._connections.seconds, self._headers_are_late
            )

    def _answers(self) -> bool:
        """Answers the only request that waits, if it is whole and need not wait."""
        message, payload = self._messages[0]
        if not isinstance(message, RawRequestMessage):
            return False
        answer_at_once = self._connections.at_once.get(message.path)
        if (
            answer_at_once is None
            or len(self._messages) > 1
            or not payload.is_eof()
            or payload.exception() is not None
            or message.method != "POST"
            or message.version != HttpVersion11
            or message.should_close
            or message.upgrade
            or "Content-Encoding" in message.headers
            or self.writing_paused
        ):
            return False
        body = payload.read_nowait()
        answer = answer_at_once(body, message.headers.get("User-Agent", ""))
        if answer is None:
            # aiohttp gives the request to its handler, as if it had just come.
            again = StreamReader(self, _READ_AHEAD, loop=self._loop)
            again.feed_data(body)
            again.feed_eof()
            self._messages[0] = (message, again)
            return False
        self._messages.clear()
        if self._parser is not None:
            self._parser.message_consumed()
        self._next_keepalive_close_time = self._loop.time() + self._keepalive_timeout
        self._send(answer)
        return True

    def _send(self, answer: bytes) -> None:
        if self.transport is not None:
            head = _HEAD.format(len(answer), rfc822_formatted_time()).encode()
            self.transport.writelines((head, answer))
        if self.writing_paused:
            self._unsent = len(answer)
            self._connections.budget.take(self._unsent)

    def resume_writing(self) -> None:
        super().resume_writing()
        # Of an answer of aiohttp's, the time goes on until all of it is sent.
        if self._current_request is None:
            self._all_is_sent()

    def resume_reading(self, resume_parser: bool = True) -> None:  # noqa: FBT001, FBT002 - aiohttp's
        """Reads on after a pause. aiohttp asks for it after each body, mostly without any pause."""
        if self._reading_paused:
            super().resume_reading(resume_parser)

    def pause_writing(self) -> None:
        """The client reads more slowly than the answer is written."""
        super().pause_writing()
        if self._send_timer is None:
            self._send_timer = self._loop.call_later(
                self._connections.seconds, self._refuse, "slow_reader"
            )

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Sends an answer; the bytes of a large one are held as long."""
        size = resp.content_length or 0
        budget = self._connections.budget if size > MEBIBYTE else None
        if budget is not None:
            budget.take(size)
        try:
            return await super().finish_response(request, resp, start_time)
        finally:
            if budget is not None:
                budget.give(size)
            if self._send_timer is not None:
                self._stop_send_timer()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The answer to what is not HTTP, and to a request whose handler failed."""
        if isinstance(exc, HttpProcessingError):
            # Its other lines show the place in the bytes of the client.
            why = (message or "").strip().partition("\n")[0].rstrip(":")
            self._connections.refused("malformed", self._host, why)
            text = f"the request is not valid HTTP: {why}"
        else:
            self._connections.failed(exc)
            text = "internal error: see the log of Placet"
        if request.writer.output_size > 0:
            raise ConnectionError("a part of another answer is sent")
        response = web.Response(status=status, text=f"{text}\n")
        response.force_close()
        return response

    def log_exception(self, *args: Any, **kw: Any) -> None:  # noqa: ARG002
        """A fault outside of any handler."""
        error = kw.get("exc_info")
        self._connections.failed(error if isinstance(error, BaseException) else None)

    def _headers_are_late(self) -> None:
        self._header_timer = None
        if self._is_between_requests():
            self._refuse("slow_headers")

    def _is_between_requests(self) -> bool:
        """Whether the next bytes are headers: no request is waited with, answered or drained."""
        return self._waiter is not None and not self._waiter.done()

    def _stop_header_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _all_is_sent(self) -> None:
        self._stop_send_timer()
        if self._unsent:
            self._connections.budget.give(self._unsent)
            self._unsent = 0

    def _stop_send_timer(self) -> None:
        if self._send_timer is not None:
            self._send_timer.cancel()
            self._send_timer = None

    def _refuse(self, reason: str) -> None:
        """Ends the connection at once."""
        self._connections.refused(reason, self._host)
        self.force_close()
        if self._socket is not None:
            self._socket.abort()
