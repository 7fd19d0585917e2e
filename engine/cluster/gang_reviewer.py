"""GangReviewer: what gangs need from time to time: a review, and members that are asked about.

One task of a server runs it. kube-scheduler has rejected most members of a gang before the last one
comes; they are requeued as soon as the gang has its places.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from engine.cache.node_table import Snapshot
from engine.cache.reflector import Report
from engine.cluster.binding import Binder
from engine.cluster.lease import micro_time
from engine.cluster.requeue import Requeuer
from engine.cluster.shared_pause import until_next
from engine.errors import ApiError, ApiUnreachableError, NotSyncedError, why
from engine.gangs.gangs import Gangs
from grammar.values.time import Timestamp

_PERIOD_SECONDS = 1.0
_WORK = "requeue members of gangs"


class GangReviewer:
    """Reviews gangs once a second, and at once where members are to be asked about."""

    def __init__(
        self,
        gangs: Gangs,
        requeuer: Requeuer,
        snapshot: Callable[[], Snapshot],
        report: Report,
        ends: Callable[[], bool],
        binder: Binder | None,
    ) -> None:
        """`snapshot` raises NotSyncedError. `ends` says that the server is shutting down.

        Without a `binder` no gang gathers.
        """
        self._binder = binder
        self._gangs = gangs
        self._requeuer = requeuer
        self._snapshot = snapshot
        self._report = report
        self._ends = ends

    async def run(self) -> None:
        """Works until it is cancelled."""
        woken = asyncio.Event()
        self._gangs.known.wake = woken.set
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(until_next(_PERIOD_SECONDS)):
                    await woken.wait()
            woken.clear()
            if self._binder is not None:
                if self._ends():
                    self._binder.end_waits("this replica ends")
                self._binder.review()
            await self._wake()

    async def _wake(self) -> None:
        if not (uids := self._gangs.known.take_woken()):
            return
        try:
            await self._requeuer.wake(uids, self._snapshot().pending, micro_time(Timestamp.now()))
        except NotSyncedError:
            return
        except (ApiError, ApiUnreachableError) as error:
            self._report(_WORK, why(_WORK, error))
        else:
            self._report(_WORK, "")
