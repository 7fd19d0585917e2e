"""Requeuer: has kube-scheduler ask again about rejected pods that could run now.

It sets a condition of our own on the pod. That is an update of the pod, so kube-scheduler puts the
pod back in its queue; it needs no right to change pods themselves (policy API).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Protocol

import msgspec
from cachetools import LRUCache

from engine.cluster.client import Api, TokenBucket
from engine.decision.recent_answers import RejectedPods
from engine.engine import MOST_PORTIONS
from engine.errors import ApiError, BadObjectError, DeadlineExceededError, EngineError
from engine.objects.peer import Peer
from engine.objects.request_pod import RequestPod

CONDITION = "placement-policy.scheduling.x-k8s.io/Evaluate"
_PER_SECOND, _BURST = 20.0, 20
# The number of pods without a request so far that one round adds.
_MOST_ADDED = 20
_MOST_KNOWN = 100_000


class PodJudge(Protocol):
    """The engine as the requeuer uses it; see `Engine`. Every method raises EngineError.

    The last two take a portion of time at most, and raise DeadlineExceededError at its end.
    """

    def read(self, pod: bytes) -> RequestPod: ...

    def concerns(self, pod: RequestPod) -> bool: ...

    def would_pass(self, pod: RequestPod) -> bool: ...


class Requeuer:
    """Requeues rejected pods, within limits. On one event loop."""

    def __init__(
        self,
        api: Api,
        judge: PodJudge,
        rejected_pods: RejectedPods,
        gave_up: Callable[[str, str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`gave_up` is told what took too long, and about which pod."""
        self._api = api
        self._gave_up = gave_up
        self._judge = judge
        self._rejected_pods = rejected_pods
        self._bucket = TokenBucket(_PER_SECOND, _BURST, clock)
        self._generation = 0
        # The pods, by uid, that were added without a request.
        self._added: LRUCache[str, None] = LRUCache(_MOST_KNOWN)

    async def requeue(self, pending: Mapping[str, Peer], now: str) -> int:
        """Requeue the rejected pods that would pass. Returns their number.

        `pending` are the pods without a node, by key; `now` is an RFC 3339 time. Raises
        ApiUnreachableError.
        """
        await self._add(pending)
        requeued = 0
        due = self._rejected_pods.due()
        waiting = [(r, p) for r in due if (p := _waiting(r.pod, pending)) is not None]
        # High priority first; among equal priorities the longest wait first.
        waiting.sort(key=lambda pair: (-pair[1].priority, pair[0].at))
        for rejected_pod, _ in waiting:
            if self._bucket.take():
                self._bucket.give_back()
                break
            if not await self._would_pass(rejected_pod.pod):
                self._bucket.give_back()
                continue
            self._rejected_pods.requeued(rejected_pod)
            requeued += await self._patch(rejected_pod.pod, now)
        return requeued

    async def _would_pass(self, pod: RequestPod) -> bool:
        """Whether the pod would pass, as far as a few portions of time show."""
        for _ in range(MOST_PORTIONS):
            # Between two portions, kube-scheduler's calls are answered.
            await asyncio.sleep(0)
            try:
                return self._judge.would_pass(pod)
            except DeadlineExceededError:
                continue
            except EngineError:
                return False
        # A call of filter finds out; the pauses between these grow.
        self._gave_up("requeueing", f"{pod.namespace}/{pod.name}")
        return True

    async def _add(self, pending: Mapping[str, Peer]) -> None:
        """Add pods that another replica, or this one before a restart, may have rejected."""
        added = 0
        for key, peer in pending.items():
            if added == _MOST_ADDED:
                return
            if peer.uid in self._rejected_pods or not _is_waiting(peer) or peer.uid in self._added:
                continue
            self._added[peer.uid] = None
            added += 1
            namespace, _, name = key.partition("/")
            path = f"/api/v1/namespaces/{namespace}/pods/{name}"
            with suppress(ApiError, BadObjectError):
                pod = self._judge.read(await self._api.request("GET", path))
                if self._concerns(pod):
                    self._rejected_pods.answered(pod, offered=False)

    def _concerns(self, pod: RequestPod) -> bool:
        try:
            return self._judge.concerns(pod)
        except EngineError:
            return True

    async def _patch(self, pod: RequestPod, now: str) -> bool:
        """Set the condition. Returns False if the pod is gone or was replaced."""
        self._generation += 1
        condition: dict[str, Any] = {
            "type": CONDITION,
            "status": "True",
            "reason": f"Generation{self._generation}",
            "lastTransitionTime": now,
        }
        patch = {"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}}
        try:
            await self._api.request(
                "PATCH",
                f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/status",
                body=msgspec.json.encode(patch),
                content_type="application/strategic-merge-patch+json",
            )
        except ApiError:
            return False
        return True


def _waiting(pod: RequestPod, pending: Mapping[str, Peer]) -> Peer | None:
    """The rejected pod as a peer, if it waits in kube-scheduler's queue of unschedulable pods."""
    peer = pending.get(f"{pod.namespace}/{pod.name}")
    return peer if peer is not None and peer.uid == pod.uid and _is_waiting(peer) else None


def _is_waiting(peer: Peer) -> bool:
    """Whether kube-scheduler has tried the pod in vain; it tries no terminating or gated pods."""
    condition = peer.unscheduled
    if condition is None or peer.deletionTimestamp is not None:
        return False
    return condition.reason != "SchedulingGated"
