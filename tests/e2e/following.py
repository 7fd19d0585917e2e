"""The lines of an answer that does not end, read by a thread."""

import http.client
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

_END_SECONDS = 60.0


@contextmanager
def followed(
    connection: http.client.HTTPConnection,
    response: http.client.HTTPResponse,
    channel: socket.socket,
    take: Callable[[bytes], None],
) -> Iterator[None]:
    """Calls `take` with each further line, in a thread; the end of the block ends the connection.

    `channel` is the connection's socket, which the connection forgets when the answer begins.
    """

    def follow() -> None:
        with suppress(OSError, http.client.HTTPException, ValueError):
            while line := response.readline():
                take(line)

    thread = threading.Thread(target=follow, name="followed lines", daemon=True)
    thread.start()
    try:
        yield
    finally:
        # To close it would wait for the thread, which waits for the next line.
        channel.shutdown(socket.SHUT_RDWR)
        thread.join(_END_SECONDS)
        response.close()
        connection.close()
