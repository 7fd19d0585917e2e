"""The lines of an answer that does not end, read by a thread."""

import http.client
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

_END_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Lines:
    """The lines of an answer; the connection forgets its `channel` when the answer begins."""

    connection: http.client.HTTPConnection
    channel: socket.socket
    response: http.client.HTTPResponse

    def close(self) -> None:
        self.response.close()
        self.connection.close()


def ask(connection: http.client.HTTPConnection, method: str, path: str, **more: object) -> Lines:
    """Send a request; `more` is what else `HTTPConnection.request` takes."""
    connection.request(method, path, **more)  # type: ignore[arg-type]
    channel = connection.sock
    assert channel is not None, "it is connected"
    return Lines(connection, channel, connection.getresponse())


def _after(last: bytes, go_on: Callable[[bytes], Lines] | None) -> Lines:
    if go_on is None or not last:
        raise EOFError("there are no more lines")
    return go_on(last)


@contextmanager
def followed(
    lines: Lines, take: Callable[[bytes], None], go_on: Callable[[bytes], Lines] | None = None
) -> Iterator[None]:
    """Calls `take` with each further line, in a thread; the end of the block ends the connection.

    When the lines end before, `go_on` is asked for those after the last line; if there is none, or
    something fails, the block ends with that error.
    """
    closing = threading.Event()
    errors: list[Exception] = []

    def follow() -> None:
        nonlocal lines
        try:
            while True:
                last = b""
                while line := lines.response.readline():
                    take(line)
                    last = line
                if closing.is_set():
                    return
                lines.close()
                lines = _after(last, go_on)
        except Exception as error:  # noqa: BLE001 - the thread that has the block raises it
            if not closing.is_set():
                errors.append(error)

    thread = threading.Thread(target=follow, name="followed lines", daemon=True)
    thread.start()
    try:
        yield
    finally:
        closing.set()
        # To close it would wait for the thread, which waits for the next line.
        lines.channel.shutdown(socket.SHUT_RDWR)
        thread.join(_END_SECONDS)
        lines.close()
        if errors:
            raise errors[0]
