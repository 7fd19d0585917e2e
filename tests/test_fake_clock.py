"""The fake clock of the tests: what moves its time, and what it waits for."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from tests.support import fake_clock
from tests.support.fake_clock import FakeClockLoop, settled, until

HOUR = 3600.0
fake = pytest.mark.fake_clock


def now() -> float:
    return asyncio.get_running_loop().time()


@fake
async def test_an_hour_takes_a_moment_and_is_exact() -> None:
    began, real = now(), time.monotonic()
    await asyncio.gather(asyncio.sleep(HOUR), asyncio.sleep(HOUR / 2))
    assert now() - began == pytest.approx(HOUR)
    assert time.monotonic() - real < HOUR / 60


@fake
async def test_its_time_begins_as_that_of_the_machine() -> None:
    """Placet compares `time.monotonic` with the time of the event loop."""
    assert abs(now() - time.monotonic()) < 60


@fake
async def test_time_stands_still_while_there_is_work() -> None:
    began, late = now(), asyncio.create_task(asyncio.sleep(0.000_001))
    for _ in range(1000):
        await asyncio.sleep(0)
    assert now() == began
    assert not late.done()
    await late


@fake
async def test_what_a_socket_sends_comes_before_a_timeout() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(100):
            writer.write(data)
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    began = now()
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    for _ in range(100):
        async with asyncio.timeout(0.001):
            writer.write(b"hello")
            assert await reader.readexactly(5) == b"hello"
    assert now() == began
    writer.close()
    await writer.wait_closed()
    server.close()


@fake
async def test_a_job_takes_the_time_of_the_machine() -> None:
    pause = threading.Event()
    began = now()
    async with asyncio.timeout(60):
        await asyncio.to_thread(pause.wait, 0.05)
    assert 0 <= now() - began < 30
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await asyncio.to_thread(pause.wait, 30)
    pause.set()


@fake
async def test_settled_waits_for_all_work_and_for_jobs_and_moves_no_time() -> None:
    done: list[str] = []

    async def work() -> None:
        for _ in range(50):
            await asyncio.sleep(0)
        done.append("work")
        await asyncio.to_thread(done.append, "job")
        done.append("all")
        await asyncio.sleep(HOUR)
        done.append("later")

    working = asyncio.create_task(work())
    began = now()
    await settled()
    assert done == ["work", "job", "all"]
    await settled()
    assert now() - began < HOUR
    await working
    assert done[-1] == "later"


@fake
async def test_until_looks_whenever_the_time_has_moved() -> None:
    seen: list[float] = []
    began = now()

    async def work() -> None:
        for _ in range(10):
            await asyncio.sleep(HOUR)
            seen.append(now() - began)

    working = asyncio.create_task(work())
    await until(lambda: len(seen) == 3, 4 * HOUR)
    assert len(seen) == 3, "it does not miss it"
    with pytest.raises(TimeoutError):
        await until(lambda: len(seen) == 20, HOUR / 2)
    working.cancel()


@fake
async def test_until_sees_what_happens_during_a_job() -> None:
    begun, may_end = threading.Event(), threading.Event()

    def job() -> bool:
        begun.set()
        return may_end.wait(30)

    working = asyncio.create_task(asyncio.to_thread(job))
    await until(begun.is_set)
    assert not working.done()
    may_end.set()
    assert await working


async def test_other_tests_have_the_usual_event_loop() -> None:
    assert not isinstance(asyncio.get_running_loop(), FakeClockLoop)
    with pytest.raises(AssertionError, match="not marked"):
        await settled()


def test_a_coroutine_can_be_run() -> None:
    async def play() -> float:
        began = now()
        await asyncio.sleep(HOUR)
        return now() - began

    assert fake_clock.run(play()) == pytest.approx(HOUR)
