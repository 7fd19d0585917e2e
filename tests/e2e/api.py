"""Requests to the API server over plain HTTPS: a kubectl process per node would take minutes."""

import http.client
import json
import ssl
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import cached_property
from typing import Any

from tests.e2e.control_plane import ControlPlane
from tests.e2e.process import Lines, ask, followed

TIMEOUT_SECONDS = 30.0
PARALLEL_CONNECTIONS = 8


# Sends a request with a method, a path and an object, and returns the object in the answer.
Request = Callable[..., dict[str, Any]]


class ApiError(Exception):
    """The API server answered with a status that is no success; the message is its body."""


class Api:
    """The API server, spoken to as the administrator."""

    def __init__(self, plane: ControlPlane) -> None:
        """Take address and token; nothing is sent before the first request."""
        self._port = plane.port
        self._token = plane.admin_token
        self._authority = plane.authority

    def request(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send one request on a connection of its own and return the object in the answer."""
        with closing(self._connect()) as connection:
            return self._exchange(connection, method, path, body)

    @contextmanager
    def kept(self) -> Iterator[Request]:
        """Yield what sends requests one after the other on one connection."""
        with closing(self._connect()) as connection:
            yield lambda method, path, body=None: self._exchange(connection, method, path, body)

    def create(self, path: str, objects: Iterable[dict[str, Any]]) -> None:
        """Create objects under a collection's path: in order on each of a few connections."""
        pending = list(objects)
        shares = [pending[start::PARALLEL_CONNECTIONS] for start in range(PARALLEL_CONNECTIONS)]
        with ThreadPoolExecutor(PARALLEL_CONNECTIONS) as pool:
            # list() also raises what a thread raised.
            list(pool.map(lambda share: self._create_in_turn(path, share), shares))

    def _create_in_turn(self, path: str, objects: Sequence[dict[str, Any]]) -> None:
        with closing(self._connect()) as connection:
            for each in objects:
                self._exchange(connection, "POST", path, each)

    @cached_property
    def _context(self) -> ssl.SSLContext:
        # A context goes to no other process; this object does, before its first request.
        return ssl.create_default_context(cafile=str(self._authority))

    def _connect(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(
            "127.0.0.1", self._port, timeout=TIMEOUT_SECONDS, context=self._context
        )

    def _exchange(
        self,
        connection: http.client.HTTPSConnection,
        method: str,
        path: str,
        body: dict[str, Any] | None,
    ) -> dict[str, Any]:
        text = None if body is None else json.dumps(body)
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": _content_type(method)}
        try:
            connection.request(method, path, text, headers)
            response = connection.getresponse()
        except OSError:
            # The next request gets a new one.
            connection.close()
            raise
        content = response.read()
        if response.status >= http.client.BAD_REQUEST:
            message = f"{method} {path}: {response.status} {content.decode(errors='replace')}"
            raise ApiError(message)
        answer: dict[str, Any] = json.loads(content)
        return answer


def _content_type(method: str) -> str:
    return "application/merge-patch+json" if method == "PATCH" else "application/json"


# ---- bound pods: a watch of the pods of a namespace that have nodes, read by a thread


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
