"""State metrics: gauges of what a replica is and knows, from the status that the view shows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from server.view_answers import Status

LOOK_SECONDS = 1.0
_KIND = "resource"


class StateMetrics(Collector):
    """The gauges, as of the last look at the status.

    `/metrics` may be asked on another thread than that of decisions. So the loop of decisions looks
    once a second, and a scrape reads what was seen last.
    """

    def __init__(self) -> None:
        self._status: Status | None = None

    async def follow(self, read: Callable[[], Status]) -> None:
        """Looks at the status until it is cancelled."""
        while True:
            self._status = read()
            await asyncio.sleep(LOOK_SECONDS)

    def collect(self) -> Iterable[Metric]:
        status = self._status
        if status is None:
            return
        yield GaugeMetricFamily("placet_ready", "Whether /readyz passes.", float(status.ready))
        yield _policies(status)
        yield GaugeMetricFamily(
            "placet_pods_in_flight", "Pods that may be on their way to a node.", status.podsInFlight
        )
        yield GaugeMetricFamily(
            "placet_pods_in_flight_oldest_seconds",
            "Seconds for which one of them has been on its way, 0 without any.",
            max((pod.seconds for pod in status.inFlight), default=0.0),
        )
        if status.cluster is not None:
            yield from _cluster(status.cluster)


def _policies(status: Status) -> Metric:
    family = GaugeMetricFamily("placet_policies", "Policies, by state.", labels=["state"])
    states = {
        "enforced": sum(policy.mode == "enforce" for policy in status.policies),
        "audited": sum(policy.mode == "audit" for policy in status.policies),
        "expensive": sum(policy.expensive for policy in status.policies),
        "not_in_force": len(status.notInForce),
    }
    for state, number in states.items():
        family.add_metric([state], number)
    return family


def _cluster(cluster: Mapping[str, Any]) -> Iterator[Metric]:
    """The Lease and the cache, as `ClusterRuntime.status` has them."""
    if "lease" in cluster:
        held = float(cluster["lease"]["held"])
        yield GaugeMetricFamily("placet_leader", "Whether this replica holds the Lease.", held)
    objects = GaugeMetricFamily("placet_cache_objects", "Objects in the cache.", labels=[_KIND])
    synced = GaugeMetricFamily(
        "placet_cache_synced", "Whether all objects were seen once.", labels=[_KIND]
    )
    silent = GaugeMetricFamily(
        "placet_cache_last_event_age_seconds",
        "Seconds since the last sign of the watch; bookmarks arrive each minute.",
        labels=[_KIND],
    )
    unreadable = CounterMetricFamily(
        "placet_cache_unreadable_objects", "Objects that could not be decoded.", labels=[_KIND]
    )
    failures = CounterMetricFamily(
        "placet_cache_watch_failures", "Lists and watches that failed.", labels=[_KIND]
    )
    relists = CounterMetricFamily(
        "placet_cache_relists", "Complete lists, by reason.", labels=[_KIND, "reason"]
    )
    for name, resource in cluster["resources"].items():
        objects.add_metric([name], resource["objects"])
        synced.add_metric([name], float(resource["synced"]))
        if (age := resource["secondsSinceLastEvent"]) is not None:
            silent.add_metric([name], age)
        unreadable.add_metric([name], resource["unreadable"])
        failures.add_metric([name], resource["failures"])
        for reason, number in resource["relists"].items():
            relists.add_metric([name, reason], number)
    yield from (objects, synced, silent, unreadable, failures, relists)
