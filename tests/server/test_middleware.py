"""What is kept of calls that never got to a verb, and of those in flight."""

from __future__ import annotations

import asyncio
import logging

import pytest

from tests.server.conftest import Serve
from tests.support.served import names_request


async def test_a_wrong_method_is_a_call_of_its_verb(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    served = await serve()
    await served.get("/api/scheduler/filter")
    labels = {"verb": "filter", "code": "405", "outcome": "wrong_method"}
    assert served.metric("placet_requests_total", **labels) == 1
    (line,) = caplog.messages
    assert line.startswith('answered verb="filter" code=405 outcome="wrong_method" seconds=')


async def test_paths_are_no_labels(serve: Serve) -> None:
    """Anybody can make up a million of them."""
    served = await serve()
    for number in range(3):
        await served.get(f"/admin-{number}")
    labels = {"verb": "none", "code": "404", "outcome": "unknown_path"}
    assert served.metric("placet_requests_total", **labels) == 3


async def test_probes_are_no_calls(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "placet")
    served = await serve()
    for path in ("/livez", "/readyz", "/metrics", "/version"):
        await served.get(path)
    assert [record for record in caplog.records if record.name == "placet"] == []


async def test_calls_in_flight_are_counted(serve: Serve) -> None:
    served = await serve()
    _, writer = await asyncio.open_connection(*served.address)
    writer.write(b"POST /bind HTTP/1.1\r\nHost: placet\r\nContent-Length: 5\r\n\r\n")
    for _ in range(100):
        if served.metric("placet_requests_in_flight", verb="bind") == 1:
            break
        await asyncio.sleep(0.01)
    else:
        pytest.fail("nobody noticed")
    writer.close()


async def test_connections_stay_open(serve: Serve) -> None:
    answer = await (await serve()).post("/filter", names_request("a"))
    assert "Connection" not in answer.headers
