"""The reflector under faults: they delay it, and the store becomes equal all the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial

import pytest

from tests.support.fake_api_server import Answer, FakeApiServer
from tests.support.mirror import PODS, QUICK, Mirror

pytestmark = pytest.mark.fake_clock
Start = Callable[..., AbstractAsyncContextManager[Mirror]]


async def test_a_list_that_expires_between_pages_starts_again(
    server: FakeApiServer, start: Start
) -> None:
    server.streams = False
    for number in range(600):
        server.put(PODS, f"shop/p{number}")
    expired = b'{"kind":"Status","code":410,"reason":"Expired","message":"too old"}'
    page = {"metadata": {"resourceVersion": "101", "continue": "x"}}
    gone = {"metadata": {"name": "gone", "resourceVersion": "1"}}
    server.answers += [
        Answer(422),
        Answer(200, json.dumps({**page, "items": [gone]}).encode()),
        Answer(410, expired),
    ]
    async with start() as mirror:
        await mirror.watching()
        assert mirror.reflector.failures.total() == 0
    assert server.kinds() == ["stream", "list", "page", "list", "watch"]
    assert "limit" not in server.requests[3].query


async def test_a_watch_that_ends_at_once_is_not_repeated_at_once(
    server: FakeApiServer, start: Start
) -> None:
    async with start(replace(QUICK, watch_shortest=5.0)) as mirror:
        await mirror.watching()
        for asked in range(2, 8):
            server.close_watches(PODS)
            await mirror.until(partial(server.has_been_asked, asked))
            await mirror.watching()
        assert mirror.reflector.failures.total() == 5
    assert [s for s in mirror.waits.seconds if s] == [0.003, 0.006, 0.012, 0.024, 0.024]


async def test_a_list_after_an_expiry_does_not_wait_for_failures_before(
    server: FakeApiServer, start: Start
) -> None:
    """As after a restart of the API server, which first refuses, and then knows no old version."""
    async with start() as mirror:
        await mirror.watching()
        server.dropped = 1
        server.put(PODS, "shop/new")
        server.answers += [Answer(403, b"{}")] * 5
        server.compact()
        server.close_watches(PODS)
        await mirror.until(lambda: mirror.reflector.relists["expired"] == 1)
        await mirror.watching()
        assert mirror.reflector.failures.total() == 5
    assert [s for s in mirror.waits.seconds if s] == [0.003, 0.006, 0.012, 0.024, 0.024, 0.003]


async def test_a_version_that_the_server_does_not_know_yet_is_dropped(
    server: FakeApiServer, start: Start
) -> None:
    """As after etcd was restored from a backup."""
    async with start() as mirror:
        await mirror.watching()
        server.version = 50
        server.compact()
        server.close_watches(PODS)
        await mirror.until(lambda: mirror.reflector.resource_version == "50")
        await mirror.watching()
    assert server.kinds() == ["stream", "watch", "stream", "stream"]
    assert [r.query["resourceVersion"] for r in server.requests[1:]] == ["103", "103", ""]


@pytest.mark.parametrize("status", [429, 503])
async def test_a_server_that_asks_for_time_gets_it(
    server: FakeApiServer, start: Start, status: int
) -> None:
    async with start() as mirror:
        await mirror.watching()
        server.answers.append(Answer(status, b"slow down", {"Retry-After": "7"}))
        server.answers.append(Answer(status, b"", {"Retry-After": "999999999"}))
        server.close_watches(PODS)
        await mirror.until(lambda: mirror.reflector.failures == {"server": 2})
        await mirror.watching()
        assert {7.0, 300.0} <= set(mirror.waits.seconds)
    assert server.kinds() == ["stream", "watch", "watch", "watch"]
    assert {r.query["resourceVersion"] for r in server.requests[1:]} == {"103"}


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (b"garbage \xff", "garbage"),
        (b'{"type":"ADDED","object":{"kind":"Pod"}}', "garbage"),
        (b'{"type":"NEW","object":{"metadata":{"name":"a","resourceVersion":"1"}}}', "garbage"),
        (b"[" * 100_000, "garbage"),
        (b'{"type":"ERROR","object":{"kind":"Status","code":500,"message":"etcd"}}', "server"),
        (b'{"type":"ERROR","object":{}}', "server"),
    ],
    ids=["bytes", "nameless", "type", "deep", "error", "empty-error"],
)
async def test_a_garbage_line_ends_the_connection(
    server: FakeApiServer, start: Start, line: bytes, kind: str
) -> None:
    async with start() as mirror:
        await mirror.watching()
        server.send(PODS, line)
        await mirror.until(lambda: mirror.reflector.failures == {kind: 1})
        server.put(PODS, "shop/later")
        await mirror.watching()
        assert mirror.reflector.failure == ""
    assert server.kinds() == ["stream", "watch"]
    assert 0.003 in mirror.waits.seconds


async def test_breaking_and_silent_connections_are_replaced(
    server: FakeApiServer, start: Start
) -> None:
    async with start(replace(QUICK, idle=0.08)) as mirror:
        await mirror.watching()
        server.close_watches(PODS, within_a_line=True)
        await mirror.until(lambda: mirror.reflector.failures.total() == 1)
        await mirror.watching()
        # Nothing comes: no event, no bookmark, no end.
        await mirror.until(lambda: mirror.reflector.failures == {"unreachable": 2})
        assert "sent nothing for 0.08 s" in mirror.reflector.failure
        assert mirror.reflector.relists == {"first": 1}
        server.put(PODS, "shop/later")
        await mirror.until(mirror.equal)


async def test_a_watch_that_is_silent_from_its_start_becomes_a_list(
    server: FakeApiServer, start: Start
) -> None:
    """As kube-apiserver is when etcd was restored, and our version is one that is to come."""
    async with start(replace(QUICK, idle=0.25)) as mirror:
        await mirror.watching()
        await mirror.until(lambda: mirror.reflector.relists["silent"] > 0)
    assert server.kinds()[:3] == ["stream", "watch", "stream"]


async def test_a_server_that_keeps_failing_watches_is_asked_for_a_list(
    server: FakeApiServer, start: Start
) -> None:
    async with start() as mirror:
        await mirror.watching()
        server.answers += [Answer(500, b"resourceVersion: Invalid value")] * 5
        server.close_watches(PODS)
        await mirror.until(lambda: mirror.reflector.relists["refused"] == 1)
        await mirror.watching()
    assert server.kinds() == [
        "stream",
        *["watch"] * 5,
        "stream",
    ]
    assert server.requests[-1].query["resourceVersion"] == ""


async def test_a_stream_that_breaks_off_is_followed_by_pages(
    server: FakeApiServer, start: Start
) -> None:
    server.initial_lines = 2
    async with start() as mirror:
        await mirror.until(lambda: mirror.reflector.failures.total() == 1)
        await mirror.watching()
    assert server.kinds() == ["stream", "list", "watch"]
