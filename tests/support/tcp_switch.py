"""A switch before several servers: each connection goes to one that is ready, and stays with it."""

from __future__ import annotations

import asyncio
import http.client
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from threading import Thread

from tests.support.api_proxy import run_in

_PROBE_SECONDS = 0.1
_PROBE_TIMEOUT_SECONDS = 1.0
_CHUNK = 2**16


class TcpSwitch:
    """As a load balancer that asks for readiness: new connections go to the last server that was.

    It stays with one as long as that is ready, and with one that is not while no other is. `ports`
    are those of the servers, and may be replaced from another thread.
    """

    def __init__(self, ports: Sequence[int]) -> None:
        self.port = 0
        self.ports = tuple(ports)
        self.current = ports[0]
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._meet, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        self._keep(asyncio.create_task(self._probe()))

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _probe(self) -> None:
        while True:
            await asyncio.sleep(_PROBE_SECONDS)
            ports = self.ports
            ready = [port for port in ports if await asyncio.to_thread(_is_ready, port)]
            if ready and self.current not in ready:
                self.current = ready[0]

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer), suppress(OSError):
            there, back = await asyncio.open_connection("127.0.0.1", self.current)
            with closing(back):
                ways = (_pass_on(reader, back), _pass_on(there, writer))
                tasks = [asyncio.create_task(way) for way in ways]
                for task in tasks:
                    self._keep(task)
                # Whichever side ends, the other one hears of it at once.
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in tasks:
                    task.cancel()

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while chunk := await reader.read(_CHUNK):
            writer.write(chunk)
            await writer.drain()


def _is_ready(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_PROBE_TIMEOUT_SECONDS)
    with closing(connection), suppress(OSError, http.client.HTTPException):
        connection.request("GET", "/readyz")
        return connection.getresponse().status == http.client.OK
    return False


@contextmanager
def tcp_switch(ports: Sequence[int]) -> Iterator[TcpSwitch]:
    """A switch in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever, name="tcp switch", daemon=True)
    thread.start()
    try:
        switch = TcpSwitch(ports)
        run_in(loop, switch.start())
        try:
            yield switch
        finally:
            run_in(loop, switch.stop())
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
