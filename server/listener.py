"""The sockets of a server: each connection is met with the TLS that is in force when it comes."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import web

_BACKLOG = 128
# Between connecting and the end of the handshake.
_HANDSHAKE_SECONDS = 10.0
# For those that are at it when the server ends.
_FAREWELL_SECONDS = 1.0
# There is nothing left to accept with, such as file descriptors; who connects waits meanwhile.
_EXHAUSTED = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
_PAUSE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Tls:
    """What to ask at each connection, and whom to tell why one has failed: a client's address."""

    context: Callable[[], ssl.SSLContext]
    failed: Callable[[str, ssl.SSLError], None]


class Listener:
    """Accepts connections for a server, until it is closed.

    An asyncio.Server has one SSLContext for its life. To swap contexts in its `sni_callback` is not
    enough: TLS 1.2 sessions belong to the context that began the handshake, and clients would take
    them up again after their CA has been replaced. To close it for another server in its place
    loses what it has just accepted. So this accepts, and asyncio does all the rest.
    """

    def __init__(self, server: web.Server, tls: Tls | None = None) -> None:
        self._server = server
        self._tls = tls
        self._sockets: list[socket.socket] = []
        self._accepting: list[asyncio.Task[None]] = []
        self._meeting: set[asyncio.Task[None]] = set()

    async def open(self, host: str, port: int) -> tuple[str, int]:
        """Host and port that are listened on, the first if there are several. Raises OSError."""
        loop = asyncio.get_running_loop()
        # It is a server only until it has found and bound every address of the host.
        binder = await loop.create_server(self._server, host, port, start_serving=False)
        try:
            for bound in binder.sockets:
                self._sockets.append(bound.dup())
        finally:
            binder.close()
        for listening in self._sockets:
            listening.listen(_BACKLOG)
            self._accepting.append(asyncio.create_task(self._accept(listening)))
        bound_host, bound_port = self._sockets[0].getsockname()[:2]
        return bound_host, bound_port

    async def close(self) -> None:
        """Accepts no more. Handshakes have a moment to end; then the connections are closed."""
        for accepting in self._accepting:
            accepting.cancel()
        await asyncio.gather(*self._accepting, return_exceptions=True)
        for listening in self._sockets:
            listening.close()
        if self._meeting:
            _, late = await asyncio.wait(self._meeting, timeout=_FAREWELL_SECONDS)
            for meeting in late:
                meeting.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            # To accept does not wait while there is somebody to accept; others want their turn.
            await asyncio.sleep(0)
            try:
                connection, address = await loop.sock_accept(listening)
            except OSError as error:
                # All else is about one connection: on Linux, accept(2) reports what befell it.
                if error.errno in _EXHAUSTED:
                    loop.call_exception_handler({"message": "cannot accept", "exception": error})
                    await asyncio.sleep(_PAUSE_SECONDS)
                continue
            meeting = asyncio.create_task(self._meet(connection, str(address[0])))
            self._meeting.add(meeting)
            meeting.add_done_callback(self._meeting.discard)

    async def _meet(self, connection: socket.socket, host: str) -> None:
        connect = asyncio.get_running_loop().connect_accepted_socket
        if self._tls is None:
            await connect(self._server, connection)
            return
        context = self._tls.context()
        try:
            await connect(
                self._server,
                connection,
                ssl=context,
                ssl_handshake_timeout=_HANDSHAKE_SECONDS,
            )
        except ssl.SSLError as error:
            self._tls.failed(host, error)
        except OSError:
            # Gone without a word, or too slow; whoever tries whether the port is open does that.
            pass
