"""`placet serve --traces`: the spans that a collector gets over HTTP, and one that is not there."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from uuid import UUID

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.cli.conftest import Placet
from tests.cli.test_serve import BARE, NO_VIEW, serving, until
from tests.support.builders import Object, node, pod

pytestmark = pytest.mark.process

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
