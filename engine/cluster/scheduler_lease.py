"""SchedulerLease: news that another process of kube-scheduler has become the active one.

kube-scheduler ends when it loses its Lease, so what a process had in hand ends with it, and the
next one asks about all pending pods again.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from engine.cache.reflector import Report
from engine.cluster.client import Api
from engine.cluster.lease import LeaseSpec
from engine.errors import ApiError, ApiUnreachableError, why

PATH = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"
_REQUEST_SECONDS = 5.0
_NOT_FOUND = 404
_WORK = "read the Lease of kube-scheduler"


class _LeaseObject(msgspec.Struct):
    spec: LeaseSpec = msgspec.field(default_factory=LeaseSpec)


class SchedulerLease:
    """The Lease of kube-scheduler, which the owner has looked at again and again.

    `replaced` is called when another process has acquired it, with the time, in seconds of the
    clock, of the last look that found the process before. A cluster without this Lease never has
    news.
    """

    def __init__(
        self,
        api: Api,
        replaced: Callable[[float], object],
        report: Report,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
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
            body = await self._api.request("GET", PATH, timeout_seconds=_REQUEST_SECONDS)
            spec = msgspec.json.decode(body, type=_LeaseObject).spec
        except (ApiError, ApiUnreachableError, msgspec.MsgspecError) as error:
            # Without it, kube-scheduler has no leader election, or a Lease of another name.
            is_absent = isinstance(error, ApiError) and error.status == _NOT_FOUND
            self._report(_WORK, "" if is_absent else why(_WORK, error))
            return
        self._report(_WORK, "")
        if not spec.holderIdentity:
            # It was released: the process has ended or is ending, and the next one is awaited.
            return
        acquired = (spec.holderIdentity, spec.acquireTime, spec.leaseTransitions)
        if self._acquired not in (None, acquired):
            self._replaced(self._looked_at)
        self._acquired, self._looked_at = acquired, began
