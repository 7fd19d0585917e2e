"""Requeuer: has kube-scheduler ask again about rejected pods that could run now.

It sets a condition of our own on the pod. That is an update of the pod, so kube-scheduler puts the
pod back in its queue; it needs no right to change pods themselves (policy API).

INVARIANT: only pods of our schedulers that we refused last and that would pass now are requeued,
and each at most four times a minute. A node lets a pod pass if the policies and kube-scheduler's
own plugins do.

Where Placet does not bind, only the API server knows how pods on their way end. SchedulerLease
follows the Lease of kube-scheduler: a process that loses the Lease ends, with all pods in hand; the
next one asks about all pending pods again. PodEnds looks at pods whose time is over: they may have
been bound in their time, and a late watch not show it yet. It also looks at those that no watch has
shown: they may be gone. Both live as long as the engine.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Protocol

import msgspec

from engine.cache.node_table import Snapshot
from engine.cache.reflector import Report
from engine.cluster.client import COORDINATION, CORE, Api, TokenBucket, path_of, read_if_there
from engine.cluster.lease import LeaseSpec
from engine.counting.in_flight_pods import InFlightPod, InFlightPods, Schedulers
from engine.decision.recent_answers import RejectedPod, RejectedPods
from engine.errors import (
    ApiError,
    ApiUnreachableError,
    BadObjectError,
    DeadlineExceededError,
    EngineError,
    NotSentError,
    why,
)
from engine.objects.peer import REQUEUE_CONDITION, Peer, PeerDecoder
from engine.objects.remembered import Remembered
from engine.objects.request_pod import RequestPod
from engine.program.policy_time import MOST_PORTIONS

_PER_SECOND, _BURST = 20.0, 20
# The woken pods that are requeued at the same time.
_AT_ONCE = 8
# The number of pods without a request so far that one round looks at.
_MOST_LOOKS = 20
# The pause before the next look at a pod that no decision is possible about.
_AGAIN_SECONDS = 10.0
# The bytes of each thing that is known of pods; a pod takes some 1,000.
_MOST_KNOWN = 32 << 20
_MOST_PER_MINUTE = 4
_MINUTE_SECONDS = 60.0
# kube-scheduler retries after errors by itself, in ten seconds at most, and nothing hurries it.
_REJECTED = "Unschedulable"


class PodJudge(Protocol):
    """Judge of pods: the engine, as the requeuer uses it. Methods raise EngineError.

    But `waits_unchanged` raises nothing: it is asked about every pod in each round. The last two
    take a portion of time at most, and raise DeadlineExceededError at its end.
    """

    def read(self, pod: bytes) -> RequestPod: ...

    def waits_unchanged(self, pod: RequestPod) -> bool: ...

    def has_refused(self, pod: RequestPod, reasons: str) -> bool: ...

    def would_pass(self, pod: RequestPod) -> bool: ...


class Requeuer:
    """Requeues rejected pods, within limits. On one event loop."""

    def __init__(
        self,
        api: Api,
        judge: PodJudge,
        rejected_pods: RejectedPods,
        gave_up: Callable[[str, str], None],
        schedulers: Schedulers,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`gave_up` is told what took too long, and about which pod.

        A pod that this replica was not asked about is requeued if it is of one of the `schedulers`.
        """
        self._api = api
        self._gave_up = gave_up
        self._judge = judge
        self._rejected_pods = rejected_pods
        self._schedulers = schedulers
        self._clock = clock
        self._bucket = TokenBucket(_PER_SECOND, _BURST, clock)
        self._generation = 0
        # The times of the last requeues of a pod, by uid. A pod that is offered a node and then
        # rejected again begins with the shortest pause anew.
        self._requeued: Remembered[str, deque[float]] = Remembered(_MOST_KNOWN)
        # The condition of a pod, by uid, as it was set or seen last.
        self._conditions: Remembered[str, str] = Remembered(_MOST_KNOWN)
        # Of pods that were looked at without a request, by uid: the hash of their reasons, and the
        # time of the next look if these stay the same.
        self._looked_at: Remembered[str, tuple[int, float]] = Remembered(_MOST_KNOWN)

    async def requeue(self, pending: Mapping[str, Peer], now: str) -> int:
        """Requeue the rejected pods that would pass. Returns their number.

        `pending` are the pods without a node, by key; `now` is an RFC 3339 time. Raises
        ApiUnreachableError, and ApiError if Placet may not do this or the server has failed.
        """
        requeued = 0
        due = self._rejected_pods.due()
        waiting = [(r, p) for r in due if (p := self._waiting(r.pod, pending))]
        # High priority first; among equal priorities the longest wait first.
        waiting.sort(key=lambda pair: (-pair[1].priority, pair[0].at))
        for rejected_pod, _ in waiting:
            if self._judge.waits_unchanged(rejected_pod.pod):
                # Often since the look at another pod that it waits for.
                continue
            if not self._bucket.try_take():
                break
            if not await self._would_pass(rejected_pod):
                self._bucket.give_back()
                continue
            requeued += await self._requeue(rejected_pod, now)
        return requeued

    async def _requeue(self, rejected_pod: RejectedPod, now: str) -> bool:
        """Requeue one pod. Returns False if it is gone. Raises as `requeue`."""
        times = self._count(rejected_pod.pod.uid)
        # First, because kube-scheduler may ask before the API server has answered.
        self._rejected_pods.requeued(rejected_pod)
        try:
            is_there = await self._patch(rejected_pod.pod, now)
        except (ApiError, NotSentError):
            # Nothing was written.
            times.pop()
            self._rejected_pods.not_requeued(rejected_pod)
            raise
        if not is_there:
            self._rejected_pods.not_requeued(rejected_pod)
            self._rejected_pods.postpone(rejected_pod)
        return is_there

    async def wake(self, uids: Iterable[str], snapshot: Snapshot, now: str) -> None:
        """Requeue rejected pods at once, because they would pass now. Raises as `requeue`."""
        found = filter(None, map(self._rejected_pods.find, uids))
        pending = snapshot.pending
        waiting = [each for each in found if self._waiting(each.pod, pending, written=False)]
        for first in range(0, len(waiting), _AT_ONCE):
            part = waiting[first : first + _AT_ONCE]
            await asyncio.gather(*(self._requeue(each, now) for each in part))

    async def _would_pass(self, rejected_pod: RejectedPod) -> bool:
        """Whether the pod would pass, as far as a few portions of time show."""
        pod = rejected_pod.pod.undecoded()
        try:
            passes = await self._told(lambda: self._judge.would_pass(pod))
        except EngineError:
            return False
        if passes is None:
            # A call of filter finds out; the pauses between these grow.
            self._gave_up("requeueing", pod.key)
            return True
        return passes

    async def _told(self, look: Callable[[], bool]) -> bool | None:
        """What a look says within a few portions of time; None if it takes more.

        Raises EngineError.
        """
        for _ in range(MOST_PORTIONS):
            # Between two portions, kube-scheduler's calls are answered.
            await asyncio.sleep(0)
            with suppress(DeadlineExceededError):
                return look()
        return None

    async def notice(self, pending: Mapping[str, Peer]) -> None:
        """Add pods that another replica, or this one before a restart, has refused.

        Their condition has a reason that our policies give now. So every replica looks at once,
        whether it leads or not: policies may change before it does. Raises as `requeue`.
        """
        looked = 0
        for key, peer in pending.items():
            if peer.requeued and peer.requeued != self._conditions.get(peer.uid):
                # Another replica has requeued it. Requeues of all of them count.
                self._conditions.put(peer.uid, peer.requeued)
                self._count(peer.uid)
            if looked == _MOST_LOOKS:
                continue
            if peer.uid in self._rejected_pods or not _is_waiting(peer):
                continue
            reasons = peer.unscheduled.message if peer.unscheduled is not None else None
            if not reasons or not self._schedulers.have(peer):
                continue
            known, again = self._looked_at.get(peer.uid) or (0, 0.0)
            if known == hash(reasons) and self._clock() < again:
                continue
            looked += 1
            namespace, _, name = key.partition("/")
            path = path_of(CORE, "pods", namespace, name)
            try:
                pod = self._judge.read(await self._api.request("GET", path))
            except (ApiError, BadObjectError) as error:
                if isinstance(error, ApiError) and (error.is_denied or error.is_transient):
                    raise
                pod = None
            refused = pod is not None and await self._has_refused(pod, reasons)
            again = self._clock() + _AGAIN_SECONDS if refused is None else math.inf
            self._looked_at.put(peer.uid, (hash(reasons), again))
            if pod is not None and refused:
                self._rejected_pods.noticed(pod)

    async def _has_refused(self, pod: RequestPod, reasons: str) -> bool | None:
        """Whether one of the reasons is ours; None if that cannot be told now."""
        try:
            return await self._told(lambda: self._judge.has_refused(pod, reasons))
        except EngineError:
            return None

    def _count(self, uid: str) -> deque[float]:
        """Add a requeue of a pod to the times of the last ones, and return these."""
        times = self._requeued.get(uid)
        if times is None:
            times = self._requeued.put(uid, deque(maxlen=_MOST_PER_MINUTE))
        times.append(self._clock())
        return times

    def _waiting(
        self, pod: RequestPod, pending: Mapping[str, Peer], *, written: bool = True
    ) -> Peer | None:
        """The rejected pod as a peer, if it waits in vain and may be requeued now.

        `written` says that kube-scheduler must have written that it waits.
        """
        peer = pending.get(pod.key)
        if peer is None or peer.uid != pod.uid or (written and not _is_waiting(peer)):
            return None
        times = self._requeued.get(pod.uid)
        if times is None or len(times) < _MOST_PER_MINUTE:
            return peer
        return peer if self._clock() - times[0] >= _MINUTE_SECONDS else None

    async def _patch(self, pod: RequestPod, now: str) -> bool:
        """Set the condition. Returns False if the pod is gone or was replaced."""
        self._generation += 1
        reason = self._conditions.put(pod.uid, f"Generation{self._generation}")
        condition: dict[str, Any] = {
            "type": REQUEUE_CONDITION,
            "status": "True",
            "reason": reason,
            "lastTransitionTime": now,
        }
        patch = {"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}}
        try:
            await self._api.request(
                "PATCH",
                path_of(CORE, "pods", pod.namespace, pod.name, "status"),
                body=msgspec.json.encode(patch),
                content_type="application/strategic-merge-patch+json",
            )
        except ApiError as error:
            if error.is_denied or error.is_transient:
                raise
            return False
        return True


def _is_waiting(peer: Peer) -> bool:
    """Whether the pod is in kube-scheduler's queue of unschedulable pods; gated pods are not."""
    condition = peer.unscheduled
    rejected = condition is not None and condition.reason == _REJECTED
    return rejected and peer.deletionTimestamp is None


_REQUEST_SECONDS = 5.0
# With more pods whose time is over, all pods are listed instead. Of unseen ones, so many are looked
# at in one turn, and no turn comes earlier than so many seconds after the last one.
_MOST_REQUESTS, _UNSEEN_SECONDS = 100, 10.0
_LEASE_WORK = "read the Lease of kube-scheduler"
_POD_WORK = "see whether pods on their way are bound"
_UNSEEN_WORK = "see whether pods on their way are still there"


class _SchedulerLeaseObject(msgspec.Struct):
    spec: LeaseSpec = msgspec.field(default_factory=LeaseSpec)


@dataclass(slots=True)
class SchedulerLease:
    """The Lease of kube-scheduler, which the owner has looked at again and again.

    `lease` is its namespace and name. `replaced` is called when another process has acquired it,
    with the time, in seconds of the clock, of the last look that found the process before. A
    cluster without this Lease never has news.
    """

    api: Api
    lease: tuple[str, str]
    replaced: Callable[[float], object]
    report: Report
    clock: Callable[[], float] = time.monotonic
    # The last acquisition, and when the last look began that found it.
    _acquired: tuple[object, ...] | None = None
    _looked_at: float = float("-inf")

    async def look(self) -> None:
        """Read the Lease once."""
        began = self.clock()
        path = path_of(COORDINATION, "leases", *self.lease)
        try:
            body = await read_if_there(self.api, path, _REQUEST_SECONDS) or b"{}"
            spec = msgspec.json.decode(body, type=_SchedulerLeaseObject).spec
        except (ApiError, ApiUnreachableError, msgspec.MsgspecError) as error:
            self.report(_LEASE_WORK, why(_LEASE_WORK, error))
            return
        self.report(_LEASE_WORK, "")
        if not spec.holderIdentity:
            # Without a Lease, kube-scheduler has no leader election, or one of another name. If it
            # was released, the process has ended or is ending, and the next one is awaited.
            return
        acquired = (spec.holderIdentity, spec.acquireTime, spec.leaseTransitions)
        if self._acquired not in (None, acquired):
            self.replaced(self._looked_at)
        self._acquired, self._looked_at = acquired, began


@dataclass(slots=True)
class PodEnds:
    """The ends of in-flight pods that the API server is asked about. On one event loop.

    A pod whose time is over is ended if the API server has it without a node, or not at all; a
    bound one counts until a watch shows it. `list_anew` returns when the cache has a list that was
    requested after its call; it is used for many pods at once. A pod that no watch has shown, as
    far as `is_seen` knows, is ended if it is gone: a watch that missed it and its deletion never
    tells of either.
    """

    api: Api
    in_flight: InFlightPods
    list_anew: Callable[[], Awaitable[None]]
    is_seen: Callable[[Peer], bool]
    report: Report
    clock: Callable[[], float] = time.monotonic
    _decoder: PeerDecoder = field(default_factory=PeerDecoder)
    _looked_at: float = field(init=False)

    def __post_init__(self) -> None:
        self._looked_at = self.clock()

    async def look(self) -> None:
        """Look at each overdue pod once, and at the unseen ones if that is due."""
        overdue, now = self.in_flight.overdue(), self.clock()
        if len(overdue) > _MOST_REQUESTS:
            await self.list_anew()
            # Pods that are bound are not in flight any more.
            for known in overdue:
                self.in_flight.end(known)
        else:
            asked = ((known, known.pod) for known in overdue)
            await self._ask(_POD_WORK, asked, lambda pod: not pod.nodeName)
        if now - self._looked_at < _UNSEEN_SECONDS:
            return
        self._looked_at = now
        offered = self.in_flight.offered_before(now - _UNSEEN_SECONDS)
        unseen = ((each, pod) for each in offered if (pod := each.pod) and not self.is_seen(pod))
        await self._ask(_UNSEEN_WORK, islice(unseen, _MOST_REQUESTS), lambda _: False)

    async def _ask(
        self,
        work: str,
        pods: Iterable[tuple[InFlightPod, Peer | None]],
        ends: Callable[[Peer], bool],
    ) -> None:
        """Ends pods that are gone, or that end as they are, until there is no answer."""
        for known, pod in pods:
            try:
                now = pod and await self._now(pod)
            except (ApiError, ApiUnreachableError, BadObjectError) as error:
                self.report(work, why(work, error))
                return
            if now is None or ends(now):
                self.in_flight.end(known)
            self.report(work, "")

    async def _now(self, pod: Peer) -> Peer | None:
        """The pod as the API server has it now; None if it is gone.

        Raises ApiError, ApiUnreachableError and BadObjectError.
        """
        path = path_of(CORE, "pods", pod.namespace, pod.name)
        if (body := await read_if_there(self.api, path, _REQUEST_SECONDS)) is None:
            return None
        now = self._decoder.decode(body)
        return now if now.uid == pod.uid else None
