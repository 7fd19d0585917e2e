"""Memory transport: the transport of a connection without a socket; it keeps what is written."""

from __future__ import annotations

import asyncio


class MemoryTransport(asyncio.Transport):
    """A transport of which a test reads what was written, and whether it was closed."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.is_closed = self.is_aborted = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.is_closed
        self.written += data

    def take(self) -> bytes:
        """What was written since the last time."""
        taken, self.written = self.written, b""
        return taken

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = self.is_aborted = True
