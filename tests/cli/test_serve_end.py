"""`placet serve` as orchestrators see it: its end, its health, and its traces."""

from __future__ import annotations

import re
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from uuid import UUID

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.cli.conftest import Placet
from tests.cli.test_serve import BARE, NO_VIEW, SECONDS, Server, serving, until
from tests.support.builders import Object, node, pod

pytestmark = pytest.mark.process

ASIDE = ("--health-listen", "127.0.0.1:0")


def health(server: Server, path: str) -> tuple[int, str]:
    """What is told aside."""
    [url] = re.findall(r"health and metrics on (\S+)", server.err.read_text("utf-8"))
    return get(url, path)


def get(url: str, path: str) -> tuple[int, str]:
    with closing(HTTPConnection(url.removeprefix("http://"), timeout=SECONDS)) as connection:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode()


def test_health_has_a_port_of_its_own_and_says_that_it_ends(folder: Path) -> None:
    """Before the server does."""
    with serving(folder, *BARE, *ASIDE, "--lameduck", "2s") as server:
        until(lambda: health(server, "/readyz")[0] == 200)
        assert health(server, "/livez") == (200, "ok")
        assert "placet_build_info" in health(server, "/metrics")[1]
        assert health(server, "/filter")[0] == 404
        began = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        until(lambda: "[-]shutdown failed: shutting down" in health(server, "/readyz")[1])
        assert health(server, "/livez")[0] == 200
        assert get(server.url, "/version")[0] == 200, "it still serves"
        assert server.process.wait(SECONDS) == 0
        assert time.monotonic() - began >= 2.0
        assert "stopped" in server.err.read_text("utf-8")


def test_a_second_signal_does_not_wait(folder: Path) -> None:
    with serving(folder, *BARE, *ASIDE, "--lameduck", "5m") as server:
        server.process.send_signal(signal.SIGTERM)
        until(lambda: health(server, "/readyz")[0] == 503)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(SECONDS) == -signal.SIGTERM


def test_a_terminal_does_not_wait(folder: Path) -> None:
    with serving(folder, *BARE, "--lameduck", "5m") as server:
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(SECONDS) == 0


def test_health_port_that_is_taken_is_one_clear_error(placet: Placet) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        done = placet("serve", "--demo", "--listen", "127.0.0.1:0", "--health-listen", where)
    assert done.code == 2
    assert f"error: cannot listen on `{where}`: the port is in use\n" in done.err
    assert "name another with --health-listen HOST:PORT" in done.err


# ---- `placet serve --traces`: the spans that a collector gets over HTTP, and one that is not there


UID = "0b29ef4d-6a42-4b7a-9b2f-3d1c9a7e5f00"


class Collector(ThreadingHTTPServer):
    """What receives OTLP over HTTP, and keeps the spans."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.spans: list[Span] = []
        self.paths: set[str] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        request = ExportTraceServiceRequest.FromString(body)
        self.server.paths.add(self.path)
        for resource in request.resource_spans:
            for scope in resource.scope_spans:
                self.server.spans.extend(scope.spans)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def request() -> Object:
    """A call of filter about a pod with a uid, with whole nodes."""
    asked = pod("web-1", "shop")
    asked["metadata"]["uid"] = UID
    return {"Pod": asked, "Nodes": {"items": [node("a")]}}


def test_a_collector_gets_the_spans_of_a_pod_in_one_trace(
    folder: Path, collector: Collector
) -> None:
    with serving(folder, *BARE, *NO_VIEW, "--traces", collector.url) as server:
        assert not server.ask(request())["Error"]
        server.ask(request(), "prioritize")
    # What waits is sent when the server ends.
    until(lambda: len(collector.spans) == 2)
    assert [span.name for span in collector.spans] == ["filter", "prioritize"]
    assert {span.trace_id for span in collector.spans} == {UUID(UID).bytes}
    assert all(span.kind == Span.SPAN_KIND_SERVER for span in collector.spans)
    assert collector.paths == {"/v1/traces"}


def test_a_collector_that_is_not_there_is_a_warning_and_stops_nothing(folder: Path) -> None:
    with serving(folder, *BARE, *NO_VIEW, "--traces", "http://127.0.0.1:9") as server:
        assert not server.ask(request())["Error"]
    log = server.err.read_text("utf-8")
    assert "export" in log
    assert "WARNING" in log
    assert "Traceback" not in log


def test_a_wrong_target_is_one_clear_error(placet: Placet) -> None:
    done = placet("serve", "--demo", "--traces", "collector:4318")
    assert done.code == 2
    assert "`collector:4318` is not a URL such as http://127.0.0.1:4318" in done.err
    done = placet("serve", "--demo", "--traces", "http://127.0.0.1:4318", "--trace-ratio", "2")
    assert done.code == 2
    assert "`2` is not a number between 0 and 1" in done.err
