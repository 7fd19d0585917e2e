"""Connections before any server: the calls that one answers itself, and what it passes on.

The protocol in these tests is not aiohttp's: a connection uses any HTTP server alike.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from server.call import LimitedLog
from server.http.bodies import ByteBudget
from server.http.connections import BEGUN_SECONDS, Connection, Connections
from server.metrics.metrics import Metrics
from server.settings import KEEP_ALIVE_SECONDS, MEBIBYTE, Settings
from tests.support import fake_clock
from tests.support.books import examples
from tests.support.mirror import MemoryTransport
from tests.support.rows import rows
from tests.support.served import LOG

pytestmark = pytest.mark.fake_clock
SECONDS = 3.0
HOST = b"Host: placet\r\n"
GET = b"GET /livez HTTP/1.1\r\nHost: placet\r\n\r\n"
REFUSED = "placet_connections_refused_total"
NUMBER = re.compile(rb"<(\d+)>")


def post(path: bytes, body: bytes, more: bytes = b"") -> bytes:
    head = b"POST %b HTTP/1.1\r\n%b%bContent-Length: %d\r\n\r\n" % (path, HOST, more, len(body))
    return head + body


def ok(body: bytes, more: bytes = b"") -> bytes:
    return b"HTTP/1.1 200 OK\r\n%bContent-Length: %d\r\n\r\n%b" % (more, len(body), body)


class OtherServer(asyncio.Protocol):
    """An HTTP server of its own kind, which answers when a test wants it to."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.received = b""
        self.is_lost = False
        self.pauses: list[bool] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        assert exc is None
        self.is_lost = True

    def pause_writing(self) -> None:
        self.pauses.append(True)

    def resume_writing(self) -> None:
        self.pauses.append(False)

    def data_received(self, data: bytes) -> None:
        self.received += data

    def write(self, *parts: bytes) -> None:
        assert self.transport is not None
        self.transport.writelines(parts)

    def take(self) -> bytes:
        """What was received since the last time."""
        taken, self.received = self.received, b""
        return taken

    def answer_whole_ones(self) -> None:
        """Answers each whole request with the number in its body."""
        while (end := self.received.find(b"\r\n\r\n") + 4) > 3:
            length = re.search(rb"Content-Length: (\d+)", self.received[:end])
            size = int(length[1]) if length else 0
            if len(self.received) < end + size:
                return
            number = NUMBER.search(self.received[: end + size])
            assert number is not None
            self.received = self.received[end + size :]
            self.write(ok(number[0]))


@dataclass
class Ends:
    """Both ends of a connection: its client's transport, and the server behind it."""

    settings: Settings = field(default_factory=lambda: Settings(http_timeout=SECONDS))
    # Whether the calls of filter have to wait.
    waits: bool = False

    def __post_init__(self) -> None:
        self.registry = CollectorRegistry()
        self.budget = ByteBudget(1 << 30)
        self.connections = Connections(
            self.settings,
            self.budget,
            Metrics(self.registry, "1.2.3"),
            LimitedLog(LOG),
            {"/filter": self._answered},
        )
        self.server, self.transport = OtherServer(), MemoryTransport()
        connection = self.connections.admit(lambda: self.server, "127.0.0.1")
        assert not isinstance(connection, str)
        self.connection: Connection = connection
        connection.connection_made(self.transport)

    def _answered(self, body: bytes, _agent: str) -> bytes | None:
        return None if self.waits else b"at once " + body

    def send(self, *parts: bytes) -> None:
        for part in parts:
            self.connection.data_received(part)

    def is_answered_at_once(self) -> bool:
        """Whether a whole request is, the next one of this connection."""
        self.server.take()
        self.transport.take()
        self.send(post(b"/filter", b"<7>"))
        is_answered = self.transport.take().endswith(b"\r\n\r\nat once <7>")
        assert (self.server.take() == b"") == is_answered
        return is_answered

    def refused(self, reason: str) -> float | None:
        return self.registry.get_sample_value(REFUSED, {"reason": reason})


@pytest.fixture
async def ends() -> Ends:
    return Ends()


# ---- whose a request is


