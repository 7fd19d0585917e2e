"""Bodies that are large, slow, broken or endless, and all of them together."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from io import BytesIO
from pathlib import Path

import msgspec
import pytest
from aiohttp import StreamReader, web
from aiohttp.base_protocol import BaseProtocol
from aiohttp.test_utils import make_mocked_request

from server.call import CallRecord
from server.errors import Outcome, RequestError
from server.http.bodies import BodyReader, ByteBudget
from server.http.connections import BEGUN_SECONDS
from server.settings import MEBIBYTE, Settings
from tests.server.conftest import Serve
from tests.support.fake_clock import settled
from tests.support.pseudo_terminal import default_ports_taken
from tests.support.served import Served, names_request

pytestmark = pytest.mark.fake_clock
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
async def test_a_body_of_more_than_a_large_limit(chunked: bool, listen: Serve) -> None:
    """C7: the usual limit exceeds what kube-scheduler sends for 5,000 nodes."""
    assert Settings().body_limit == 64 * MEBIBYTE
    served = await listen(settings=Settings(body_limit=4 * MEBIBYTE, http_timeout=2.0))
    piece = b" " * 60_000

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield piece

    headers = {} if chunked else {"Content-Length": str(100 * len(piece))}
    for verb in ("filter", "bind"):
        answer = await served.request("POST", f"/{verb}", pieces(), headers)
        assert answer.status == 200
        assert (
            answer.json["Error"] == "placet: the body of the request is larger than 4194304 bytes"
        )
    assert (await served.post("/filter", names_request("a"))).json["NodeNames"] == ["a"]
    assert served.calls("filter", "large_body") == 1


@pytest.mark.parametrize(
    ("verb", "status"), [("filter", 200), ("prioritize", 200), ("bind", 200), ("preempt", 400)]
)
async def test_a_body_above_the_limit(verb: str, status: int, serve: Serve) -> None:
    served = await serve(settings=SMALL)
    assert (await served.post(f"/{verb}", b" " * 1001)).status == status
    assert served.calls(verb, "large_body", status) == 1


async def test_a_body_at_the_limit(serve: Serve) -> None:
    request = msgspec.json.encode(names_request("a"))
    served = await serve(settings=Settings(body_limit=len(request)))
    assert (await served.post("/filter", request)).json["NodeNames"] == ["a"]
    assert (await served.post("/filter", request + b" ")).json["NodeNames"] is None


async def test_a_client_that_sends_everything_before_it_reads(listen: Serve) -> None:
    """It gets an answer, not a reset connection."""
    served = await listen(settings=SMALL)
    async with connection(served) as (reader, writer):
        writer.write(head("/filter", "Content-Length: 20000000"))
        for _ in range(20):
            writer.write(b" " * 1_000_000)
            await writer.drain()
        status, headers, body = await read_answer(reader)
    assert (status, headers["connection"]) == (200, "close")
    assert "larger than 1000 bytes" in json.loads(body)["Error"]


async def test_a_slow_body(listen: Serve) -> None:
    served = await listen(settings=SMALL)
    async with connection(served) as (reader, writer):
        writer.write(head("/filter", "Content-Length: 500"))
        drip = asyncio.create_task(_drip(writer))
        started = asyncio.get_running_loop().time()
        # Other calls are served meanwhile.
        assert (await served.post("/filter", names_request("a"))).json["NodeNames"] == ["a"]
        status, headers, body = await read_answer(reader)
        took = asyncio.get_running_loop().time() - started
        drip.cancel()
    assert (status, headers["connection"]) == (200, "close")
    assert json.loads(body)["Error"] == "placet: the body of the request did not arrive in time"
    # The time begins where the rest is no longer waited for.
    assert took == pytest.approx(BEGUN_SECONDS + SMALL.body_seconds)
    assert took < SMALL.decision_seconds
    assert served.calls("filter", "slow_body") == 1


async def _drip(writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(b" ")
        await asyncio.sleep(0.05)


async def test_a_body_in_pieces(listen: Serve) -> None:
    served = await listen()
    request = msgspec.json.encode(names_request("a", "b"))
    async with connection(served) as (reader, writer):
        writer.write(head("/filter", f"Content-Length: {len(request)}"))
        for i in range(0, len(request), 50):
            writer.write(request[i : i + 50])
            await writer.drain()
            await settled()
        status, headers, body = await read_answer(reader)
    assert (status, json.loads(body)["NodeNames"]) == (200, ["a", "b"])
    assert "connection" not in headers


async def test_a_broken_chunk(listen: Serve) -> None:
    served = await listen(settings=SMALL)
    async with connection(served) as (reader, writer):
        writer.write(head("/filter", "Transfer-Encoding: chunked") + b"5\r\n12345\r\n")
        await settled()
        writer.write(b"nonsense\r\n")
        status, _, body = await read_answer(reader)
    assert (status, json.loads(body)["NodeNames"]) == (200, None)
    assert (await served.post("/filter", names_request("a"))).status == 200


async def test_a_broken_body_is_an_error_of_the_request() -> None:
    """The parser of aiohttp in Python reports a broken chunk like this; the one in C does not."""
    stream = StreamReader(BaseProtocol(asyncio.get_running_loop()), 1000)
    stream.set_exception(web.RequestPayloadError())
    request = make_mocked_request("POST", "/filter", payload=stream)
    with pytest.raises(RequestError, match="incomplete or malformed") as caught:
        await BodyReader(ByteBudget(4000), SMALL).read(request, CallRecord("filter", 0.0), 1000)
    assert caught.value.outcome is Outcome.BROKEN_BODY


async def test_a_client_that_disconnects(listen: Serve) -> None:
    served = await listen()
    async with connection(served) as (_, writer):
        writer.write(head("/filter", "Content-Length: 500") + b"{")
        await writer.drain()
        await asyncio.sleep(2 * BEGUN_SECONDS)
    labels = {"verb": "filter", "code": "200", "outcome": "disconnected"}
    await served.until("placet_requests_total", 1, **labels)
    assert served.metric("placet_requests_in_flight", verb="filter") == 0
    assert (await served.post("/filter", names_request("a"))).status == 200


async def test_bytes_that_are_not_http(listen: Serve) -> None:
    served = await listen()
    async with connection(served) as (reader, writer):
        writer.write(b"\x16\x03\x01 a TLS client\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.0 400 ")
    assert (await served.post("/filter", names_request("a"))).status == 200


async def test_one_connection_serves_many_calls(listen: Serve) -> None:
    """C2."""
    served = await listen()
    request = msgspec.json.encode(names_request("a"))
    async with connection(served) as (reader, writer):
        for _ in range(5):
            writer.write(head("/filter", f"Content-Length: {len(request)}") + request)
            assert (await read_answer(reader))[0] == 200


# ---- all bodies together


async def test_a_body_beyond_the_budget_waits(listen: Serve) -> None:
    """While a large body is read, small ones pass, and another large one waits for it."""
    large, budget = 4 * MEBIBYTE, 8 * MEBIBYTE
    served = await listen(settings=Settings(body_limit=large, body_budget=budget))
    async with connection(served) as (reader, writer), connection(served) as (other, second):
        for each in (writer, second):
            each.write(head("/filter", f"Content-Length: {large}"))
            each.write(b" " * (large - 1))
            await settled()
        # Of the second one, what it has before it counts as large.
        assert large < (served.metric("placet_bodies_held_bytes") or 0) < large + MEBIBYTE
        assert (await served.post("/filter", names_request("a"))).json["NodeNames"] == ["a"]
        writer.write(b" ")
        assert b"not JSON" in (await read_answer(reader))[2]
        second.write(b" ")
        assert b"not JSON" in (await read_answer(other))[2]
    assert served.metric("placet_bodies_held_bytes") == 0


async def test_a_body_that_finds_no_room_is_refused() -> None:
    """Preempt answers 503 to that, as to all that is overloaded."""
    budget = ByteBudget(4000)
    budget.take(3500)
    stream = StreamReader(BaseProtocol(asyncio.get_running_loop()), 1000)
    stream.feed_data(b" " * 600)
    headers = {"Content-Length": "1000"}
    request = make_mocked_request("POST", "/filter", headers=headers, payload=stream)
    call = CallRecord("filter", 0.0)
    with pytest.raises(RequestError, match="too many bytes of requests at once") as caught:
        await BodyReader(budget, SMALL).read(request, call, 1000)
    assert caught.value.outcome is Outcome.OVERLOADED
    assert (call.held, budget.held) == (0, 3500)


async def test_an_announced_body_takes_nothing_from_the_budget(listen: Serve) -> None:
    """Whoever announces large bodies and sends next to nothing keeps no others out."""
    large, budget = 4 * MEBIBYTE, 4 * MEBIBYTE
    served = await listen(settings=Settings(body_limit=large, body_budget=budget))
    async with connection(served) as (_, writer), connection(served) as (reader, second):
        writer.write(head("/filter", f"Content-Length: {large}"))
        writer.write(b" ")
        await settled()
        assert served.metric("placet_bodies_held_bytes") == 1
        second.write(head("/filter", f"Content-Length: {3 * MEBIBYTE - 1}"))
        second.write(b" " * (3 * MEBIBYTE - 1))
        assert b"not JSON" in (await read_answer(reader))[2]


async def test_who_waits_for_the_budget_gets_it_in_order() -> None:
    budget = ByteBudget(4 * MEBIBYTE)
    budget.take(3 * MEBIBYTE)
    size = 2 * MEBIBYTE
    waiting = [asyncio.create_task(budget.taken(size, size)) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await asyncio.gather(waiting[0], return_exceptions=True)
    budget.give(3 * MEBIBYTE)
    await waiting[1]
    assert (waiting[2].done(), budget.held) == (False, size)
    # It ends in the moment in which it gets what it waits for.
    budget.give(size)
    waiting[2].cancel()
    await asyncio.gather(waiting[2], return_exceptions=True)
    assert budget.held == 0


async def test_a_body_of_very_many_values_is_refused(listen: Serve) -> None:
    """Each value takes many times its two bytes in memory."""
    served = await listen()
    body = BytesIO(b'{"NodeNames":[' + b"1," * 5_000_000 + b"1]}")
    answer = await served.request("POST", "/filter", body)
    assert answer.json["Error"] == "placet: the body of the request has too many values"


@pytest.mark.thorough
def test_eight_bodies_of_60_megabytes_take_a_part_of_that(tmp_path: Path) -> None:
    """Measured in a process of its own, which took 1.1 GB without a budget."""
    (tmp_path / "empty").mkdir()
    flags = ("--no-cluster", "--listen=127.0.0.1:0", "--http-timeout=60s")
    command = [sys.executable, "-m", "cli", "serve", *flags, "--policies", str(tmp_path / "empty")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        with default_ports_taken():
            started = next(line for line in server.stderr if "listening on" in line)
        port = int(started.rpartition(":")[2])
        before = _most_megabytes(server.pid)
        asyncio.run(_eight_bodies(port))
        after = _most_megabytes(server.pid)
        server.terminate()
        server.stderr.read()
    assert after - before < 400


def _most_megabytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(status.partition("VmHWM:")[2].split()[0]) // 1024


async def _eight_bodies(port: int) -> None:
    piece = b" " * MEBIBYTE

    async def send() -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head("/filter", f"Content-Length: {60 * MEBIBYTE}"))
        for _ in range(60):
            writer.write(piece)
            await writer.drain()
        answer = (await read_answer(reader))[2]
        writer.close()
        return answer

    answers = await asyncio.gather(*(send() for _ in range(8)))
    assert all(b"not JSON" in answer for answer in answers)
