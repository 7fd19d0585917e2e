"""Pods that were placed too early, or without the gate: which they are, and who is told."""

from __future__ import annotations

from typing import Any

from engine.cache.cache import Cache
from engine.counting.in_flight_pods import Schedulers
from engine.errors import DeadlineExceededError
from engine.objects.gate import GATE
from engine.objects.peer import Peer
from engine.objects.request_pod import Exemptions, ObjectCodec
from engine.program.frame import Evaluation, Frame
from grammar.meaning.schema import load_schema
from grammar.values.time import SECOND, Timestamp
from policies.resource import PolicyStatus
from server.capabilities.missed_pods import UngatedPods
from server.capabilities.policy_statuses import Statuses
from tests.server.runtime.test_objects import READY, Read, stored
from tests.support import builders
from tests.support.rows import rows

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


@rows(
    ("schedulers", "pod", "expected"),
    {
        "without a marker": (GATED, peer(), True),
        "marked": (GATED, peer(amount="0"), False),
        "any amount": (GATED, peer(amount="3"), False),
        "exempt": (GATED, peer(namespace="kube-system"), False),
        "no gate": (Schedulers(), peer(), False),
        "another scheduler's": (Schedulers(frozenset({"placet"}), gate=True), peer(), False),
    },
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
