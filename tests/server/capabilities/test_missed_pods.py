"""Pods that were placed too early, or without the gate: which they are, and who is told."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from engine.cache.cache import Cache
from engine.counting.in_flight_pods import Schedulers
from engine.decision.journal import Journal
from engine.decision.recent_answers import AfterDecision
from engine.errors import DeadlineExceededError
from engine.objects.gate import GATE
from engine.objects.peer import Peer
from engine.objects.request_pod import Exemptions, ObjectCodec
from engine.program.frame import Evaluation, Frame
from grammar.meaning.schema import load_schema
from grammar.values.time import SECOND, Timestamp
from policies.resource import Metadata, PolicyStatus, VersionInForce
from server.capabilities.missed_pods import EarlyPods, UngatedPods, early_text
from server.capabilities.policy_statuses import Statuses
from tests.server.runtime.test_objects import READY, Read, stored
from tests.support import builders
from tests.support.builders import node, pod, raw
from tests.support.engines import engine_of, peer_of

CODEC = ObjectCodec(load_schema())
NOW = Timestamp.parse(builders.CREATED)
GATED = Schedulers(gate=True)
EXEMPT = Exemptions(frozenset({"kube-system"}))


def peer(name: str = "web", namespace: str = "shop", amount: str = "", **more: Any) -> Peer:
    value = builders.pod(name, namespace, **more)
    if amount:
        value["spec"]["containers"][0]["resources"] = {"limits": {GATE: amount}}
    return CODEC.peer(builders.raw(value))


def ungated(
    schedulers: Schedulers = GATED, later: float = 0.0, cache: Cache | None = None
) -> UngatedPods:
    now = Timestamp(NOW.nanos + round(later * SECOND))
    return UngatedPods(cache or Cache(), schedulers, lambda: EXEMPT, lambda: now)


@pytest.mark.parametrize(
    ("schedulers", "pod", "expected"),
    [
        pytest.param(GATED, peer(), True, id="without a marker"),
        pytest.param(GATED, peer(amount="0"), False, id="marked"),
        pytest.param(GATED, peer(amount="3"), False, id="any amount"),
        pytest.param(GATED, peer(namespace="kube-system"), False, id="exempt"),
        pytest.param(Schedulers(), peer(), False, id="no gate"),
        pytest.param(
            Schedulers(frozenset({"placet"}), gate=True), peer(), False, id="another scheduler's"
        ),
    ],
)
def test_which_pods_are_ungated(schedulers: Schedulers, pod: Peer, expected: bool) -> None:
    found = ungated(schedulers)
    assert found.among(lambda _: True)(pod) is expected
    assert not found.among(lambda _: False)(pod)
    found.pod_changed(None, pod, 1)
    assert (found.take_new() == [pod]) is expected
    # It is not on its way to a node that Placet could have offered.
    assert schedulers.may_place(pod) is (schedulers.have(pod) and not schedulers.pass_by(pod))


def test_there_is_an_event_about_new_pods_only() -> None:
    found = ungated()
    found.pod_changed(None, peer(), 1)
    assert [pod.name for pod in found.take_new()] == ["web"]
    assert found.take_new() == []
    found.pod_changed(peer(), peer(), 2)
    found.pod_changed(peer(), None, 3)
    assert found.take_new() == []
    old = ungated(later=61)
    old.pod_changed(None, peer(), 1)
    assert old.take_new() == []


def no_time(_: Frame) -> Evaluation:
    raise DeadlineExceededError


def status(cache: Cache, schedulers: Schedulers = GATED) -> PolicyStatus:
    read, objects = Read(), stored(READY)
    read.read(objects)
    assert read.last is not None
    statuses = Statuses(cache, no_time, [lambda: ungated(schedulers, cache=cache).part])
    (report,) = statuses.reports(read.last, objects, cache.snapshot())
    return report.wanted


def test_the_status_counts_pending_and_running_pods() -> None:
    cache = Cache()
    cache.put_node(CODEC.node(builders.raw(builders.node("n1"))))
    cache.put_pod(peer("a"))
    cache.put_pod(peer("b", on="n1"))
    cache.put_pod(peer("c", amount="0"))
    cache.put_pod(peer("d", namespace="mall"))
    counted = status(cache)
    (condition,) = (each for each in counted.conditions if each.type == "Ungated")
    assert (counted.ungatedPods, condition.status, condition.reason) == (2, "True", "NoMarker")
    cache.remove_pod("shop/a")
    cache.remove_pod("shop/b")
    after = status(cache)
    (condition,) = (each for each in after.conditions if each.type == "Ungated")
    assert (after.ungatedPods, condition.status) == (0, "False")


def test_without_the_gate_the_status_says_nothing_of_it() -> None:
    cache = Cache()
    cache.put_pod(peer())
    counted = status(cache, Schedulers())
    assert counted.ungatedPods is None
    assert all(each.type != "Ungated" for each in counted.conditions)


# ---- early pods: those that were placed before their policy was in force, as a status has them


STARTED = Timestamp.parse("2026-11-21T09:00:00.7Z")
POLICY = Metadata("web", "shop", "u", 1, creationTimestamp="2026-11-21T10:00:00Z")
BEFORE, AFTER = "2026-11-21T09:59:59Z", "2026-11-21T10:00:00Z"


def counted(
    pods: Iterable[Peer],
    journal: Journal | None = None,
    metadata: Metadata = POLICY,
    written: PolicyStatus | None = None,
) -> int | None:
    early = EarlyPods((journal or Journal()).has_decided, STARTED)
    return early.count("web", metadata, written or PolicyStatus(), lambda: pods)


@pytest.mark.parametrize(
    ("created", "on", "expected"),
    [
        pytest.param(AFTER, "n1", 1, id="after the policy"),
        pytest.param(BEFORE, "n1", 0, id="before the policy"),
        pytest.param(AFTER, None, 0, id="without a node"),
    ],
)
def test_which_pods_are_early(created: str, on: str | None, expected: int) -> None:
    assert counted([peer_of(pod("a", on=on, created=created))]) == expected


def test_a_pod_that_the_policy_decided_about_is_not_early() -> None:
    journal = Journal()
    policy = 'policy web { for pods where true filter "all" { require true } }'
    engine = engine_of(policy, [node("n1")], after=AfterDecision(journal=journal))
    engine.filter(raw(pod("a", created=AFTER)), ["n1"], None, math.inf)
    placed = [peer_of(pod(name, on="n1", created=AFTER)) for name in "ab"]
    assert counted(placed, journal) == 1


def test_the_number_stays_once_the_policy_was_in_force() -> None:
    placed = [peer_of(pod("a", on="n1", created=AFTER))]
    written = PolicyStatus(earlyPods=6, inForce=VersionInForce(1))
    assert counted(placed, written=written) == 6


@pytest.mark.parametrize("created", ["2026-11-21T08:59:59Z", ""])
def test_a_policy_from_before_the_start_has_no_number(created: str) -> None:
    metadata = msgspec.structs.replace(POLICY, creationTimestamp=created)
    assert counted([peer_of(pod("a", on="n1", created=AFTER))], metadata=metadata) is None


def test_a_policy_of_the_second_of_the_start_has_a_number() -> None:
    """The API server tells a creation in whole seconds."""
    metadata = msgspec.structs.replace(POLICY, creationTimestamp="2026-11-21T09:00:00Z")
    assert counted([peer_of(pod("a", on="n1", created=AFTER))], metadata=metadata) == 1


def test_the_event_says_how_many() -> None:
    assert early_text(6).startswith("6 pods were placed before this policy was in force")
    assert early_text(1).startswith("1 pod was placed")
