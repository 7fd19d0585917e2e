"""Metrics: what calls and decisions count, in a Prometheus registry that is passed in.

prometheus-client's own counters take a lock and four calls for each addition, which for all metrics
of a call is a twentieth of its time. So the sums are kept here as numbers, and made into metrics
when they are read: the event loop adds, and another thread may read at the same time.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
from aiohttp import web
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from engine.work import shared_pause
from server.answers import ClusterStatus, ReplicaStatus
from server.call import CallRecord
from server.errors import Outcome
from server.metrics.families import TABLE, Buckets, Sample, families
from server.settings import Settings

# The buckets of kube-scheduler's own latencies, so that both fit into one panel.
BUCKETS = tuple(0.001 * 2**power for power in range(15))
# The creation times of pods are whole seconds.
_LAG_BUCKETS = tuple(float(2**power) for power in range(8))
_SCORE_BUCKETS = tuple(map(float, range(11)))
# Policies come and go while a server runs, but their label values stay.
MOST_LABELS = 1000
_OTHER = "other"
LOOK_SECONDS = 5.0
# What is 0 before the first one is counted.
_FROM_ZERO = (
    "placet_bypasses_total",
    "placet_sampled_requests_total",
    "placet_tls_handshake_failures_total",
    "placet_victims_offered_total",
    "placet_victims_returned_total",
)


@dataclass(slots=True)
class Level:
    """A level that goes up and down; changing it costs no more than an addition."""

    value: int = 0


@dataclass(slots=True)
class _CallSums:
    """The sums of the calls of one verb; `ended` has the calls by status and outcome."""

    ended: Counter[tuple[int, Outcome]] = field(default_factory=Counter)
    lasted: Buckets = field(default_factory=lambda: Buckets(BUCKETS))
    last: float = 0.0
    offered: int = 0
    returned: int = 0
    received: int = 0
    sent: int = 0


class Metrics(Collector):
    """The metrics of a server."""

    def __init__(
        self,
        registry: CollectorRegistry,
        version: str,
        more: Mapping[str, str] = MappingProxyType({}),
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`more` are rows of the table of metrics. `clock` gives Unix seconds."""
        every = {**TABLE, **more}.items()
        self._rows = {key.partition("{")[0]: (key, text) for key, text in every}
        self._registry = registry
        self._clock = clock
        self._names: set[tuple[str, ...]] = set()
        self._verbs: dict[str, _CallSums] = {}
        self._levels: dict[str, Level] = {}
        # The name of a metric and its labels, and its value.
        self._values: defaultdict[tuple[str, ...], float] = defaultdict(float)
        self._values.update({(name,): 0.0 for name in _FROM_ZERO})
        self._values["placet_build_info", version] = 1.0
        # Replaced as a whole: another thread may read it meanwhile.
        self._scores = np.zeros(len(_SCORE_BUCKETS), np.int64)
        self._lag = Buckets(_LAG_BUCKETS)
        self._read = list[Callable[[], Iterable[Sample]]]()
        self.pod_seen = self._lag.add
        self._seen: Sequence[Sample] = ()
        registry.register(self)
        # Memory, processor time and open files; there are none where there is no /proc.
        ProcessCollector(registry=registry)

    async def expose(self, request: web.Request) -> web.Response:
        """`/metrics`, in the format that the scraper prefers."""
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return web.Response(body=encode(self._registry), headers={"Content-Type": content_type})

    async def follow(
        self, read: Callable[[], ReplicaStatus], more: Callable[[], Iterable[Sample]] = tuple
    ) -> None:
        """Looks at the status of the replica, and at `more` samples, until it is cancelled.

        `/metrics` may be asked on another thread than that of decisions. So the loop of decisions
        looks every LOOK_SECONDS, and a scrape reads what was seen last.
        """
        while True:
            self._seen = [*_state_samples(read()), *more()]
            await shared_pause(LOOK_SECONDS)

    def collect(self) -> Iterable[Metric]:
        return families(self._samples(), self._rows)

    def _samples(self) -> Iterator[Sample]:
        for (name, *labels), value in dict(self._values).items():
            yield name, labels, value
        for verb, level in dict(self._levels).items():
            yield "placet_requests_in_flight", [verb], level.value
        for read in self._read:
            yield from read()
        yield "placet_cache_new_pod_lag_seconds", (), self._lag
        scores = Buckets(_SCORE_BUCKETS)
        for score, number in enumerate(self._scores.tolist()):
            scores.add(score, number)
        yield "placet_scores", (), scores
        for verb, sums in dict(self._verbs).items():
            for (code, outcome), number in dict(sums.ended).items():
                yield "placet_requests_total", [verb, str(code), outcome], number
            yield "placet_request_duration_seconds", [verb], sums.lasted
            if sums.last:
                yield "placet_last_request_timestamp_seconds", [verb], sums.last
            if sums.offered:
                yield "placet_nodes_offered_total", [verb], sums.offered
                yield "placet_nodes_returned_total", [verb], sums.returned
            yield "placet_request_body_bytes_total", [verb], sums.received
            yield "placet_response_body_bytes_total", [verb], sums.sent
        yield from self._seen

    # ---- calls

    def in_flight(self, verb: str) -> Level:
        """The calls of a verb that are in progress."""
        return self._levels.setdefault(verb, Level())

    def ended(self, call: CallRecord, code: int, seconds: float, sent: int) -> None:
        """Takes a call that was answered with this status and so many bytes."""
        sums = self._verbs.get(call.verb)
        if sums is None:
            sums = self._verbs[call.verb] = _CallSums()
        sums.ended[code, call.outcome] += 1
        sums.lasted.add(seconds)
        if call.outcome is Outcome.ANSWERED:
            sums.last = self._clock()
        sums.offered += call.offered
        sums.returned += call.returned
        sums.received += call.received
        sums.sent += sent
        if call.scores is not None:
            self._scores = self._scores + np.bincount(call.scores, minlength=len(_SCORE_BUCKETS))
        elif call.victims is not None:
            offered, returned = call.victims
            self._values["placet_victims_offered_total",] += offered
            self._values["placet_victims_returned_total",] += returned

    def durations(self) -> Mapping[str, Sequence[tuple[float, float]]]:
        """By verb: the upper bounds in seconds, and the calls that took no longer than each."""
        return {verb: sums.lasted.below() for verb, sums in self._verbs.copy().items()}

    # ---- counters

    def count(self, name: str, *labels: str, number: float = 1, names: int = 0) -> None:
        """Adds to a counter; of so many of its first labels there are many, as names are."""
        named = labels[:names]
        if named and named not in self._names:
            if len(self._names) < MOST_LABELS:
                self._names.add(named)
            else:
                named = (_OTHER,) * names
        self._values[name, *named, *labels[names:]] += number

    def rejections(self) -> Mapping[tuple[str, str], int]:
        """The rejected nodes so far, by policy and clause."""
        every = dict(self._values).items()
        return {(k[1], k[2]): int(n) for k, n in every if k[0] == "placet_rejections_total"}

    # ---- the server

    def read(self, samples: Callable[[], Iterable[Sample]]) -> None:
        """Has each scrape read these samples too, in any thread."""
        self._read.append(samples)

    def configured(self, settings: Settings) -> None:
        """The limits that other metrics are to be compared with."""
        self._values["placet_body_budget_bytes",] = settings.bytes_of_bodies
        self._values["placet_http_timeout_seconds",] = settings.http_timeout
        self._values["placet_max_in_flight",] = settings.max_in_flight

    def certificate_expires(self, file: str, at: float) -> None:
        """The certificate of this file is in use and expires then, in Unix seconds."""
        self._values["placet_tls_certificate_expiry_timestamp_seconds", file] = at


