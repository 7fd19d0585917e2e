"""A proxy between kube-scheduler and Placet that remembers every call: how often, about what."""

import http.client
import json
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import trustme

UPSTREAM_TIMEOUT_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Call:
    """One call of an extender verb and its answer."""

    verb: str
    pod: str
    nodes: int  # named in the request; 0 for verbs that name none
    status: int
    answer: Any  # the JSON value of the body, None where it is none
    at: float  # when it was answered, by the monotonic clock
    names: tuple[str, ...] = ()  # of these nodes, with nodeCacheCapable
    took: float = 0.0  # seconds until the answer


class Recorder:
    """The calls seen so far; kube-scheduler's binding goroutines append while a test reads.

    `upstream` is the port of the server, which may be replaced, and `route` gives the port for the
    next call. `doubles` and `loses` say of a call
    by its verb whether the server gets it twice, and whether its answer gets lost.
    """

    def __init__(self, port: int, upstream: int) -> None:
        """Start with no calls."""
        self.upstream = upstream
        self.route: Callable[[], int] = lambda: self.upstream
        self.doubles: Callable[[str], bool] = lambda _: False
        self.loses: Callable[[str], bool] = lambda _: False
        self.address = f"http://127.0.0.1:{port}"
        self._calls: list[Call] = []
        self._lock = threading.Lock()

    def add(self, call: Call) -> None:
        """Remember a call."""
        with self._lock:
            self._calls.append(call)

    def calls(self, verb: str, pod: str | None = None) -> list[Call]:
        """Return the calls of a verb in order of their answers, for one pod or for all."""
        with self._lock:
            return [each for each in self._calls if each.verb == verb and pod in {None, each.pod}]

    def failures(self) -> list[Call]:
        """Return the calls not answered 200, which kube-scheduler treats as a broken extender."""
        with self._lock:
            return [each for each in self._calls if each.status != http.client.OK]


@contextmanager
def recorder(upstream_port: int) -> Iterator[Recorder]:
    """Serve on a free loopback port and pass everything on to `upstream_port`."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.recorder = Recorder(server.server_port, upstream_port)
    with serving(server):
        yield server.recorder


@contextmanager
def answering(handler: type[BaseHTTPRequestHandler]) -> Iterator[int]:
    """Serve with a handler on a free loopback port; yield the port."""
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), handler)) as server:
        yield server.server_port


@contextmanager
def answering_tls(name: str, answer: Callable[[str], tuple[int, str, bytes]]) -> Iterator[int]:
    """Serve over HTTPS under a name, on a free loopback port; yield the port.

    `answer` gives the status, the type and the body for a path.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, kind, body = answer(self.path)
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert(name).configure_cert(context)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    with serving(server):
        yield server.server_port


@contextmanager
def serving(server: ThreadingHTTPServer) -> Iterator[ThreadingHTTPServer]:
    """Run a server in a thread, and close it."""
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    # kube-scheduler keeps idle connections open, and their threads with them, beyond a test's end.
    daemon_threads = True
    block_on_close = False
    recorder: Recorder

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that end, and report the rest."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = (
        True  # headers and body are two writes; together they would wait 40 ms
    )
    server: _Server

    def do_POST(self) -> None:
        calls, verb = self.server.recorder, self._verb
        body = self.rfile.read(int(self.headers["Content-Length"]))
        began = time.monotonic()
        status, answer = self._pass_on(body)
        took = time.monotonic() - began
        if calls.doubles(verb):
            status, answer = self._pass_on(body)
        calls.add(replace(self._call(body, status, answer), took=took))
        if calls.loses(verb):
            self.close_connection = True
            return
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    @property
    def _verb(self) -> str:
        return self.path.rsplit("/", 1)[-1]

    def _pass_on(self, body: bytes) -> tuple[int, bytes]:
        upstream = http.client.HTTPConnection(
            "127.0.0.1", self.server.recorder.route(), timeout=UPSTREAM_TIMEOUT_SECONDS
        )
        with closing(upstream):
            try:
                upstream.request("POST", self.path, body, {"Content-Type": "application/json"})
                response = upstream.getresponse()
                return response.status, response.read()
            except (OSError, http.client.HTTPException) as error:
                return http.client.BAD_GATEWAY, repr(error).encode()

    def log_message(self, *_: object) -> None:
        """Stay silent: the calls are remembered, not printed."""

    def _call(self, body: bytes, status: int, answer: bytes) -> Call:
        request = json.loads(body)
        named = request.get("NodeNames") or (request.get("Nodes") or {}).get("items") or []
        pod = request.get("Pod")
        try:
            value = json.loads(answer)
        except ValueError:
            value = None
        return Call(
            verb=self._verb,
            pod=request["PodName"] if pod is None else pod["metadata"]["name"],
            nodes=len(named),
            status=status,
            answer=value,
            at=time.monotonic(),
            names=tuple(request.get("NodeNames") or ()),
        )
