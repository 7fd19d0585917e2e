"""The ends of in-flight pods that only the API server knows of, where Placet does not bind.

SchedulerLease follows the Lease of kube-scheduler: a process that loses the Lease ends, with all
pods in hand; the next one asks about all pending pods again. PodEnds looks at pods whose time is
over: they may have been bound in their time, and a late watch not show it yet. It also looks at
those that no watch has shown: they may be gone. Both live as long as the engine.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from itertools import islice

import msgspec

from engine.cache.reflector import Report
from engine.cluster.client import COORDINATION, CORE, Api, path_of, read_if_there
from engine.cluster.lease import LeaseSpec
from engine.counting.in_flight_pods import InFlightPod, InFlightPods
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
