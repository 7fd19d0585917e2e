"""Disk: the file system that may never answer, and the one reader of files that somebody names.

Whoever touches a mount whose server is gone waits, and no signal ends that. So a server asks in a
thread for which the end of the process does not wait. A silent path is left out until it answers.
"""

from __future__ import annotations

import errno
import os
import select
import stat
import sys
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

# The most bytes of a document, a certificate or a token, of a policy that is a text, of manifests
# that a person names, of a pipe, and of a snapshot of a cluster.
MOST_OF_DOCUMENT, MOST_OF_TEXT = 4 * 1024 * 1024, 1024 * 1024
MOST_OF_MANIFESTS, MOST_OF_PIPE = 64 * 1024 * 1024, 256 * 1024 * 1024
MOST_OF_SNAPSHOT = 4 * 1024 * 1024 * 1024
# The seconds in which something comes from a pipe, and in which all of it does.
_PIPE_SECONDS, _WHOLE_PIPE_SECONDS = 30.0, 300.0


def contents(path: Path, most: int = MOST_OF_DOCUMENT, *, takes_pipes: bool = True) -> bytes:
    """The bytes of a file, which are at most so many. Raises OSError.

    A pipe is read as far as its bytes come in time, and so is a device.
    """
    # Whoever opens a pipe would wait until somebody writes into it.
    number = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        if not (takes_pipes or stat.S_ISREG(os.fstat(number).st_mode)):
            raise OSError(errno.ENODEV, "it is not a regular file")
        return received(number, most)
    finally:
        os.close(number)


def standard_input(most: int = MOST_OF_DOCUMENT) -> bytes:
    """The bytes of standard input. Raises OSError."""
    try:
        number = sys.stdin.fileno()
    except ValueError:
        # What stands in for it is no file.
        return sys.stdin.read().encode()
    return received(number, most)


def received(number: int, most: int, seconds: float = _PIPE_SECONDS) -> bytes:
    """The bytes of an open file; of a pipe in time, but somebody at a terminal may think."""
    found, data = os.fstat(number), bytearray()
    if not stat.S_ISREG(found.st_mode):
        most = min(most, MOST_OF_PIPE)
    elif found.st_size > most:
        raise OSError(errno.EFBIG, f"it has {found.st_size:,} bytes; the limit is {most:,}")
    ends = time.monotonic() + _WHOLE_PIPE_SECONDS
    waiting = select.poll()
    waiting.register(number, select.POLLIN)
    while len(data) <= most:
        left = max(0.0, min(seconds, ends - time.monotonic()))
        if not waiting.poll(None if os.isatty(number) else left * 1000):
            raise TimeoutError(errno.ETIMEDOUT, f"nothing has come from it for {left:.0f} seconds")
        if not (part := os.read(number, min(16 * MOST_OF_TEXT, most + 1 - len(data)))):
            return bytes(data)
        data += part
    raise OSError(errno.EFBIG, f"it has more than {most:,} bytes")


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
    """A job: one attempt of some work in a thread, with the path that it asks about.

    The end of the process does not wait for the thread.
    """

    def __init__(self, work: Callable[[Visit], T], check: Visit) -> None:
        self._check = check
        self._at = Path()
        self._since = time.monotonic()
        self._is_left_alone = False
        self.result: Future[T] = Future()
        threading.Thread(target=self._run, args=[work], name="disk", daemon=True).start()

    def _run(self, work: Callable[[Visit], T]) -> None:
        try:
            self.result.set_result(work(self._visit))
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