async def test_a_whole_request_is_answered_at_once_and_others_are_passed_on(ends: Ends) -> None:
    assert ends.is_answered_at_once()
    ends.send(GET)
    assert ends.server.take() == GET
    ends.server.write(ok(b"ok"))
    assert ends.transport.take() == ok(b"ok")
    assert ends.is_answered_at_once()


async def test_a_call_that_waits_is_passed_on_as_it_came(ends: Ends) -> None:
    ends.waits = True
    request = post(b"/filter", b"<1>")
    ends.send(request)
    assert ends.server.take() == request
    ends.waits = False
    assert not ends.is_answered_at_once(), "the one before has no answer"
    ends.server.write(ok(b"1"), ok(b"7"))
    assert ends.is_answered_at_once()


CUTS = (1, 20, len(post(b"/filter", b"<1>")) - 3, len(post(b"/filter", b"<1>")) - 1)


@pytest.mark.parametrize("cut", CUTS)
async def test_a_request_in_parts_is_answered_when_it_is_whole(ends: Ends, cut: int) -> None:
    request = post(b"/filter", b"<1>")
    ends.send(request[:cut])
    assert (ends.server.take(), ends.transport.take()) == (b"", b"")
    ends.send(request[cut:])
    assert ends.transport.take().endswith(b"\r\n\r\nat once <1>")
    await asyncio.sleep(2 * BEGUN_SECONDS)
    assert ends.server.take() == b""
    assert ends.is_answered_at_once()


@pytest.mark.parametrize("cut", CUTS)
async def test_a_part_without_the_rest_is_passed_on_after_a_moment(ends: Ends, cut: int) -> None:
    request = post(b"/filter", b"<1>")
    ends.send(request[:cut])
    await asyncio.sleep(2 * BEGUN_SECONDS)
    assert ends.server.take() == request[:cut]
    ends.send(request[cut:])
    assert ends.server.take() == request[cut:]
    ends.server.write(ok(b"1")[:30])
    assert ends.transport.take() == ok(b"1")[:30]
    ends.server.write(ok(b"1")[30:])
    assert ends.is_answered_at_once()


async def test_nothing_is_waited_for_that_cannot_be_answered_at_once(ends: Ends) -> None:
    """Chunks, many bytes, and the beginning of a second request."""
    chunked = b"POST /filter HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    large = b"POST /filter HTTP/1.1\r\nHost: a\r\nContent-Length: 9999999\r\n\r\n<"
    for data in (chunked, large, post(b"/filter", b"<1>") + b"POST"):
        each = Ends()
        each.send(data)
        assert each.server.take() == data


async def test_a_connection_that_ends_within_a_request(ends: Ends) -> None:
    ends.send(post(b"/filter", b"<1>")[:-1])
    ends.connection.eof_received()
    assert ends.transport.take().startswith(b"HTTP/1.0 400 ")
    assert ends.refused("malformed") == 1
    ends.connection.connection_lost(None)
    assert ends.refused("malformed") == 1
    broken = Ends()
    broken.send(post(b"/filter", b"<1>")[:-1])
    broken.connection.connection_lost(ConnectionResetError())
    assert broken.refused("malformed") == 1
    assert broken.server.take() == b""


async def test_an_answer_before_the_end_of_its_request(ends: Ends) -> None:
    """Nobody knows what the server does with the rest."""
    ends.send(post(b"/filter", b"<1>")[:-1])
    await asyncio.sleep(2 * BEGUN_SECONDS)
    ends.server.write(ok(b"too large"))
    ends.send(b">")
    assert not ends.is_answered_at_once()


async def test_the_last_answer_of_a_server(ends: Ends) -> None:
    ends.send(GET)
    ends.server.write(ok(b"ok", b"Connection: close\r\n"))
    assert not ends.is_answered_at_once()


async def test_other_answers_are_no_answer(ends: Ends) -> None:
    ends.waits = True
    ends.send(post(b"/filter", b"<1>"))
    ends.server.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    ends.waits = False
    assert not ends.is_answered_at_once()


async def test_an_answer_to_head_has_no_body(ends: Ends) -> None:
    for _ in range(5):
        ends.send(b"HEAD /livez HTTP/1.1\r\n" + HOST + b"\r\n")
        ends.server.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")
    assert ends.is_answered_at_once()
    assert ends.refused("pipelined") is None


