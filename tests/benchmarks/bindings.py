"""When pods were bound, as a watch of the API server shows it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.e2e.bound_pods import watched_bindings
from tests.e2e.control_plane import ControlPlane

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
