"""Warnings about how the server is used, each at most once an interval."""

from __future__ import annotations

import time
from collections.abc import Callable
from logging import Logger

from server.call import Call, Entry
from server.metrics import Metrics

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


class Notices:
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

    def look(self, call: Call) -> None:
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
            self._log.warning("%s", Entry(text, fields))


def sample_size(nodes: int) -> int:
    """How many nodes that fit kube-scheduler gathers unless it is told a percentage (C12).

    Fewer than the cluster has are also offered when its own filters leave fewer. Exactly so many
    are hardly a coincidence.
    """
    percentage = max(50 - nodes // 125, 5)
    return min(nodes, max(_LEAST_SAMPLE, nodes * percentage // 100))