async def test_an_answer_in_chunks(ends: Ends) -> None:
    ends.send(GET)
    ends.server.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"2\r\nok\r\n")
    ends.waits = True
    ends.send(post(b"/filter", b"<1>"))
    ends.waits = False
    ends.server.write(b"0\r\n\r\n", ok(b"1"))
    assert ends.is_answered_at_once()


# With these, another parser may find another end of the request.
UNCERTAIN = {
    "chunks": b"POST /x HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a body to ask for": post(b"/x", b"12", b"Expect: 100-continue\r\n"),
    "another protocol": GET[:-2] + b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
    "a tunnel": b"CONNECT placet:443 HTTP/1.1\r\n" + HOST + b"\r\n",
    "a header twice": GET[:-2] + b"X: 1\r\nX: 2\r\n\r\n",
    "an old version": GET.replace(b"/1.1", b"/1.0")[:-2] + b"Connection: keep-alive\r\n\r\n",
    "an option of the connection": GET[:-2] + b"Connection: te, keep-alive\r\n\r\n",
}


@rows("request_", UNCERTAIN)
async def test_after_an_uncertain_request_all_is_passed_on(request_: bytes, ends: Ends) -> None:
    ends.send(request_)
    assert ends.server.take() == request_
    ends.server.write(ok(b"ok"))
    assert not ends.is_answered_at_once()
    assert not ends.transport.is_closing()


@pytest.mark.parametrize("url", [b"http://placet:80/livez", b"http://placet", b"*"])
async def test_other_forms_of_a_url_are_passed_on(url: bytes, ends: Ends) -> None:
    ends.send(GET.replace(b"/livez", url))
    assert ends.server.take() == GET.replace(b"/livez", url)


# Whole requests that only the server may answer; the next one is answered at once.
NOT_AT_ONCE = {
    "another path": post(b"/preempt", b"<1>"),
    "a query": post(b"/filter?x", b"<1>"),
    "another method": post(b"/filter", b"<1>").replace(b"POST", b"PUT"),
    "an encoded body": post(b"/filter", b"<1>", b"Content-Encoding: zstd\r\n"),
    "no announced body": b"POST /filter HTTP/1.1\r\n" + HOST + b"\r\n",
}


@rows("request_", NOT_AT_ONCE)
async def test_a_whole_request_that_the_server_answers(request_: bytes, ends: Ends) -> None:
    ends.send(request_)
    assert ends.server.take() == request_
    ends.server.write(ok(b"ok"))
    assert ends.is_answered_at_once()


