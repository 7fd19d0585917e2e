"""kubectl uses the fields of a kubeconfig as the rows say that Placet is held against."""

from __future__ import annotations

import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.support.kubeconfig_fields import ROWS, Fields, context, written, wrong

pytestmark = pytest.mark.e2e

Headers = list[tuple[str, str]]


@contextmanager
def recording(tls: ssl.SSLContext | None) -> Iterator[tuple[str, list[Headers]]]:
    """A server on loopback, and the headers of each request that it gets."""
    seen: list[Headers] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.headers.items())
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_port}", seen
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("fields", ROWS, ids=lambda each: each.what)
def test_kubectl_sends_what_the_row_says(programs: Path, tmp_path: Path, fields: Fields) -> None:
    with recording(context(fields, tmp_path)) as (url, seen):
        file = written(fields, url, tmp_path)
        command = [str(programs / "kubectl"), f"--kubeconfig={file}", "get", "--raw=/api/v1/pods"]
        # Not in the folder of the file: its paths are relative to that.
        done = subprocess.run(
            command, cwd="/", capture_output=True, text=True, timeout=60, check=False
        )
    if fields.refused:
        assert done.returncode != 0
        assert not seen
        return
    assert done.returncode == 0, done.stderr
    assert not wrong(fields, seen[-1])
