"""Requests to the API server over plain HTTPS: a kubectl process per node would take minutes."""

import http.client
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

from tests.e2e.control_plane import ControlPlane

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
        self._context = ssl.create_default_context(cafile=str(plane.authority))

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


# ---- the lines of an answer that does not end, read by a thread


_END_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Lines:
    """The lines of an answer; the connection forgets its `channel` when the answer begins."""

    connection: http.client.HTTPConnection
    channel: socket.socket
    response: http.client.HTTPResponse

    def close(self) -> None:
        self.response.close()
        self.connection.close()


def ask(connection: http.client.HTTPConnection, method: str, path: str, **more: object) -> Lines:
    """Send a request; `more` is what else `HTTPConnection.request` takes."""
    connection.request(method, path, **more)  # type: ignore[arg-type]
    channel = connection.sock
    assert channel is not None, "it is connected"
    return Lines(connection, channel, connection.getresponse())


def _after(last: bytes, go_on: Callable[[bytes], Lines] | None) -> Lines:
    if go_on is None or not last:
        raise EOFError("there are no more lines")
    return go_on(last)


@contextmanager
def followed(
    lines: Lines, take: Callable[[bytes], None], go_on: Callable[[bytes], Lines] | None = None
) -> Iterator[None]:
    """Calls `take` with each further line, in a thread; the end of the block ends the connection.

    When the lines end before, `go_on` is asked for those after the last line; if there is none, or
    something fails, the block ends with that error.
    """
    closing = threading.Event()
    errors: list[Exception] = []

    def follow() -> None:
        nonlocal lines
        try:
            while True:
                last = b""
                while line := lines.response.readline():
                    take(line)
                    last = line
                if closing.is_set():
                    return
                lines.close()
                lines = _after(last, go_on)
        except Exception as error:  # noqa: BLE001 - the thread that has the block raises it
            if not closing.is_set():
                errors.append(error)

    thread = threading.Thread(target=follow, name="followed lines", daemon=True)
    thread.start()
    try:
        yield
    finally:
        closing.set()
        # To close it would wait for the thread, which waits for the next line.
        lines.channel.shutdown(socket.SHUT_RDWR)
        thread.join(_END_SECONDS)
        lines.close()
        if errors:
            raise errors[0]


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
