"""A program the tests run: its log, its end, and why it did not get ready."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.waiting import until

TERMINATION_SECONDS = 10.0
TAIL_LINES = 25


class ProcessEndedError(Exception):
    """A program that should be running has ended; the message carries the tail of its log."""


@dataclass(frozen=True, slots=True)
class Process:
    """A running program and the file its output goes to."""

    name: str
    child: subprocess.Popen[bytes]
    log: Path

    def tail(self) -> str:
        """Return the last lines the program wrote, under a heading that names it."""
        lines = self.log.read_text(errors="replace").splitlines()[-TAIL_LINES:]
        return "\n".join([f"last lines of {self.name} ({self.log}):", *lines])

    def wait_ready(self, is_ready: Callable[[], bool], seconds: float) -> None:
        """Return once `is_ready()`; fail with the log's tail if the program ends or time does."""

        def ready_or_ended() -> bool:
            status = self.child.poll()
            if status is not None:
                message = f"{self.name} ended with status {status}; {self.tail()}"
                raise ProcessEndedError(message)
            return is_ready()

        until(ready_or_ended, seconds, lambda: f"{self.name} ready; {self.tail()}")

    def kill(self) -> None:
        """End the program at once, as a crash does."""
        self.child.kill()
        self.child.wait()

    def stop(self) -> None:
        """End the program by its own pid: politely, then not."""
        self.child.terminate()
        try:
            self.child.wait(TERMINATION_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()


@contextmanager
def running(
    command: Sequence[str | Path],
    log: Path,
    *,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[Process]:
    """Run `command` for the length of the block, with `environment` on top of this process's.

    The child gets a process group of its own: an interrupt typed at the terminal then reaches
    pytest alone, which ends the programs in order instead of finding them half gone.
    """
    with log.open("ab") as output:
        child = subprocess.Popen(
            [os.fspath(part) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            env={**os.environ, **(environment or {})},
            process_group=0,
        )
    process = Process(log.stem, child, log)
    try:
        yield process
    finally:
        process.stop()


@contextmanager
def termination_as_interrupt() -> Iterator[None]:
    """Let SIGTERM unwind the tests like an interrupt: a cancelled job still ends its programs."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
