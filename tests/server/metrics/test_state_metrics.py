"""State metrics: gauges of a status, and a real server that shows its own."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from prometheus_client import CollectorRegistry

from server.answers.view_answers import ReplicaStatus
from server.metrics.metrics import Metrics
from tests.support.every_metric import full_status, look


async def seen(status: Callable[[], ReplicaStatus]) -> Callable[..., float | None]:
    """The values after one look at the status."""
    registry = CollectorRegistry()
    await look(Metrics(registry, "1.2.3"), status)
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
    drifted = {"policy": "shop/web", "kind": "share"}
    assert value("placet_drifted_pods", drifted) == 3
    refused = {"policy": "shop/web", "result": "refused"}
    assert value("placet_repair_evictions_total", refused) == 2
    assert value("placet_repair_moving_pods", {"policy": "shop/web"}) == 1
    assert value("placet_repair_stopped_clauses", {"policy": "shop/web"}) == 1


async def test_cards() -> None:
    value = await seen(full_status)
    found = [
        value("placet_cards", {"clause": "gpu", "state": s}) for s in ("idle", "split", "full")
    ]
    assert found == [3, 2, 1]
    pods = ("placed", "guessed", "lost")
    assert [value("placet_card_pods", {"clause": "gpu", "state": s}) for s in pods] == [6, 1, 12]
    milli = {"clause": "gpu", "amount": "milli"}
    assert (value("placet_card_capacity", milli), value("placet_card_used", milli)) == (6000, 2500)


async def test_gangs() -> None:
    value = await seen(full_status)
    gangs = {"policy": "ml/gangs"}
    states = ("waiting", "gathering", "given_up")
    assert [value("placet_known_gangs", {**gangs, "state": s}) for s in states] == [3, 1, 2]
    assert value("placet_gang_longest_wait_seconds", gangs) == 4000


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
