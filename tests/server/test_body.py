"""Bodies that are large, slow, broken or never end: each gets its answer, and none stops others."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest
from aiohttp import StreamReader, web
from aiohttp.base_protocol import BaseProtocol
from aiohttp.test_utils import make_mocked_request

from server.call import read_body
from server.errors import Outcome, RequestError
from server.settings import Settings
from tests.server.conftest import Serve
from tests.support.served import Served, names_request

SMALL = Settings(body_limit=1000, http_timeout=1.0)


@asynccontextmanager
async def connection(
    served: Served,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection(*served.address)
    try:
        yield reader, writer
    finally:
        writer.close()


def head(path: str, *headers: str) -> bytes:
    return "\r\n".join((f"POST {path} HTTP/1.1", "Host: placet", *headers, "", "")).encode()


async def read_answer(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], bytes]:
    status, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    body = await reader.readexactly(int(headers["content-length"]))
    return int(status.split()[1]), headers, body


@pytest.mark.parametrize("chunked", [False, True], ids=["announced", "chunked"])
async def test_a_body_of_100_megabytes(chunked: bool, serve: Serve) -> None:
    """C7: the limit is above what kube-scheduler sends for 5,000 nodes, and there is one."""
    served = await serve()
    piece = b" " * 1_000_000

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield piece

    headers = {} if chunked else {"Content-Length": str(100 * len(piece))}
    for verb in ("filter", "bind"):
        async with served.session.post(f"/{verb}", data=pieces(), headers=headers) as response:
            assert response.status == 200
            error = (await response.json())["Error"]
            assert error == "the body of the request is larger than 67108864 bytes"
    assert (await served.post("/filter", names_request("a"))).json["NodeNames"] == ["a"]
    labels = {"verb": "filter", "code": "200", "outcome": "large_body"}
    assert served.metric("placet_requests_total", **labels) == 1


@pytest.mark.parametrize(
    ("verb", "status"), [("filter", 200), ("prioritize", 200), ("bind", 200), ("preempt", 400)]
)
async def test_more_than_the_limit(verb: str, status: int, serve: Serve) -> None:
    served = await serve(settings=SMALL)
    answer = await served.post(f"/{verb}", b" " * 1001)
    assert answer.status == status
    labels = {"verb": verb, "code": str(status), "outcome": "large_body"}
    assert served.metric("placet_requests_total", **labels) == 1


async def test_as_much_as_the_limit(serve: Serve) -> None:
    request = msgspec.json.encode(names_request("a"))
    served = await serve(settings=Settings(body_limit=len(request)))
    assert (await served.post("/filter", request)).json["NodeNames"] == ["a"]
    assert (await served.post("/filter", request + b" ")).json["NodeNames"] is None


async def test_a_client_that_sends_all_before_it_reads(serve: Serve) -> None:
    """Whoever gets a reset instead of an answer learns nothing."""
    served = await serve(settings=SMALL)
    async with connection(served) as (reader, writer):
        writer.write(head("/filter", "Content-Length: 20000000"))
        for _ in range(20):
            writer.write(b" " * 1_000_000)
            await writer.drain()
        status, headers, body = await read_answer(reader)
    assert (status, headers["connection"]) == (200, "close")
    assert "larger than 1000 bytes" in json.loads(body)["Error"]


async def test_a_body_that_drips(serve: Serve) -> None:
    served = await serve(settings=SMALL)
    async with connection(served) as (reader, writer):
        writer.write(head("/filter", "Content-Length: 500"))
        drip = asyncio.create_task(_drip(writer))
        started = time.monotonic()
        # While one drips, others are served.
        assert (await served.post("/filter", names_request("a"))).json["NodeNames"] == ["a"]
        status, headers, body = await read_answer(reader)
        took = time.monotonic() - started
        drip.cancel()
    assert (status, headers["connection"]) == (200, "close")
    assert json.loads(body)["Error"] == "the body of the request did not arrive in time"
    assert took < SMALL.decision_seconds
    labels = {"verb": "filter", "code": "200", "outcome": "slow_body"}
    assert served.metric("placet_requests_total", **labels) == 1


async def _drip(writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(b" ")
        await asyncio.sleep(0.05)


async def test_a_body_in_pieces(serve: Serve) -> None:
    served = await serve()
    request = msgspec.json.encode(names_request("a", "b"))
    async with connection(served) as (reader, writer):
        writer.write(head("/filter", f"Content-Length: {len(request)}"))
        for i in range(0, len(request), 50):
            writer.write(request[i : i + 50])
            await writer.drain()
            await asyncio.sleep(0.001)
        status, headers, body = await read_answer(reader)
    assert (status, json.loads(body)["NodeNames"]) == (200, ["a", "b"])
    assert "connection" not in headers


async def test_a_broken_chunk(serve: Serve) -> None:
    served = await serve(settings=SMALL)
    async with connection(served) as (reader, writer):
        writer.write(head("/filter", "Transfer-Encoding: chunked") + b"5\r\n12345\r\n")
        await asyncio.sleep(0.05)
        writer.write(b"nonsense\r\n")
        status, _, body = await read_answer(reader)
    assert (status, json.loads(body)["NodeNames"]) == (200, None)
    assert (await served.post("/filter", names_request("a"))).status == 200


async def test_a_body_that_breaks_off() -> None:
    """What aiohttp's parser in Python makes of a broken chunk; the one in C leaves us waiting."""
    stream = StreamReader(BaseProtocol(asyncio.get_running_loop()), 1000)
    stream.set_exception(web.RequestPayloadError())
    request = make_mocked_request("POST", "/filter", payload=stream)
    with pytest.raises(RequestError, match="incomplete or malformed") as caught:
        await read_body(request, 1000, 1.0)
    assert caught.value.outcome is Outcome.BROKEN_BODY


async def test_a_client_that_leaves(serve: Serve) -> None:
    served = await serve()
    async with connection(served) as (_, writer):
        writer.write(head("/filter", "Content-Length: 500") + b"{")
        await writer.drain()
        await asyncio.sleep(0.05)
    for _ in range(100):
        labels = {"verb": "filter", "code": "200", "outcome": "disconnected"}
        if served.metric("placet_requests_total", **labels) == 1:
            break
        await asyncio.sleep(0.01)
    else:
        pytest.fail("nobody noticed")
    assert served.metric("placet_requests_in_flight", verb="filter") == 0
    assert (await served.post("/filter", names_request("a"))).status == 200


async def test_what_is_not_http(serve: Serve) -> None:
    served = await serve()
    async with connection(served) as (reader, writer):
        writer.write(b"\x16\x03\x01 a TLS client\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.0 400 ")
    assert (await served.post("/filter", names_request("a"))).status == 200


async def test_one_connection_serves_many_calls(serve: Serve) -> None:
    """C2."""
    served = await serve()
    request = msgspec.json.encode(names_request("a"))
    async with connection(served) as (reader, writer):
        for _ in range(5):
            writer.write(head("/filter", f"Content-Length: {len(request)}") + request)
            assert (await read_answer(reader))[0] == 200
