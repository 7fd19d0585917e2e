"""Bound pods: a watch of the pods of a namespace that have nodes, read by a thread."""

import http.client
import json
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.e2e.api import Api
from tests.e2e.control_plane import ControlPlane
from tests.e2e.following import Lines, ask, followed

# Longer than a benchmark or an attack waits for the next pod. The API server ends the watch later.
_QUIET_SECONDS = 3600.0
_QUERY = "watch=1&timeoutSeconds=7200&fieldSelector=spec.nodeName%21%3D"


@contextmanager
def watched_bindings(
    plane: ControlPlane, namespace: str, event: Callable[[bytes], None]
) -> Iterator[None]:
    """Calls `event` with the line of each watch event, in a thread, while the block runs.

    The API server ends a watch that reads too slowly. It goes on where it ended: nothing is lost,
    and nothing comes twice.
    """
    context = ssl.create_default_context(cafile=str(plane.authority))
    path = f"/api/v1/namespaces/{namespace}/pods"

    def after(version: str) -> Lines:
        connection = http.client.HTTPSConnection(
            "127.0.0.1", plane.port, timeout=_QUIET_SECONDS, context=context
        )
        headers = {"Authorization": f"Bearer {plane.admin_token}"}
        query = f"{path}?{_QUERY}&resourceVersion={version}"
        found = ask(connection, "GET", query, headers=headers)
        assert found.response.status == http.client.OK, found.response.read()
        return found

    def go_on(last: bytes) -> Lines:
        ended = json.loads(last)
        assert ended["type"] != "ERROR", ended
        return after(ended["object"]["metadata"]["resourceVersion"])

    begin = Api(plane).request("GET", f"{path}?limit=1")["metadata"]["resourceVersion"]
    with followed(after(begin), event, go_on):
        yield
