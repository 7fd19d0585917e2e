"""Misconfiguration warnings: signs in requests of a bad configuration, and webhooks that fail.

Each warning is logged at most once an interval. They belong to the server and live as long as it
does.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence
from ipaddress import ip_address
from logging import Logger

from server.call import CallRecord, LogEntry
from server.errors import Outcome
from server.metrics.metrics import Metrics
from server.settings import Settings

# Up to this number kube-scheduler offers all feasible nodes (minFeasibleNodesToFind).
_LEAST_SAMPLE = 100
_FULL_NODES = (
    "kube-scheduler sends whole nodes and will score them as if they were empty "
    "(kubernetes#141781): set nodeCacheCapable: true in the extender's configuration"
)
_SAMPLED = (
    "kube-scheduler offers a sample of the nodes, and a pod that fits on none of them stays "
    "pending: set percentageOfNodesToScore: 100 in its configuration"
)


_WEBHOOKS = frozenset({"mutate", "validate", "pods", "gate"})
_FAILED = "the webhook `{}` failed: the log has the reason"
# A sign is shown for so long after it was seen last.
_SEEN_SECONDS = 900.0


class MisconfigurationWarnings:
    """Warns of whole nodes in requests, of sampled nodes, and of a verb that does not exist.

    `cluster_size` is the number of nodes in the cluster, None while it is not known.
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
        # When each was seen last, and of what.
        self._seen: dict[str, tuple[float, str]] = {}

    @property
    def seen(self) -> Sequence[tuple[str, str]]:
        """What was seen lately, each with a word for what it is about, for `/readyz`."""
        return [
            (name, text)
            for text, (at, name) in self._seen.items()
            if self._clock() - at < _SEEN_SECONDS
        ]

    def look(self, call: CallRecord) -> None:
        """Warns and counts if the request of a call is a sign; called after the answer."""
        if call.verb in _WEBHOOKS:
            if call.outcome is Outcome.INTERNAL:
                # The log has it already.
                self._seen[_FAILED.format(call.verb)] = self._clock(), "webhooks"
            return
        if call.outcome is Outcome.UNSUPPORTED:
            self._warn(call.error, verb=call.verb)
            return
        if call.full_nodes:
            # Other clients, such as simulators or curl, may send whole nodes for good reasons.
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
        self._seen[text] = now, "requests"
        last = self._warned.get(text)
        if last is None or now - last >= self._interval:
            self._warned[text] = now
            self._log.warning("%s", LogEntry(text, fields))


def exposure(settings: Settings) -> str:
    """The warning about a server that answers whoever reaches it; empty if nobody else can."""
    tls = settings.tls if settings.webhooks is None else None
    if (tls is not None and tls.client_ca is not None) or is_loopback(settings.host):
        return ""
    where = f"{settings.host or 'every interface'}, port {settings.port},"
    if tls is None:
        return (
            f"Placet answers on {where} without TLS and without client certificates: whoever "
            "reaches the port can send requests; set --tls-cert, --tls-key and --client-ca, or "
            f"listen on the loopback interface with --listen 127.0.0.1:{settings.port}"
        )
    return (
        f"Placet answers on {where} without client certificates: whoever reaches the port can send "
        "requests; set --client-ca, and --client-name for kube-scheduler alone"
    )


def is_loopback(host: str) -> bool:
    """Whether all addresses of a host are loopback; one that has no address is nobody's."""
    if not host:
        return False
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return True
    return all(ip_address(str(address[0]).partition("%")[0]).is_loopback for *_, address in found)


def sample_size(nodes: int) -> int:
    """The number of feasible nodes that kube-scheduler looks for by default (C12).

    A request can have fewer nodes for other reasons, but hardly this number by coincidence.
    """
    percentage = max(50 - nodes // 125, 5)
    return min(nodes, max(_LEAST_SAMPLE, nodes * percentage // 100))
