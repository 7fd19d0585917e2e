"""Placet while it watches a cluster that is made up, of any size, and that changes when told to."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.benchmarks import shop
from tests.benchmarks.extenders import ROOT
from tests.benchmarks.offers import KeepAlive, keep_alive
from tests.e2e.api import watched_bindings
from tests.e2e.control_plane import ControlPlane
from tests.e2e.placet import placet
from tests.e2e.process import Process, answers_ok, free_port, running
from tests.support.kubeconfig import kubeconfig

PREFIX = "/api/scheduler"


@dataclass(frozen=True, slots=True)
class Watching:
    """A connection to the Placet, and the address of what it watches."""

    connection: KeepAlive
    url: str

    def churn(self, rate: int, seconds: int) -> None:
        """Let pods go and come back from now on: so many events a second, for so long."""
        churn(self.url, rate * seconds, rate)


def churn(url: str, count: int, rate: int = 0) -> None:
    """Let pods of a `cluster_server` go and come back: so many events a second, or at once."""
    asked = f"{url}/changes?count={count}&rate={rate}&churn=1"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(urllib.request.Request(asked, method="POST")) as answer:  # noqa: S310 - ours
        answer.read()


@contextmanager
def watching(folder: Path, nodes: int, pods: int) -> Iterator[Watching]:
    """Serve the shop's policies over a cluster of `cluster_server`, synced."""
    folder.mkdir(exist_ok=True)
    with large_cluster(nodes, pods) as url:
        policies = shop.policies(folder / "policies")
        with placet(folder, policies, *flags_for(folder, url)) as server:
            server.wait_ready()
            with keep_alive(server.port, PREFIX) as connection:
                yield Watching(connection, url)


@contextmanager
def large_cluster(nodes: int, pods: int) -> Iterator[str]:
    """The address of a `cluster_server`, which ends with the block."""
    with made_up("cluster_server", nodes, pods) as url:
        yield url


@contextmanager
def made_up(program: str, *sizes: int) -> Iterator[str]:
    """The address that an API server of the benchmarks prints; it ends with the block."""
    command = [sys.executable, "-m", f"tests.benchmarks.{program}", *map(str, sizes)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True) as server:
        try:
            assert server.stdout is not None
            yield server.stdout.readline().strip()
        finally:
            server.terminate()


def flags_for(folder: Path, url: str) -> tuple[str, str]:
    """The flags with which Placet watches the cluster at this address."""
    file = kubeconfig(folder / "kubeconfig", url, {"token": "static"})
    return f"--kubeconfig={file}", "--lease=none"


@dataclass(frozen=True, slots=True)
class Held:
    """A Placet whose longest step of the event loop is measured, synced with a large cluster."""

    port: int
    view: int
    process: Process
    file: Path

    def forget(self) -> None:
        """Begin anew: what came before is not what is measured."""
        time.sleep(1.0)
        os.kill(self.process.child.pid, signal.SIGUSR1)
        time.sleep(0.1)

    def longest(self) -> dict[str, Any]:
        """Return the `seconds` of processor time of the longest step, and which one it was."""
        found: dict[str, Any] = json.loads(self.file.read_text("utf-8"))
        return found


@contextmanager
def held(folder: Path, nodes: int, pods: int) -> Iterator[Held]:
    """Serve the shop's policies over such a cluster."""
    policies = shop.policies(folder / "policies")
    file, port, view = folder / "longest.json", free_port(), free_port()
    command: list[str | Path] = [sys.executable, "-m", "tests.benchmarks.held_loop", file, "serve"]
    flags = [f"--listen=127.0.0.1:{port}", f"--view-port={view}", f"--policies={policies}"]
    with (
        large_cluster(nodes, pods) as url,
        running(
            [*command, *flags, *flags_for(folder, url), "--lameduck=0s"],
            folder / "placet.log",
            cwd=ROOT,
            environment={"KUBECONFIG": os.devnull},
        ) as process,
    ):
        process.wait_ready(lambda: answers_ok(port, "/readyz"), 120)
        yield Held(port, view, process, file)


# ---- when pods were bound, as a watch of the API server shows it


_ADDED = b'{"type":"ADDED"'


class Bindings:
    """The moments at which pods were first seen on nodes; a thread appends while others read."""

    def __init__(self) -> None:
        self._moments: list[float] = []

    def __len__(self) -> int:
        return len(self._moments)

    def rate(self, first: int, last: int) -> float:
        """Pods a second from the one of a number to the one of another."""
        return (last - first) / (self._moments[last] - self._moments[first])

    def event(self, line: bytes) -> None:
        """Takes the line of a watch event."""
        if line.startswith(_ADDED):
            self._moments.append(time.perf_counter())


@contextmanager
def bindings(plane: ControlPlane, namespace: str) -> Iterator[Bindings]:
    """Watch the pods of a namespace that have nodes."""
    seen = Bindings()
    with watched_bindings(plane, namespace, seen.event):
        yield seen


# ---- processes: the processor time and memory that those of a server have taken, as Linux says


_TICKS = os.sysconf("SC_CLK_TCK")


def spent(pid: int) -> float:
    """The seconds of processor time of a process, and of those that it has started."""
    folder = Path(f"/proc/{pid}")
    children: list[str] = []
    for task in (folder / "task").iterdir():
        with suppress(FileNotFoundError):  # a thread that has ended
            children += (task / "children").read_text().split()
    own = _ticks(folder, slice(11, 15))
    return (own + sum(_ticks(Path(f"/proc/{child}"), slice(11, 13)) for child in children)) / _TICKS


def most_mib(pid: int) -> int:
    """The most memory that a process has had, in MiB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) // 1024


def _ticks(folder: Path, fields: slice) -> int:
    return sum(map(int, (folder / "stat").read_text().rpartition(")")[2].split()[fields]))
