"""Failures and ended pods: which are known, for how long, and what decisions read of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import pytest

from engine.cache import ended_pods
from engine.cache.cache import Cache
from engine.cache.ended_pods import MOST_FAILURES, EndedPods, lately
from engine.cache.tallies import Scope
from engine.decision.verdict import Feasible
from engine.engine import Engine
from engine.objects.peer import Peer
from engine.program.policy_time import DecisionTime
from grammar.values.time import NEVER, SECOND, Timestamp
from tests.support.builders import Object, node, pod, raw
from tests.support.engines import CODEC, Known, Silent, cache_of, peer_of, registry_of

MINUTE = 60 * SECOND
RETRY = """cluster policy p {
  filter "elsewhere" { require !pod.failures.exists(f, f.node == node.name) }
}"""


def failed(number: int, node: str = "a", *, of: str = "job", at: int = 0, reason: str = "") -> Peer:
    when = str(Timestamp.of((at or number) * MINUTE))
    made = of_job(pod(f"p-{number}", "shop", on=node, phase="Failed", created=when), of)
    made["status"]["reason"] = reason
    return peer_of(made)


def known(pods: EndedPods, controller: str = "uid-job") -> list[str]:
    return [each.name for each in pods.failures().get(controller, ())]


def test_the_latest_failures_of_a_controller_are_known() -> None:
    pods = EndedPods()
    for number in (3, 1, 2, 2):
        pods.put(failed(number))
    pods.put(failed(99, of="other", at=9))
    assert known(pods) == ["p-3", "p-2", "p-1"]
    for number in range(4, MOST_FAILURES + 3):
        pods.put(failed(number))
    latest = [f"p-{number}" for number in range(MOST_FAILURES + 2, 2, -1)]
    assert known(pods) == latest
    pods.put(failed(1))
    assert known(pods) == latest
    assert known(pods, "uid-other") == ["p-99"]


def test_a_failure_that_is_seen_again_is_one() -> None:
    """Its time may be another one once its containers are known."""
    pods = EndedPods()
    for each in (failed(1), failed(2), failed(1, at=5)):
        pods.put(each)
    assert known(pods) == ["p-1", "p-2"]


def test_pods_without_a_controller_or_a_node_are_nobodys_failures() -> None:
    pods = EndedPods()
    for each in (pod("alone", on="a", phase="Failed"), of_job(pod("b", phase="Failed"), "job")):
        pods.put(peer_of(each))
    pods.put(peer_of(of_job(pod("c", on="a", phase="Succeeded"), "job")))
    assert pods.failures() == {}


def test_failures_that_are_not_kept_are_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ended_pods, "_MOST", 2)
    pods = EndedPods()
    for number in (1, 2, 3):
        pods.put(failed(number, of=f"job-{number}"))
    assert sorted(pods.failures()) == ["uid-job-2", "uid-job-3"]


def test_a_failure_counts_for_an_hour() -> None:
    assert [f.pod for f in lately([failed(70), failed(30), failed(10)], 90 * MINUTE)] == ["p-70"]
    assert lately([failed(30)], 90 * MINUTE - 1) != ()


@dataclass
class Retries:
    """An engine of two nodes, with its time in minutes; pods of a Job come and fail."""

    policy: str = RETRY
    minute: int = 100
    cache: Cache = field(default_factory=lambda: cache_of([node("a"), node("b")]))
    asked: int = 0

    def __post_init__(self) -> None:
        time = DecisionTime(self.seconds, lambda: Timestamp(self.minute * MINUTE))
        self.engine = Engine(
            registry_of(self.policy), Known(self.cache), CODEC, Silent(), time=time
        )

    def seconds(self) -> float:
        # So that many questions are no loop.
        self.asked += 1
        return self.asked * 3600.0

    def open(self, job: str = "job") -> str:
        asked = of_job(pod(f"asked-{self.asked}", "shop"), job)
        verdicts = self.engine.filter(raw(asked), ["a", "b"], None, math.inf)
        self.engine.in_flight.forget(peer_of(asked).uid)
        pairs = zip("ab", verdicts, strict=True)
        return "".join(n for n, verdict in pairs if isinstance(verdict, Feasible))


def of_job(found: Object, job: str) -> Object:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": f"uid-{job}"}
    found["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    return found


def test_a_retry_goes_to_another_node_for_an_hour() -> None:
    world = Retries()
    assert world.open() == "ab"
    world.cache.put_ended(failed(1, "a", at=100))
    assert (world.open(), world.open("other")) == ("b", "ab")
    world.cache.put_ended(failed(2, "b", at=130))
    world.minute = 140
    assert world.open() == ""
    world.minute = 159
    assert world.open() == ""
    world.minute = 160
    assert world.open() == "a"
    world.minute = 190
    assert world.open() == "ab"


@pytest.mark.parametrize(
    ("condition", "nodes"),
    [
        ('f.reason == "Evicted"', "b"),
        ('f.pod == "p-1"', "b"),
        ('now - f.time < "10m"', "b"),
        ('now - f.time < "5m"', "ab"),
        ("f.pod == pod.name", "ab"),
    ],
)
def test_what_a_failure_says(condition: str, nodes: str) -> None:
    world = Retries(RETRY.replace("f.node ==", f"{condition} && f.node =="))
    world.cache.put_ended(failed(1, at=95, reason="Evicted"))
    assert world.open() == nodes


def test_a_rejected_retry_would_pass_when_the_hour_is_over() -> None:
    """The requeuer asks this once a second."""
    world = Retries()
    for number, name in enumerate("ab"):
        world.cache.put_ended(failed(number, name, at=100))
    asked = world.engine.looks.read(raw(of_job(pod("waits", "shop"), "job")))
    assert not world.engine.looks.would_pass(asked)
    world.minute = 160
    assert world.engine.looks.would_pass(asked)


def test_the_last_failure_is_the_first_item() -> None:
    world = Retries(RETRY.replace("pod.failures.exists(f, f.node == node.name)", "(size(pod.failures) > 0 && pod.failures[0].node == node.name)"))  # fmt: skip  # noqa: E501
    world.cache.put_ended(failed(1, "a", at=98))
    world.cache.put_ended(failed(2, "b", at=99))
    assert world.open() == "a"


def test_the_newest_time_of_a_cluster_may_be_that_of_a_failure() -> None:
    world = Retries()
    before = world.cache.snapshot().newest()
    assert before is not None
    minute = before.nanos // MINUTE + 1
    world.cache.put_ended(failed(1, at=minute))
    assert world.cache.snapshot().newest() == Timestamp(minute * MINUTE)


# ---- pods that have ended: which are kept, for how long, and what they add up to


NOON = Timestamp.parse("2026-11-21T12:00:00Z").nanos
EVERYWHERE = Scope()


def ended(name: str, minutes: int | None = 0, **more: Any) -> Peer:
    """A pod that failed so many minutes after noon; None: nobody knows when."""
    made = pod(name, on="n1", phase="Failed", **more)
    if minutes is not None:
        at = str(Timestamp.of(NOON + minutes * MINUTE))
        made["status"]["conditions"] = [{"type": "Ready", "lastTransitionTime": at}]
    return peer_of(made)


def number(pods: EndedPods, minutes: int) -> int:
    """How many of them count so many minutes after noon."""
    now = NOON + minutes * MINUTE
    adds = ended_pods.for_an_hour(lambda _: (1, NEVER), now)
    return pods.tallies.timed("all", EVERYWHERE, adds, now).placed


def test_a_pod_counts_for_an_hour() -> None:
    pods = EndedPods()
    pods.put(ended("a"))
    pods.put(ended("b", 30))
    assert [number(pods, minutes) for minutes in (31, 59, 60, 89, 90)] == [2, 2, 1, 1, 0]


def test_a_clock_that_is_set_back_counts_anew() -> None:
    pods = EndedPods()
    pods.put(ended("a"))
    assert [number(pods, minutes) for minutes in (61, 59)] == [0, 1]


def test_a_pod_counts_once_and_as_it_is_now() -> None:
    pods = EndedPods()
    for labels in ({"app": "a"}, {"app": "a"}, {"app": "b"}):
        pods.put(ended("a", labels=labels))
    assert number(pods, 1) == 1
    ((key, kept),) = pods.within(EVERYWHERE)
    assert (key, kept.labels) == ("default/a", {"app": "b"})


def test_nobody_knows_when_a_pod_ended() -> None:
    """It counts as long as it is kept; one that started counts from its start."""
    pods = EndedPods()
    pods.put(ended("a", None))
    assert number(pods, 10_000) == 1
    started = pod("b", on="n1", phase="Failed")
    started["status"]["startTime"] = str(Timestamp.of(NOON))
    pods.put(peer_of(started))
    assert [number(pods, minutes) for minutes in (10_001, 10_002)] == [1, 1]


def test_pods_of_earlier_hours_go_when_others_come() -> None:
    pods = EndedPods()
    pods.put(ended("a"))
    pods.put(ended("b", 61))
    pods.put(ended("late", -30))
    assert [key for key, _ in pods.within(EVERYWHERE)] == ["default/b"]


@pytest.mark.parametrize("bound", ["_MOST", "MOST_BYTES"])
def test_the_first_ones_go_when_there_are_too_many(
    bound: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ended_pods, bound, 2 if bound == "_MOST" else 1)
    pods = EndedPods()
    for name in "abc":
        pods.put(ended(name))
    left = [key for key, _ in pods.within(EVERYWHERE)]
    assert left == (["default/b", "default/c"] if bound == "_MOST" else ["default/c"])
    assert number(pods, 1) == len(left)
