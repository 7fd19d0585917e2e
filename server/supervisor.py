"""Supervisor: runs the background tasks of one event loop, and starts failed tasks again.

A server keeps a Supervisor for each event loop. A failure is logged at once, counted,
and shown by `/readyz` until the task has run for a while again. `/readyz` fails for a task without
which answers are wrong, and warns for any other task: whoever could make a less important task fail
must not take the server out of its Service. The pauses between starts grow as the pauses of
reflectors do.

ApiFailures are what a server cannot do at the API server now, and why; each is logged. Whoever asks
the API server reports how that goes, with the text of `engine.errors.why`, so the log, `/readyz`,
metrics and the errors of calls say the same. A running server keeps one.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from logging import Logger

from engine.cache.reflector import Backoff, Timing
from engine.errors import EngineError
from grammar.messages.texts import MOST_SHOWN, shown
from server.answers import TaskStatus
from server.http.health import Readiness, ReadinessCheck
from server.http.sockets import Shutdown
from server.metrics.families import Sample
from server.metrics.metrics import Metrics

# A task that has run for so many seconds since its last failure counts as running again.
STEADY_SECONDS = 5.0

# Makes the coroutine of a task, again for each start.
Work = Callable[[], Awaitable[None]]

# The pauses of client-go's reflectors.
_PAUSES = Timing(backoff_most=30.0, backoff_reset=120.0)
# The first pause before the same text is logged again, and the longest.
_FIRST_SECONDS, _MOST_SECONDS = 10.0, 600.0
# The texts of one kind of work that count as logged; work that goes well for so long is forgotten.
_MOST_LOGGED = 8
_FORGET_SECONDS = 600.0


@dataclass(slots=True, eq=False)
class _Task:
    """A background task: its work, when this last began (None in a pause), the last failure."""

    name: str
    work: Work
    backoff: Backoff
    is_vital: bool
    began: float | None = None
    failure: str = ""
    restarts: int = field(default=0)


@dataclass(eq=False)
class Supervisor:
    """The supervisor of background tasks. Each runs until its work returns or it is cancelled.

    `restarted` is called with the name of each task that is started again.

    INVARIANT: no failure of a task is silent, and none ends another task.
    """

    log: Logger
    restarted: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    random: Callable[[], float] = random.random
    _running: dict[asyncio.Task[None], _Task] = field(default_factory=dict)

    @property
    def tasks(self) -> frozenset[asyncio.Task[None]]:
        """The tasks that have not ended."""
        return frozenset(self._running)

    def start(self, name: str, work: Work, *, is_vital: bool = False) -> asyncio.Task[None]:
        """Runs the work as a background task. Cancelling the task ends it for good.

        Answers are wrong without a task that `is_vital`.
        """
        backoff = Backoff(_PAUSES, self.clock, self.random)
        background = _Task(name, work, backoff, is_vital)
        task = asyncio.create_task(self._run(background), name=name)
        self._running[task] = background
        task.add_done_callback(self._running.pop)
        return task

    async def stop(self) -> None:
        """Ends all tasks that are left, in no order."""
        tasks = self.tasks
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def checks(self) -> Sequence[ReadinessCheck]:
        """Readiness: a check for each task, which fails from a failure until the task runs on."""
        now = self.clock()
        return [
            ReadinessCheck(
                f"task/{each.name}",
                each.failure if each.began is None or now - each.began < STEADY_SECONDS else "",
                is_warning=not each.is_vital,
            )
            for each in self._running.values()
        ]

    def status(self) -> Mapping[str, TaskStatus]:
        """The tasks by name, for the view."""
        return {
            each.name: TaskStatus(each.began is not None, each.restarts, each.failure)
            for each in self._running.values()
        }

    async def _run(self, background: _Task) -> None:
        while True:
            background.began = self.clock()
            try:
                await background.work()
            except asyncio.CancelledError as error:
                # Otherwise the work was hit by the cancellation of something that it waits for.
                if _is_cancelled():
                    raise
                failure: BaseException = error
            except Exception as error:  # noqa: BLE001 - whatever it is, the task starts again
                failure = error
            else:
                return
            background.began = None
            if _is_cancelled():
                self.log.error("task %s failed as it ended", background.name, exc_info=failure)
                return
            seconds = background.backoff.next()
            self._note(background, failure, seconds)
            await self.sleep(seconds)
            background.restarts += 1
            self.restarted(background.name)

    def _note(self, background: _Task, error: BaseException, seconds: float) -> None:
        """Logs a failure: with its traceback if it is a fault of ours, and not the same again."""
        is_known = isinstance(error, EngineError | OSError)
        text = str(error) if is_known else f"{type(error).__name__}: {error}"
        text = shown(text)
        with_traceback = not is_known and text != background.failure
        background.failure = text
        self.log.error(
            "task %s failed: %s; it starts again in %.1f seconds",
            background.name,
            text,
            seconds,
            exc_info=error if with_traceback else None,
        )


def _is_cancelled() -> bool:
    """Whether the current task was asked to end."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def end(task: asyncio.Task[None]) -> None:
    """Cancels a task, and returns when it has ended."""
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


