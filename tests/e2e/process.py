"""A program the tests run: its log, its end, and why it did not get ready."""

import http.client
import json
import os
import secrets
import signal
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

INTERVAL_SECONDS = 0.1
PROBE_TIMEOUT_SECONDS = 2.0


def until(
    holds: Callable[[], bool],
    seconds: float,
    expectation: Callable[[], str],
    interval: float = INTERVAL_SECONDS,
) -> None:
    """Return once `holds()` is true; fail with `expectation()` when it is not within `seconds`.

    The expectation is a function because what it reports (a log's tail, where pods are now) is only
    known at the end.
    """
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            message = f"not within {seconds:g} s: {expectation()}"
            raise AssertionError(message)
        time.sleep(interval)


def answers_ok(port: int, path: str, authority: Path | None = None) -> bool:
    """Whether GET `path` on a loopback port is answered 200; over TLS where `authority` is given.

    `authority` is the PEM file the server writes its self-signed certificate to when it starts, so
    a file that is not there yet, or not whole, means the same as a port nobody listens on.
    """
    try:
        connection = _connection(port, authority)
    except (FileNotFoundError, ssl.SSLError):
        return False
    try:
        connection.request("GET", path)
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


# Outgoing connections get the ports above, and would take one before a process listens on it.
_PORTS = range(20_000, 32_768)


def free_port() -> int:
    """Return a loopback port nobody listens on at the moment."""
    while True:
        port = _PORTS.start + secrets.randbelow(len(_PORTS))
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def _connection(port: int, authority: Path | None) -> http.client.HTTPConnection:
    if authority is None:
        return http.client.HTTPConnection("127.0.0.1", port, timeout=PROBE_TIMEOUT_SECONDS)
    context = ssl.create_default_context(cafile=str(authority))
    return http.client.HTTPSConnection(
        "127.0.0.1", port, timeout=PROBE_TIMEOUT_SECONDS, context=context
    )


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


# ---- the programs of a control plane: where they are, after they were built if need be


BUILD = Path(__file__).parent / "kube" / "build"
BUILD_SECONDS = 3600.0
NO_GO = 3  # the exit status of kube/build
# The minor version of the control plane, of which kube/build has several.
MINOR = int(os.environ.get("PLACET_KUBE_MINOR", "1.36").removeprefix("1."))
# The version of Kubernetes' PodGroup there; in 1.35 a pod names a Workload, before nothing.
POD_GROUPS = {36: "v1alpha2"}.get(MINOR, "v1beta1" if MINOR > 36 else "")
needs_pod_groups = pytest.mark.skipif(
    not POD_GROUPS, reason=f"Kubernetes 1.{MINOR} has no PodGroups"
)

needs_mutating_policies = pytest.mark.skipif(
    MINOR < 36, reason=f"Kubernetes 1.{MINOR} has no MutatingAdmissionPolicy of v1"
)
needs_known_fields = pytest.mark.skipif(
    MINOR != 36, reason="doctor checks fields as Kubernetes 1.36 has them"
)


def built(config: pytest.Config) -> Path:
    """Return the folder of etcd, kubectl and the programs of Kubernetes; skip without Go."""
    return _built(config)


def built_plugins(config: pytest.Config) -> Path:
    """Return the program of kube-scheduler's plugins; skip without Go."""
    return _built(config, "plugins")


def built_expressions(config: pytest.Config) -> Path:
    """Return the program of Kubernetes' CEL; skip without Go."""
    return _built(config, "expressions")


def built_tool(
    config: pytest.Config,
    name: Literal[
        "helm",
        "jobset",
        "karpenter",
        "kueue",
        "kwok",
        "lws",
        "metrics-server",
        "promtool",
        "prometheus",
    ],
) -> Path:
    """Return a program of another module than Kubernetes'; skip without Go."""
    return _built(config, name)


def _built(config: pytest.Config, *wanted: str) -> Path:
    capture = config.pluginmanager.getplugin("capturemanager")
    assert capture is not None
    # Uncaptured: a build takes minutes, and its progress, or that there is no Go, is worth a line.
    with capture.global_and_fixture_disabled():
        command = [str(BUILD), *wanted]
        done = subprocess.run(
            command, stdout=subprocess.PIPE, text=True, check=False, timeout=BUILD_SECONDS
        )
    if done.returncode == NO_GO:
        pytest.skip("neither the programs of a control plane nor Go to build them")
    assert done.returncode == 0, "the control plane's programs could not be built; see above"
    return Path(done.stdout.strip())


# ---- the lines of an answer that does not end, read by a thread


_END_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Lines:
    """The lines of an answer; the connection forgets its `channel` when the answer begins."""

    connection: http.client.HTTPConnection
    channel: socket.socket
    response: http.client.HTTPResponse

    def close(self) -> None:
        self.response.close()
        self.connection.close()


def ask(connection: http.client.HTTPConnection, method: str, path: str, **more: object) -> Lines:
    """Send a request; `more` is what else `HTTPConnection.request` takes."""
    connection.request(method, path, **more)  # type: ignore[arg-type]
    channel = connection.sock
    assert channel is not None, "it is connected"
    return Lines(connection, channel, connection.getresponse())


def _after(last: bytes, go_on: Callable[[bytes], Lines] | None) -> Lines:
    if go_on is None or not last:
        raise EOFError("there are no more lines")
    return go_on(last)


@contextmanager
def followed(
    lines: Lines, take: Callable[[bytes], None], go_on: Callable[[bytes], Lines] | None = None
) -> Iterator[None]:
    """Calls `take` with each further line, in a thread; the end of the block ends the connection.

    When the lines end before, `go_on` is asked for those after the last line; if there is none, or
    something fails, the block ends with that error.
    """
    closing = threading.Event()
    errors: list[Exception] = []

    def follow() -> None:
        nonlocal lines
        try:
            while True:
                last = b""
                while line := lines.response.readline():
                    take(line)
                    last = line
                if closing.is_set():
                    return
                lines.close()
                lines = _after(last, go_on)
        except Exception as error:  # noqa: BLE001 - the thread that has the block raises it
            if not closing.is_set():
                errors.append(error)

    thread = threading.Thread(target=follow, name="followed lines", daemon=True)
    thread.start()
    try:
        yield
    finally:
        closing.set()
        # To close it would wait for the thread, which waits for the next line.
        lines.channel.shutdown(socket.SHUT_RDWR)
        thread.join(_END_SECONDS)
        lines.close()
        if errors:
            raise errors[0]


# ---- kubeconfigs as `kubectl config` would write them: one server, one user


def kubeconfig(path: Path, server: str, authority: Path, user: dict[str, str]) -> Path:
    """Write a file whose user has these fields, such as `token` or `tokenFile`."""
    # JSON is YAML.
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "e2e",
                "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": "e2e"}}],
                "clusters": [
                    {
                        "name": "e2e",
                        "cluster": {"server": server, "certificate-authority": str(authority)},
                    }
                ],
                "users": [{"name": "e2e", "user": user}],
            }
        )
    )
    return path
