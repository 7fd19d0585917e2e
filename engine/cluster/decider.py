"""Whether this replica may decide by counts: it holds the Lease, and has taken over since."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from engine.cluster.lease import Lease

# What has to be done before a new holder may decide.
TakeOver = Callable[[], Awaitable[None]]
_LOOK_SECONDS = 0.1


class Decider:
    """The one replica that decides counted pods is the holder of the Lease, once it is ready to."""

    def __init__(self, lease: Lease, take_over: TakeOver) -> None:
        self._lease = lease
        self._take_over = take_over
        self._ready = False

    def waiting(self) -> str:
        """Why counts may not be decided here now, or empty. That it is asked for is noted."""
        self._lease.asked()
        if not self._lease.held:
            holder = self._lease.holder
            if self._lease.failure:
                return f"the decider Lease cannot be had: {self._lease.failure}"
            if holder and holder != self._lease.identity:
                return f"counts are decided by `{holder}`, which is asked to hand over"
            return "the decider Lease is being taken"
        return "" if self._ready else "the decider Lease was taken just now; pods are listed afresh"

    @property
    def leads(self) -> bool:
        """Whether this replica writes; who may write need not be who may decide yet."""
        return self._lease.held

    async def run(self) -> None:
        """Follows the Lease until cancelled."""
        while True:
            if not self._lease.held:
                self._ready = False
            elif not self._ready:
                await self._take_over()
                # The Lease may have been lost meanwhile; the next look says so.
                self._ready = self._lease.held
            await asyncio.sleep(_LOOK_SECONDS)
