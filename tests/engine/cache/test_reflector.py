"""The reflector: its requests to an API server, and its attributes."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import pytest

from tests.support.fake_api_server import Answer, FakeApiServer
from tests.support.mirror import PODS, SELECTOR, Mirror

pytestmark = pytest.mark.fake_clock
Start = Callable[..., AbstractAsyncContextManager[Mirror]]


async def test_streams_the_list_and_later_events(server: FakeApiServer, start: Start) -> None:
    async with start() as mirror:
        await mirror.watching()
        server.put(PODS, "shop/a", spec={"nodeName": "n"})
        server.put(PODS, "shop/d")
        server.delete(PODS, "c")
        await mirror.until(mirror.equal)
        assert len(mirror.store) == 3
        assert mirror.reflector.resource_version == str(server.version)
        assert mirror.reflector.relists == {"first": 1}
        assert mirror.reflector.last_event_age is not None
    [asked] = server.requests
    assert asked.query == {
        "watch": "true",
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
        "resourceVersion": "",
        "timeoutSeconds": "450",
        "fieldSelector": SELECTOR,
    }


async def test_a_server_without_streams_is_asked_for_pages(
    server: FakeApiServer, start: Start
) -> None:
    server.streams = False
    for number in range(1100):
        server.put(PODS, f"shop/p{number}")
    async with start() as mirror:
        await mirror.watching()
        server.dropped = 1
        server.put(PODS, "shop/missed")
        server.compact()
        server.close_watches(PODS)
        await mirror.until(lambda: mirror.reflector.relists["expired"] == 1)
        await mirror.watching()
    pages = ["list", "page", "page", "watch"]
    assert server.kinds() == ["stream", *pages, "watch", *pages]  # the answer was remembered
    first, second = (request.query for request in server.requests if request.kind == "list")
    assert "resourceVersion" not in first
    assert second["resourceVersion"] == "1203"
    assert second["resourceVersionMatch"] == "NotOlderThan"


async def test_a_watch_that_ends_continues_from_its_version(
    server: FakeApiServer, start: Start
) -> None:
    async with start() as mirror:
        await mirror.watching()
        server.put(PODS, "shop/x")
        server.close_watches(PODS)
        server.put(PODS, "shop/y")
        await mirror.watching()
        server.version += 50  # other resources change
        server.bookmark(PODS)
        await mirror.until(lambda: mirror.reflector.resource_version == str(server.version))
        assert mirror.reflector.failures.total() == 0
        assert set(mirror.waits.seconds) == {0.0}
    assert server.kinds() == ["stream", "watch"]
    assert server.requests[1].query["resourceVersion"] == "104"
    assert "resourceVersionMatch" not in server.requests[1].query


async def test_an_unreadable_object_leaves_the_former_state(
    server: FakeApiServer, start: Start
) -> None:
    async with start() as mirror:
        await mirror.watching()
        before = dict(mirror.store.objects)
        server.put(PODS, "shop/a", bad=True)
        await mirror.until(lambda: mirror.reflector.bad_objects == 1)
        assert mirror.reflector.bad_object == "`shop/a`: it is bad"
        mirror.reflector.ask_relist("compare")
        server.bookmark(PODS)
        await mirror.until(lambda: mirror.reflector.relists["compare"] == 1)
        assert mirror.store.objects == before
        server.put(PODS, "shop/a")
        await mirror.until(mirror.equal)
        assert mirror.reflector.failures.total() == 0


def pauses(mirror: Mirror) -> list[float]:
    return [seconds for seconds in mirror.waits.seconds if seconds >= 2.0]


async def test_an_optional_resource_may_be_missing(server: FakeApiServer, start: Start) -> None:
    path = "/apis/placet.dev/v1/placementpolicies"
    async with start(optional=True, path=path) as mirror:
        await mirror.until(lambda: len(pauses(mirror)) >= 6)
        assert pauses(mirror) == [2.0, 4.0, 8.0, 16.0, 20.0, 20.0], "it is seen 20 s later"
        assert mirror.reflector.synced
        assert mirror.reflector.absent
        server.put(path, "p")
        await mirror.until(lambda: len(mirror.store) == 1)
        await mirror.until(lambda: not mirror.reflector.absent)
        server.remove_path(path)
        await mirror.until(lambda: mirror.reflector.absent)
        assert pauses(mirror)[-1] == 2.0, "they begin anew"
        assert len(mirror.store) == 0
        assert mirror.reflector.synced
        assert mirror.reflector.failures.total() == 0


@pytest.mark.parametrize("versions", [1, 2, 3])
async def test_each_version_of_a_missing_resource_is_asked_for_once_before_a_pause(
    server: FakeApiServer, start: Start, versions: int
) -> None:
    first, *others = (f"/apis/placet.dev/v{number}/things" for number in range(versions))
    async with start(optional=True, path=first, others=tuple(others)) as mirror:
        await mirror.until(lambda: len(pauses(mirror)) == 3)
        assert [request.path for request in server.requests] == [first, *others] * 3


async def test_a_forbidden_request_is_a_failure_and_is_repeated(
    server: FakeApiServer, start: Start
) -> None:
    status = {"kind": "Status", "code": 403, "reason": "Forbidden", "message": "no list on pods"}
    server.answers += [Answer(403, json.dumps(status).encode())] * 3
    async with start() as mirror:
        await mirror.until(lambda: mirror.reflector.failures.total() == 2)
        assert not mirror.reflector.synced
        text = "cannot watch pods: the API server answers 403: no list on pods"
        assert mirror.reflector.failure == text
        await mirror.watching()
        assert mirror.reflector.failure == ""
        assert mirror.reports == [text] * 3 + [""]


async def test_a_reflector_reports_that_it_works(start: Start) -> None:
    """It may replace one that has reported a failure."""
    async with start() as mirror:
        await mirror.watching()
        assert mirror.reports == [""]


async def test_other_tasks_run_during_a_big_list(server: FakeApiServer, start: Start) -> None:
    for number in range(5000):
        server.put(PODS, f"shop/p{number:04}")
    # Of processor time, as other processes take theirs.
    longest, last = 0.0, time.process_time()
    async with start() as mirror:
        # What turns give way to is each other: the objects come in some big chunks.
        while not mirror.reflector.synced:
            await asyncio.sleep(0)
            longest, last = max(longest, time.process_time() - last), time.process_time()
        assert len(mirror.store) == 5003
    assert longest < 0.5
