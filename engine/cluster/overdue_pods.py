"""OverduePods: a look at in-flight pods whose time is over, before they count no longer.

A pod may have been bound in its time, and a late watch not show it yet. Only the API server knows.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from engine.cache.reflector import Report
from engine.cluster.client import Api
from engine.counting.in_flight_pods import InFlightPods
from engine.errors import ApiError, ApiUnreachableError, BadObjectError, why
from engine.objects.peer import Peer, PeerDecoder

_REQUEST_SECONDS = 5.0
# With more pods, all pods are listed instead.
_MOST_REQUESTS = 100
_NOT_FOUND = 404
_WORK = "see whether pods on their way are bound"


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
            # Those that are bound are not in flight any more.
            for known in overdue:
                self._in_flight.end(known)
            return
        for known in overdue:
            try:
                if known.pod is None or await self._has_no_node(known.pod):
                    self._in_flight.end(known)
            except (ApiError, ApiUnreachableError, BadObjectError) as error:
                self._report(_WORK, why(_WORK, error))
                return
            self._report(_WORK, "")

    async def _has_no_node(self, pod: Peer) -> bool:
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"
        try:
            body = await self._api.request("GET", path, timeout_seconds=_REQUEST_SECONDS)
        except ApiError as error:
            if error.status == _NOT_FOUND:
                return True
            raise
        now = self._decoder.decode(body)
        return now.uid != pod.uid or not now.nodeName
