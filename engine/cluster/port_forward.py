"""Port forward: connections to a port of a pod, through the API server and the pod's kubelet.

It speaks the protocol `v4.channel.k8s.io`: one WebSocket for each connection, whose messages begin
with the number of a channel. Kubelets have had it since port forwarding by WebSocket exists, and
the API server passes it on. Kubernetes' RBAC decides who may: `get` and `create` of
`pods/portforward`.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from engine.cluster.client import CORE, ApiClient, path_of
from engine.errors import ApiUnreachableError, EngineError
from grammar.messages.texts import MOST_ERROR, shown

PROTOCOL = "v4.channel.k8s.io"
# The first byte of each message; with several ports there would be two channels for each.
_DATA, _ERROR = 0, 1
# Each channel begins with the number of its port.
_PORT_BYTES = 2
_CHUNK = 32 * 1024


class PortForward:
    """A port of one pod. `failure` is the last error, which a connection itself cannot show."""

    def __init__(self, client: ApiClient, namespace: str, pod: str, port: int) -> None:
        self.failure: EngineError | None = None
        self.namespace = namespace
        self._client = client
        self._path = path_of(CORE, "pods", namespace, pod, "portforward")
        self._port = port

    async def relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Connects a local connection with the port, until one of them ends."""
        params = [("ports", str(self._port))]
        try:
            async with self._client.websocket(self._path, params, PROTOCOL) as socket:
                # Each ends the other: one closes the socket, and the other the local connection.
                both = _send(reader, socket), _receive(socket, writer)
                for ended in await asyncio.gather(*both, return_exceptions=True):
                    if isinstance(ended, BaseException):
                        raise ended
        except EngineError as error:
            self.failure = error
        except (OSError, aiohttp.ClientError) as error:
            self.failure = ApiUnreachableError(f"the connection broke off: {error}")
        finally:
            writer.close()


async def _receive(socket: aiohttp.ClientWebSocketResponse, writer: asyncio.StreamWriter) -> None:
    """Writes what the pod sends. Raises ApiUnreachableError for an error of the kubelet."""
    begun: set[int] = set()
    try:
        async for message in socket:
            if message.type is not aiohttp.WSMsgType.BINARY or not message.data:
                continue
            channel, data = message.data[0], message.data[1:]
            if channel not in begun:
                begun.add(channel)
                data = data[_PORT_BYTES:]
            if channel == _DATA and data:
                writer.write(data)
                await writer.drain()
            elif channel == _ERROR and data:
                text = shown(data.decode("utf-8", "replace"), MOST_ERROR)
                raise ApiUnreachableError(f"the kubelet cannot forward the port: {text}")
    finally:
        writer.close()


async def _send(reader: asyncio.StreamReader, socket: aiohttp.ClientWebSocketResponse) -> None:
    """Sends what comes locally. The protocol cannot say that there is no more."""
    try:
        while data := await reader.read(_CHUNK):
            await socket.send_bytes(bytes([_DATA]) + data)
    except (OSError, aiohttp.ClientError):
        pass  # `_receive` sees why
    finally:
        await socket.close()


@asynccontextmanager
async def local_socket(forward: PortForward) -> AsyncIterator[Path]:
    """A Unix socket whose connections lead to the port, for as long as the block runs.

    It is in a folder of the user's own, so that no other user of this machine can connect.
    """
    with tempfile.TemporaryDirectory(prefix="placet-") as folder:
        path = Path(folder) / "view"
        async with await asyncio.start_unix_server(forward.relay, path):
            yield path
