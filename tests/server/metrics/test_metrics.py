"""Metrics: what is counted and what is the state, their labels, and their documentation."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable

import msgspec
import numpy as np
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from server.answers import ReplicaStatus
from server.call import CallRecord
from server.capabilities.table import CAPABILITY_METRICS
from server.errors import Outcome
from server.metrics.metrics import BUCKETS, MOST_LABELS, Metrics
from server.runtime.observers import LogObserver
from server.settings import Settings
from tests.support.books import section
from tests.support.every_metric import every_metric, full_status, look


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def metrics(registry: CollectorRegistry) -> Metrics:
    return Metrics(registry, "1.2.3", clock=lambda: 1700000000.0)


def test_buckets_are_those_of_kube_scheduler() -> None:
    assert BUCKETS[0] == 0.001
    assert BUCKETS[-1] == pytest.approx(16.384)
    assert len(BUCKETS) == 15


def test_a_call(metrics: Metrics, registry: CollectorRegistry) -> None:
    call = CallRecord("filter", 0.0, received=1000, offered=5000, returned=12)
    metrics.ended(call, 200, 0.003, 200)
    verb = {"verb": "filter"}
    labels = {**verb, "code": "200", "outcome": "answered"}
    value = registry.get_sample_value
    assert value("placet_requests_total", labels) == 1
    assert value("placet_request_duration_seconds_bucket", {**verb, "le": "0.002"}) == 0
    assert value("placet_request_duration_seconds_bucket", {**verb, "le": "0.004"}) == 1
    assert value("placet_request_duration_seconds_bucket", {**verb, "le": "+Inf"}) == 1
    assert value("placet_request_duration_seconds_sum", verb) == 0.003
    assert value("placet_nodes_offered_total", verb) == 5000
    assert value("placet_nodes_returned_total", verb) == 12
    assert value("placet_request_body_bytes_total", verb) == 1000
    assert value("placet_response_body_bytes_total", verb) == 200
    assert value("placet_last_request_timestamp_seconds", verb) == 1700000000.0


def test_a_failed_call_is_not_the_last_answered_one(
    metrics: Metrics, registry: CollectorRegistry
) -> None:
    call = CallRecord("filter", 0.0, outcome=Outcome.WRONG_METHOD)
    metrics.ended(call, 405, 0.001, 0)
    name = "placet_last_request_timestamp_seconds"
    assert registry.get_sample_value(name, {"verb": "filter"}) is None


def test_calls_add_up(metrics: Metrics, registry: CollectorRegistry) -> None:
    """A duration on the bound of a bucket is in it; one beyond all bounds is in the last."""
    for verb, seconds in (("filter", 0.004), ("filter", 99.0), ("prioritize", 0.0)):
        metrics.ended(CallRecord(verb, 0.0, received=7), 200, seconds, 3)
    value, lasted = registry.get_sample_value, "placet_request_duration_seconds_bucket"
    found = [value(lasted, {"verb": "filter", "le": le}) for le in ("0.002", "0.004", "+Inf")]
    assert found == [0, 1, 2]
    assert value("placet_request_duration_seconds_count", {"verb": "filter"}) == 2
    assert value(lasted, {"verb": "prioritize", "le": "0.001"}) == 1
    assert value("placet_request_body_bytes_total", {"verb": "filter"}) == 14
    assert value("placet_response_body_bytes_total", {"verb": "filter"}) == 6
    assert value("placet_nodes_offered_total", {"verb": "filter"}) is None


def test_reports_of_the_engine(metrics: Metrics, registry: CollectorRegistry) -> None:
    observer = LogObserver(logging.getLogger("placet.test"), metrics)
    observer.rejected("shop/web", "ssd", 40)
    observer.would_reject("shop/web", "ssd", 7)
    observer.failed("shop/web", "ssd", "no such key: `disk`")
    observer.conflict("shop/web", "shop/other")
    clause = {"policy": "shop/web", "clause": "ssd"}
    value = registry.get_sample_value
    assert value("placet_rejections_total", clause) == 40
    assert value("placet_audit_rejections_total", clause) == 7
    assert value("placet_evaluation_errors_total", clause) == 1
    conflict = {"winner": "shop/web", "loser": "shop/other"}
    assert value("placet_policy_conflicts_total", conflict) == 1
    assert b"no such key" not in generate_latest(registry)


def test_pairs_of_names_are_bounded(metrics: Metrics, registry: CollectorRegistry) -> None:
    observer = LogObserver(logging.getLogger("placet.test"), metrics)
    for number in range(MOST_LABELS + 5):
        observer.rejected(f"shop/web-{number}", "ssd", 1)
    observer.rejected("shop/web-0", "ssd", 1)
    value = registry.get_sample_value
    assert value("placet_rejections_total", {"policy": "shop/web-0", "clause": "ssd"}) == 2
    assert value("placet_rejections_total", {"policy": "other", "clause": "other"}) == 5


@pytest.mark.usefixtures("metrics")
def test_the_version_is_a_label(registry: CollectorRegistry) -> None:
    assert registry.get_sample_value("placet_build_info", {"version": "1.2.3"}) == 1


def test_scores_are_a_histogram(metrics: Metrics, registry: CollectorRegistry) -> None:
    for scores in ([0, 0, 3, 10], [10]):
        call = CallRecord("prioritize", 0.0, scores=np.array(scores))
        metrics.ended(call, 200, 0.001, 0)
    value = registry.get_sample_value
    below = [value("placet_scores_bucket", {"le": f"{score}.0"}) for score in range(11)]
    assert below == [2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 5]
    assert value("placet_scores_bucket", {"le": "+Inf"}) == 5
    assert (value("placet_scores_count"), value("placet_scores_sum")) == (5, 23)


def test_the_limits_that_others_are_compared_with(
    metrics: Metrics, registry: CollectorRegistry
) -> None:
    metrics.configured(Settings(http_timeout=2.0, body_limit=1 << 20, max_in_flight=7))
    value = registry.get_sample_value
    assert value("placet_http_timeout_seconds") == 2
    assert value("placet_body_budget_bytes") == 4 << 20
    assert value("placet_max_in_flight") == 7


def test_what_policies_take_of_the_time(metrics: Metrics, registry: CollectorRegistry) -> None:
    observer = LogObserver(logging.getLogger("placet.test"), metrics)
    observer.charged("shop/web", 0.02)
    observer.charged("shop/web", 0.03)
    value = registry.get_sample_value("placet_policy_seconds_total", {"policy": "shop/web"})
    assert value == pytest.approx(0.05)


def test_every_metric_has_one_row_in_the_documentation() -> None:
    page = section("operations", "Metrics")
    rows = re.findall(r"(?m)^\| `(placet_\w+)` \| (\w+)(?:: ([\w, ]+))? \| (\w*) \|", page)
    listed = [
        (n, kind, sorted(labels.split(", ")) if labels else [], s) for n, kind, labels, s in rows
    ]
    every = {n: m for n, m in every_metric().items() if not n.startswith("process_")}
    found = [(name, m.type, sorted(m.labels), m.stability) for name, m in every.items()]
    assert sorted(listed) == sorted(found)
    assert {m.stability for m in every.values()} == {"ALPHA", "BETA", "STABLE"}
    assert len(every) < len(every_metric()), "those of the process are there too"


# ---- state metrics: gauges of a status, and a real server that shows its own


async def seen(status: Callable[[], ReplicaStatus]) -> Callable[..., float | None]:
    """The values after one look at the status."""
    registry = CollectorRegistry()
    await look(Metrics(registry, "1.2.3", CAPABILITY_METRICS), status)
    return registry.get_sample_value


async def test_what_a_replica_is_and_knows() -> None:
    value = await seen(full_status)
    assert (value("placet_ready"), value("placet_leader")) == (1, 1)
    assert [
        value("placet_policies", {"state": state})
        for state in ("enforced", "audited", "expensive", "not_in_force")
    ] == [1, 1, 1, 1]
    assert value("placet_pods_in_flight") == 2
    assert value("placet_pods_in_flight_oldest_seconds") == 7.5
    pods = {"resource": "pods"}
    assert value("placet_cache_objects", pods) == 3
    assert value("placet_cache_synced", pods) == 1
    assert value("placet_cache_last_event_age_seconds", pods) == 2
    assert value("placet_cache_last_event_age_seconds", {"resource": "nodes"}) is None
    assert value("placet_cache_unreadable_objects_total", pods) == 1
    assert value("placet_cache_watch_failures_total", {**pods, "reason": "unreachable"}) == 3
    assert value("placet_cache_watch_failures_total", {**pods, "reason": "denied"}) == 1
    assert value("placet_cache_relists_total", {**pods, "reason": "expired"}) == 2


async def test_pods_without_a_node_and_what_became_of_their_requeues() -> None:
    value = await seen(full_status)
    by_policy = [value("placet_rejected_pods", {"policy": p}) for p in ("shop/web", "")]
    assert (by_policy, value("placet_requeues_total")) == ([4, 1], 9)
    assert value("placet_requeue_results_total", {"result": "offered"}) == 6
    assert value("placet_requeue_results_total", {"result": "refused"}) == 2


async def test_pods_beyond_the_bounds_of_policies() -> None:
    value = await seen(full_status)
    assert value("placet_pods_beyond_bounds", {"policy": "shop/web"}) == 3


async def test_a_replica_that_waits_does_not_lead() -> None:
    value = await seen(lambda: full_status("placet-1"))
    assert value("placet_leader") == 0


async def test_without_a_cluster_there_is_no_cache() -> None:
    value = await seen(lambda: msgspec.structs.replace(full_status(), cluster=None, inFlight=()))
    assert value("placet_leader") is None
    assert value("placet_cache_objects", {"resource": "pods"}) is None
    assert value("placet_pods_in_flight_oldest_seconds") == 0


def test_before_the_first_look_there_is_nothing() -> None:
    registry = CollectorRegistry()
    Metrics(registry, "1.2.3")
    assert registry.get_sample_value("placet_ready") is None
