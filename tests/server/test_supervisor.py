"""Background tasks: a failure is logged, counted, shown, and followed by a new start."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest

from engine.errors import ApiUnreachableError
from server.answers import TaskStatus
from server.http.health import ReadinessCheck
from server.supervisor import STEADY_SECONDS, Supervisor, end

LOG = logging.getLogger("placet.test")


class Time:
    """A clock that a test moves, and the pauses that were asked for; each lasts one turn."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)


class Failing:
    """Work that raises each of these errors, one at each start, and then waits for ever."""

    def __init__(self, *errors: BaseException) -> None:
        self._errors = list(errors)
        self.starts = 0
        self.waits = asyncio.Event()

    async def run(self) -> None:
        self.starts += 1
        if self._errors:
            raise self._errors.pop(0)
        self.waits.set()
        await asyncio.Event().wait()


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def restarted() -> list[str]:
    return []


@pytest.fixture
def supervisor(time: Time, restarted: list[str]) -> Supervisor:
    return Supervisor(LOG, restarted.append, clock=time.clock, sleep=time.sleep, random=lambda: 0.0)


async def test_a_task_that_fails_starts_again(
    supervisor: Supervisor, time: Time, restarted: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """With growing pauses; the traceback of the same failure is logged once."""
    work = Failing(*(KeyError("room") for _ in range(8)))
    task = supervisor.start("statuses", work.run)
    await work.waits.wait()
    assert time.pauses == [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0]
    assert restarted == ["statuses"] * 8
    assert caplog.messages[0] == (
        "task statuses failed: KeyError: 'room'; it starts again in 0.8 seconds"
    )
    assert [record.exc_info is not None for record in caplog.records] == [True] + [False] * 7
    await end(task)


async def test_a_known_error_is_one_line(
    supervisor: Supervisor, caplog: pytest.LogCaptureFixture
) -> None:
    """Without the line breaks that its text may have."""
    work = Failing(ApiUnreachableError("nobody\nthere"))
    supervisor.start("leader", work.run)
    await work.waits.wait()
    assert caplog.messages == ["task leader failed: nobody\\nthere; it starts again in 0.8 seconds"]
    assert caplog.records[0].exc_info is None
    await supervisor.stop()


async def test_readiness_says_so_until_the_task_has_run_for_a_while(
    supervisor: Supervisor, time: Time
) -> None:
    """And the view keeps what happened."""
    work = Failing(KeyError("room"))
    supervisor.start("statuses", work.run, is_vital=True)
    supervisor.start("events", Failing().run, is_vital=True)
    assert [check.failure for check in supervisor.checks()] == ["", ""]
    await work.waits.wait()
    failed = [ReadinessCheck("task/statuses", "KeyError: 'room'"), ReadinessCheck("task/events")]
    assert supervisor.checks() == failed
    time.now += STEADY_SECONDS - 0.1
    assert supervisor.checks() == failed
    time.now += 0.1
    assert supervisor.checks() == [ReadinessCheck("task/statuses"), ReadinessCheck("task/events")]
    assert supervisor.status() == {
        "statuses": TaskStatus(running=True, restarts=1, lastFailure="KeyError: 'room'"),
        "events": TaskStatus(running=True, restarts=0, lastFailure=""),
    }
    await supervisor.stop()


async def test_a_task_that_is_not_vital_warns_only(supervisor: Supervisor) -> None:
    work = Failing(KeyError("room"))
    supervisor.start("statuses", work.run)
    await work.waits.wait()
    failed = ReadinessCheck("task/statuses", "KeyError: 'room'", is_warning=True)
    assert supervisor.checks() == [failed]
    await supervisor.stop()


async def test_a_failure_ends_no_other_task(supervisor: Supervisor) -> None:
    failing, other = Failing(*(OSError("disk") for _ in range(100))), Failing()
    supervisor.start("a", failing.run)
    task = supervisor.start("b", other.run)
    await failing.waits.wait()
    assert other.starts == 1
    assert not task.done()
    await supervisor.stop()


async def test_work_that_returns_is_done(supervisor: Supervisor, restarted: list[str]) -> None:
    async def work() -> None:
        await asyncio.sleep(0)

    await supervisor.start("sync", work)
    assert (supervisor.checks(), supervisor.tasks, restarted) == ([], frozenset(), [])


async def test_a_cancellation_from_elsewhere_is_a_failure(
    supervisor: Supervisor, restarted: list[str]
) -> None:
    """Such as that of a future that the work waits for: it must not end the task in silence."""
    work = Failing(asyncio.CancelledError())
    supervisor.start("policies", work.run)
    await work.waits.wait()
    assert restarted == ["policies"]
    await supervisor.stop()


def stubborn(error: Exception) -> Callable[[], Awaitable[None]]:
    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise error

    return work


async def test_a_task_that_fails_as_it_ends_does_not_start_again(
    supervisor: Supervisor, restarted: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Otherwise the server would never end."""
    task = supervisor.start("lease", stubborn(KeyError("gone")))
    await asyncio.sleep(0)
    async with asyncio.timeout(5):
        await end(task)
    assert (restarted, supervisor.tasks) == ([], frozenset())
    assert caplog.messages == ["task lease failed as it ended"]


async def test_a_task_can_be_ended_before_it_began(supervisor: Supervisor) -> None:
    work = Failing()
    await end(supervisor.start("events", work.run))
    await asyncio.sleep(0)
    assert (work.starts, supervisor.tasks) == (0, frozenset())
