"""Metrics: counters of calls and decisions, in a Prometheus registry that is passed in."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from functools import cache

import numpy as np
from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from engine.decision.verb_call import GangChange
from engine.program.frame import Points
from server.call import ReviewedObject
from server.metrics.call_metrics import CallMetrics
from server.metrics.state_metrics import StateMetrics
from server.settings import Settings

# The creation times of pods are whole seconds.
_LAG_BUCKETS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
_MOST_SCORE = 10
# Policies come and go while a server runs, but their label values stay.
MOST_LABELS = 1000
_OTHER = "other"


class FailingWork(Collector):
    """A gauge of the kinds of work that fail now: few, each with one text at a time."""

    def __init__(self, name: str, text: str) -> None:
        self._name = name
        self._text = text
        self._failing: Callable[[], Mapping[str, str]] = dict

    def set_function(self, failing: Callable[[], Mapping[str, str]]) -> None:
        """`failing` has the text by kind of work, as in prometheus-client's own gauges."""
        self._failing = failing

    def collect(self) -> Iterable[Metric]:
        family = GaugeMetricFamily(self._name, self._text, labels=["work", "cause"])
        for work, cause in self._failing().items():
            family.add_metric([work, cause], 1.0)
        return [family]


class ScoreCounts(Collector):
    """A histogram of scores 0..10. It takes all scores of a call at once."""

    def __init__(self, name: str, text: str) -> None:
        self._name = name
        self._text = text
        # Replaced as a whole: another thread may read it meanwhile.
        self._counts = np.zeros(_MOST_SCORE + 1, np.int64)

    def add(self, scores: Points) -> None:
        self._counts = self._counts + np.bincount(scores, minlength=_MOST_SCORE + 1)

    def collect(self) -> Iterable[Metric]:
        counts = self._counts
        below = np.cumsum(counts).tolist()
        buckets = [(f"{score}.0", number) for score, number in enumerate(below)]
        family = HistogramMetricFamily(self._name, self._text)
        total = int(counts @ np.arange(len(counts)))
        family.add_metric([], [*buckets, ("+Inf", below[-1])], total)
        return [family]


class Level:
    """A gauge of one value; changing it costs no more than an addition."""

    def __init__(self, gauge: Gauge) -> None:
        self.value = 0
        gauge.set_function(lambda: self.value)


