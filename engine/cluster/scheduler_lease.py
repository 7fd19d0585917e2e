"""SchedulerLease: news that another process of kube-scheduler has become the active one.

kube-scheduler ends when it loses its Lease, so what a process had in hand ends with it, and the
next one asks about all pending pods again.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from engine.cluster.client import Api
from engine.cluster.lease import LeaseSpec
from engine.errors import ApiError, ApiUnreachableError

PATH = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"
_REQUEST_SECONDS = 5.0
_FORBIDDEN, _NOT_FOUND = 403, 404


class _LeaseObject(msgspec.Struct):
    spec: LeaseSpec = msgspec.field(default_factory=LeaseSpec)


class SchedulerLease:
    """The Lease of kube-scheduler, which the owner has looked at again and again.

    `replaced` is called when another process has acquired it, with the time, in seconds of the
    clock, of the last look that found the process before. A cluster without this Lease never has
    news. `failed` is told why the Lease cannot be read, once for each reason.
    """

    def __init__(
        self,
        api: Api,
        replaced: Callable[[float], object],
        failed: Callable[[str], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._replaced = replaced
        self._failed = failed
        self._clock = clock
        self._failure = ""
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
            self._fail(error)
            return
        self._failure = ""
        if not spec.holderIdentity:
            # It was released: the process has ended or is ending, and the next one is awaited.
            return
        acquired = (spec.holderIdentity, spec.acquireTime, spec.leaseTransitions)
        if self._acquired not in (None, acquired):
            self._replaced(self._looked_at)
        self._acquired, self._looked_at = acquired, began

    def _fail(self, error: Exception) -> None:
        if isinstance(error, ApiError) and error.status == _NOT_FOUND:
            # Its kube-scheduler has no leader election, or a Lease of another name.
            return
        text = str(error)
        if isinstance(error, ApiError) and error.status == _FORBIDDEN:
            text = "Placet may not read it: run `kubectl apply -f deploy/rbac/placet.yaml`"
        if text != self._failure:
            self._failure = text
            self._failed(text)
