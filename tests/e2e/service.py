"""Service: a port of the machine whose connections go to a ready pod, as kube-proxy's rules do."""

import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import Protocol


class Backend(Protocol):
    """What a connection can go to, such as a `RunningPod`."""

    def is_ready(self) -> bool: ...
    def connect(self, port: int, seconds: float) -> socket.socket: ...


BLOCK = 1 << 16
CONNECT_SECONDS = 5.0


class _Connection(BaseRequestHandler):
    server: "_Server"

    def handle(self) -> None:
        """Pass on what both sides send, until both have ended."""
        ready = [each for each in self.server.pods() if each.is_ready()]
        if not ready:
            return
        with suppress(OSError), ready[0].connect(self.server.to, CONNECT_SECONDS) as there:
            there.settimeout(None)
            back = threading.Thread(target=_copy, args=(there, self.request), daemon=True)
            back.start()
            _copy(self.request, there)
            back.join()


class _Server(ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, pods: Callable[[], Sequence[Backend]], to: int) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        self.pods, self.to = pods, to


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while block := source.recv(BLOCK):
            target.sendall(block)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


@contextmanager
def service(pods: Callable[[], Sequence[Backend]], to: int) -> Iterator[int]:
    """Give the port whose connections go to port `to` of one of the pods that are ready."""
    with _Server(pods, to) as server:
        thread = threading.Thread(target=server.serve_forever, name="service", daemon=True)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()
