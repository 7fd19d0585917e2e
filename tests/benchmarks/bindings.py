"""When pods were bound, as a watch of the API server shows it."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.e2e.control_plane import ControlPlane

_BOUND = "fieldSelector=spec.nodeName%21%3D"
_ADDED = b'{"type":"ADDED"'
_TIMEOUT_SECONDS = 60.0


class Bindings:
    """The moments at which pods were first seen on nodes; a thread appends while others read."""

    def __init__(self) -> None:
        self._moments: list[float] = []

    def __len__(self) -> int:
        return len(self._moments)

    def rate(self, first: int, last: int) -> float:
        """Pods a second from the one of a number to the one of another."""
        return (last - first) / (self._moments[last] - self._moments[first])

    def follow(self, response: http.client.HTTPResponse) -> None:
        """Until there is no more to read."""
        try:
            while line := response.readline():
                if line.startswith(_ADDED):
                    self._moments.append(time.perf_counter())
        except (OSError, http.client.HTTPException):
            return  # it was ended by those who have seen enough


@contextmanager
def bindings(plane: ControlPlane, namespace: str) -> Iterator[Bindings]:
    """Watch the pods of a namespace that have nodes."""
    context = ssl.create_default_context(cafile=str(plane.authority))
    connection = http.client.HTTPSConnection(
        "127.0.0.1", plane.port, timeout=_TIMEOUT_SECONDS, context=context
    )
    path = f"/api/v1/namespaces/{namespace}/pods?watch=1&{_BOUND}"
    connection.request("GET", path, headers={"Authorization": f"Bearer {plane.admin_token}"})
    channel = connection.sock
    assert channel is not None, "it is connected"
    response = connection.getresponse()
    assert response.status == http.client.OK, response.read()
    seen = Bindings()
    thread = threading.Thread(target=seen.follow, args=(response,), daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        # To close it would wait for the thread, which waits for the next line.
        channel.shutdown(socket.SHUT_RDWR)
        thread.join(_TIMEOUT_SECONDS)
        response.close()
        connection.close()
