"""The client: its requests on the wire, its proxies, and its errors."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from yarl import URL

from engine.cluster.client import CORE, ApiClient, Limits, connect, path_of, proxy_of
from engine.errors import ApiError, ApiUnreachableError, NotSentError
from tests.support.fake_api_server import Answer, FakeApiServer
from tests.support.kubeconfig import kubeconfig

PODS = "/api/v1/pods"
WATCH = [("watch", "1"), ("resourceVersion", "100")]
Connect = Callable[..., AbstractAsyncContextManager[ApiClient]]


@pytest.fixture
def connected(server: FakeApiServer, tmp_path: Path) -> Connect:
    def to_server(**options: Any) -> AbstractAsyncContextManager[ApiClient]:
        file = kubeconfig(tmp_path / "kubeconfig", server.url, {"token": "static"})
        return connect(file, None, version="1.2.3", **options)

    return to_server


@pytest.mark.parametrize(
    "name", ["../../nodes/n?x=", "..", ".", "a/b", "a%2fb", "a#b", "a?b", "a b", "ä", "%2e%2e"]
)
def test_a_name_is_one_part_of_a_path(name: str) -> None:
    """No name leads to another object than the one that has it, which may not exist."""
    sent = URL(f"http://api{path_of(CORE, 'pods', name, name, 'binding')}")
    assert not sent.query_string
    assert not sent.fragment
    parts = sent.raw_path.split("/")
    assert [*parts[:4], parts[5], *parts[7:]] == ["", "api", "v1", "namespaces", "pods", "binding"]


async def test_bodies_are_sent_and_received_unchanged(
    server: FakeApiServer, connected: Connect
) -> None:
    server.answers.append(Answer(201, b"\x00raw"))
    async with connected() as client:
        body = await client.request(
            "PATCH",
            "/api/v1/nodes/a",
            params=[("fieldManager", "a b,c!=d+e")],
            body=b"{ }",
            content_type="application/merge-patch+json",
        )
    assert body == b"\x00raw"
    [asked] = server.requests
    assert (asked.method, asked.path, asked.body) == ("PATCH", "/api/v1/nodes/a", b"{ }")
    assert asked.query == {"fieldManager": "a b,c!=d+e"}
    assert asked.headers["Content-Type"] == "application/merge-patch+json"
    assert asked.headers["User-Agent"].startswith("placet/1.2.3 (")


async def test_passwords_of_other_programs_are_not_sent(
    server: FakeApiServer, connected: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of `~/.netrc`; this server has no TLS, and so gets no token either."""
    netrc = tmp_path / "netrc"
    netrc.write_text("default login me password secret\n")
    monkeypatch.setenv("NETRC", str(netrc))
    server.answers.append(Answer(200, b"{}"))
    async with connected() as client:
        await client.request("GET", PODS)
    assert ["Authorization" in asked.headers for asked in server.requests] == [False]