ROUNDS = st.lists(
    st.tuples(
        st.lists(st.sampled_from([b"/filter", b"/preempt", b"/livez"]), min_size=1, max_size=3),
        st.lists(st.integers(0, 400), max_size=4),
        st.booleans(),
        st.booleans(),
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=examples(300))
@given(ROUNDS)
def test_each_request_is_answered_once_and_in_order(
    rounds: Sequence[tuple[Sequence[bytes], Sequence[int], bool, bool]],
) -> None:
    """However the bytes are cut, and whenever the server answers."""

    async def check() -> None:
        ends, number, answers = Ends(), 0, b""
        for paths, cuts, waits, is_late in rounds:
            ends.waits = waits
            data = b""
            for path in paths:
                data += post(path, b"<%d>" % number)
                number += 1
            marks = sorted({0, len(data), *(cut % len(data) for cut in cuts)})
            for start, end in pairwise(marks):
                ends.send(data[start:end])
                if not is_late:
                    ends.server.answer_whole_ones()
            ends.server.answer_whole_ones()
            assert ends.server.received == b""
            answers += ends.transport.take()
        found = [int(each) for each in NUMBER.findall(answers)]
        assert found == list(range(number))

    fake_clock.run(check())


# ---- a server that surprises


async def test_answers_that_cannot_be_parsed_are_passed_on(ends: Ends) -> None:
    """Then nothing is answered at once any more, and the server has the connection for itself."""
    for _ in range(9):
        ends.send(GET)
        assert ends.server.take() == GET
        ends.server.write(b"HTTP/7 fine\n\n")
        assert ends.transport.take() == b"HTTP/7 fine\n\n"
    assert not ends.is_answered_at_once()
    await asyncio.sleep(2 * SECONDS)
    assert not ends.transport.is_closing()


async def test_an_answer_too_many_ends_the_connection(
    ends: Ends, caplog: pytest.LogCaptureFixture
) -> None:
    """The server has found two requests where there is one: nobody gets the second answer."""
    ends.send(post(b"/preempt", GET))
    ends.server.write(ok(b"1"))
    ends.server.write(ok(b"2"))
    assert ends.transport.take() == ok(b"1")
    assert ends.transport.is_aborted
    assert "unexpected error in an answer" in caplog.text


async def test_a_server_that_closes(ends: Ends) -> None:
    assert ends.server.transport is not None
    ends.server.transport.close()
    assert ends.transport.is_closing()
    ends.send(post(b"/filter", b"<1>"))
    assert ends.transport.written == b""
    ends.connection.connection_lost(OSError("reset"))
    await asyncio.sleep(0)
    assert ends.server.is_lost


# ---- what is not HTTP

HEADS = {
    "a line": (b"GET / HTTP/1.1\r\nA: " + b"b" * 9000, "a line has more than 8190 bytes"),
    "a path": (b"GET /" + b"b" * 9000, "a line has more than 8190 bytes"),
    "headers": (b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 65 + b"\r\n", "more than 64 headers"),
    "no host": (b"GET / HTTP/1.1\r\n\r\n", "Missing 'Host' header in request."),
    "a port": (b"GET http://a:b/ HTTP/1.1\r\n" + HOST + b"\r\n", "the URL cannot be read"),
    "an end of a host": (
        b"GET http://[::1 HTTP/1.1\r\n" + HOST + b"\r\n",
        "the URL cannot be read",
    ),
    "a tunnel": (b"CONNECT a:99999 HTTP/1.1\r\n" + HOST + b"\r\n", "the URL cannot be read"),
    "a method": (b"\x16\x03\x01\x02", "Invalid method encountered"),
}


@rows(("head", "why"), HEADS)
@pytest.mark.parametrize("size", [1000, 65536])
async def test_a_malformed_head_is_refused_here(
    head: bytes, why: str, size: int, ends: Ends
) -> None:
    """The server gets none of it but what came before the mistake."""
    assert ends.is_answered_at_once()
    parts = [head[at : at + size] for at in range(0, len(head), size)]
    ends.send(*parts, b"\r\n\r\n")
    answer = ends.transport.take()
    assert answer.startswith(b"HTTP/1.0 400 Bad Request\r\n")
    assert answer.endswith(f"\r\n\r\nthe request is not valid HTTP: {why}\n".encode())
    assert ends.transport.is_closing()
    assert ends.refused("malformed") == 1
    assert len(ends.server.received) <= len(head) - len(parts[-1])


async def test_a_mistake_after_a_request_is_the_servers(ends: Ends) -> None:
    """Its answer comes first. If the server sees no mistake, the connection ends all the same."""
    ends.send(GET + b"\x16\x03\x01\x02")
    assert ends.server.take() == GET + b"\x16\x03\x01\x02"
    await asyncio.sleep(2 * SECONDS)
    assert not ends.transport.is_closing()
    ends.server.write(ok(b"ok"))
    assert ends.transport.take() == ok(b"ok")
    await asyncio.sleep(2 * SECONDS)
    assert ends.transport.is_aborted
    assert ends.refused("slow_headers") == 1


TINY = {
    "requests": b"GET / HTTP/1.1\r\nHost:\r\n\r\n",
    "tunnels": b"CONNECT a:1 HTTP/1.1\r\nHost:\r\n\r\n",
}


@rows("request_", TINY)
async def test_requests_beyond_those_that_may_wait_are_not_read(
    request_: bytes, ends: Ends
) -> None:
    began = time.thread_time()
    ends.send(request_ * 9000)
    assert time.thread_time() - began < 0.02
    assert ends.refused("pipelined") == 1
    assert ends.transport.is_aborted
    assert ends.server.received == b""


# ---- time and bytes


async def test_an_idle_connection_is_closed(ends: Ends) -> None:
    """C2: aiohttp's own default is 75 seconds, and kube-scheduler's is 90."""
    await asyncio.sleep(KEEP_ALIVE_SECONDS - 1)
    assert ends.is_answered_at_once()
    await asyncio.sleep(KEEP_ALIVE_SECONDS - 1)
    ends.send(GET)
    ends.server.write(ok(b"ok"))
    await asyncio.sleep(KEEP_ALIVE_SECONDS - 1)
    assert not ends.transport.is_closing()
    await asyncio.sleep(2)
    assert ends.transport.is_closing()
    assert not ends.transport.is_aborted


async def test_a_connection_that_waits_for_an_answer_is_not_idle(ends: Ends) -> None:
    ends.send(GET)
    await asyncio.sleep(3 * KEEP_ALIVE_SECONDS)
    assert not ends.transport.is_closing()
    ends.server.write(ok(b"ok"))
    await asyncio.sleep(2 * KEEP_ALIVE_SECONDS)
    assert ends.transport.is_closing()


@pytest.mark.parametrize("before", [b"", GET], ids=["at the beginning", "after another request"])
async def test_a_head_has_its_time(before: bytes, ends: Ends) -> None:
    """It begins when the request before it is answered."""
    ends.send(before + GET[:-1])
    if before:
        await asyncio.sleep(2 * SECONDS)
        ends.server.write(ok(b"ok"))
    await asyncio.sleep(SECONDS - 0.1)
    assert not ends.transport.is_closing()
    await asyncio.sleep(0.2)
    assert ends.transport.is_aborted
    assert ends.refused("slow_headers") == 1


async def test_a_head_that_comes_in_time(ends: Ends) -> None:
    ends.send(GET[:-1])
    await asyncio.sleep(SECONDS - 0.1)
    ends.send(GET[-1:])
    await asyncio.sleep(SECONDS)
    ends.server.write(ok(b"ok"))
    await asyncio.sleep(SECONDS)
    assert not ends.transport.is_closing()


async def test_the_rest_of_a_refused_body_has_its_time(ends: Ends) -> None:
    """It is read so that the client reads the answer."""
    ends.send(post(b"/filter", b"x" * 1000)[:-500])
    await asyncio.sleep(2 * SECONDS)
    ends.server.write(ok(b"too large"))
    await asyncio.sleep(SECONDS - 0.1)
    ends.send(b"x")
    assert not ends.transport.is_closing()
    await asyncio.sleep(0.2)
    assert ends.transport.is_closing()
    assert not ends.transport.is_aborted
    assert ends.refused("slow_headers") is None


class FullTransport(MemoryTransport):
    """A transport whose client reads nothing: it pauses writing at each write."""

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self._connection = connection

    def write(self, data: bytes | bytearray | memoryview) -> None:
        super().write(data)
        self._connection.pause_writing()


@pytest.mark.parametrize("size", [1, 2 * MEBIBYTE])
async def test_an_answer_that_is_not_read_is_held_until_it_is_sent(ends: Ends, size: int) -> None:
    answer = ok(b"x" * size)
    ends.connection.connection_made(FullTransport(ends.connection))
    ends.send(GET)
    for sent, part in (size // 2, answer[: size // 2]), (len(answer), answer[size // 2 :]):
        ends.server.write(part)
        assert ends.budget.held == sent
    ends.connection.resume_writing()
    assert ends.budget.held == 0
    assert ends.server.pauses == [True, True, False]
    await asyncio.sleep(2 * SECONDS)
    assert not ends.transport.is_closing()


async def test_a_lost_connection_holds_nothing(ends: Ends) -> None:
    answer = ok(b"x" * (2 * MEBIBYTE))[:-1]
    ends.connection.connection_made(FullTransport(ends.connection))
    ends.send(GET)
    ends.server.write(answer)
    assert ends.budget.held == len(answer)
    ends.connection.connection_lost(None)
    assert ends.budget.held == 0
    assert not isinstance(ends.connections.admit(OtherServer, "127.0.0.1"), str)


async def test_a_reader_that_is_too_slow(ends: Ends) -> None:
    ends.send(GET)
    ends.server.write(ok(b"ok")[:-1])
    ends.connection.pause_writing()
    await asyncio.sleep(SECONDS / 2)
    ends.connection.resume_writing()
    await asyncio.sleep(SECONDS)
    assert ends.transport.is_aborted, "the time goes on until all of an answer is sent"
    assert ends.refused("slow_reader") == 1


async def test_nothing_is_answered_at_once_while_nobody_reads(ends: Ends) -> None:
    ends.connection.pause_writing()
    assert not ends.is_answered_at_once()
