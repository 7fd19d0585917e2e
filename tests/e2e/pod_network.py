"""Pod network: TCP connections that cross network namespaces by Unix sockets.

A pod of the test kubelet has a network namespace of its own with nothing but 127.0.0.1, so the
ports of replicas do not collide. This module is run as a program: `outside` on the machine's own
network takes connections to the API server, and `inside` a pod's passes them on and takes those to
the pod's ports. Nothing of the machine's network changes.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

HOST = "127.0.0.1"
BLOCK = 1 << 16
# The Unix socket of the API server, in the folder of all sockets.
API = "api"

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Connect = Callable[[asyncio.StreamReader], Awaitable[Streams]]


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while block := await reader.read(BLOCK):
            writer.write(block)
            await writer.drain()
    writer.close()


async def _relay(
    connect: Connect, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    try:
        far_reader, far_writer = await connect(reader)
    except OSError:
        writer.close()
        return
    await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))


async def _outside(port: int, folder: Path) -> None:
    async def connect(_near: asyncio.StreamReader) -> Streams:
        return await asyncio.open_connection(HOST, port)

    await asyncio.start_unix_server(partial(_relay, connect), folder / API)
    await asyncio.Event().wait()


async def _inside(port: int, folder: Path, pod: str) -> None:
    async def connect_api(_near: asyncio.StreamReader) -> Streams:
        return await asyncio.open_unix_connection(folder / API)

    async def connect_port(near: asyncio.StreamReader) -> Streams:
        # Whoever connects says in a line to which port of the pod.
        return await asyncio.open_connection(HOST, int(await near.readline()))

    await asyncio.start_server(partial(_relay, connect_api), HOST, port)
    await asyncio.start_unix_server(partial(_relay, connect_port), folder / pod)
    await asyncio.Event().wait()


if __name__ == "__main__":
    where, api_port, sockets, *name = sys.argv[1:]
    with suppress(KeyboardInterrupt):
        if where == "outside":
            asyncio.run(_outside(int(api_port), Path(sockets)))
        else:
            asyncio.run(_inside(int(api_port), Path(sockets), *name))