# ---- the status of a replica


def _state_samples(status: ReplicaStatus) -> Iterator[Sample]:
    yield "placet_ready", (), status.ready
    states = {
        "enforced": sum(policy.mode == "enforce" for policy in status.policies),
        "audited": sum(policy.mode == "audit" for policy in status.policies),
        "expensive": sum(policy.expensive for policy in status.policies),
        "not_in_force": len(status.notInForce),
    }
    for state, number in states.items():
        yield "placet_policies", [state], number
    oldest = max((pod.seconds for pod in status.inFlight), default=0.0)
    yield "placet_pods_in_flight", (), status.podsInFlight
    yield "placet_pods_in_flight_oldest_seconds", (), oldest
    if status.cluster is not None:
        yield from _cluster(status.cluster)


def _cluster(cluster: ClusterStatus) -> Iterator[Sample]:
    if cluster.lease is not None:
        yield "placet_leader", (), cluster.lease.held
    if (rejected := cluster.rejected) is not None:
        for policy, number in sorted(rejected.waitingByPolicy.items()):
            yield "placet_rejected_pods", [policy], number
        yield "placet_requeues_total", (), rejected.requeues
        yield "placet_requeue_results_total", ["offered"], rejected.offered
        yield "placet_requeue_results_total", ["refused"], rejected.refusedAgain
    for policy, number in sorted((cluster.beyondBounds or {}).items()):
        yield "placet_pods_beyond_bounds", [policy], number
    for name, resource in cluster.resources.items():
        yield "placet_cache_objects", [name], resource.objects
        yield "placet_cache_synced", [name], resource.synced
        if (age := resource.secondsSinceLastEvent) is not None:
            yield "placet_cache_last_event_age_seconds", [name], age
        yield "placet_cache_unreadable_objects_total", [name], resource.unreadable
        for reason, number in resource.failures.items():
            yield "placet_cache_watch_failures_total", [name, reason], number
        for reason, number in resource.relists.items():
            yield "placet_cache_relists_total", [name, reason], number
