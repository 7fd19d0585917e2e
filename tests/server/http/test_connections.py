"""Connections: their number, their time, and peers that do not speak HTTP as they should."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import socket
import time
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from aiohttp import web
from aiohttp.typedefs import Handler
from prometheus_client import CollectorRegistry

from server.call import LimitedLog
from server.http.bodies import ByteBudget
from server.http.connections import Connection, Connections
from server.http.sockets import CONNECTIONS, listening, runner_options
from server.metrics.metrics import Metrics
from server.settings import KEEP_ALIVE_SECONDS, MEBIBYTE, Settings
from tests.server.conftest import Serve
from tests.support.fake_clock import settled, until
from tests.support.rows import rows
from tests.support.served import BINDING, LOG, Served, WaitingBinder, names_request, nodes_request

pytestmark = pytest.mark.fake_clock
HOST = b"Host: placet\r\n"
POST = b"POST /filter HTTP/1.1\r\n" + HOST
REFUSED = "placet_connections_refused_total"
QUICK = Settings(http_timeout=0.3)


async def sent(served: Served, data: bytes, *, ends: bool = False) -> bytes:
    """What the server answers to these bytes until it closes the connection, or for a while."""
    reader, writer = await asyncio.open_connection(*served.address)
    found = b""
    try:
        async with asyncio.timeout(0.5):
            writer.write(data)
            await writer.drain()
            if ends:
                writer.write_eof()
            found = await reader.read(1000)
    except (TimeoutError, ConnectionError):
        pass
    writer.transport.abort()
    return found


async def closed(reader: asyncio.StreamReader) -> None:
    """Returns when the server has closed a connection. Raises TimeoutError."""
    async with asyncio.timeout(5):
        try:
            while await reader.read(MEBIBYTE):
                pass
        except ConnectionError:
            pass


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def answers(served: Served) -> None:
    assert (await served.post("/filter", names_request("a"))).json["NodeNames"] == ["a"]


# ---- how many


async def test_one_address_has_half_of_the_connections(
    listen: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    """For one more that says something, it gives up the one that has been silent longest."""
    served = await listen(settings=Settings(max_connections=8))
    first, *others = [await asyncio.open_connection(*served.address) for _ in range(4)]
    await settled()
    for _, other in others:
        other.write(b"GET /livez HTTP/1.1\r\n" + HOST + b"\r\n")
        await settled()
    last = await asyncio.open_connection(*served.address)
    await settled()
    assert served.metric(REFUSED, reason="silent") is None
    last[1].write(b"GET /livez HTTP/1.1\r\n")
    await closed(first[0])
    assert served.metric(REFUSED, reason="silent") == 1
    assert 'refused connection reason="silent" client="127.0.0.1"' in caplog.text
    last[1].write(HOST + b"\r\n")
    assert b"200" in await last[0].readline()
    last[1].transport.abort()
    for reader, writer in others:
        writer.write(b"GET /livez HTTP/1.1\r\n" + HOST + b"\r\n")
        assert b"200" in await reader.readline()
        writer.transport.abort()
    first[1].transport.abort()
    await settled()
    await answers(served)


async def test_whoever_waits_for_an_answer_is_not_silent(listen: Serve) -> None:
    """The connection of a call in progress is not given up: another one is refused."""
    binder = WaitingBinder()
    served = await listen(settings=Settings(max_connections=1), binder=binder)
    calls = asyncio.create_task(served.post("/bind", BINDING))
    await binder.bindings.get()
    reader, writer = await asyncio.open_connection(*served.address)
    await closed(reader)
    writer.close()
    assert served.metric(REFUSED, reason="too_many_of_address") == 1
    binder.may_go_on.set()
    assert (await calls).json["Error"] == ""


async def test_a_connection_beyond_the_limit_takes_the_place_of_another(listen: Serve) -> None:
    served = await listen(settings=Settings(max_connections=1))
    reader, first = await asyncio.open_connection(*served.address)
    await settled()
    await answers(served)
    await closed(reader)
    assert served.metric(REFUSED, reason="silent") == 1
    first.transport.abort()


# ---- how long


async def test_headers_that_take_for_ever(listen: Serve) -> None:
    """The time does not begin again with each byte."""
    served = await listen(settings=QUICK)
    reader, writer = await asyncio.open_connection(*served.address)
    end = asyncio.create_task(closed(reader))
    for _ in range(20):
        if not end.done():
            writer.write(b"POST / HTTP/1.1\r\nX: y\r\n" if _ == 0 else b"X: y\r\n")
            await asyncio.sleep(0.1)
    await end
    writer.close()
    assert served.metric(REFUSED, reason="slow_headers") == 1


async def test_idle_connections_stay_open(listen: Serve) -> None:
    """C2: whether a request was answered before or not."""
    served = await listen(settings=QUICK)
    reader, writer = await asyncio.open_connection(*served.address)
    for _ in range(2):
        await asyncio.sleep(0.5)
        writer.write(b"GET /livez HTTP/1.1\r\n" + HOST + b"\r\n")
        assert b" 200 " in await reader.readuntil(b"ok")
    writer.close()
    assert served.metric(REFUSED, reason="slow_headers") is None


async def test_a_connection_is_kept_as_long_as_it_is_used(listen: Serve) -> None:
    """C2: kube-scheduler keeps one for 90 seconds. aiohttp does not know of all calls."""
    served = await listen()
    reader, writer = await asyncio.open_connection(*served.address)
    livez = b"GET /livez HTTP/1.1\r\n" + HOST + b"\r\n"
    body = json.dumps(names_request("a")).encode()
    whole = POST + b"Content-Length: %d\r\n\r\n" % len(body) + body
    for data, end in ((livez, b"ok"), (whole, b'""}'), (whole, b'""}'), (livez, b"ok")):
        writer.write(data)
        assert b" 200 " in await reader.readuntil(end)
        await settled()
        await asyncio.sleep(KEEP_ALIVE_SECONDS - 1)
    assert not reader.at_eof()
    await asyncio.sleep(2)
    assert await reader.read() == b""
    writer.close()


async def test_an_answer_that_nobody_reads(listen: Serve) -> None:
    served = await listen(settings=Settings(http_timeout=3.0))
    request = nodes_request("a")
    request["Nodes"]["items"][0]["metadata"]["annotations"] = {"x": "y" * 20_000_000}  # type: ignore[index]
    body = msgspec.json.encode(request)
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.connect(served.address)
    _, writer = await asyncio.open_connection(sock=sock, limit=1024)
    writer.write(POST + b"Content-Length: %d\r\n\r\n" % len(body) + body)
    await until(lambda: served.metric(REFUSED, reason="slow_reader"))
    await settled()
    assert served.metric("placet_bodies_held_bytes") == 0
    writer.transport.abort()


async def test_many_requests_before_the_first_answer(listen: Serve) -> None:
    served = await listen()
    assert await sent(served, (b"GET /livez HTTP/1.1\r\n" + HOST + b"\r\n") * 30) == b""
    assert served.metric(REFUSED, reason="pipelined") == 1
    await answers(served)


# ---- what is not HTTP

_CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
MALFORMED = {
    "nul bytes": b"\x00" * 100,
    "a NUL in a header": POST + b"X: a\x00b\r\nContent-Length: 2\r\n\r\n{}",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 300,
    "a tunnel": b"CONNECT a:443 HTTP/1.1\r\n" + HOST + b"\r\n",
    "a tunnel to no port": b"CONNECT a:99999999 HTTP/1.1\r\n" + HOST + b"\r\n",
    "a URL without an end": b"GET http://[::1 HTTP/1.1\r\n" + HOST + b"\r\n",
    "a URL with a wrong port": b"GET http://a:b/ HTTP/1.1\r\n" + HOST + b"\r\n",
    "bytes as a path": b"GET \xff\xfe HTTP/1.1\r\n" + HOST + b"\r\n",
    "escaped bytes as a path": b"GET /filter/%ff/%00%zz HTTP/1.1\r\n" + HOST + b"\r\n",
    "a chunk without a size": _CHUNKED + b"zz\r\n",
    "a chunk that is too long": _CHUNKED + b"5\r\nabcdefgh\r\n",
    "a chunk of any size": _CHUNKED + b"fffffffffffffffffffff\r\nabcdefgh\r\n",
    "a length and chunks": POST
    + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a negative length": POST + b"Content-Length: -1\r\n\r\n",
    "two lengths": POST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "an endless length": POST + b"Content-Length: 99999999999999999999999\r\n\r\nab",
    "a body that ends early": POST + b"Content-Length: 5\r\n\r\na",
    "an unknown version": b"GET / HTTP/9.9\r\n\r\n",
    "many headers": b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 1000 + b"\r\n",
    "a long header": b"GET / HTTP/1.1\r\nA: " + b"b" * 100_000 + b"\r\n\r\n",
    "a long path": b"GET /" + b"b" * 100_000 + b" HTTP/1.1\r\n\r\n",
    "a header without a name": b"GET / HTTP/1.1\r\n: x\r\n\r\n",
    "an unknown method": b"G\xc3\xa9T / HTTP/1.1\r\n\r\n",
    "an upgrade": b"GET / HTTP/1.1\r\n"
    + HOST
    + b"Upgrade: x\r\nConnection: Upgrade\r\n\r\n\x81\x81",
    "no host": b"GET /livez HTTP/1.1\r\n\r\n",
    "an unknown expectation": POST + b"Expect: 200-ok\r\nContent-Length: 2\r\n\r\n{}",
    "no version": b"GET /\r\n\r\n",
}


@pytest.mark.parametrize("ends", [False, True])
@rows("data", MALFORMED)
async def test_a_mistake_of_a_client_is_one_line_without_a_traceback(
    data: bytes, ends: bool, listen: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    served = await listen(settings=QUICK)
    await sent(served, data, ends=ends)
    await settled()
    assert not [record for record in caplog.records if record.exc_info]
    assert len(caplog.messages) <= 1
    assert all("\n" not in line and len(line) < 2000 for line in caplog.messages)
    await answers(served)


async def test_a_flood_of_mistakes(listen: Serve, caplog: pytest.LogCaptureFixture) -> None:
    """At every level; afterwards nothing of it is left."""
    caplog.set_level(logging.DEBUG, "placet")
    served = await listen(settings=QUICK)
    await answers(served)
    files, tasks = open_files(), len(asyncio.all_tasks())
    began = time.monotonic()
    for _ in range(200):
        reader, writer = await asyncio.open_connection(*served.address)
        writer.write(b"nonsense\r\n\r\n")
        await closed(reader)
        writer.close()
        await served.post("/filter", b"{" + b"x" * 1000)
        await served.request("PUT", "/filter")
        await served.get("/" + "x" * 5000)
    seconds = time.monotonic() - began
    assert len(caplog.text) < 4 * 10 * 7000 * (seconds + 2)
    assert len(caplog.messages) <= 4 * 10 * (seconds + 2)
    assert served.metric(REFUSED, reason="malformed") == 200
    await settled()
    assert open_files() <= files + 1
    assert len(asyncio.all_tasks()) <= tasks + 1
    await answers(served)


async def test_the_client_learns_what_is_wrong(listen: Serve) -> None:
    served = await listen()
    answer = await sent(served, b"GET / HTTP/1.1\r\n\r\n")
    assert answer.startswith(b"HTTP/1.0 400 ")
    assert answer.endswith(b"the request is not valid HTTP: Missing 'Host' header in request.\n")


async def test_a_body_is_sent_when_it_is_asked_for(listen: Serve) -> None:
    """Curl waits a second for that."""
    served = await listen()
    body = json.dumps(names_request("a")).encode()
    reader, writer = await asyncio.open_connection(*served.address)
    writer.write(POST + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body))
    async with asyncio.timeout(1):
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(body)
        assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
    writer.close()


async def test_a_large_body_is_not_asked_for(listen: Serve) -> None:
    served = await listen(settings=Settings(body_limit=1000))
    head = POST + b"Expect: 100-continue\r\nContent-Length: 1001\r\n\r\n"
    answer = await sent(served, head)
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b"larger than 1000 bytes" in answer


async def test_a_mistake_that_aiohttp_answers_is_counted_too(
    listen: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    served = await listen()
    answer = await sent(served, _CHUNKED + b"zz\r\n")
    assert answer.startswith(b"HTTP/1.0 400 ")
    assert served.metric(REFUSED, reason="malformed") == 1
    (line,) = caplog.messages
    assert line.startswith('refused connection reason="malformed" client="127.0.0.1" err=')
    await answers(served)


# ---- faults of handlers


async def raises(_request: web.Request) -> web.Response:
    raise ZeroDivisionError("a secret")


async def raises_halfway(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    await response.write(b"a half")
    raise ZeroDivisionError("a secret")


async def pieces() -> AsyncIterator[bytes]:
    yield b"a half"
    raise ZeroDivisionError("a secret")


async def raises_while_it_is_sent(_request: web.Request) -> web.Response:
    return web.Response(body=pieces())


FAULTS = {
    "before": (raises, b"internal error: see the log of Placet\n"),
    "halfway": (raises_halfway, b"a half\r\n"),
    "while it is sent": (raises_while_it_is_sent, b"a half\r\n"),
}


@rows(("handler", "end"), FAULTS)
async def test_a_fault_is_logged_and_ends_the_connection(
    handler: Handler, end: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    settings = Settings(port=0)
    app = web.Application()
    app.router.add_get("/", handler)
    metrics = Metrics(CollectorRegistry(), "1.2.3")
    app[CONNECTIONS] = Connections(settings, ByteBudget(1000), metrics, LimitedLog(LOG))
    async with listening(app, settings) as url:
        host, port = url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
        async with asyncio.timeout(5):
            answer = await reader.read()
        writer.close()
    assert answer.endswith(end)
    assert b"secret" not in answer
    (record,) = caplog.records
    assert record.getMessage() == "unexpected error in an answer"
    assert record.exc_info is not None
    assert record.exc_info[0] is ZeroDivisionError


async def welcome(_request: web.Request) -> web.Response:
    return web.Response(text="welcome")


async def test_a_client_that_goes_away_is_no_fault(caplog: pytest.LogCaptureFixture) -> None:
    """It ends just as its request comes, or before it is asked for the body."""
    app = web.Application()
    app.add_routes([web.get("/", welcome), web.post("/", welcome)])
    metrics = Metrics(CollectorRegistry(), "1.2.3")
    connections = Connections(Settings(), ByteBudget(1000), metrics, LimitedLog(LOG))
    runner = web.AppRunner(app, logger=connections.server_log(), **runner_options(Settings()))
    await runner.setup()
    assert runner.server is not None
    made = list[Connection]()

    def admitted() -> Connection:
        assert runner.server is not None
        made.append(Connection(runner.server(), connections, "127.0.0.1"))
        return made[-1]

    loop = asyncio.get_running_loop()
    server = await loop.create_server(admitted, "127.0.0.1", 0)
    for request in (
        b"GET / HTTP/1.1\r\n" + HOST + b"\r\n",
        b"POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 9\r\n" + HOST + b"\r\n",
    ):
        _, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
        await settled()
        connection = made[-1]
        connection.data_received(request)
        connection.refuse("silent")
        connection.connection_lost(None)
        await settled()
        writer.transport.abort()
    gc.collect()
    server.close()
    await runner.cleanup()
    assert not [each for each in caplog.records if each.exc_info is not None]
