"""`placet serve` as orchestrators see it: its end and its health."""

from __future__ import annotations

import re
import signal
import socket
import time
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path

import pytest

from tests.cli.conftest import Placet
from tests.cli.test_serve import BARE, SECONDS, Server, serving, until

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
