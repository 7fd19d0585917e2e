"""Calls that a connection answers at once, and those that it leaves to aiohttp."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec
import pytest

from engine.cluster.binding import BindClient, Binding
from engine.decision.verdict import Decision
from engine.errors import BriefWaitError
from server.http.connections import BEGUN_SECONDS
from server.http.sockets import Shutdown
from server.settings import MEBIBYTE, Settings
from tests.server.conftest import Serve
from tests.server.http.conftest import BODY, LENGTH, Connect, Peer, request
from tests.support.fake_clock import settled, until
from tests.support.served import Served, TableDecider, names_request

pytestmark = pytest.mark.fake_clock
CHUNKED = b"Transfer-Encoding: chunked\r\n"
IN_CHUNKS = b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
REFUSED = "placet_connections_refused_total"


def tasks_of_answers() -> int:
    """The tasks in which aiohttp answers requests, one for each connection included."""
    return sum("RequestHandler" in repr(task.get_coro()) for task in asyncio.all_tasks())


@dataclass
class CountingDecider(TableDecider):
    """A decider that notes how many tasks answer requests."""

    tasks: list[int] = field(default_factory=list)

    def filter(
        self, pod: bytes, names: Sequence[str], nodes: Sequence[bytes] | None, deadline: float
    ) -> Decision:
        self.tasks.append(tasks_of_answers())
        return super().filter(pod, names, nodes, deadline)


@dataclass
class WaitingDecider(TableDecider):
    """A decider that decides about nothing before so many looks."""

    looks: int = 0

    def filter(
        self, pod: bytes, names: Sequence[str], nodes: Sequence[bytes] | None, deadline: float
    ) -> Decision:
        self.looks -= 1
        if self.looks > 0:
            raise BriefWaitError("waiting for in-flight pods")
        return super().filter(pod, names, nodes, deadline)


async def test_a_whole_request_takes_no_task_of_its_own(listen: Serve, connect: Connect) -> None:
    decider = CountingDecider()
    peer = await connect(await listen(decider=decider))
    whole = request()
    await peer.ask(whole)
    for pause in (0.0, 2 * BEGUN_SECONDS):
        peer.writer.write(whole[:-1])
        await settled()
        await asyncio.sleep(pause)
        await peer.ask(whole[-1:])
    await peer.ask(whole)
    assert decider.tasks == [1, 1, 2, 1], "the rest of the third one came late"


async def test_a_body_in_chunks_leaves_the_connection_to_aiohttp(
    listen: Serve, connect: Connect
) -> None:
    decider = CountingDecider()
    peer = await connect(await listen(decider=decider))
    for data in (request(), request("/filter", CHUNKED, IN_CHUNKS), request()):
        await peer.ask(data)
    assert decider.tasks == [1, 2, 2]


@pytest.mark.parametrize("path", ["/filter", "/api/scheduler/filter/", "/prioritize"])
async def test_both_ways_answer_alike(listen: Serve, connect: Connect, path: str) -> None:
    served = await listen()
    peer = await connect(served)
    status, headers, body = await peer.ask(request(path))
    peer.writer.write(request(path)[:-1])
    await settled()
    other_status, other_headers, other_body = await peer.ask(request(path)[-1:])
    assert (status, body) == (other_status, other_body)
    # It may be a second later.
    assert {**headers, "Date": ""} == {**other_headers, "Date": ""}
    verb = path.rstrip("/").rpartition("/")[2]
    assert served.calls(verb, "answered") == 2
    assert served.metric("placet_response_body_bytes_total", verb=verb) == 2 * len(body)
    assert served.metric("placet_request_body_bytes_total", verb=verb) == 2 * len(BODY)
    assert served.metric("placet_requests_in_flight", verb=verb) == 0


async def test_requests_that_come_together_are_answered_in_order(
    listen: Serve, connect: Connect
) -> None:
    peer = await connect(await listen())
    peer.writer.write(request("/prioritize") + request("/filter"))
    assert (await peer.answer())[2].startswith(b"[")
    assert (await peer.answer())[2].startswith(b"{")
    # The first one is answered before the second one is there.
    peer.writer.write(request("/filter"))
    await asyncio.sleep(0)
    peer.writer.write(request("/prioritize"))
    assert (await peer.answer())[2].startswith(b"{")
    assert (await peer.answer())[2].startswith(b"[")


async def test_a_call_that_has_to_wait_is_answered_once(listen: Serve, connect: Connect) -> None:
    decider = WaitingDecider(looks=3)
    served = await listen(decider=decider)
    peer = await connect(served)
    _, _, body = await peer.ask(request())
    assert msgspec.json.decode(body)["NodeNames"] == ["a", "b"]
    assert served.calls("filter", "answered") == 1
    assert decider.looks <= 0
    assert (await peer.ask(request()))[0] == b"HTTP/1.1 200 OK"


@pytest.mark.parametrize(
    "data",
    [
        request(version=b"1.0"),
        request(headers=LENGTH + b"Connection: close\r\n"),
    ],
)
async def test_a_client_that_wants_the_connection_closed(
    listen: Serve, connect: Connect, data: bytes
) -> None:
    peer = await connect(await listen())
    assert (await peer.ask(data))[0].endswith(b"200 OK")
    async with asyncio.timeout(5):
        assert await peer.reader.read() == b""


async def test_a_server_that_ends_closes_the_connection(listen: Serve, connect: Connect) -> None:
    shutdown = Shutdown()
    peer = await connect(await listen(shutdown=shutdown))
    await peer.ask(request())
    shutdown.begin()
    _, headers, _ = await peer.ask(request())
    assert headers["Connection"] == "close"


async def test_a_failure_is_told_in_the_form_of_the_verb(listen: Serve, connect: Connect) -> None:
    served = await listen()
    peer = await connect(served)
    broken = request(headers=b"Content-Length: 2\r\n", body=b"{}")
    status, _, body = await peer.ask(broken)
    assert (status, msgspec.json.decode(body)["Error"]) == (
        b"HTTP/1.1 200 OK",
        "placet: the request has no `Pod`",
    )
    assert served.calls("filter", "bad_request") == 1


async def test_an_encoded_body_and_a_large_one_are_refused(listen: Serve, connect: Connect) -> None:
    peer = await connect(await listen(settings=Settings(body_limit=MEBIBYTE // 2)))
    encoded = request(headers=LENGTH + b"Content-Encoding: zstd\r\n")
    assert (await peer.ask(encoded))[0].startswith(b"HTTP/1.1 415")
    peer = await connect(await listen(settings=Settings(body_limit=len(BODY) - 1)))
    _, _, body = await peer.ask(request())
    assert "larger than" in msgspec.json.decode(body)["Error"]


NAMES = [f"a-node-with-a-long-name-{number}" for number in range(400)]
LARGE = msgspec.json.encode(names_request(*NAMES))
LARGE_REQUEST = request(headers=b"Content-Length: %d\r\n" % len(LARGE), body=LARGE)


async def ask_until_an_answer_is_held(served: Served, peer: Peer) -> int:
    """Sends one request after the other, and returns their number. The peer reads nothing."""
    for asked in range(1, 1000):
        peer.writer.write(LARGE_REQUEST)
        while (served.calls("filter", "answered") or 0) < asked:
            assert not served.metric(REFUSED, reason="slow_reader"), "this machine stood still"
            if served.metric("placet_bodies_held_bytes"):
                # A body that arrives in two parts is held until it is whole.
                await settled()
                if served.metric("placet_bodies_held_bytes"):
                    return asked
            await asyncio.sleep(0)
    raise AssertionError("no answer is held")


async def test_answers_that_nobody_reads_are_held_and_end(listen: Serve, connect: Connect) -> None:
    """The second request waits for the first answer; the connection ends when its time is over."""
    served = await listen(settings=Settings(http_timeout=4.0))
    peer = await connect(served, slow=True)
    await ask_until_an_answer_is_held(served, peer)
    peer.writer.write(LARGE_REQUEST)
    await settled()
    held = served.metric("placet_bodies_held_bytes") or 0
    await until(lambda: served.metric(REFUSED, reason="slow_reader"))
    assert len(LARGE) / 2 < held < 3 * len(LARGE)
    await settled()
    assert served.metric("placet_bodies_held_bytes") == 0


async def test_an_answer_that_is_read_late_is_sent_whole(listen: Serve, connect: Connect) -> None:
    served = await listen()
    peer = await connect(served, slow=True)
    asked = await ask_until_an_answer_is_held(served, peer)
    for _ in range(asked):
        _, _, answer = await peer.answer()
        assert msgspec.json.decode(answer)["NodeNames"] == NAMES
    assert served.metric("placet_bodies_held_bytes") == 0
    assert (await peer.ask(request()))[0] == b"HTTP/1.1 200 OK"


class QuickBinder:
    """A binder that binds after a round of the event loop or two."""

    async def bind(self, _binding: Binding, _deadline: float, _client: BindClient) -> None:
        for _ in range(random.randrange(3)):
            await asyncio.sleep(0)


async def test_many_clients_are_answered_both_ways(listen: Serve, connect: Connect) -> None:
    """Whole requests, requests in two parts, and bindings at the same time: no turn is lost."""
    served = await listen(binder=QuickBinder())
    binding = msgspec.json.encode({"PodName": "p", "PodNamespace": "d", "PodUID": "u", "Node": "n"})
    bind = request("/bind", b"Content-Length: %d\r\n" % len(binding), binding)

    async def ask(seed: int) -> None:
        dice, peer = random.Random(seed), await connect(served)
        for _ in range(120):
            data = dice.choice([request("/filter"), request("/prioritize"), bind])
            cut = dice.choice([len(data), len(data), dice.randrange(1, len(data))])
            peer.writer.write(data[:cut])
            if cut < len(data):
                await asyncio.sleep(dice.choice([0, 0.001]))
                peer.writer.write(data[cut:])
            status, _, body = await peer.answer()
            assert status == b"HTTP/1.1 200 OK"
            assert body.startswith(b"[" if b"/prioritize" in data else b"{")

    await asyncio.gather(*map(ask, range(8)))
    assert sum(served.calls(v, "answered") or 0 for v in ("filter", "prioritize", "bind")) == 960
