"""The ends of in-flight pods that only the API server knows of, where Placet does not bind.

SchedulerLease follows the Lease of kube-scheduler: a process that loses the Lease ends, with all
pods in hand; the next one asks about all pending pods again. OverduePods looks at pods whose time
is over: they may have been bound in their time, and a late watch not show it yet. UnseenPods looks
at those that no watch has shown: they may be gone. All live as long as the engine.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from itertools import islice

import msgspec

from engine.cache.reflector import Report
from engine.cluster.client import COORDINATION, CORE, Api, path_of, read_if_there
from engine.cluster.lease import LeaseSpec
from engine.counting.in_flight_pods import InFlightPods
from engine.errors import ApiError, ApiUnreachableError, BadObjectError, why
from engine.objects.peer import Peer, PeerDecoder

_REQUEST_SECONDS = 5.0
# With more pods whose time is over, all pods are listed instead. Of unseen ones, so many are looked
# at in one turn, and no turn comes earlier than so many seconds after the last one.
_MOST_REQUESTS, _UNSEEN_SECONDS = 100, 10.0
_LEASE_WORK = "read the Lease of kube-scheduler"
_POD_WORK = "see whether pods on their way are bound"
_UNSEEN_WORK = "see whether pods on their way are still there"


class _SchedulerLeaseObject(msgspec.Struct):
    spec: LeaseSpec = msgspec.field(default_factory=LeaseSpec)


class SchedulerLease:
    """The Lease of kube-scheduler, which the owner has looked at again and again.

    `lease` is its namespace and name. `replaced` is called when another process has acquired it,
    with the time, in seconds of the clock, of the last look that found the process before. A
    cluster without this Lease never has news.
    """

    def __init__(
        self,
        api: Api,
        lease: tuple[str, str],
        replaced: Callable[[float], object],
        report: Report,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._path = path_of(COORDINATION, "leases", *lease)
        self._replaced = replaced
        self._report = report
        self._clock = clock
        # The last acquisition, and when the last look began that found it.
        self._acquired: tuple[object, ...] | None = None
        self._looked_at = float("-inf")

    async def look(self) -> None:
        """Read the Lease once."""
        began = self._clock()
        try:
            body = await read_if_there(self._api, self._path, _REQUEST_SECONDS) or b"{}"
            spec = msgspec.json.decode(body, type=_SchedulerLeaseObject).spec
        except (ApiError, ApiUnreachableError, msgspec.MsgspecError) as error:
            self._report(_LEASE_WORK, why(_LEASE_WORK, error))
            return
        self._report(_LEASE_WORK, "")
        if not spec.holderIdentity:
            # Without a Lease, kube-scheduler has no leader election, or one of another name. If it
            # was released, the process has ended or is ending, and the next one is awaited.
            return
        acquired = (spec.holderIdentity, spec.acquireTime, spec.leaseTransitions)
        if self._acquired not in (None, acquired):
            self._replaced(self._looked_at)
        self._acquired, self._looked_at = acquired, began


class OverduePods:
    """The in-flight pods whose time is over. On one event loop.

    A pod that the API server has without a node, or not at all, is ended. A bound one counts until
    a watch shows it. `list_anew` returns when the cache has a list that was requested after its
    call; it is used for many pods at once.
    """

    def __init__(
        self,
        api: Api,
        in_flight: InFlightPods,
        list_anew: Callable[[], Awaitable[None]],
        report: Report,
    ) -> None:
        self._api = api
        self._in_flight = in_flight
        self._list_anew = list_anew
        self._report = report
        self._decoder = PeerDecoder()

    async def look(self) -> None:
        """Look at each of them once, until the API server gives no answer."""
        overdue = self._in_flight.overdue()
        if len(overdue) > _MOST_REQUESTS:
            await self._list_anew()
            # Pods that are bound are not in flight any more.
            for known in overdue:
                self._in_flight.end(known)
            return
        for known in overdue:
            try:
                now = known.pod and await _now(self._api, self._decoder, known.pod)
                if now is None or not now.nodeName:
                    self._in_flight.end(known)
            except (ApiError, ApiUnreachableError, BadObjectError) as error:
                self._report(_POD_WORK, why(_POD_WORK, error))
                return
            self._report(_POD_WORK, "")


class UnseenPods:
    """The in-flight pods that no watch has shown, as far as `is_seen` knows. On one event loop.

    A watch that missed a pod and its deletion never tells of either. A pod that the API server does
    not have is ended.
    """

    def __init__(
        self,
        api: Api,
        in_flight: InFlightPods,
        is_seen: Callable[[Peer], bool],
        report: Report,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._in_flight = in_flight
        self._is_seen = is_seen
        self._report = report
        self._clock = clock
        self._decoder = PeerDecoder()
        self._looked_at = clock()

    async def look(self) -> None:
        """Look at each of them once, if that is due, until the API server gives no answer."""
        now = self._clock()
        if now - self._looked_at < _UNSEEN_SECONDS:
            return
        self._looked_at = now
        offered = self._in_flight.offered_before(now - _UNSEEN_SECONDS)
        unseen = ((each, pod) for each in offered if (pod := each.pod) and not self._is_seen(pod))
        for known, pod in islice(unseen, _MOST_REQUESTS):
            try:
                if await _now(self._api, self._decoder, pod) is None:
                    self._in_flight.end(known)
            except (ApiError, ApiUnreachableError, BadObjectError) as error:
                self._report(_UNSEEN_WORK, why(_UNSEEN_WORK, error))
                return
            self._report(_UNSEEN_WORK, "")


async def _now(api: Api, decoder: PeerDecoder, pod: Peer) -> Peer | None:
    """The pod as the API server has it now; None if it is gone.

    Raises ApiError, ApiUnreachableError and BadObjectError.
    """
    path = path_of(CORE, "pods", pod.namespace, pod.name)
    if (body := await read_if_there(api, path, _REQUEST_SECONDS)) is None:
        return None
    now = decoder.decode(body)
    return now if now.uid == pod.uid else None
