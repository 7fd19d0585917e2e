"""Connections: how many a server has, how long each may take, and what it does about bad HTTP.

`Connections` belongs to one server and lives as long as it does; a `Connection` is one of them.

A connection owns its socket. It answers most calls itself: those that arrive as a whole, or in
parts that follow each other closely, and need not wait for anything. All other bytes go to aiohttp
as they came, and a connection only follows where requests and answers begin and end. aiohttp makes
a task, a request and a response of each call, and comes back to the event loop three times, which
takes as long as the decision about 500 nodes. Nothing here depends on how aiohttp does that: it is
used as any asyncio protocol.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from email.utils import formatdate
from typing import Any, cast

import aiohttp
from aiohttp import web
from aiohttp.typedefs import Handler

from server.call import LimitedLog, LogEntry
from server.http.bodies import ByteBudget
from server.http.framing import (
    END_OF_HEAD,
    MOST_HEADERS,
    MOST_OF_LINE,
    MOST_WAITING,
    AnswerReader,
    MalformedError,
    RequestReader,
)
from server.http.places import Places
from server.metrics.metrics import Metrics
from server.settings import KEEP_ALIVE_SECONDS, Settings

# What a connection reads ahead of its handler is at most twice this and what one read returns,
# which asyncio limits to 256 KiB. With less than that, reading would stop and begin at each read.
# Bodies are read as they come; this is not in the byte budget.
_READ_AHEAD = 128 * 1024
# The most bytes of a request that are kept until the others come, and for how long: Go's client
# sends 4 KiB at a time.
_MOST_BEGUN, BEGUN_SECONDS = 256 * 1024, 0.02
# For aiohttp: connections have limits of their own, because it does not see all calls.
_A_YEAR = 365 * 24 * 3600.0
# As aiohttp calls itself.
_SERVER = f"Python/{sys.version_info[0]}.{sys.version_info[1]} aiohttp/{aiohttp.__version__}"

_ENDS_EARLY = "the connection ended within a request"
_OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: "
_BAD_REQUEST = (
    b"HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: "
)

# Answers a whole request, from its body and its User-Agent, with the body of a 200 in JSON; None
# where the call has to wait.
AnswerAtOnce = Callable[[bytes, str], bytes | None]


def connection_options() -> dict[str, Any]:
    """The options of aiohttp for connections; its own defaults are meant for browsers."""
    return {
        "access_log": None,
        # Compressed bodies are refused, so there is nothing to unpack.
        "auto_decompress": False,
        "keepalive_timeout": _A_YEAR,
        # The rest of a refused body is read, so that the client reads the answer. Connections bound
        # the time of that themselves.
        "lingering_time": _A_YEAR,
        "max_headers": MOST_HEADERS,
        "max_line_size": MOST_OF_LINE,
        "max_field_size": MOST_OF_LINE,
        "read_bufsize": _READ_AHEAD,
    }


def _loop_time() -> float:
    return asyncio.get_running_loop().time()


class Connections:
    """The connections of a server: lets in as many as the settings say; see `Places`.

    Those with a verified certificate of the client have as many places of their own.

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
        self.at_once = {path.encode(): answer for path, answer in (at_once or {}).items()}
        self._metrics = metrics
        self._log = log
        most, one_address = settings.connections, settings.one_address
        self._unverified = Places(most, _loop_time, one_address=one_address)
        self._verified = Places(settings.connections, _loop_time)
        self._stamp = b""
        self._stamped = 0
        self.budget = budget
        # Seconds for the headers of a request, for the rest of a refused body, and for a client to
        # read its answer.
        self.seconds = settings.http_timeout

    def admit(
        self, server: Callable[[], asyncio.Protocol], host: str, *, has_spoken: bool = True
    ) -> Connection | str:
        """The protocol of an accepted connection, or the reason why it has no place; see `leave`.

        `server` makes the protocol that gets what the connection does not answer itself.
        """
        if reason := self._unverified.refusal(host, has_spoken=has_spoken):
            return reason
        connection = Connection(server(), self, host)
        self._unverified.enter(connection, host)
        return connection

    def verified(self, connection: Connection, host: str) -> str:
        """Gives a connection a place of those with a certificate; the reason if there is none."""
        if not self._unverified.leave(connection):
            return "silent"
        reason = self._verified.refusal(host)
        if not reason:
            self._verified.enter(connection, host)
        return reason

    def leave(self, connection: Connection) -> bool:
        """Forgets a connection that has ended; whether it had a place. May be called again."""
        return self._unverified.leave(connection) or self._verified.leave(connection)

    def await_first_calls(self) -> bool:
        """Whether a connection has had no answer yet."""
        return any(not each.has_answered for each in (*self._unverified, *self._verified))

    def refused(self, reason: str, host: str, why: str = "") -> None:
        """Counts and logs a connection that is not let in or is closed; reasons are constants."""
        self._metrics.count("placet_connections_refused_total", reason)
        fields = {"reason": reason, "client": host} | ({"err": why} if why else {})
        self._log.write(logging.WARNING, reason, LogEntry("refused connection", fields))

    def exhausted(self, why: str) -> None:
        """Logs that the process cannot accept connections."""
        self._log.write(logging.ERROR, "accept", LogEntry("cannot accept", {"err": why}))

    def failed(self, error: BaseException | None) -> None:
        """Logs a fault of Placet that no handler has caught; that a client is gone is none."""
        if isinstance(error, aiohttp.ClientConnectionResetError):
            return
        entry = LogEntry("unexpected error in an answer", {})
        self._log.write(logging.ERROR, "fault", entry, error)

    @web.middleware
    async def answer_faults(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """A middleware that answers a request whose handler failed."""
        try:
            return await handler(request)
        except web.HTTPException:
            raise
        except Exception as error:
            if request.writer.output_size > 0:
                # A part of another answer is sent. aiohttp logs the fault, and closes.
                raise
            self.failed(error)
            response = web.Response(status=500, text="internal error: see the log of Placet\n")
            response.force_close()
            return response

    def stamp(self) -> bytes:
        """The last lines of a head, as aiohttp writes them."""
        now = int(time.time())
        if now != self._stamped:
            self._stamped = now
            date = formatdate(now, usegmt=True)
            self._stamp = f"Date: {date}\r\nServer: {_SERVER}\r\n\r\n".encode()
        return self._stamp

    def server_log(self) -> logging.Logger:
        """The log of aiohttp's server, which this class writes in its own words."""
        # Nobody else writes to it or sets its level, so it has no place in the tree of logs.
        log = logging.Logger("placet.aiohttp")  # noqa: LOG001
        log.addHandler(_ServerLog(self))
        return log


class _ServerLog(logging.Handler):
    """The log of aiohttp's server: faults outside of any handler, and bad HTTP."""

    def __init__(self, connections: Connections) -> None:
        super().__init__()
        self._connections = connections

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if 400 <= getattr(error, "code", 0) < 500:
            # Its other lines show the place in the bytes of the client.
            why = str(getattr(error, "message", "")).strip().partition("\n")[0].rstrip(":")
            client = record.args[0] if isinstance(record.args, tuple) and record.args else ""
            self._connections.refused("malformed", str(client), why)
        elif record.levelno >= logging.ERROR:
            self._connections.failed(error)


class Connection(asyncio.Protocol):
    """One HTTP connection, with limits of time and of unsent bytes.

    `server` is the protocol of aiohttp. INVARIANT: it gets every byte of a request or none of them,
    and the next request is answered here only if everything that it got was certainly whole, and
    was answered.
    """

    def __init__(self, server: asyncio.Protocol, connections: Connections, host: str) -> None:
        self._server = server
        self._connections = connections
        self._host = host
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        # The methods of the requests that the server has, and has not answered.
        self._unanswered: deque[bytes] = deque()
        self._requests = RequestReader(self._unanswered)
        # What has come of a request while nothing else is left to answer, and its length; the
        # server gets it once the timer ends.
        self._begun: list[bytes] = []
        self._begun_size = 0
        self._begun_timer: asyncio.TimerHandle | None = None
        self._answers = AnswerReader(self._unanswered)
        # Nothing is read any more.
        self._is_over = False
        # The server gets the rest of the connection.
        self._is_passed_on = False
        # The rest is not HTTP; the server says so after the answers that it owes.
        self._is_broken = False
        self._is_writing_paused = False
        # Bytes of the budget for answers that are not sent yet.
        self._unsent = 0
        self._used = self._loop.time()
        # Ends the handshake of TLS, until there is a transport.
        self.end_handshake: Callable[[], object] = lambda: None
        self.has_answered = False
        self._ended: asyncio.Future[None] | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        self._late_timer: asyncio.TimerHandle | None = None
        self._send_timer: asyncio.TimerHandle | None = None

    # ---- called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._close_when_idle()
        self._server.connection_made(cast("asyncio.Transport", _ServerTransport(transport, self)))
        if transport.get_extra_info("peercert"):
            reason = self._connections.verified(self, self._host)
            if reason:
                self.refuse(reason)

    def connection_lost(self, exc: BaseException | None) -> None:  # noqa: ARG002 - see below
        if self._begun and not self._is_over:
            self._connections.refused("malformed", self._host, _ENDS_EARLY)
        self._is_over = True
        for timer in (self._idle_timer, self._late_timer):
            if timer is not None:
                timer.cancel()
        self._take_begun()
        self._all_is_sent()
        self._transport = None
        if self._ended is not None:
            self._ended.set_result(None)
        self._connections.leave(self)
        # An error here would be raised where an answer waits to be sent, and would keep it until
        # the next garbage collection. There is nothing to do about any. It comes later, because the
        # task of the server fails if this comes before it has begun with what was just received.
        self._loop.call_soon(self._server.connection_lost, None)

    def data_received(self, data: bytes) -> None:
        if self._is_over:
            return
        requests = self._requests
        if self._begun or not (self._unanswered or requests.is_in_head or requests.is_in_body):
            self._begun.append(data)
            self._begun_size += len(data)
        if not self._is_broken:
            try:
                requests.read(data)
            except MalformedError as error:
                if not (self._unanswered or requests.is_in_body):
                    self._answer_malformed(str(error))
                    return
                self._is_broken = True
        if not self._begun:
            self._pass_on(data)
        elif self._is_broken or not self._waits_for_the_rest():
            data = self._take_begun()
            start = data.find(END_OF_HEAD) + len(END_OF_HEAD)
            is_whole = start + requests.announced == len(data) and not self._is_broken
            if not is_whole or not self._answers_at_once(data[start:]):
                self._pass_on(data)

    def eof_received(self) -> bool | None:
        if self._begun:
            self._take_begun()
            self._answer_malformed(_ENDS_EARLY)
            return None
        return self._server.eof_received()

    def pause_writing(self) -> None:
        """The client reads more slowly than answers are written."""
        self._is_writing_paused = True
        self._server.pause_writing()
        if self._send_timer is None:
            self._send_timer = self._loop.call_later(
                self._connections.seconds, self.refuse, "slow_reader"
            )

    def resume_writing(self) -> None:
        self._is_writing_paused = False
        self._server.resume_writing()
        # For an answer of the server, the time goes on until all of it is sent.
        if not self._unanswered:
            self._all_is_sent()

    @property
    def ended(self) -> asyncio.Future[None]:
        """Done when the client or Placet has ended the connection."""
        if self._ended is None:
            self._ended = self._loop.create_future()
            if self._transport is None:
                self._ended.set_result(None)
        return self._ended

    # ---- its place

    @property
    def silent_since(self) -> float:
        return self._used

    @property
    def is_busy(self) -> bool:
        requests = self._requests
        is_whole = bool(self._unanswered) and not (requests.is_in_head or requests.is_in_body)
        return is_whole and not self._is_writing_paused

    # ---- requests

    def _waits_for_the_rest(self) -> bool:
        """Whether a request that has begun may still be answered here."""
        requests = self._requests
        if (
            not (requests.is_in_head or requests.is_in_body)
            # Another request follows.
            or (requests.is_in_head and self._unanswered)
            or not requests.is_certain
            or max(self._begun_size, requests.announced) > _MOST_BEGUN
        ):
            return False
        if self._begun_timer is None:
            self._begun_timer = self._loop.call_later(BEGUN_SECONDS, self._pass_on_begun)
        return True

    def _take_begun(self) -> bytes:
        """What has come of the request that has begun; it is waited for no longer."""
        if self._begun_timer is not None:
            self._begun_timer.cancel()
            self._begun_timer = None
        data = self._begun[0] if len(self._begun) == 1 else b"".join(self._begun)
        self._begun, self._begun_size = [], 0
        return data

    def _pass_on_begun(self) -> None:
        if self._begun:
            self._pass_on(self._take_begun())

    def _answers_at_once(self, body: bytes) -> bool:
        """Answers a whole request that has just been read, if it need not wait."""
        requests = self._requests
        answer_at_once = self._connections.at_once.get(requests.target)
        if (
            answer_at_once is None
            or self._is_passed_on
            or self._is_writing_paused
            or len(self._unanswered) != 1
            or not requests.is_certain
            or requests.method != b"POST"
            or b"content-encoding" in requests.headers
        ):
            return False
        agent = requests.headers.get(b"user-agent", b"").decode("utf-8", "surrogateescape")
        answer = answer_at_once(body, agent)
        if answer is None:
            return False
        self._unanswered.clear()
        self._used = self._loop.time()
        self.has_answered = True
        assert self._transport is not None, "nothing is received without a connection"
        # Not `writelines`: in Python 3.12 and 3.13 it does not pause writing (cpython#127655).
        stamp = self._connections.stamp()
        self._transport.write(b"".join((b"%b%d\r\n%b" % (_OK, len(answer), stamp), answer)))
        if self._send_timer is not None:
            self._hold(len(answer))
        return True

    def _pass_on(self, data: bytes) -> None:
        if self._answers.is_lost:
            self._unanswered.clear()
        if len(self._unanswered) > 1 + MOST_WAITING:
            # Each request that waits here has a part of its body. Go lets none wait.
            self.refuse("pipelined")
            return
        self._is_passed_on = self._is_passed_on or not self._requests.is_certain
        self._watch()
        self._server.data_received(data)

    def _answer_malformed(self, why: str) -> None:
        self._connections.refused("malformed", self._host, why)
        text = f"the request is not valid HTTP: {why}\n".encode()
        if self._transport is not None:
            stamp = self._connections.stamp()
            self._transport.write(b"%b%d\r\n%b%b" % (_BAD_REQUEST, len(text), stamp, text))
        self.close()

    # ---- what the server does

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Writes a part of an answer of the server."""
        if self._transport is None:
            return
        answers, requests = self._answers, self._requests
        has_ended = answers.read(data)
        if answers.is_unasked and not (requests.is_in_head or self._is_broken):
            # The two parsers do not agree. Nobody gets an answer to what another one has asked.
            self._connections.failed(RuntimeError("aiohttp answers more requests than there are"))
            self._is_over = True
            self._transport.abort()
            return
        self._transport.write(data)
        self._used = self._loop.time()
        if self._send_timer is not None:
            self._hold(len(data))
        if answers.is_lost:
            self._is_passed_on = True
        if has_ended:
            self.has_answered = True
            # After an answer that came early, or was the last one, the server alone goes on.
            if requests.is_in_body or not answers.keeps_alive:
                self._is_passed_on = True
            self._watch()
            if not self._is_writing_paused:
                self._all_is_sent()

    def close(self) -> None:
        """Ends the connection as soon as everything is sent."""
        self._is_over = True
        if self._transport is not None:
            self._transport.close()

    def refuse(self, reason: str) -> None:
        """Ends the connection at once."""
        self._is_over = True
        self._connections.refused(reason, self._host)
        if self._transport is not None:
            self._transport.abort()
        else:
            self.end_handshake()

    # ---- time and bytes

    def _watch(self) -> None:
        """Gives a head its time, and the rest of a body that is answered already.

        That of a head begins with its first byte: Go uses connections much later.
        """
        requests = self._requests
        is_owed = requests.is_in_head or requests.is_in_body or self._is_broken
        if self._unanswered or not is_owed:
            if self._late_timer is not None:
                self._late_timer.cancel()
                self._late_timer = None
        elif self._late_timer is None:
            self._late_timer = self._loop.call_later(self._connections.seconds, self._is_late)

    def _is_late(self) -> None:
        if self._requests.is_in_body and not self._is_broken:
            self.close()
        else:
            self.refuse("slow_headers")

    def _close_when_idle(self) -> None:
        now, end = self._loop.time(), self._used + KEEP_ALIVE_SECONDS
        if now < end:
            self._idle_timer = self._loop.call_at(end, self._close_when_idle)
        elif self._unanswered:
            self._idle_timer = self._loop.call_later(KEEP_ALIVE_SECONDS, self._close_when_idle)
        else:
            self.close()

    def _hold(self, size: int) -> None:
        self._unsent += size
        self._connections.budget.take(size)

    def _all_is_sent(self) -> None:
        if self._send_timer is not None:
            self._send_timer.cancel()
            self._send_timer = None
        if self._unsent:
            self._connections.budget.give(self._unsent)
            self._unsent = 0


# The extra information of a transport that is a future, done when its connection has ended.
ENDED = "ended"


class _ServerTransport:
    """The transport of the server's protocol: its connection sees what is written and closed."""

    def __init__(self, transport: asyncio.Transport, connection: Connection) -> None:
        self._transport = transport
        self.close = connection.close
        self.write = connection.write
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        """All else is that of the connection's own transport."""
        return getattr(self._transport, name)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == ENDED:
            return self._connection.ended
        return self._transport.get_extra_info(name, default)

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        # As one: see where a connection writes for itself.
        self.write(b"".join(list_of_data))
