"""Measuring: how long pods wait for a node, how fast a server answers, and what memory takes."""

from __future__ import annotations

import http.client
import json
import os
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.e2e.api import watched_bindings
from tests.e2e.control_plane import ControlPlane

_TIMEOUT_SECONDS = 60.0
_PROBE_SECONDS = 0.05
_MEMORY_SECONDS = 0.25


def quantile(values: Sequence[float], part: float) -> float:
    """The value below which this part of the values is; 0 without values."""
    return sorted(values)[min(len(values) - 1, int(part * len(values)))] if values else 0.0


def waited(task: str) -> float:
    """The seconds that a task of `/proc` has been ready to run and had no processor."""
    try:
        return int(Path(f"/proc/{task}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0


def lost() -> float:
    """The seconds that a host took from our processors, and that tasks here waited for a disk."""
    try:
        stolen = int(Path("/proc/stat").read_text().split(maxsplit=9)[8]) / os.sysconf("SC_CLK_TCK")
        some, _, _ = Path("/proc/pressure/io").read_text().partition("\n")
        return stolen + int(some.rpartition("total=")[2]) / 1e6
    except (OSError, IndexError, ValueError):
        return 0.0


class Bindings:
    """The moment at which each pod of a namespace was first seen on a node, by name."""

    def __init__(self) -> None:
        self.seen: dict[str, float] = {}

    def event(self, line: bytes) -> None:
        """Takes the line of a watch event."""
        now, event = time.monotonic(), json.loads(line)
        if event["type"] == "ADDED":
            self.seen.setdefault(event["object"]["metadata"]["name"], now)


@contextmanager
def bindings(plane: ControlPlane, namespace: str) -> Iterator[Bindings]:
    """Watch the pods of a namespace that have nodes."""
    found = Bindings()
    with watched_bindings(plane, namespace, found.event):
        yield found


@dataclass
class Health:
    """The seconds that `/livez` took to answer, again and again, by what went on meanwhile.

    Without what `lost` counts: no server can answer while the host runs something else.
    """

    during: str = "start"
    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def below(self, limit: float, during: str) -> float:
        """The part of the answers that took less than `limit`."""
        found = self.seconds[during]
        return sum(each < limit for each in found) / max(1, len(found))


@dataclass
class Memory:
    """The resident bytes of a process and its children, now and at most."""

    pid: int
    now: int = 0
    most: int = 0

    def look(self) -> None:
        self.now = sum(_resident(pid) for pid in _family(self.pid))
        self.most = max(self.most, self.now)

    def start_over(self) -> int:
        """What it takes now, from which the maximum counts again."""
        self.look()
        self.most = self.now
        return self.now


@contextmanager
def sampled(port: int, memories: Sequence[Memory]) -> Iterator[Health]:
    """Ask `/livez` and look at memory until the block ends."""
    health, over = Health(), threading.Event()

    def probe() -> None:
        while not over.wait(_PROBE_SECONDS):
            during, began, gone = health.during, time.monotonic(), lost()
            with suppress(OSError, http.client.HTTPException):
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30.0)
                connection.request("GET", "/livez")
                connection.getresponse().read()
                connection.close()
            took = time.monotonic() - began
            health.seconds[during].append(max(0.0, took - (lost() - gone)))

    def look() -> None:
        while not over.wait(_MEMORY_SECONDS):
            for memory in memories:
                memory.look()

    threads = [threading.Thread(target=work, daemon=True) for work in (probe, look)]
    for thread in threads:
        thread.start()
    try:
        yield health
    finally:
        over.set()
        for thread in threads:
            thread.join(_TIMEOUT_SECONDS)


def _family(pid: int) -> list[int]:
    found = [pid]
    for child in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            found += [each for name in child.read_text().split() for each in _family(int(name))]
    return found


def _resident(pid: int) -> int:
    with suppress(OSError, IndexError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096
    return 0
