"""Calls of bind that are held: they take no turn from others, and end with their connection."""

from __future__ import annotations

import asyncio
from functools import partial

import msgspec
import pytest

from engine.cluster.binding import BindClient, Binding
from engine.errors import WaitingError
from server.settings import Settings
from tests.server.conftest import Serve
from tests.server.http.conftest import Connect, request
from tests.support.fake_clock import until

pytestmark = pytest.mark.fake_clock
BINDING = msgspec.json.encode({"PodName": "p", "PodNamespace": "d", "PodUID": "u", "Node": "n"})
BIND = request("/bind", b"Content-Length: %d\r\n" % len(BINDING), BINDING)


class HoldingBinder:
    """A binder that holds every call until the test lets it go on, or its client has gone."""

    def __init__(self) -> None:
        self.may_go_on = asyncio.Event()
        self.held = self.ended = 0

    def holds(self, number: int) -> bool:
        return self.held == number

    async def bind(self, _binding: Binding, _deadline: float, client: BindClient) -> None:
        assert client.ended is not None
        go_on = asyncio.ensure_future(self.may_go_on.wait())
        with client.waiting():
            self.held += 1
            await asyncio.wait((go_on, client.ended), return_when=asyncio.FIRST_COMPLETED)
            self.held -= 1
        go_on.cancel()
        if client.ended.done():
            self.ended += 1
            raise WaitingError("the client has gone")


async def test_held_calls_do_not_count_as_calls_in_flight(listen: Serve, connect: Connect) -> None:
    binder = HoldingBinder()
    served = await listen(settings=Settings(port=0, max_in_flight=2, bind=True), binder=binder)
    peers = [await connect(served) for _ in range(10)]
    for number, peer in enumerate(peers, 1):
        peer.writer.write(BIND)
        await until(partial(binder.holds, number))
    status, _, _ = await (await connect(served)).ask(request("/filter"))
    assert status == b"HTTP/1.1 200 OK"
    binder.may_go_on.set()
    for peer in peers:
        _, _, body = await peer.answer()
        assert msgspec.json.decode(body) == {"Error": ""}
    assert served.calls("bind", "answered") == 10


async def test_a_held_call_ends_with_its_connection(listen: Serve, connect: Connect) -> None:
    binder = HoldingBinder()
    served = await listen(settings=Settings(port=0, bind=True), binder=binder)
    peer = await connect(served)
    peer.writer.write(BIND)
    await until(partial(binder.holds, 1))
    peer.writer.close()
    await until(partial(binder.holds, 0))
    assert binder.ended == 1


def test_there_are_connections_for_held_calls() -> None:
    assert Settings(bind=True).wanted_connections - Settings().wanted_connections == 2000