async def test_a_request_takes_the_proxy_of_the_environment(
    server: FakeApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("HTTP_PROXY", server.url)
    server.answers.append(Answer(200, b"{}"))
    file = kubeconfig(tmp_path / "kubeconfig", "http://api.example.test", {"token": "static"})
    async with connect(file, None, version="1.2.3") as client:
        assert await client.request("GET", PODS) == b"{}"
    assert [asked.headers["Host"] for asked in server.requests] == ["api.example.test"]


async def test_an_error_has_the_fields_of_the_status(
    server: FakeApiServer, connected: Connect
) -> None:
    status = {
        "kind": "Status",
        "reason": "TooManyRequests",
        "message": "slow down",
        "details": {"retryAfterSeconds": 3},
    }
    server.answers.append(Answer(429, json.dumps(status).encode()))
    server.answers.append(Answer(503, b"<html>\n bad  gateway", {"Retry-After": "7"}))
    async with connected() as client:
        with pytest.raises(ApiError) as told:
            await client.request("GET", PODS)
        with pytest.raises(ApiError) as garbled:
            await client.request("GET", PODS)
    first, second = told.value, garbled.value
    assert (first.status, first.reason, first.message) == (429, "TooManyRequests", "slow down")
    assert first.retry_after_seconds == 3
    assert str(second) == "the API server answers 503: <html> bad gateway"
    assert second.retry_after_seconds == 7


async def test_a_missing_server_is_unreachable(tmp_path: Path) -> None:
    file = kubeconfig(tmp_path / "k", "http://127.0.0.1:9", {})
    async with connect(file, None, version="1") as client:
        with pytest.raises(ApiUnreachableError, match=r"127\.0\.0\.1:9` cannot be reached: "):
            await client.request("GET", PODS)
        with pytest.raises(ApiUnreachableError, match="cannot be reached"):
            async with client.stream(PODS, (), 1.0):
                pass


@pytest.mark.fake_clock
async def test_a_request_has_a_timeout(server: FakeApiServer, connected: Connect) -> None:
    server.put(PODS, "a")
    async with connected() as client:
        with pytest.raises(ApiUnreachableError, match=r"gave no whole answer within 0\.05 s"):
            await client.request("GET", PODS, params=WATCH, timeout_seconds=0.05)


@pytest.mark.fake_clock
async def test_an_answer_that_comes_too_slowly_is_no_silence(
    server: FakeApiServer, connected: Connect
) -> None:
    """Something was sent all the time, and the time of a request begins with its turn."""
    server.put(PODS, "a")
    limits = Limits(0.1, 1)
    async with connected(limits=limits) as client, asyncio.TaskGroup() as tasks:
        await client.request("GET", PODS)

        async def drip() -> None:
            for _ in range(60):
                await asyncio.sleep(1)
                server.send(PODS, b"{}")

        dripping = tasks.create_task(drip())
        with pytest.raises(ApiUnreachableError) as told:
            await client.request("GET", PODS, params=WATCH, timeout_seconds=60)
        dripping.cancel()
    assert str(told.value) == f"`{server.url}` gave no whole answer within 50 s"


async def test_a_connection_that_is_not_made_is_no_silence(connected: Connect) -> None:
    """An address that swallows all: the time is that of connecting, and nothing was sent."""
    async with connected() as client:
        error = client._unreachable(aiohttp.ConnectionTimeoutError(), 60.0)  # noqa: SLF001
    assert isinstance(error, NotSentError)
    assert "took no connection within 10 s" in str(error)


async def test_lines_are_complete_however_long(server: FakeApiServer, connected: Connect) -> None:
    server.put(PODS, "a")
    long = b'{"filler":"' + b"x" * 5_000_000 + b'"}'
    async with connected() as client, client.stream(PODS, WATCH, 5.0) as lines:
        assert json.loads(await anext(lines))["type"] == "ADDED"
        for line in (long, b"short", b"", b"last"):
            server.send(PODS, line)
        server.close_watches(PODS)
        assert [line async for line in lines] == [long, b"short", b"last"]


async def test_a_break_within_a_line_is_an_error(server: FakeApiServer, connected: Connect) -> None:
    server.put(PODS, "a")
    async with connected() as client, client.stream(PODS, WATCH, 5.0) as lines:
        await anext(lines)
        server.close_watches(PODS, within_a_line=True)
        with pytest.raises(ApiUnreachableError, match="broke off"):
            await anext(lines)


@pytest.mark.fake_clock
async def test_a_stream_is_silent_from_its_last_part_on(
    server: FakeApiServer, connected: Connect
) -> None:
    server.put(PODS, "a")
    async with connected() as client, client.stream(PODS, WATCH, 1.0) as lines:
        await anext(lines)
        for line in (b"1", b"2", b"3"):
            await asyncio.sleep(0.8)
            server.send(PODS, line)
            assert await anext(lines) == line
        with pytest.raises(ApiUnreachableError, match="sent nothing for 1 s"):
            await anext(lines)


@pytest.mark.fake_clock
async def test_silence_is_an_error(server: FakeApiServer, connected: Connect) -> None:
    server.put(PODS, "a")
    async with connected() as client, client.stream(PODS, WATCH, 0.1) as lines:
        await anext(lines)
        with pytest.raises(ApiUnreachableError, match=r"sent nothing for 0\.1 s"):
            await anext(lines)
    async with asyncio.timeout(2):
        await server.left(PODS)


async def test_a_reader_that_fails_keeps_its_own_error(
    server: FakeApiServer, connected: Connect
) -> None:
    server.put(PODS, "a")
    async with connected() as client:
        with pytest.raises(TimeoutError, match="mine"):
            async with client.stream(PODS, WATCH, 5.0):
                raise TimeoutError("mine")


async def test_a_refused_stream_is_an_error(server: FakeApiServer, connected: Connect) -> None:
    async with connected() as client:
        with pytest.raises(ApiError, match="404: the server could not find"):
            async with client.stream(PODS, WATCH, 5.0):
                pass


async def test_requests_wait_for_their_turn(server: FakeApiServer, connected: Connect) -> None:
    server.put(PODS, "a")
    began = time.monotonic()
    limits = Limits(50.0, 2, 1)
    # The watch is not counted: it would hold the one place in flight.
    async with connected(limits=limits) as client, client.stream(PODS, WATCH, 5.0):
        await asyncio.gather(*(client.request("GET", PODS) for _ in range(7)))
    assert 0.09 <= time.monotonic() - began < 2


# ---- proxies: the one that the environment names, by the rules of kubectl


PROXY = "http://proxy.example.com:3128"


@pytest.mark.parametrize(
    ("address", "environment", "expected"),
    [
        ("https://api.example.com:6443", {}, None),
        ("https://api.example.com:6443", {"HTTPS_PROXY": PROXY}, PROXY),
        ("https://api.example.com:6443", {"https_proxy": PROXY}, PROXY),
        ("https://api.example.com:6443", {"HTTPS_PROXY": "proxy.example.com:3128"}, PROXY),
        ("https://api.example.com:6443", {"HTTP_PROXY": PROXY}, None),
        ("http://api.example.com:8080", {"HTTP_PROXY": PROXY}, PROXY),
        ("https://api.example.com", {"HTTPS_PROXY": PROXY, "NO_PROXY": "example.com"}, None),
        ("https://api.example.com", {"HTTPS_PROXY": PROXY, "NO_PROXY": "*"}, None),
        ("https://api.example.com", {"HTTPS_PROXY": PROXY, "NO_PROXY": "other.com"}, PROXY),
        ("https://10.96.0.1:443", {"HTTPS_PROXY": PROXY, "NO_PROXY": "svc, 10.96.0.0/12"}, None),
        ("https://10.96.0.1:443", {"HTTPS_PROXY": PROXY, "NO_PROXY": "10.96.0.1"}, None),
        ("https://10.96.0.1:443", {"HTTPS_PROXY": PROXY, "NO_PROXY": "10.0.0.0/16"}, PROXY),
        ("https://[fd00::1]:443", {"HTTPS_PROXY": PROXY, "NO_PROXY": "fd00::/8"}, None),
        ("https://127.0.0.1:6443", {"HTTPS_PROXY": PROXY}, None),
        ("https://[::1]:6443", {"HTTPS_PROXY": PROXY}, None),
        ("https://localhost:6443", {"HTTPS_PROXY": PROXY}, None),
    ],
)
def test_which_proxy_is_taken(
    address: str,
    environment: dict[str, str],
    expected: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert proxy_of(address) == expected
