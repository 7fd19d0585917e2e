"""Failures: which failed pods of a controller are known, and what decisions read of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import pytest

from engine.cache.cache import Cache
from engine.cache.failures import MOST, Failures, lately
from engine.decision.verdict import Feasible
from engine.engine import Engine
from engine.objects.failed_pod import FailedPod, PodFailure
from engine.program.policy_time import DecisionTime
from grammar.values.time import SECOND, Timestamp
from tests.support.builders import Object, node, pod, raw
from tests.support.engines import CODEC, Known, Silent, cache_of, peer_of, registry_of

MINUTE = 60 * SECOND
RETRY = """cluster policy p {
  filter "elsewhere" { require !pod.failures.exists(f, f.node == node.name) }
}"""


def failed(number: int, node: str = "a", *, of: str = "uid-job", at: int = 0) -> FailedPod:
    time = Timestamp((at or number) * MINUTE)
    return FailedPod(f"uid-{number}", of, PodFailure(f"p-{number}", node, time, ""))


def known(failures: Failures, controller: str = "uid-job") -> list[str]:
    return [each.failure.pod for each in failures.by_controller().get(controller, ())]


def test_the_latest_failures_of_a_controller_are_known() -> None:
    failures = Failures()
    for number in (3, 1, 2):
        assert failures.put(failed(number))
    assert not failures.put(failed(2))
    failures.put(failed(9, of="uid-other"))
    assert known(failures) == ["p-3", "p-2", "p-1"]
    for number in range(4, MOST + 3):
        assert failures.put(failed(number))
    assert known(failures) == [f"p-{number}" for number in range(MOST + 2, 2, -1)]
    assert not failures.put(failed(1))
    assert failures.holds(failed(1))
    assert not failures.holds(failed(99))
    assert known(failures, "uid-other") == ["p-9"]


def test_a_failure_that_is_seen_again_is_one() -> None:
    """Its time may be another one once its containers are known."""
    failures = Failures()
    failures.put(failed(1))
    failures.put(failed(2))
    assert failures.put(failed(1, at=5))
    assert known(failures) == ["p-1", "p-2"]


def test_pods_without_a_controller_or_a_node_are_nobodys_failures() -> None:
    failures = Failures()
    assert not failures.put(failed(1, of=""))
    assert not failures.put(failed(1, node=""))
    assert failures.by_controller() == {}


def test_the_failures_of_many_controllers_have_a_bound() -> None:
    failures = Failures()
    for number in range(40_000):
        failures.put(failed(number + 1, of=f"uid-{number}"))
    kept = failures.by_controller()
    assert 10_000 < len(kept) < 40_000
    assert "uid-39999" in kept


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
    world.cache.put_failure(failed(1, "a", at=100))
    assert (world.open(), world.open("other")) == ("b", "ab")
    world.cache.put_failure(failed(2, "b", at=130))
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
    found = failed(1, "a", at=95)
    world.cache.put_failure(
        FailedPod(
            found.uid, found.controller, PodFailure("p-1", "a", found.failure.time, "Evicted")
        )
    )
    assert world.open() == nodes


def test_a_rejected_retry_would_pass_when_the_hour_is_over() -> None:
    """The requeuer asks this once a second."""
    world = Retries()
    for number, name in enumerate("ab"):
        world.cache.put_failure(failed(number, name, at=100))
    asked = world.engine.looks.read(raw(of_job(pod("waits", "shop"), "job")))
    assert not world.engine.looks.would_pass(asked)
    world.minute = 160
    assert world.engine.looks.would_pass(asked)


def test_the_last_failure_is_the_first_item() -> None:
    world = Retries(RETRY.replace("pod.failures.exists(f, f.node == node.name)", "(size(pod.failures) > 0 && pod.failures[0].node == node.name)"))  # fmt: skip  # noqa: E501
    world.cache.put_failure(failed(1, "a", at=98))
    world.cache.put_failure(failed(2, "b", at=99))
    assert world.open() == "a"


def test_the_newest_time_of_a_cluster_may_be_that_of_a_failure() -> None:
    world = Retries()
    before = world.cache.snapshot().newest()
    assert before is not None
    late = FailedPod("uid", "uid-job", PodFailure("p", "a", Timestamp(before.nanos + SECOND), ""))
    world.cache.put_failure(late)
    assert world.cache.snapshot().newest() == Timestamp(before.nanos + SECOND)
