"""A client of one HTTP server over one connection that stays open, with next to no cost of its own.

`http.client` takes a quarter of a millisecond to read a header, which both sides of a ratio would
have to bear.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType

_BUFFER = 1 << 20
_END = b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Answer:
    """The body of an answer, and how long it took from the first byte sent to the last received."""

    body: bytes
    seconds: float


class KeepAlive:
    """One open connection."""

    def __init__(
        self,
        connection: socket.socket,
        prefix: str,
        paths: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`paths` has those verbs that are not at their names."""
        self._connection = connection
        self._prefix = prefix
        self._paths = paths
        self._received = bytearray()

    def post(self, verb: str, body: bytes) -> Answer:
        """The answer to a body of JSON; anything but 200 fails."""
        path = f"{self._prefix}/{self._paths.get(verb, verb)}"
        head = (
            f"POST {path} HTTP/1.1\r\nHost: bench\r\nUser-Agent: bench\r\n"
            f"Content-Length: {len(body)}\r\nContent-Type: application/json\r\n\r\n"
        )
        request = head.encode() + body
        began = time.perf_counter()
        self._connection.sendall(request)
        answer = self._answer()
        return Answer(answer, time.perf_counter() - began)

    def _answer(self) -> bytes:
        while (end := self._received.find(_END)) < 0:
            self._receive()
        head = bytes(self._received[:end]).lower()
        del self._received[: end + len(_END)]
        assert head.startswith(b"http/1.1 200 "), head
        if b"transfer-encoding: chunked" in head:
            return b"".join(self._chunks())
        _, _, length = head.partition(b"content-length:")
        return self._take(int(length.partition(b"\r\n")[0]))

    def _chunks(self) -> Iterator[bytes]:
        """The pieces of a body whose sender did not say how long it is."""
        while size := int(self._line(), 16):
            yield self._take(size)
            self._line()
        self._line()

    def _line(self) -> bytes:
        while (end := self._received.find(b"\r\n")) < 0:
            self._receive()
        return self._take(end + 2)[:-2]

    def _take(self, size: int) -> bytes:
        while len(self._received) < size:
            self._receive()
        taken = bytes(self._received[:size])
        del self._received[:size]
        return taken

    def _receive(self) -> None:
        data = self._connection.recv(_BUFFER)
        assert data, "the server has closed the connection"
        self._received += data


@contextmanager
def keep_alive(
    port: int, prefix: str = "", paths: Mapping[str, str] = MappingProxyType({})
) -> Iterator[KeepAlive]:
    """Connect to a server on loopback; the verbs are below `prefix`, at their names or `paths`."""
    with socket.create_connection(("127.0.0.1", port), timeout=60.0) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield KeepAlive(connection, prefix, paths)
