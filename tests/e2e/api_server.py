"""A kube-apiserver that a test may kill and start again, with the same port and data."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.e2e.process import Process, running
from tests.e2e.waiting import answers_ok

READY_SECONDS = 90.0


class ApiServer:
    """Runs from `start` to `kill`, as often as these are called."""

    def __init__(
        self, command: Sequence[str | Path], log: Path, port: int, authority: Path, runs: ExitStack
    ) -> None:
        """Take what to run; `authority` is the certificate that it makes for itself."""
        self._command = command
        self._log = log
        self._port = port
        self._authority = authority
        self._runs = runs
        self._process: Process | None = None

    def start(self) -> None:
        """Return once the server is ready."""
        # With its default, an eighth of its processor time is garbage collection.
        environment = {"GOGC": "400"}
        started = running(self._command, self._log, environment=environment)
        process = self._runs.enter_context(started)
        self._process = process
        process.wait_ready(
            lambda: answers_ok(self._port, "/readyz", self._authority), READY_SECONDS
        )

    def kill(self) -> None:
        """End the server as a crash does: no connection is closed in order."""
        assert self._process is not None, "not started"
        self._process.kill()


@contextmanager
def api_server(
    command: Sequence[str | Path], log: Path, port: int, authority: Path
) -> Iterator[ApiServer]:
    """Run a server for the length of the block, but for the times when a test has killed it."""
    with ExitStack() as runs:
        server = ApiServer(command, log, port, authority, runs)
        server.start()
        yield server
