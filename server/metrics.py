"""What is counted of calls and decisions, in a registry that is passed in."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import choose_encoder

from server.call import Admitted
from server.errors import Outcome

# The buckets of kube-scheduler's own latencies, so that both fit into one panel.
BUCKETS = tuple(0.001 * 2**power for power in range(15))
# Policies come and go while a server runs; their metrics only come.
MOST_LABELS = 1000
_OTHER = "other"


class Level:
    """A gauge of one value, which costs no more than an addition until it is read."""

    def __init__(self, gauge: Gauge) -> None:
        self.value = 0
        gauge.set_function(lambda: self.value)


class Metrics:
    """The metrics of one server.

    The methods named after what happens to a clause are what the engine reports to (its Observer).
    No label is a pod's or a node's name, and pairs of names from policies are bounded. Children are
    kept: to look them up, prometheus-client takes a lock and makes strings of what are strings.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        version: str,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._registry = registry
        self._clock = clock
        self._requests = cache(
            Counter(
                "placet_requests_total",
                "Calls, by status code and how they ended.",
                ["verb", "code", "outcome"],
                registry=registry,
            ).labels
        )
        self._seconds = cache(
            Histogram(
                "placet_request_duration_seconds",
                "From the headers of a request to its answer.",
                ["verb"],
                buckets=BUCKETS,
                registry=registry,
            ).labels
        )
        in_flight = Gauge(
            "placet_requests_in_flight",
            "Calls that are being answered.",
            ["verb"],
            registry=registry,
        )
        self.in_flight = cache(lambda verb: Level(in_flight.labels(verb)))
        self._last = cache(
            Gauge(
                "placet_last_request_timestamp_seconds",
                "When a call was answered last; prioritize is not called where one node is left.",
                ["verb"],
                registry=registry,
            ).labels
        )
        self._offered = cache(
            Counter(
                "placet_nodes_offered_total", "Nodes in requests.", ["verb"], registry=registry
            ).labels
        )
        self._returned = cache(
            Counter(
                "placet_nodes_returned_total",
                "Nodes that filter accepted, prioritize scored or preempt kept.",
                ["verb"],
                registry=registry,
            ).labels
        )
        self._received_bytes = cache(
            Counter(
                "placet_request_body_bytes_total", "Bytes of requests.", ["verb"], registry=registry
            ).labels
        )
        self._sent_bytes = cache(
            Counter(
                "placet_response_body_bytes_total", "Bytes of answers.", ["verb"], registry=registry
            ).labels
        )
        self._full_nodes = Counter(
            "placet_full_node_requests_total",
            "Requests with whole nodes from kube-scheduler, which then miscalculates its scores.",
            ["verb"],
            registry=registry,
        )
        self._sampled = Counter(
            "placet_sampled_requests_total",
            "Requests that offered as many nodes as kube-scheduler samples.",
            registry=registry,
        )
        clause = ["policy", "clause"]
        self._rejected = cache(
            Counter("placet_rejections_total", "Nodes rejected.", clause, registry=registry).labels
        )
        self._would_reject = cache(
            Counter(
                "placet_audit_rejections_total",
                "Nodes that a policy in audit mode would have rejected.",
                clause,
                registry=registry,
            ).labels
        )
        self._failed = cache(
            Counter(
                "placet_evaluation_errors_total",
                "Calls in which a clause could not be evaluated.",
                clause,
                registry=registry,
            ).labels
        )
        self._conflicts = cache(
            Counter(
                "placet_policy_conflicts_total",
                "Calls in which a policy gave way to another that concerns the same pod.",
                ["winner", "loser"],
                registry=registry,
            ).labels
        )
        self._bypasses = Counter(
            "placet_bypasses_total",
            "Calls of filter about pods that bypass all policies by their annotation.",
            registry=registry,
        )
        self._admissions = Counter(
            "placet_admissions_total",
            "Objects that the API server asked about before it stored them.",
            ["verb", "operation", "allowed"],
            registry=registry,
        )
        self._expiry = Gauge(
            "placet_tls_certificate_expiry_timestamp_seconds",
            "When the certificate that new connections get ends.",
            ["file"],
            registry=registry,
        )
        self._handshakes_failed = Counter(
            "placet_tls_handshake_failures_total",
            "Connections that did not come about.",
            registry=registry,
        )
        build = Gauge("placet_build_info", "Always 1.", ["version"], registry=registry)
        build.labels(version).set(1)
        self._pairs: set[tuple[str, str]] = set()

    async def expose(self, request: web.Request) -> web.Response:
        """`/metrics`, in the format that the scraper prefers."""
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return web.Response(body=encode(self._registry), headers={"Content-Type": content_type})

    def answered(
        self, verb: str, code: int, outcome: Outcome, seconds: float, received: int, sent: int
    ) -> None:
        """A call is over: its duration, and the bytes of both bodies."""
        self._requests(verb, str(code), outcome.value).inc()
        self._seconds(verb).observe(seconds)
        if outcome is Outcome.ANSWERED:
            self._last(verb).set(self._clock())
        self._received_bytes(verb).inc(received)
        self._sent_bytes(verb).inc(sent)

    def decided(self, verb: str, offered: int, returned: int) -> None:
        self._offered(verb).inc(offered)
        self._returned(verb).inc(returned)

    def full_nodes(self, verb: str) -> None:
        self._full_nodes.labels(verb).inc()

    def sampled(self) -> None:
        self._sampled.inc()

    def rejected(self, policy: str, clause: str, nodes: int) -> None:
        self._rejected(*self._pair(policy, clause)).inc(nodes)

    def failed(self, policy: str, clause: str, error: str) -> None:  # noqa: ARG002
        """The error itself is no label: it can hold anything."""
        self._failed(*self._pair(policy, clause)).inc()

    def would_reject(self, policy: str, clause: str, nodes: int) -> None:
        self._would_reject(*self._pair(policy, clause)).inc(nodes)

    def conflict(self, winner: str, loser: str) -> None:
        self._conflicts(*self._pair(winner, loser)).inc()

    def bypassed(self, pod: str, uid: str, reason: str) -> None:  # noqa: ARG002
        """Who it was is in the log."""
        self._bypasses.inc()

    def admitted(self, verb: str, admitted: Admitted) -> None:
        """An object was reviewed."""
        allowed = "true" if admitted.allowed else "false"
        self._admissions.labels(verb, admitted.operation, allowed).inc()

    def certificate_expires(self, file: str, at: float) -> None:
        """The certificate in this file is in force, until then in Unix seconds."""
        self._expiry.labels(file).set(at)

    def handshake_failed(self) -> None:
        self._handshakes_failed.inc()

    def _pair(self, first: str, second: str) -> tuple[str, str]:
        pair = (first, second)
        if pair not in self._pairs:
            if len(self._pairs) >= MOST_LABELS:
                return _OTHER, _OTHER
            self._pairs.add(pair)
        return pair
