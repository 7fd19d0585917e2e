"""Requeuer: has kube-scheduler ask again about rejected pods that could run now.

It sets a condition of our own on the pod. That is an update of the pod, so kube-scheduler puts the
pod back in its queue; it needs no right to change pods themselves (policy API).

INVARIANT: only pods of our schedulers that we refused last and that would pass now are requeued,
and each at most four times a minute with an answer. A node lets a pod pass if the policies and
kube-scheduler's own plugins do.

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
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count, islice
from typing import Any, Protocol

import msgspec

from engine.cache.node_table import Snapshot
from engine.cache.reflector import Report
from engine.cluster.client import (
    COORDINATION,
    CORE,
    Api,
    TokenBucket,
    patch,
    path_of,
    read_as,
    read_if_there,
)
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
# The pause before the next look at a pod that no decision is possible about, or that may be on its
# way to a node.
_AGAIN_SECONDS = 10.0
_MOST_PER_MINUTE = 4
# The pause between two times that one pod is woken, while kube-scheduler has not asked about it.
_WAKE_SECONDS = 1.0
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
        self._generations = count(1)
        # The last requeues of a pod, by uid: the reason in the condition, and the time. A pod that
        # is offered a node and then rejected again begins with the shortest pause anew.
        self._requeued: Remembered[str, tuple[tuple[str, float], ...]] = Remembered()
        # Of pods whose reasons are known, by uid: the hash of these, and the time of the next look
        # if they stay the same; -inf for those that this replica was the last to refuse. The hash
        # of reasons that no policy gives has the number of edits too: other policies may give them.
        self._looked_at: Remembered[str, tuple[int, float]] = Remembered()
        self._policies: object = None
        self._edits = 0

    async def requeue(self, pending: Mapping[str, Peer], now: str) -> None:
        """Requeue the rejected pods that would pass.

        `pending` are the pods without a node, by key; `now` is an RFC 3339 time. Raises
        ApiUnreachableError, and ApiError if Placet may not do this or the server has failed.
        """
        rejected, is_same = self._rejected_pods.due(), self._rejected_pods.is_same
        waiting = [(r, r.due, p) for r in rejected if (p := self._waiting(r.pod, pending))]
        # High priority first; among equal priorities the longest wait first.
        waiting.sort(key=lambda each: (-each[2].priority, each[0].at))
        for each, due, _ in waiting:
            if not is_same(each, due) or self._judge.waits_unchanged(each.pod):
                # Often since the look at another pod that it waits for, which may have woken it.
                continue
            if not self._bucket.try_take():
                break
            if await self._would_pass(each):
                await self._requeue(each, due, now)
            else:
                self._bucket.give_back()

    async def _requeue(self, rejected_pod: RejectedPod, due: float, now: str) -> None:
        """Requeue a pod, unless that or a request came since it was due. Raises as `requeue`."""
        if not self._rejected_pods.is_same(rejected_pod, due):
            return
        uid = rejected_pod.pod.uid
        # All count as one until kube-scheduler asks, as where it is frozen.
        last = self._last(uid) if rejected_pod.is_requeued else ()
        reason = last[-1][0] if last else f"Generation{next(self._generations)}"
        if not last:
            self._count(uid, reason)
        # First, because kube-scheduler may ask before the API server has answered.
        self._rejected_pods.requeued(rejected_pod)
        try:
            is_there = await self._patch(rejected_pod.pod, reason, now)
        except (ApiError, NotSentError):
            # Nothing was written.
            self._requeued.put(uid, tuple(each for each in self._last(uid) if each[0] != reason))
            self._rejected_pods.not_requeued(rejected_pod)
            raise
        if not is_there:
            self._rejected_pods.not_requeued(rejected_pod)
            self._rejected_pods.postpone(rejected_pod)

    async def wake(self, uids: Iterable[str], snapshot: Snapshot, now: str) -> None:
        """Requeue rejected pods at once, because they would pass now. Raises as `requeue`."""
        there, since = snapshot.pending, self._clock() - _WAKE_SECONDS
        known = filter(None, map(self._rejected_pods.find, uids))
        unheard = (r for r in known if not r.was_told(since))
        waiting = [(r, r.due) for r in unheard if self._waiting(r.pod, there, written=False)]
        for first in range(0, len(waiting), _AT_ONCE):
            part = waiting[first : first + _AT_ONCE]
            await asyncio.gather(*(self._requeue(each, due, now) for each, due in part))

    async def _would_pass(self, rejected_pod: RejectedPod) -> bool:
        """Whether the pod would pass, as far as a few portions of time show."""
        pod = rejected_pod.pod.undecoded()
        try:
            return await self._told(lambda: self._judge.would_pass(pod))
        except DeadlineExceededError:
            # A call of filter finds out; the pauses between these grow.
            self._gave_up("requeueing", pod.key)
            return True
        except EngineError:
            return False

    async def _told(self, look: Callable[[], bool]) -> bool:
        """What a look says within a few portions of time. Raises EngineError."""
        for _ in range(MOST_PORTIONS - 1):
            # Between two portions, kube-scheduler's calls are answered.
            await asyncio.sleep(0)
            with suppress(DeadlineExceededError):
                return look()
        await asyncio.sleep(0)
        return look()

    async def notice(self, pending: Mapping[str, Peer], policies: object) -> None:
        """Add pods that another replica, or this one before a restart, has refused.

        Their condition has a reason that our policies give now. So every replica looks at once,
        whether it leads or not: policies may change before it does. `policies` are those in force:
        with others, pods are looked at again whose reasons no policy gave. Raises as `requeue`.
        """
        if policies is not self._policies:
            self._policies, self._edits = policies, self._edits + 1
        looked = 0
        for peer in pending.values():
            if peer.requeued and peer.requeued not in dict(self._last(peer.uid)):
                # Another replica has requeued it. Requeues of all of them count.
                self._count(peer.uid, peer.requeued)
            if not (reasons := _reasons(peer)) or not self._schedulers.have(peer):
                continue
            if self._is_known(peer.uid, reasons) or looked == _MOST_LOOKS:
                continue
            looked += 1
            path = path_of(CORE, "pods", peer.namespace, peer.name)
            try:
                pod = self._judge.read(await self._api.request("GET", path))
            except (ApiError, BadObjectError) as error:
                if isinstance(error, ApiError) and (error.is_denied or error.is_transient):
                    raise
                pod = None
            looked_at = hash((reasons, self._edits)), math.inf
            refused = pod is not None and await self._has_refused(pod, reasons)
            if refused is None:
                looked_at = hash(reasons), self._clock() + _AGAIN_SECONDS
            self._looked_at.put(peer.uid, looked_at)
            if pod is not None and refused:
                self._rejected_pods.noticed(pod)

    def _is_known(self, uid: str, reasons: str) -> bool:
        """Whether a pod need not be looked at for these reasons."""
        refused, known = (hash(reasons), -math.inf), self._looked_at.get(uid)
        if uid in self._rejected_pods:
            if known != refused:
                self._looked_at.put(uid, refused)
            return True
        if known == refused:
            # It was offered a node since, and has these reasons until it is bound.
            known = self._looked_at.put(uid, (refused[0], self._clock() + _AGAIN_SECONDS))
        hashes = refused[0], hash((reasons, self._edits))
        return known is not None and known[0] in hashes and self._clock() < known[1]

    async def _has_refused(self, pod: RequestPod, reasons: str) -> bool | None:
        """Whether one of the reasons is ours; None if that cannot be told now."""
        try:
            return await self._told(lambda: self._judge.has_refused(pod, reasons))
        except EngineError:
            return None

    def _last(self, uid: str) -> Sequence[tuple[str, float]]:
        """The last requeues of a pod: the reasons in the condition, and the times."""
        return self._requeued.get(uid) or ()

    def _count(self, uid: str, reason: str) -> None:
        """Add a requeue of a pod to the last ones."""
        last = (*self._last(uid), (reason, self._clock()))
        self._requeued.put(uid, last[-_MOST_PER_MINUTE:])

    def _waiting(
        self, pod: RequestPod, pending: Mapping[str, Peer], *, written: bool = True
    ) -> Peer | None:
        """The rejected pod as a peer, if it waits in vain and may be requeued now.

        `written` says that kube-scheduler must have written that it waits.
        """
        peer = pending.get(pod.key)
        if peer is None or peer.uid != pod.uid or (written and _reasons(peer) is None):
            return None
        last = self._last(pod.uid)
        is_often = len(last) == _MOST_PER_MINUTE and self._clock() - last[0][1] < _MINUTE_SECONDS
        return None if is_often else peer

    async def _patch(self, pod: RequestPod, reason: str, now: str) -> bool:
        """Set the condition. Returns False if the pod is gone or was replaced."""
        condition: dict[str, Any] = {
            "type": REQUEUE_CONDITION,
            "status": "True",
            "reason": reason,
            "lastTransitionTime": now,
        }
        change = {"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}}
        path = path_of(CORE, "pods", pod.namespace, pod.name, "status")
        try:
            await patch(self._api, path, change, "strategic-merge")
        except ApiError as error:
            if error.is_denied or error.is_transient:
                raise
            return False
        return True


def _reasons(peer: Peer) -> str | None:
    """Why the pod is in kube-scheduler's queue of unschedulable pods; None if it is in none."""
    condition = peer.unscheduled
    if condition is None or condition.reason != _REJECTED or peer.deletionTimestamp is not None:
        return None
    return condition.message or ""


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
            found = await read_as(self.api, path, _SchedulerLeaseObject, _REQUEST_SECONDS)
        except (ApiError, ApiUnreachableError) as error:
            self.report(_LEASE_WORK, why(_LEASE_WORK, error))
            return
        self.report(_LEASE_WORK, "")
        if found is None or not (spec := found.spec).holderIdentity:
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
