"""Ten browsers that follow the decisions of a view, without a screen: they read and forget.

Argument: the port of the view. It ends when its input does.
"""

from __future__ import annotations

import selectors
import socket
import sys

READERS = 10
_REQUEST = b"GET /api/v1/decisions/stream HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"

if __name__ == "__main__":
    chosen = selectors.DefaultSelector()
    for _ in range(READERS):
        connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
        connection.sendall(_REQUEST)
        chosen.register(connection, selectors.EVENT_READ)
    chosen.register(sys.stdin, selectors.EVENT_READ)
    read = {key.fd: 0 for key in chosen.get_map().values()}
    while True:
        ready = [key for key, _ in chosen.select()]
        if any(key.fileobj is sys.stdin for key in ready):
            break
        for key in ready:
            assert isinstance(key.fileobj, socket.socket)
            data = key.fileobj.recv(1 << 16)
            assert data, "the view ended a stream"
            read[key.fd] += len(data)
    # Each of them saw decisions, not only the first event.
    sys.stdout.write(f"{min(n for fd, n in read.items() if fd != sys.stdin.fileno())}\n")
