"""Bound pods: a watch of the pods of a namespace that have nodes, read by a thread."""

import http.client
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from tests.e2e.control_plane import ControlPlane

# Longer than a benchmark or an attack waits for the next pod. The API server ends the watch later.
_QUIET_SECONDS = 3600.0
_QUERY = "watch=1&timeoutSeconds=7200&fieldSelector=spec.nodeName%21%3D"
_END_SECONDS = 60.0


@contextmanager
def watched_bindings(
    plane: ControlPlane, namespace: str, event: Callable[[bytes], None]
) -> Iterator[None]:
    """Calls `event` with the line of each watch event, in a thread, while the block runs."""
    context = ssl.create_default_context(cafile=str(plane.authority))
    connection = http.client.HTTPSConnection(
        "127.0.0.1", plane.port, timeout=_QUIET_SECONDS, context=context
    )
    path = f"/api/v1/namespaces/{namespace}/pods?{_QUERY}"
    connection.request("GET", path, headers={"Authorization": f"Bearer {plane.admin_token}"})
    channel = connection.sock
    assert channel is not None, "it is connected"
    response = connection.getresponse()
    assert response.status == http.client.OK, response.read()

    def follow() -> None:
        # The end of the block ends the connection.
        with suppress(OSError, http.client.HTTPException, ValueError):
            while line := response.readline():
                event(line)

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield
    finally:
        # To close it would wait for the thread, which waits for the next line.
        channel.shutdown(socket.SHUT_RDWR)
        thread.join(_END_SECONDS)
        response.close()
        connection.close()
