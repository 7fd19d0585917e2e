"""The requeuer: which pods it requeues, when, and how often."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from engine.cluster.requeue import Requeuer
from engine.counting.in_flight_pods import Schedulers
from engine.decision.recent_answers import RejectedPods, RejectedStatus
from engine.errors import (
    ApiError,
    DeadlineExceededError,
    EngineError,
    NotSentError,
    WaitingError,
)
from engine.objects.api_types import ObjectCondition
from engine.objects.peer import REQUEUE_CONDITION, Peer
from engine.objects.request_pod import ObjectCodec, RequestPod, RequestPodReader
from engine.program.policy_time import MOST_PORTIONS
from grammar.meaning.schema import load_schema
from grammar.values.time import Timestamp
from tests.support import builders
from tests.support.engines import snapshot_of

CODEC = ObjectCodec(load_schema())
NOW = "2026-01-01T00:00:00.000000Z"
OURS = "0/1 nodes are available: 1 policy web: zone."
UNSCHEDULABLE = ObjectCondition("PodScheduled", "False", "Unschedulable", message=OURS)


@dataclass
class Scene:
    """Pods without a node, an API server, and a judge who lets some of them pass."""

    passing: set[str] = field(default_factory=set)
    pending: dict[str, Peer] = field(default_factory=dict)
    time: float = 100.0
    sent: list[tuple[str, str]] = field(default_factory=list)
    error: EngineError | None = None
    # Pods that the API server does not have any more.
    absent: set[str] = field(default_factory=set)
    raises: bool = False
    # Pods that wait for the same as before.
    unchanged: set[str] = field(default_factory=set)
    # The portions that a look at one pod takes.
    portions: int = 1
    looks: int = 0
    given_up: list[tuple[str, str]] = field(default_factory=list)
    # What is in force, and the text that it gives as the reason.
    policies: object = "first"
    text: str = "policy web: zone"

    def __post_init__(self) -> None:
        self.rejected_pods = RejectedPods(lambda: self.time, 1.0, 60.0)
        schedulers = Schedulers(frozenset({"ours", "other"}))
        self.requeuer = Requeuer(
            self, self, self.rejected_pods, self._gave_up, schedulers, lambda: self.time
        )

    def _gave_up(self, work: str, about: str) -> None:
        self.given_up.append((work, about))

    def add(self, name: str, *, refused: bool = True, **fields: Any) -> None:
        made = builders.pod(name, "shop")
        made["metadata"]["uid"] = name
        peer = CODEC.peer(builders.raw(made))
        fields = {"unscheduled": UNSCHEDULABLE, "schedulerName": "ours", **fields}
        self.pending[f"shop/{name}"] = replace(peer, **fields)
        if refused:
            self.rejected_pods.answered(self.read(builders.raw(made)), offered=False)

    def offer(self, name: str) -> None:
        """Answers with a node."""
        pod = self.read(builders.raw({"metadata": {"uid": name}}))
        self.rejected_pods.answered(pod, offered=True)

    async def look(self) -> list[str]:
        """The pods that are nudged."""
        before = len(self.sent)
        await self.requeuer.notice(self.pending, self.policies)
        await self.requeuer.requeue(self.pending, NOW)
        return [path.split("/")[6] for method, path in self.sent[before:] if method == "PATCH"]

    async def times(self, seconds: float, then: Callable[[], None] = lambda: None) -> list[float]:
        """The times at which a pod is requeued within these seconds; `then` follows each."""
        found = []
        for _ in range(round(seconds / 0.1)):
            self.time += 0.1
            if await self.look():
                found.append(self.time)
                then()
        return found

    # ---- the API server

    async def request(
        self, method: str, path: str, *, body: bytes | None = None, content_type: str = "", **_: Any
    ) -> bytes:
        self.sent.append((method, path))
        if self.error is not None:
            raise self.error
        name = path.split("/")[6]
        if name in self.absent:
            raise ApiError(404, "NotFound", "no such pod")
        if method == "GET":
            made = builders.pod(name, "shop")
            made["metadata"]["uid"] = name
            return builders.raw(made)
        assert content_type == "application/strategic-merge-patch+json"
        patch = json.loads(body or b"")
        assert patch["metadata"] == {"uid": name}
        assert patch["status"]["conditions"][0]["type"] == REQUEUE_CONDITION
        return b"{}"

    # ---- the judge

    def read(self, pod: bytes) -> RequestPod:
        return RequestPodReader(CODEC).read(pod)

    def waits_unchanged(self, pod: RequestPod) -> bool:
        return pod.name in self.unchanged

    def has_refused(self, asked: RequestPod, reasons: str) -> bool:
        if self.raises:
            raise WaitingError("not synced")
        self._portion()
        return asked.name != "free" and self.text in reasons

    def would_pass(self, pod: RequestPod) -> bool:
        if self.raises:
            raise WaitingError("not synced")
        self._portion()
        return pod.name in self.passing

    def _portion(self) -> None:
        self.looks += 1
        if self.looks % self.portions:
            raise DeadlineExceededError("the portion is over")


async def test_only_pods_that_would_pass_are_requeued() -> None:
    scene = Scene(passing={"a"})
    scene.add("a")
    scene.add("b")
    assert await scene.look() == [], "kube-scheduler may be asking by itself"
    scene.time += 1.0
    assert await scene.look() == ["a"]


async def test_pods_that_wait_unchanged_are_not_looked_at() -> None:
    scene = Scene(passing={"a", "b"}, unchanged={"a"})
    scene.add("a")
    scene.add("b")
    scene.time += 1.0
    assert await scene.look() == ["b"]
    assert scene.looks == 1
    scene.unchanged.clear()
    assert await scene.look() == ["a"]


async def test_each_pause_is_twice_as_long() -> None:
    scene = Scene(passing={"a"})
    scene.add("a")
    pauses = [round(b - a) for a, b in pairwise(await scene.times(230.0))]
    assert pauses == [2, 4, 8, 16, 32, 60, 60]


async def test_requeues_of_which_a_frozen_scheduler_hears_late_count_as_one() -> None:
    """Members of gangs are woken several times until it asks, and again after that."""
    scene = Scene(passing={"a"})
    scene.add("a")
    snapshot = dataclasses.replace(snapshot_of([]), pending=scene.pending)

    async def wakes(times: int, *, asks: bool) -> int:
        before = len(scene.sent)
        for _ in range(times):
            scene.time += 1.0
            await scene.requeuer.wake(["a"], snapshot, NOW)
            if asks:
                scene.add("a")
        return len(scene.sent) - before

    assert await wakes(6, asks=False) == 6
    scene.add("a")
    assert await wakes(6, asks=True) == 3, "four within a minute"


async def test_a_pod_is_woken_once_a_second_at_most_until_kube_scheduler_asks() -> None:
    scene = Scene(passing={"a"})
    scene.add("a")
    snapshot = dataclasses.replace(snapshot_of([]), pending=scene.pending)
    for _ in range(50):
        scene.time += 0.1
        await scene.requeuer.wake(["a"], snapshot, NOW)
    assert len(scene.sent) == 5


async def test_a_pod_is_requeued_four_times_a_minute_at_most() -> None:
    """Even if filter offers it a node each time, and rejects it again because that was taken."""
    scene = Scene(passing={"a"})
    scene.add("a")

    def alternate() -> None:
        scene.offer("a")
        scene.add("a")

    times = await scene.times(600.0, alternate)
    assert len(times) == 40
    assert all(later - earlier >= 60.0 for earlier, later in zip(times, times[4:], strict=False))


async def test_an_answer_in_between_does_not_shorten_the_pause() -> None:
    scene = Scene(passing={"a"})
    scene.add("a")
    scene.time += 1.0
    await scene.look()
    scene.add("a")
    scene.time += 1.5
    assert await scene.look() == []
    scene.time += 0.5
    assert await scene.look() == ["a"]


async def test_requeues_and_the_answers_about_them_are_counted() -> None:
    scene = Scene(passing={"a", "b", "gone"})
    for name in ("a", "b", "gone", "other"):
        scene.add(name)
    scene.absent = {"gone"}
    scene.time += 1.0
    assert sorted(await scene.look()) == ["a", "b", "gone"]
    scene.offer("a")
    scene.add("b")
    scene.add("other")
    assert scene.rejected_pods.status() == RejectedStatus(
        waiting=3, waitingByPolicy={"": 3}, requeues=2, offered=1, refusedAgain=1
    )
    scene.add("b")
    assert scene.rejected_pods.refused_again == 1, "one answer follows one requeue"


async def test_high_priority_comes_first_and_then_the_longest_wait() -> None:
    scene = Scene(passing={"old", "new", "high"})
    scene.add("old")
    scene.time += 1.0
    scene.add("new")
    scene.add("high", priority=100)
    scene.time += 1.0
    assert await scene.look() == ["high", "old", "new"]


async def test_at_most_twenty_per_second() -> None:
    names = [f"p{number}" for number in range(50)]
    scene = Scene(passing=set(names))
    for name in names:
        scene.add(name)
    scene.time += 1.0
    assert len(await scene.look()) == 20
    assert await scene.look() == []
    scene.time += 1.0
    assert len(await scene.look()) == 20


@pytest.mark.parametrize(
    "fields",
    [
        {"unscheduled": None},
        {"unscheduled": ObjectCondition("PodScheduled", "False", "SchedulingGated")},
        {"unscheduled": ObjectCondition("PodScheduled", "False", "SchedulerError", message=OURS)},
        {"deletionTimestamp": Timestamp.parse(NOW)},
        {"uid": "another"},
    ],
    ids=["not-given-up", "gated", "after-an-error", "terminating", "another-of-its-name"],
)
async def test_pods_that_are_not_requeued(fields: dict[str, Any]) -> None:
    scene = Scene(passing={"a"})
    scene.add("a", **fields)
    scene.time += 1.0
    assert await scene.look() == []


async def test_a_pod_with_a_feasible_node_is_forgotten() -> None:
    scene = Scene(passing={"a"})
    scene.add("a")
    peer = scene.pending["shop/a"]
    scene.rejected_pods.pod_changed(peer, replace(peer, nodeName="n1"), 1)
    assert "a" not in scene.rejected_pods
    scene.add("a")
    scene.offer("a")
    assert "a" not in scene.rejected_pods


async def test_an_answer_before_that_of_the_api_server_follows_the_requeue() -> None:
    """kube-scheduler may be faster than the answer to our patch."""
    scene = Scene(passing={"a"})
    scene.add("a")
    request = scene.request

    async def slow(method: str, path: str, **more: Any) -> bytes:
        answer = await request(method, path, **more)
        assert scene.rejected_pods.is_requeued("a")
        scene.add("a")
        return answer

    scene.request = slow  # type: ignore[method-assign]
    assert list(map(round, await scene.times(10.0))) == [101, 103, 107]
    assert scene.rejected_pods.refused_again == 3


@pytest.mark.parametrize(("seconds", "wanted"), [(9.0, ["a"]), (11.0, [])])
async def test_a_pod_that_kube_scheduler_rejects_itself_is_forgotten(
    seconds: float, wanted: list[str]
) -> None:
    """It has not asked us; a condition of the time of our answer may be that of our answer."""
    scene = Scene(passing={"a"})
    scene.add("a")
    scene.time += seconds
    old = scene.pending["shop/a"]
    full = replace(UNSCHEDULABLE, message="0/1 nodes are available: 1 Insufficient cpu.")
    scene.pending["shop/a"] = replace(old, unscheduled=full)
    scene.rejected_pods.pod_changed(old, scene.pending["shop/a"], 7)
    assert await scene.look() == wanted


async def test_pods_that_another_replica_rejected_are_noticed() -> None:
    scene = Scene(passing={"a", "free"})
    scene.add("a", refused=False)
    scene.add("free", refused=False)
    await scene.look()
    scene.time += 1.0
    assert await scene.look() == ["a"]
    gets = [path for method, path in scene.sent if method == "GET"]
    assert len(gets) == 2, "each is fetched once"


@pytest.mark.parametrize(
    "fields",
    [
        {"schedulerName": "foreign"},
        {"schedulerName": ""},
        {"unscheduled": ObjectCondition("PodScheduled", "False", "Unschedulable")},
        {"unscheduled": replace(UNSCHEDULABLE, message="0/1 nodes: 1 Insufficient cpu.")},
    ],
    ids=["of-another-scheduler", "of-the-default-scheduler", "no-reason", "not-our-reason"],
)
async def test_pods_that_nobody_asked_about_are_left_alone(fields: dict[str, Any]) -> None:
    scene = Scene(passing={"a"})
    scene.add("a", refused=False, **fields)
    assert await scene.times(300.0) == []


async def test_requeues_of_other_replicas_count() -> None:
    scene = Scene(passing={"a"})
    for number in range(3):
        scene.add("a", requeued=f"Generation{number}")
        scene.time += 0.1
        await scene.look()
    assert len(await scene.times(50.0, lambda: scene.add("a"))) == 1


async def test_requeues_of_this_replica_count_once() -> None:
    """Also if two of them come to the API server in another order, or a watch shows one late."""
    scene = Scene(passing={"a"})
    scene.add("a")
    assert len(await scene.times(4.0, lambda: scene.add("a"))) == 2
    for number in (2, 1):
        scene.pending["shop/a"] = replace(scene.pending["shop/a"], requeued=f"Generation{number}")
        await scene.look()
    assert len(await scene.times(50.0, lambda: scene.add("a"))) == 2, "four within a minute"


@pytest.mark.fake_clock
@pytest.mark.parametrize("answers", [False, True], ids=["woken", "answered"])
async def test_a_pod_that_is_woken_or_asked_about_in_a_round_is_left_alone(
    *, answers: bool
) -> None:
    """As the other members of a gang are that begins to gather with a look at the first one."""
    names = [f"p{number}" for number in range(12)]
    scene = Scene(passing=set(names))
    for name in names:
        scene.add(name)
    woken: list[asyncio.Task[None]] = []

    def would_pass(pod: RequestPod) -> bool:
        if not woken:
            snapshot = dataclasses.replace(snapshot_of([]), pending=scene.pending)
            woken.append(asyncio.create_task(scene.requeuer.wake(names[1:], snapshot, NOW)))
        return Scene.would_pass(scene, pod)

    async def request(method: str, path: str, **more: Any) -> bytes:
        if answers and len(scene.sent) < len(names) // 2:
            scene.offer(names[-1])
        await asyncio.sleep(0.01)
        return await Scene.request(scene, method, path, **more)

    scene.would_pass, scene.request = would_pass, request  # type: ignore[method-assign]
    scene.time += 1.0
    await scene.look()
    await woken[0]
    sent = [path.split("/")[6] for _, path in scene.sent]
    assert sorted(sent) == sorted(names[:-1] if answers else names)
    assert scene.looks < 4, "few are looked at"


async def test_a_pod_on_its_way_to_a_node_is_not_taken_for_a_refused_one() -> None:
    """It keeps the condition of its rejection; later, that may be of another replica."""
    scene = Scene(passing={"a"})
    scene.add("a")
    await scene.look()
    scene.offer("a")
    assert await scene.times(9.0) == []
    assert len(await scene.times(4.0)) == 1
    scene.offer("a")
    await scene.look()
    other = replace(UNSCHEDULABLE, message="0/2 nodes are available: 1 policy web: zone, 1 other.")
    scene.pending["shop/a"] = replace(scene.pending["shop/a"], unscheduled=other)
    assert len(await scene.times(3.0)) == 1, "it was rejected since"


async def test_a_pod_whose_reasons_take_too_long_to_tell_is_looked_at_again() -> None:
    scene = Scene(passing={"a"}, portions=MOST_PORTIONS + 1)
    scene.add("a", refused=False)
    assert await scene.look() == []
    scene.portions = 1
    assert len(await scene.times(12.0)) == 1


async def test_a_pod_that_cannot_be_decided_about_now_is_not_taken_for_a_refused_one() -> None:
    scene = Scene(passing={"free"}, raises=True)
    scene.add("free", refused=False)
    assert await scene.times(12.0) == []
    scene.raises = False
    assert await scene.times(60.0) == []


async def test_a_pod_that_another_replica_refuses_later_is_noticed_then() -> None:
    scene = Scene(passing={"a"})
    scene.add("a", refused=False, unscheduled=replace(UNSCHEDULABLE, message="1 no room."))
    assert await scene.times(10.0) == []
    scene.add("a", refused=False)
    assert len(await scene.times(2.0)) == 1


async def test_a_pod_that_a_replica_with_newer_policies_refused_is_noticed_after_the_edit() -> None:
    scene = Scene(passing={"a"}, text="policy web: rack")
    scene.add("a", refused=False)
    assert await scene.times(10.0) == [], "no policy here gives the reason yet"
    scene.policies, scene.text = "second", "policy web: zone"
    assert len(await scene.times(2.0)) == 1


async def test_failures_do_not_end_a_round() -> None:
    scene = Scene(passing={"a"}, raises=True)
    scene.add("a")
    scene.time += 1.0
    assert await scene.look() == []
    scene.raises, scene.error = False, ApiError(404, "NotFound", "")
    assert await scene.look() == ["a"]


@pytest.mark.parametrize("error", [ApiError(500, "", ""), NotSentError("refused")])
async def test_a_failed_server_is_asked_again_at_once(error: EngineError) -> None:
    scene = Scene(passing={"a"}, error=error)
    scene.add("a")
    for _ in range(6):
        scene.time += 1.0
        with pytest.raises(type(error)):
            await scene.look()
    scene.error = None
    assert await scene.look() == ["a"]


async def test_a_pod_that_a_failed_server_did_not_show_is_noticed_later() -> None:
    scene = Scene(passing={"a"}, error=ApiError(500, "", ""))
    scene.add("a", refused=False)
    with pytest.raises(ApiError):
        await scene.look()
    scene.error = None
    assert len(await scene.times(2.0)) == 1


async def test_a_missing_right_is_an_error() -> None:
    """And not a pod that is gone."""
    text = 'pods "a" is forbidden: User "p" cannot patch resource "pods/status" in API group ""'
    scene = Scene(passing={"a"}, error=ApiError(403, "Forbidden", text))
    scene.add("a")
    scene.time += 1.0
    with pytest.raises(ApiError):
        await scene.look()


# ---- portions of time


async def test_a_look_continues_in_portions() -> None:
    scene = Scene(passing={"a"}, portions=MOST_PORTIONS)
    scene.add("a")
    scene.time += 1.0
    assert await scene.look() == ["a"]
    assert scene.given_up == []


async def test_a_pod_whose_look_takes_too_many_portions_is_requeued_and_reported() -> None:
    """A call of filter finds out; a pod that could run must not wait for ever."""
    scene = Scene(portions=MOST_PORTIONS + 1)
    scene.add("a")
    scene.time += 1.0
    assert await scene.look() == ["a"]
    assert scene.given_up == [("requeueing", "shop/a")]
