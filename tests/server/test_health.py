"""Liveness and readiness, line by line as Kubernetes' own components tell them."""

from __future__ import annotations

from server.health import Check
from tests.server.conftest import Serve

READY = [Check("policies"), Check("cluster")]
NOT_READY = [Check("policies"), Check("cluster", "no list of nodes yet")]


async def test_ready(serve: Serve) -> None:
    answer = await (await serve(checks=READY)).get("/readyz")
    assert (answer.status, answer.body) == (200, b"ok")


async def test_ready_in_detail(serve: Serve) -> None:
    answer = await (await serve(checks=READY)).get("/readyz?verbose")
    assert answer.body.decode().splitlines() == [
        "[+]ping ok",
        "[+]policies ok",
        "[+]cluster ok",
        "readyz check passed",
    ]


async def test_not_ready_says_why(serve: Serve) -> None:
    for path in ("/readyz", "/readyz?verbose"):
        answer = await (await serve(checks=NOT_READY)).get(path)
        assert answer.status == 503
        assert answer.body.decode().splitlines() == [
            "[+]ping ok",
            "[+]policies ok",
            "[-]cluster failed: no list of nodes yet",
            "readyz check failed",
        ]


async def test_checks_can_be_excluded(serve: Serve) -> None:
    served = await serve(checks=NOT_READY)
    assert (await served.get("/readyz?exclude=cluster")).status == 200
    assert (await served.get("/readyz?exclude=policies")).status == 503
    both = await served.get("/readyz?verbose&exclude=policies&exclude=cluster&exclude=typo")
    assert both.status == 200
    assert both.body.decode().splitlines() == [
        "[+]ping ok",
        "[+]policies excluded: ok",
        "[+]cluster excluded: ok",
        "warn: there is no check named 'typo' to exclude",
        "readyz check passed",
    ]


async def test_alive_without_being_ready(serve: Serve) -> None:
    served = await serve(checks=NOT_READY)
    for path in ("/livez", "/healthz"):
        answer = await served.get(path)
        assert (answer.status, answer.body) == (200, b"ok")
    assert b"[+]ping ok" in (await served.get("/livez?verbose")).body


async def test_version(serve: Serve) -> None:
    answer = await (await serve()).get("/version")
    assert answer.json == {"version": "1.2.3"}