class Metrics:
    """The metrics of one server.

    It is also an Observer of the engine: `rejected`, `failed`, `would_reject`, `conflict`,
    `bypassed` and `gang` are what an engine reports.

    The text of each begins with its stability, as in Kubernetes' components: a metric that is ALPHA
    may change or go, a BETA one may get labels, and a STABLE one stays as it is.

    `calls` has the metrics of calls, and `state` the metrics of the status.

    INVARIANT: no label holds the name of a pod or a node, and pairs of names from policies are
    bounded. `cache` keeps the labelled children: prometheus-client's own look-up takes a lock and
    converts every label to a string.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        version: str,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._registry = registry
        self._pairs: set[tuple[str, str]] = set()

        def counter(name: str, text: str, *labels: str) -> Callable[..., Counter]:
            return cache(Counter(name, text, labels, registry=registry).labels)

        def gauge(name: str, text: str, label: str) -> Callable[..., Gauge]:
            return cache(Gauge(name, text, [label], registry=registry).labels)

        self.calls = CallMetrics(clock)
        registry.register(self.calls)
        in_flight = gauge("placet_requests_in_flight", "[BETA] Calls in progress.", "verb")
        self.in_flight = cache(lambda verb: Level(in_flight(verb)))
        self._full_nodes = counter(
            "placet_full_node_requests_total",
            "[ALPHA] Requests of kube-scheduler with whole nodes, which make its own scores wrong.",
            "verb",
        )
        self._sampled = Counter(
            "placet_sampled_requests_total",
            "[ALPHA] Requests with as many nodes as kube-scheduler samples.",
            registry=registry,
        )
        clause = ("policy", "clause")
        self._rejections = Counter(
            "placet_rejections_total", "[BETA] Rejected nodes.", clause, registry=registry
        )
        self._rejected = cache(self._rejections.labels)
        self._held_back = counter(
            "placet_held_back_nodes_total",
            "[ALPHA] Nodes that the clauses allow and that were left to other pods that wait.",
            *clause,
        )
        self._would_reject = counter(
            "placet_audit_rejections_total",
            "[ALPHA] Nodes that a policy in audit mode would have rejected.",
            *clause,
        )
        self._failed = counter(
            "placet_evaluation_errors_total",
            "[BETA] Calls in which a clause could not be evaluated.",
            *clause,
        )
        self._conflicts = counter(
            "placet_policy_conflicts_total",
            "[ALPHA] Calls in which two policies selected the pod and one of them was not applied.",
            "winner",
            "loser",
        )
        self._expensive = counter(
            "placet_expensive_policies_total",
            "[BETA] Calls without a decision because a policy took too much time.",
            "policy",
        )
        self._policy_seconds = counter(
            "placet_policy_seconds_total",
            "[ALPHA] Processor time charged to a policy, of calls that took it more than 0.1 ms.",
            "policy",
        )
        self._gave_up = counter(
            "placet_background_gave_up_total",
            "[ALPHA] Pieces of work that nobody waits for and that took too long.",
            "work",
        )
        self._gangs = counter(
            "placet_gangs_total",
            "[ALPHA] Gangs that began to gather, were released, or were given up for a reason.",
            "policy",
            "state",
            "reason",
        )
        self._gang_seconds = counter(
            "placet_gang_held_seconds_total",
            "[ALPHA] Seconds that the bind calls of members were held, by how that ended.",
            "policy",
            "state",
        )
        self._bypasses = Counter(
            "placet_bypasses_total",
            "[BETA] Filter calls for pods that bypass all policies by their annotation.",
            registry=registry,
        )
        self._victims_offered = Counter(
            "placet_victims_offered_total",
            "[ALPHA] Victims in preempt requests, on all their nodes.",
            registry=registry,
        )
        self._victims_returned = Counter(
            "placet_victims_returned_total",
            "[ALPHA] Victims in preempt answers, on all their nodes.",
            registry=registry,
        )
        self._victims_added = counter(
            "placet_victims_added_total",
            "[ALPHA] Victims that preempt added because of a clause, on all nodes in answers.",
            *clause,
        )
        self._data_failures = counter(
            "placet_data_failures_total",
            "[ALPHA] Failures of a source of data, and answers with rows that were left out.",
            "source",
            "reason",
        )
        self._scores = ScoreCounts("placet_scores", "[ALPHA] Scores of asked nodes, 0 to 10.")
        registry.register(self._scores)
        self._admissions = counter(
            "placet_admissions_total",
            "[ALPHA] Objects reviewed by the admission webhooks.",
            "verb",
            "operation",
            "allowed",
        )
        self._connections_refused = counter(
            "placet_connections_refused_total",
            "[ALPHA] Connections that were not let in or were closed, by reason.",
            "reason",
        )
        held = Gauge(
            "placet_bodies_held_bytes",
            "[ALPHA] Bytes of request bodies and of unsent answers in memory.",
            registry=registry,
        )
        self.hold = held.set_function
        self._body_budget = Gauge(
            "placet_body_budget_bytes",
            "[ALPHA] The most bytes of bodies and of unsent answers: --body-budget.",
            registry=registry,
        )
        self._http_timeout = Gauge(
            "placet_http_timeout_seconds",
            "[BETA] The httpTimeout of kube-scheduler, as Placet was told: --http-timeout.",
            registry=registry,
        )
        self._max_in_flight = Gauge(
            "placet_max_in_flight",
            "[ALPHA] The most calls of kube-scheduler at once: --max-in-flight.",
            registry=registry,
        )
        lag = Histogram(
            "placet_cache_new_pod_lag_seconds",
            "[ALPHA] Seconds from the creation of a pod, in whole seconds, to its first event.",
            buckets=_LAG_BUCKETS,
            registry=registry,
        )
        self.pod_seen = lag.observe
        self._expiry = gauge(
            "placet_tls_certificate_expiry_timestamp_seconds",
            "[BETA] Time at which the certificate for new connections expires.",
            "file",
        )
        self._handshakes_failed = Counter(
            "placet_tls_handshake_failures_total",
            "[ALPHA] Failed TLS handshakes.",
            registry=registry,
        )
        failing = FailingWork(
            "placet_api_failing", "[BETA] What cannot be done with the API server now, and why."
        )
        registry.register(failing)
        self.api_failing = failing.set_function
        self._task_restarts = counter(
            "placet_task_restarts_total",
            "[ALPHA] Background tasks that failed and were started again.",
            "task",
        )
        self._configuration = Gauge(
            "placet_configuration_stale",
            "[BETA] 1 while the configuration file has a mistake or changes that need a restart.",
            registry=registry,
        )
        gauge("placet_build_info", "[STABLE] Always 1.", "version")(version).set(1)
        self.state = StateMetrics()
        registry.register(self.state)
        # Memory, processor time and open files; there are none where there is no /proc.
        ProcessCollector(registry=registry)

    async def expose(self, request: web.Request) -> web.Response:
        """`/metrics`, in the format that the scraper prefers."""
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return web.Response(body=encode(self._registry), headers={"Content-Type": content_type})

    def scored(self, scores: Points) -> None:
        """The scores of an answer, each 0..10."""
        self._scores.add(scores)

    def preempted(self, offered: int, returned: int) -> None:
        """The victims in a request of preempt, and the victims in its answer."""
        self._victims_offered.inc(offered)
        self._victims_returned.inc(returned)

    def added_victims(self, policy: str, clause: str, pods: int) -> None:
        self._victims_added(*self._pair(policy, clause)).inc(pods)

    def configured(self, settings: Settings) -> None:
        """The limits that other metrics are to be compared with."""
        self._body_budget.set(settings.bytes_of_bodies)
        self._http_timeout.set(settings.http_timeout)
        self._max_in_flight.set(settings.max_in_flight)

    def full_nodes(self, verb: str) -> None:
        self._full_nodes(verb).inc()

    def sampled(self) -> None:
        self._sampled.inc()

    def rejected(self, policy: str, clause: str, nodes: int) -> None:
        self._rejected(*self._pair(policy, clause)).inc(nodes)

    def held_back(self, policy: str, clause: str, nodes: int) -> None:
        self._held_back(*self._pair(policy, clause)).inc(nodes)

    def rejections(self) -> Mapping[tuple[str, str], int]:
        """The rejected nodes so far, by policy and clause."""
        (metric,) = self._rejections.collect()
        return {
            (sample.labels["policy"], sample.labels["clause"]): int(sample.value)
            for sample in metric.samples
            if sample.name.endswith("_total")
        }

    def failed(self, policy: str, clause: str, error: str) -> None:  # noqa: ARG002
        """The error is not a label: its text is unbounded."""
        self._failed(*self._pair(policy, clause)).inc()

    def would_reject(self, policy: str, clause: str, nodes: int) -> None:
        self._would_reject(*self._pair(policy, clause)).inc(nodes)

    def conflict(self, winner: str, loser: str) -> None:
        self._conflicts(*self._pair(winner, loser)).inc()

    def bypassed(self, pod: str, uid: str, reason: str) -> None:  # noqa: ARG002
        """The pod is named in the log only."""
        self._bypasses.inc()

    def expensive(self, policy: str) -> None:
        self._expensive(self._one(policy)).inc()

    def charged(self, policy: str, seconds: float) -> None:
        """Processor time that the clauses of a policy have taken."""
        self._policy_seconds(self._one(policy)).inc(seconds)

    def gave_up(self, work: str, about: str) -> None:  # noqa: ARG002
        """The pod or policy is named in the log only."""
        self._gave_up(work).inc()

    def unnamed_scheduler(self, name: str) -> None:
        """Is only for the log."""

    def gang(self, change: GangChange) -> None:
        policy, state = self._one(change.policy), change.state.replace(" ", "_")
        self._gangs(policy, state, change.reason.replace(" ", "_")).inc()
        if change.held_seconds:
            self._gang_seconds(policy, state).inc(change.held_seconds)

    def shortened(self, policy: str, clause: str, text: str) -> None:
        """A long message is in the log only."""

    def reviewed(self, verb: str, reviewed: ReviewedObject) -> None:
        """A webhook has reviewed an object."""
        allowed = "true" if reviewed.allowed else "false"
        self._admissions(verb, reviewed.operation, allowed).inc()

    def certificate_expires(self, file: str, at: float) -> None:
        """The certificate of this file is in use and expires then, in Unix seconds."""
        self._expiry(file).set(at)

    def connection_refused(self, reason: str) -> None:
        self._connections_refused(reason).inc()

    def handshake_failed(self) -> None:
        self._handshakes_failed.inc()

    def configuration_is_stale(self, *, stale: bool) -> None:
        """Whether the configuration file has an error or needs a restart, or is in force."""
        self._configuration.set(stale)

    def task_restarted(self, task: str) -> None:
        """A background task of this name is started again after a failure."""
        self._task_restarts(task).inc()

    def data_failed(self, source: str, reason: str) -> None:
        """A source of data has failed, for one of few reasons."""
        self._data_failures(self._one(source), reason).inc()

    def _one(self, policy: str) -> str:
        return self._pair(policy, "")[0]

    def _pair(self, first: str, second: str) -> tuple[str, str]:
        pair = (first, second)
        if pair not in self._pairs:
            if len(self._pairs) >= MOST_LABELS:
                return _OTHER, _OTHER
            self._pairs.add(pair)
        return pair