@dataclass(slots=True)
class _KindOfWork:
    """A kind of work with the API server.

    `failure` says why it fails now, or is empty; `logged` are its texts. `has_line` says that the
    log has a line about the failure that lasts now.
    """

    since: float
    failure: str = ""
    has_line: bool = False
    due: float = 0.0
    pause: float = _FIRST_SECONDS
    logged: dict[str, None] = field(default_factory=dict)


class ApiFailures:
    """The failures by kind of work, of which there are few. On one event loop."""

    def __init__(self, log: Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._clock = clock
        self._known: dict[str, _KindOfWork] = {}

    @property
    def failing(self) -> Mapping[str, str]:
        """The text of each kind of work that fails now."""
        return {name: work.failure for name, work in self._known.items() if work.failure}

    def samples(self) -> Iterator[Sample]:
        for work, cause in self.failing.items():
            yield "placet_api_failing", [work, cause], 1.0

    def checks(self) -> Sequence[ReadinessCheck]:
        """What fails, for `/readyz`: none of it alone makes answers wrong."""
        return [ReadinessCheck("api", text, is_warning=True) for text in self.failing.values()]

    def retain(self, names: Collection[str]) -> None:
        """Forgets all other work, which nobody does any more."""
        self._known = {name: work for name, work in self._known.items() if name in names}

    def report(self, name: str, failure: str) -> None:
        """Takes how work of this name went; an empty text is a success.

        A new text is logged at once, and again after pauses that double. Work that fails, succeeds
        and fails again does not begin anew with the shortest pause.
        """
        now, work = self._clock(), self._known.get(name)
        if not failure:
            if work is not None and work.failure:
                if work.has_line:
                    self._log.info("can %s again after %.0f seconds", name, now - work.since)
                work.failure, work.since, work.has_line = "", now, False
            return
        if work is None or (not work.failure and now - work.since > _FORGET_SECONDS):
            work = self._known[name] = _KindOfWork(now)
        failure = shown(failure, 2 * MOST_SHOWN)
        if not work.failure:
            work.since = now
        work.failure = failure
        if failure not in work.logged and len(work.logged) < _MOST_LOGGED:
            work.logged[failure] = None
        elif now < work.due:
            return
        else:
            work.pause = min(2 * work.pause, _MOST_SECONDS)
        work.due, work.has_line = now + work.pause, True
        seconds = now - work.since
        self._log.error("%s%s", failure, f" (for {seconds:.0f} seconds)" if seconds >= 1 else "")


class Background:
    """The background of a server: its tasks, its shutdown, who hears of failures, and readiness."""

    def __init__(self, stack: AsyncExitStack, log: Logger, metrics: Metrics) -> None:
        """Background tasks end with the stack."""
        self.stack = stack
        self.log = log
        self.metrics = metrics
        self.shutdown = Shutdown()
        self.failures = ApiFailures(log)
        self.report = self.failures.report
        self.supervisor = Supervisor(log, partial(metrics.count, "placet_task_restarts_total"))
        metrics.read(self.failures.samples)
        stack.push_async_callback(self.supervisor.stop)
        self._begun: Sequence[Readiness] = [lambda: [ReadinessCheck("start", "not started yet")]]

    def run(self, name: str, work: Work, *, is_vital: bool = False) -> None:
        """Runs a task until the stack ends: before what was begun earlier."""
        task = self.supervisor.start(name, work, is_vital=is_vital)
        self.stack.push_async_callback(end, task)

    def begin(self, *checks: Readiness) -> None:
        """The server has started, and is ready from now on if these are."""
        self._begun = checks

    def readiness(self) -> Sequence[ReadinessCheck]:
        """The checks of `/readyz`."""
        every = (*self._begun, self.supervisor.checks, self.failures.checks)
        return [self.shutdown.check(), *(check for each in every for check in each())]
