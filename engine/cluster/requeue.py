"""Wakes kube-scheduler up about pods that it was told could not run anywhere, and now can.

Setting a condition of our own is an update of the pod, upon which kube-scheduler asks again; it
needs no right to change pods (policy API).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Protocol

import msgspec
from cachetools import LRUCache

from engine.cluster.client import TokenBucket
from engine.decision.rejected_pods import RejectedPod, RejectedPods
from engine.errors import ApiError, BadObjectError, EngineError
from engine.objects.peer import Peer
from engine.objects.request_pod import RequestPod

CONDITION = "placement-policy.scheduling.x-k8s.io/Evaluate"
_PER_SECOND, _BURST = 20.0, 20
# How many pods that nobody has asked about since we started are looked at in one round.
_STRANGERS = 20
_MOST_MET = 100_000


class Api(Protocol):
    """What of the API server is needed. Raises ApiError and ApiUnreachableError."""

    async def request(
        self, method: str, path: str, *, body: bytes | None = None, content_type: str = ...
    ) -> bytes: ...


class PodJudge(Protocol):
    """Who says whether a pod could run somewhere now."""

    def read(self, pod: bytes) -> RequestPod:
        """Raises BadObjectError."""
        ...

    def concerns(self, asked: RequestPod) -> bool:
        """Whether any policy could refuse the pod. Raises EngineError."""
        ...

    def would_pass(self, asked: RequestPod) -> bool:
        """Whether some node would be answered; nothing is promised. Raises EngineError."""
        ...


class Requeuer:
    """Looks at refused pods when something has changed. On one event loop."""

    def __init__(
        self,
        api: Api,
        judge: PodJudge,
        rejected_pods: RejectedPods,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._judge = judge
        self._rejected_pods = rejected_pods
        self._bucket = TokenBucket(_PER_SECOND, _BURST, clock)
        self._generation = 0
        # Pods that were looked at, by uid, though nobody has asked us about them.
        self._met: LRUCache[str, None] = LRUCache(_MOST_MET)

    async def look(self, pending: Mapping[str, Peer], now: str) -> int:
        """Nudges the pods that would pass; returns how many. `now` is an RFC 3339 time.

        `pending` are the pods without a node, by key. Raises ApiUnreachableError.
        """
        await self._meet(pending)
        requeued = 0
        waiting = [
            (r, p) for r in self._rejected_pods.due() if (p := _waiting(r, pending)) is not None
        ]
        # High priority first, and of one priority who has waited longest.
        waiting.sort(key=lambda pair: (-pair[1].priority, pair[0].at))
        for rejected_pod, _ in waiting:
            if self._bucket.take():
                self._bucket.give_back()
                break
            if not self._would_pass(rejected_pod.asked):
                self._bucket.give_back()
                continue
            self._rejected_pods.requeued(rejected_pod)
            requeued += await self._requeue(rejected_pod.asked, now)
        return requeued

    def _would_pass(self, asked: RequestPod) -> bool:
        try:
            return self._judge.would_pass(asked)
        except EngineError:
            return False

    async def _meet(self, pending: Mapping[str, Peer]) -> None:
        """Takes up pods that another replica, or we before a restart, may have refused."""
        met = 0
        for key, pod in pending.items():
            if met == _STRANGERS:
                return
            if pod.unscheduled is None or pod.uid in self._rejected_pods or not _is_ours(pod):
                continue
            if pod.uid in self._met:
                continue
            self._met[pod.uid] = None
            met += 1
            namespace, _, name = key.partition("/")
            path = f"/api/v1/namespaces/{namespace}/pods/{name}"
            with suppress(ApiError, BadObjectError):
                asked = self._judge.read(await self._api.request("GET", path))
                if self._concerns(asked):
                    self._rejected_pods.heard(asked, passed=False)

    def _concerns(self, asked: RequestPod) -> bool:
        try:
            return self._judge.concerns(asked)
        except EngineError:
            return True

    async def _requeue(self, asked: RequestPod, now: str) -> bool:
        self._generation += 1
        condition: dict[str, Any] = {
            "type": CONDITION,
            "status": "True",
            "reason": f"Generation{self._generation}",
            "lastTransitionTime": now,
        }
        patch = {"metadata": {"uid": asked.uid}, "status": {"conditions": [condition]}}
        try:
            await self._api.request(
                "PATCH",
                f"/api/v1/namespaces/{asked.namespace}/pods/{asked.name}/status",
                body=msgspec.json.encode(patch),
                content_type="application/strategic-merge-patch+json",
            )
        except ApiError:
            return False  # gone, or another one of its name
        return True


def _waiting(rejected_pod: RejectedPod, pending: Mapping[str, Peer]) -> Peer | None:
    """The pod as it is known now, if kube-scheduler has given up on it for the time being."""
    asked = rejected_pod.asked
    pod = pending.get(f"{asked.namespace}/{asked.name}")
    if pod is None or pod.uid != asked.uid or pod.unscheduled is None or not _is_ours(pod):
        return None
    return pod


def _is_ours(pod: Peer) -> bool:
    """Whether somebody may ask us about it: terminating and gated pods are not for scheduling."""
    condition = pod.unscheduled
    gated = condition is not None and condition.reason == "SchedulingGated"
    return pod.deletionTimestamp is None and not gated
