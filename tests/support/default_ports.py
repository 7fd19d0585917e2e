"""The default ports of Placet, taken while a test starts a server: no test may use them.

A machine on which the tests run may have a Placet, or another run of the tests.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from server.settings import Settings
from server.view.page import DEFAULT_PORT

DEFAULT_PORTS = (Settings().port, DEFAULT_PORT)


@contextmanager
def default_ports_taken() -> Iterator[None]:
    """Whoever listens on a default port meanwhile gets an error, on any machine."""
    with ExitStack() as stack:
        for port in DEFAULT_PORTS:
            # Tests of other workers hold it too, and somebody else may have it all the time.
            with suppress(OSError):
                address = ("127.0.0.1", port)
                stack.enter_context(socket.create_server(address, reuse_port=True))
        yield
