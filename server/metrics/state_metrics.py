"""State metrics: gauges of what a replica is and knows, from the status that the view shows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from engine.program.tables import source_label
from engine.work import shared_pause
from server.answers.view_answers import DataSource, GangsOfPolicy, ReplicaStatus

LOOK_SECONDS = 5.0
_KIND = "resource"


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
        status = self._status
        if status is None:
            return
        ready = float(status.ready)
        yield GaugeMetricFamily("placet_ready", "[STABLE] Whether /readyz passes.", ready)
        yield _policies(status)
        yield GaugeMetricFamily(
            "placet_pods_in_flight",
            "[BETA] Pods that may be on their way to a node.",
            status.podsInFlight,
        )
        yield GaugeMetricFamily(
            "placet_pods_in_flight_oldest_seconds",
            "[BETA] Seconds for which one of them has been on its way, 0 without any.",
            max((pod.seconds for pod in status.inFlight), default=0.0),
        )
        yield from _gangs(status.gangs)
        yield from _data(status.data)
        if status.cluster is not None:
            yield from _cluster(status.cluster)


def _policies(status: ReplicaStatus) -> Metric:
    family = GaugeMetricFamily("placet_policies", "[BETA] Policies, by state.", labels=["state"])
    states = {
        "enforced": sum(policy.mode == "enforce" for policy in status.policies),
        "audited": sum(policy.mode == "audit" for policy in status.policies),
        "expensive": sum(policy.expensive for policy in status.policies),
        "not_in_force": len(status.notInForce),
    }
    for state, number in states.items():
        family.add_metric([state], number)
    return family


def _gangs(gangs: Iterable[GangsOfPolicy]) -> Iterator[Metric]:
    known = GaugeMetricFamily(
        "placet_known_gangs",
        "[ALPHA] Gangs that wait, gather, or were given up last.",
        labels=["policy", "state"],
    )
    longest = GaugeMetricFamily(
        "placet_gang_longest_wait_seconds",
        "[ALPHA] Seconds for which the first gang without places has waited, 0 without any.",
        labels=["policy"],
    )
    for each in gangs:
        states = {"waiting": each.waiting, "gathering": each.gathering, "given_up": each.givenUp}
        for state, number in states.items():
            known.add_metric([each.policy, state], number)
        longest.add_metric([each.policy], each.longestWait)
    yield from (known, longest)


# Policies come and go, and the others have names too.
_MOST_SOURCES = 1000


def _data(sources: Iterable[DataSource]) -> Iterator[Metric]:
    """The sources of data by name and kind; those of one name are one, as bad as the worst."""
    rows = GaugeMetricFamily(
        "placet_data_rows", "[ALPHA] Rows of a source of data.", labels=["source"]
    )
    ages = GaugeMetricFamily(
        "placet_data_age_seconds",
        "[ALPHA] Seconds since the source last said so; 0 while it is watched.",
        labels=["source"],
    )
    stale = GaugeMetricFamily(
        "placet_data_stale",
        "[ALPHA] Whether no row of a source of data is read, because it failed for too long.",
        labels=["source"],
    )
    by_label: dict[str, list[DataSource]] = {}
    for each in sources:
        by_label.setdefault(source_label(each.name, each.kind), []).append(each)
    for label, found in sorted(by_label.items())[:_MOST_SOURCES]:
        rows.add_metric([label], sum(each.rows for each in found))
        stale.add_metric([label], float(any(each.stale for each in found)))
        if known := [each.age for each in found if each.age is not None]:
            ages.add_metric([label], max(known))
    yield from (rows, ages, stale)


def _cluster(cluster: Mapping[str, Any]) -> Iterator[Metric]:
    """The Lease and the cache, as `ClusterRuntime.status` has them."""
    if "lease" in cluster:
        held = float(cluster["lease"]["held"])
        yield GaugeMetricFamily(
            "placet_leader", "[STABLE] Whether this replica holds the Lease.", held
        )
    if "rejected" in cluster:
        yield from _rejected(cluster["rejected"])
    if "beyondBounds" in cluster:
        yield _beyond_bounds(cluster["beyondBounds"])
    if "drift" in cluster:
        yield _drifted(cluster["drift"])
    if "repairs" in cluster:
        yield from _repairs(cluster["repairs"])
    if cluster.get("cards"):
        yield from _cards(cluster["cards"])
    objects = GaugeMetricFamily(
        "placet_cache_objects", "[BETA] Objects in the cache.", labels=[_KIND]
    )
    synced = GaugeMetricFamily(
        "placet_cache_synced", "[BETA] Whether all objects were seen once.", labels=[_KIND]
    )
    silent = GaugeMetricFamily(
        "placet_cache_last_event_age_seconds",
        "[BETA] Seconds since the last sign of the watch; bookmarks arrive each minute.",
        labels=[_KIND],
    )
    unreadable = CounterMetricFamily(
        "placet_cache_unreadable_objects",
        "[ALPHA] Objects that could not be decoded.",
        labels=[_KIND],
    )
    failures = CounterMetricFamily(
        "placet_cache_watch_failures",
        "[ALPHA] Lists and watches that failed, by reason.",
        labels=[_KIND, "reason"],
    )
    relists = CounterMetricFamily(
        "placet_cache_relists", "[ALPHA] Complete lists, by reason.", labels=[_KIND, "reason"]
    )
    for name, resource in cluster["resources"].items():
        objects.add_metric([name], resource["objects"])
        synced.add_metric([name], float(resource["synced"]))
        if (age := resource["secondsSinceLastEvent"]) is not None:
            silent.add_metric([name], age)
        unreadable.add_metric([name], resource["unreadable"])
        for reason, number in resource["failuresByKind"].items():
            failures.add_metric([name, reason], number)
        for reason, number in resource["relists"].items():
            relists.add_metric([name, reason], number)
    yield from (objects, synced, silent, unreadable, failures, relists)


def _cards(clauses: Mapping[str, Any]) -> Iterator[Metric]:
    """The cards by clause, as `CardReport.status` has them."""
    cards = GaugeMetricFamily(
        "placet_cards",
        "[ALPHA] Cards: idle, in use in part (split), or with an amount used up (full).",
        labels=["clause", "state"],
    )
    pods = GaugeMetricFamily(
        "placet_card_pods",
        "[ALPHA] Pods on cards (placed); of these, bound by others without a number (guessed), and"
        " on cards that their node does not have (lost).",
        labels=["clause", "state"],
    )
    capacity = GaugeMetricFamily(
        "placet_card_capacity", "[ALPHA] What all cards have.", labels=["clause", "amount"]
    )
    used = GaugeMetricFamily(
        "placet_card_used", "[ALPHA] What pods take of cards.", labels=["clause", "amount"]
    )
    for clause, found in clauses.items():
        for state in ("idle", "split", "full"):
            cards.add_metric([clause, state], found[state])
        for state in ("placed", "guessed", "lost"):
            pods.add_metric([clause, state], found[state])
        for amount, sums in found["amounts"].items():
            capacity.add_metric([clause, amount], sums["capacity"])
            used.add_metric([clause, amount], sums["used"])
    yield from (cards, pods, capacity, used)


def _beyond_bounds(numbers: Mapping[str, int]) -> Metric:
    """The pods beyond the bounds of shares, as the leader counts them for statuses."""
    beyond = GaugeMetricFamily(
        "placet_pods_beyond_bounds",
        "[ALPHA] Pods beyond the bounds of a share, which drift and rollouts leave.",
        labels=["policy"],
    )
    for policy, number in sorted(numbers.items()):
        beyond.add_metric([policy], number)
    return beyond


def _drifted(policies: Mapping[str, Mapping[str, int]]) -> Metric:
    """The pods that break clauses, as the leader has seen them last."""
    drifted = GaugeMetricFamily(
        "placet_drifted_pods",
        "[ALPHA] Pods on nodes that break clauses of a policy, by the kind of clause.",
        labels=["policy", "kind"],
    )
    for policy, kinds in sorted(policies.items()):
        for kind, number in sorted(kinds.items()):
            drifted.add_metric([policy, kind], number)
    return drifted


def _repairs(policies: Iterable[Mapping[str, Any]]) -> Iterator[Metric]:
    """What is done about them, as `PolicyRepair` has it."""
    evictions = CounterMetricFamily(
        "placet_repair_evictions",
        "[ALPHA] Evictions of pods that break clauses, by result.",
        labels=["policy", "result"],
    )
    moving = GaugeMetricFamily(
        "placet_repair_moving_pods",
        "[ALPHA] Evicted pods whose replacement has no node yet.",
        labels=["policy"],
    )
    stopped = GaugeMetricFamily(
        "placet_repair_stopped_clauses",
        "[ALPHA] Clauses that are not repaired any more, because pods returned or found no node.",
        labels=["policy"],
    )
    for each in policies:
        for result in ("evicted", "refused", "failed", "returned"):
            evictions.add_metric([each["policy"], result], each[result])
        moving.add_metric([each["policy"]], len(each["moving"]))
        stopped.add_metric([each["policy"]], len(each["stopped"]))
    yield from (evictions, moving, stopped)


def _rejected(numbers: Mapping[str, Any]) -> Iterator[Metric]:
    """The pods without a node and their requeues, as `RejectedPods.status` has them."""
    waiting = GaugeMetricFamily(
        "placet_rejected_pods",
        "[BETA] Pods that filter offered no node last, and that wait, by the policy that rejected "
        "most of the nodes.",
        labels=["policy"],
    )
    for policy, number in sorted(numbers["waitingByPolicy"].items()):
        waiting.add_metric([policy], number)
    yield waiting
    yield CounterMetricFamily(
        "placet_requeues",
        "[BETA] Pods that kube-scheduler was told to try again.",
        numbers["requeues"],
    )
    answers = CounterMetricFamily(
        "placet_requeue_results",
        "[ALPHA] Answers about requeued pods: a node was offered, or none again.",
        labels=["result"],
    )
    answers.add_metric(["offered"], numbers["offered"])
    answers.add_metric(["refused"], numbers["refusedAgain"])
    yield answers
