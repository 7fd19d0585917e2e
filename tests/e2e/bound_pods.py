"""Bound pods: a watch of the pods of a namespace that have nodes, read by a thread."""

import http.client
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.e2e.control_plane import ControlPlane
from tests.e2e.following import followed

# Longer than a benchmark or an attack waits for the next pod. The API server ends the watch later.
_QUIET_SECONDS = 3600.0
_QUERY = "watch=1&timeoutSeconds=7200&fieldSelector=spec.nodeName%21%3D"


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
    with followed(connection, response, channel, event):
        yield
