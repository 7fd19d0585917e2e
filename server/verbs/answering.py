"""How many calls are in flight, and whose turn it is: decisions are made one at a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from logging import Logger

from engine.errors import DeadlineExceededError
from server.call import CallRecord, LogEntry
from server.errors import Outcome, RequestError
from server.metrics import Metrics

# A request that is seen so soon after a decision may have come while it was made.
_SOON_SECONDS = 0.005
# Turns of the event loop between a connection that waits to be accepted and its handler.
_MANY_LOOKS = 8


class DecisionQueue:
    """In flight is a call whose body is being read, that waits for its turn, or that binds.

    Decisions are synchronous: while one is made, nothing else happens. Between any two of them the
    event loop looks at its sockets and timers, so that calls are counted when they come, and what
    else there is to do, such as renewing the Lease, gets done. On one event loop.
    """

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._clock = clock
        self._lock = asyncio.Lock()
        self._began = self._ended = float("-inf")
        self.in_flight = 0

    def arrival(self) -> float:
        """When a call came that is seen now, at the earliest; in seconds of the clock."""
        now = self._clock()
        return self._began if now - self._ended < _SOON_SECONDS else now

    def enter(self) -> None:
        """Counts a call, until `leave`. Raises RequestError where there are too many."""
        if self.in_flight >= self._most:
            text = f"too many calls at once: Placet takes {self._most}, see --max-in-flight"
            raise RequestError(text, Outcome.OVERLOADED)
        self.in_flight += 1

    def leave(self) -> None:
        """The call is over."""
        self.in_flight -= 1

    async def begin(self, deadline: float) -> None:
        """Waits until everybody who came before has decided; what follows, up to `end`, must not.

        Raises DeadlineExceededError where it did not come to that.
        """
        if self._lock.locked():
            try:
                async with asyncio.timeout_at(deadline):
                    await self._lock.acquire()
            except TimeoutError:
                raise DeadlineExceededError("the request waited too long for its turn") from None
        else:
            await self._lock.acquire()
        self._began = self._clock()

    def end(self) -> None:
        """The decision is made, or cannot be."""
        self._ended = self._clock()
        is_long = self._ended - self._began > _SOON_SECONDS
        self._release(_MANY_LOOKS if is_long else 1)

    def _release(self, looks: int) -> None:
        """Once the event loop has looked that often who else is there."""
        act = self._lock.release if looks == 1 else lambda: self._release(looks - 1)
        asyncio.get_running_loop().call_soon(act)


# ---- Warnings about how the server is used, each at most once an interval.

# Below so many nodes kube-scheduler offers all that fit (minFeasibleNodesToFind).
_LEAST_SAMPLE = 100
_FULL_NODES = (
    "kube-scheduler sends whole nodes and will score them as if they were empty "
    "(kubernetes#141781): set nodeCacheCapable: true in the extender's configuration"
)
_SAMPLED = (
    "kube-scheduler offers a sample of the nodes, and a pod that fits on none of them stays "
    "pending: set percentageOfNodesToScore: 100 in its configuration"
)


class MisconfigurationWarnings:
    """Looks at requests for signs that kube-scheduler is configured against its user's interest.

    `cluster_size` says how many nodes the cluster has, None while that is not known.
    """

    def __init__(
        self,
        log: Logger,
        metrics: Metrics,
        interval: float,
        cluster_size: Callable[[], int | None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._log = log
        self._metrics = metrics
        self._interval = interval
        self._cluster_size = cluster_size
        self._clock = clock
        self._warned: dict[str, float] = {}

    def look(self, call: CallRecord) -> None:
        """Warns and counts if there is a reason to; to be called when a request was read."""
        if call.full_nodes:
            # Others may send whole nodes for good reasons: simulators, people with curl.
            if call.agent.startswith("Go-http-client"):
                self._metrics.full_nodes(call.verb)
                self._warn(_FULL_NODES, verb=call.verb)
            return
        if call.verb != "filter" or call.offered < _LEAST_SAMPLE:
            return
        size = self._cluster_size()
        if size is not None and call.offered == sample_size(size) < size:
            self._metrics.sampled()
            self._warn(_SAMPLED, offered=call.offered, nodes=size)

    def _warn(self, text: str, **fields: str | int) -> None:
        now = self._clock()
        last = self._warned.get(text)
        if last is None or now - last >= self._interval:
            self._warned[text] = now
            self._log.warning("%s", LogEntry(text, fields))


def sample_size(nodes: int) -> int:
    """How many nodes that fit kube-scheduler gathers unless it is told a percentage (C12).

    Fewer than the cluster has are also offered when its own filters leave fewer. Exactly so many
    are hardly a coincidence.
    """
    percentage = max(50 - nodes // 125, 5)
    return min(nodes, max(_LEAST_SAMPLE, nodes * percentage // 100))
