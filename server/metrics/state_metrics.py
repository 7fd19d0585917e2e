"""State metrics: gauges of what a replica is and knows, from the status that the view shows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from engine.program.tables import source_label
from engine.work import shared_pause
from server.answers.view_answers import DataSource, ReplicaStatus
from server.metrics.families import Sample, families

LOOK_SECONDS = 5.0
# Policies come and go, and the others have names too.
_MOST_SOURCES = 1000


class StateMetrics(Collector):
    """The gauges, as of the last look at the status.

    `/metrics` may be asked on another thread than that of decisions. So the loop of decisions looks
    every LOOK_SECONDS, and a scrape reads what was seen last.
    """

    def __init__(self) -> None:
        self._status: ReplicaStatus | None = None

    async def follow(self, read: Callable[[], ReplicaStatus]) -> None:
        """Looks at the status until it is cancelled."""
        while True:
            self._status = read()
            await shared_pause(LOOK_SECONDS)

    def collect(self) -> Iterable[Metric]:
        return families(_samples(self._status)) if self._status is not None else ()


def _samples(status: ReplicaStatus) -> Iterator[Sample]:
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
    for each in status.gangs:
        yield "placet_known_gangs", [each.policy, "waiting"], each.waiting
        yield "placet_known_gangs", [each.policy, "gathering"], each.gathering
        yield "placet_known_gangs", [each.policy, "given_up"], each.givenUp
        yield "placet_gang_longest_wait_seconds", [each.policy], each.longestWait
    yield from _data(status.data)
    if status.cluster is not None:
        yield from _cluster(status.cluster)


def _data(sources: Iterable[DataSource]) -> Iterator[Sample]:
    """The sources of data by name and kind; those of one name are one, as bad as the worst."""
    by_label: dict[str, list[DataSource]] = {}
    for each in sources:
        by_label.setdefault(source_label(each.name, each.kind), []).append(each)
    for label, found in sorted(by_label.items())[:_MOST_SOURCES]:
        yield "placet_data_rows", [label], sum(each.rows for each in found)
        yield "placet_data_stale", [label], any(each.stale for each in found)
        if known := [each.age for each in found if each.age is not None]:
            yield "placet_data_age_seconds", [label], max(known)


def _cluster(cluster: Mapping[str, Any]) -> Iterator[Sample]:
    """The Lease and the cache, as `ClusterRuntime.status` has them."""
    if "lease" in cluster:
        yield "placet_leader", (), cluster["lease"]["held"]
    if (rejected := cluster.get("rejected")) is not None:
        for policy, number in sorted(rejected["waitingByPolicy"].items()):
            yield "placet_rejected_pods", [policy], number
        yield "placet_requeues_total", (), rejected["requeues"]
        yield "placet_requeue_results_total", ["offered"], rejected["offered"]
        yield "placet_requeue_results_total", ["refused"], rejected["refusedAgain"]
    for policy, number in sorted(cluster.get("beyondBounds", {}).items()):
        yield "placet_pods_beyond_bounds", [policy], number
    for policy, kinds in sorted(cluster.get("drift", {}).items()):
        for kind, number in sorted(kinds.items()):
            yield "placet_drifted_pods", [policy, kind], number
    for each in cluster.get("repairs", ()):
        for result in ("evicted", "refused", "failed", "returned"):
            yield "placet_repair_evictions_total", [each["policy"], result], each[result]
        yield "placet_repair_moving_pods", [each["policy"]], len(each["moving"])
        yield "placet_repair_stopped_clauses", [each["policy"]], len(each["stopped"])
    for clause, cards in cluster.get("cards", {}).items():
        for state in ("idle", "split", "full"):
            yield "placet_cards", [clause, state], cards[state]
        for state in ("placed", "guessed", "lost"):
            yield "placet_card_pods", [clause, state], cards[state]
        for amount, sums in cards["amounts"].items():
            yield "placet_card_capacity", [clause, amount], sums["capacity"]
            yield "placet_card_used", [clause, amount], sums["used"]
    for name, resource in cluster["resources"].items():
        yield "placet_cache_objects", [name], resource["objects"]
        yield "placet_cache_synced", [name], resource["synced"]
        if (age := resource["secondsSinceLastEvent"]) is not None:
            yield "placet_cache_last_event_age_seconds", [name], age
        yield "placet_cache_unreadable_objects_total", [name], resource["unreadable"]
        for reason, number in resource["failuresByKind"].items():
            yield "placet_cache_watch_failures_total", [name, reason], number
        for reason, number in resource["relists"].items():
            yield "placet_cache_relists_total", [name, reason], number
