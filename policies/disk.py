"""Disk: the file system as a server asks it: one that may never answer.

Whoever touches a mount whose server is gone waits, and no signal ends that. So a server asks in a
thread for which the end of the process does not wait. A silent path is left out until it answers.
"""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any, Generic, TypeVar

T = TypeVar("T")

# Is told each path before the file system is asked about it. Raises OSError for one that is silent.
Visit = Callable[[Path], None]

# Until a path counts as silent, and until further ones do, of the same work.
_SECONDS, _MORE_SECONDS = 5.0, 0.5
# A thread waits for each silent path. With more, their folder counts as silent.
_MOST_SILENT = 8


def expanded(path: Path) -> Path:
    """The path with the home of its user in place of `~`; as it is where that is not known."""
    try:
        return path.expanduser()
    except RuntimeError:
        return path


def trusted(_path: Path) -> None:
    """The visit of whoever can wait: a command, which Ctrl-C ends."""


class Disk:
    """A disk runs work that asks the file system. INVARIANT: one thread uses it at a time.

    Work has no effects but its result: what is silent makes it begin again.
    """

    def __init__(self, seconds: float = _SECONDS, more_seconds: float = _MORE_SECONDS) -> None:
        self._seconds = seconds
        self._more_seconds = more_seconds
        # Each with the result of the thread that waits for it.
        self._silent: dict[Path, Future[Any]] = {}

    def run(self, work: Callable[[Visit], T]) -> T:
        """The result of the work, which visits each path before it touches it."""
        self._silent = {path: end for path, end in self._silent.items() if not end.done()}
        seconds = self._seconds
        while True:
            job: _Job[T] = _Job(work, self._check)
            threading.Thread(target=job.run, name="disk", daemon=True).start()
            silent = job.wait(seconds)
            if silent is None:
                return job.result.result()
            is_new = len(self._silent) < _MOST_SILENT
            self._silent[silent if is_new else silent.parent] = job.result
            seconds = self._more_seconds

    def _check(self, path: Path) -> None:
        for silent in self._silent:
            if path == silent or silent in path.parents:
                raise TimeoutError(errno.ETIMEDOUT, "the file system does not answer", str(path))


class _LeftAloneError(Exception):
    """A job was left alone: nobody waits for its end any more."""


class _Job(Generic[T]):
    """A job: one attempt of some work in a thread, with the path that it asks about."""

    def __init__(self, work: Callable[[Visit], T], check: Visit) -> None:
        self._work = work
        self._check = check
        self._at = Path()
        self._since = time.monotonic()
        self._is_left_alone = False
        self.result: Future[T] = Future()

    def run(self) -> None:
        try:
            self.result.set_result(self._work(self._visit))
        except Exception as error:  # noqa: BLE001 - whoever waits for the result gets it
            self.result.set_exception(error)

    def wait(self, seconds: float) -> Path | None:
        """Waits for the end; the path that has been silent for so long, if one has."""
        while not wait([self.result], max(0.0, self._since + seconds - time.monotonic())).done:
            if time.monotonic() >= self._since + seconds:
                self._is_left_alone = True
                return self._at
        return None

    def _visit(self, path: Path) -> None:
        if self._is_left_alone:
            raise _LeftAloneError
        self._check(path)
        self._at, self._since = path, time.monotonic()
