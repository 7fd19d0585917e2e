"""Lease and LeaderGate: one replica at a time is the leader, which counts pods and writes.

client-go's leader election is the model, with its times. Two things are added. A replica that gets
requests without being the leader writes its wish into the Lease. The leader releases a Lease that
another replica wants if it gets no requests itself. A leader that has got requests since takes the
wish out: a replica that gets more of them writes it again.

    free --our update succeeds--> held --renewed every 2 s--> held
                                   |  not renewed for 10 s, released, or any other hold is read
                                   v
                                  free

A Lease can be deleted, restored, and edited by others. So a replica believes only what cannot come
about in these ways:

- A hold is named by the object's uid, the number of times that it has changed hands, and the time
  of that. A replica has the Lease only as
  long as it reads the hold that it wrote itself. Reading another hold makes a replica forget.
- A Lease is free at once if the last holder has released it, and has written which hold ends. Else
  it is free after 15 s without a change by the clock of the reader: no replica goes on for so long
  without reading. That is also the case for a new object, so
  one is made without a holder.

A term is a time in which one replica alone can have been the leader. A term goes on when that
replica loses the Lease and gets it back before anybody else had it: the Lease still names its hold.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import msgspec

from engine.cache.reflector import Report, unreported
from engine.cluster.client import COORDINATION, Api, patch, path_of, read_as
from engine.errors import ApiError, ApiUnreachableError, why
from engine.work import until_next
from grammar.values.time import Timestamp

# The annotation where a replica that wants the Lease writes its identity and the time.
WANTED_BY = "placement-policy.scheduling.x-k8s.io/wanted-by"
# The annotation where the holder that releases the Lease writes which hold that was.
RELEASED = "placement-policy.scheduling.x-k8s.io/released"
_REQUEST_SECONDS = 5.0
# In seconds, as in client-go's leader election: how long a Lease holds that is not renewed, until
# when its holder tries to renew it, and how often.
DURATION, _RENEW_DEADLINE, _RETRY = 15.0, 10.0, 2.0
# Instead of the last, for a replica that is about to end or that waits for the Lease.
_HURRY = 0.5
# A leader that has not been called for so long releases a Lease that another replica wants.
_UNCALLED = 5.0
_NOT_FOUND, _CONFLICT = 404, 409
_RELEASE_TRIES = 3
_WORK = "hold the Lease"


class LeaseSpec(msgspec.Struct, omit_defaults=True):
    """Lease spec of coordination.k8s.io/v1, with the fields that are used here."""

    holderIdentity: str | None = None
    leaseDurationSeconds: int | None = None
    acquireTime: str | None = None
    renewTime: str | None = None
    leaseTransitions: int | None = None


class _LeaseObject(msgspec.Struct):
    """A Lease object. The metadata goes back to the server unchanged, but for our annotations."""

    metadata: dict[str, Any]
    spec: LeaseSpec = msgspec.field(default_factory=LeaseSpec)
    apiVersion: str = "coordination.k8s.io/v1"
    kind: str = "Lease"

    @property
    def holder(self) -> str:
        return self.spec.holderIdentity or ""

    @property
    def hold(self) -> str:
        """What no other hold has: the object, how often it has changed hands, and the last time."""
        spec = self.spec
        return f"{self.metadata.get('uid', '')} {spec.leaseTransitions or 0} {spec.acquireTime}"

    @property
    def is_released(self) -> bool:
        """Whether its last holder has given it up itself: nobody has made or edited it since."""
        return not self.holder and self._annotation(RELEASED) == self.hold

    @property
    def state(self) -> object:
        """What any change by a holder, and any edit of the holder, changes."""
        return self.hold, self.holder, self.spec.renewTime

    @property
    def wish(self) -> str:
        """The identity of the replica that wants the Lease, and the time, or empty."""
        return self._annotation(WANTED_BY)

    @property
    def wanted_by(self) -> str:
        """The identity of the replica that wants the Lease, or empty."""
        return self.wish.partition(" ")[0]

    def drop_wish(self) -> None:
        (self.metadata.get("annotations") or {}).pop(WANTED_BY, None)

    def acquire(self, identity: str, stamp: str) -> None:
        """Begins a hold."""
        self.spec.leaseTransitions = (self.spec.leaseTransitions or 0) + 1
        self.spec.holderIdentity, self.spec.acquireTime = identity, stamp
        (self.metadata.get("annotations") or {}).pop(RELEASED, None)
        # Who still wants it writes that again.
        self.drop_wish()

    def release(self, stamp: str) -> None:
        """Ends a hold. As in client-go: no holder, and a duration of one second."""
        self.metadata["annotations"] = {
            **(self.metadata.get("annotations") or {}),
            RELEASED: self.hold,
        }
        self.spec.holderIdentity, self.spec.leaseDurationSeconds = "", 1
        self.spec.renewTime = stamp

    def _annotation(self, key: str) -> str:
        return str((self.metadata.get("annotations") or {}).get(key, ""))


class Lease:
    """Lease as one replica holds it, while `run` runs. On one event loop.

    `lease` is its namespace and name. A replica that `ends` hands over as soon as another one wants
    the Lease. `holder` is the identity of the holder, and `failure` the reason why the Lease could
    not be read or written; both may be empty. `is_vacant` says that there is no holder, and that
    none has released it: it is new, or was edited. `term_began` is the time, by the clock, when the
    last term began: no other replica has held the Lease since then. It is -inf before.
    """

    def __init__(
        self,
        api: Api,
        lease: tuple[str, str],
        identity: str,
        *,
        ends: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], Timestamp] = Timestamp.now,
        report: Report = unreported,
    ) -> None:
        self.identity = identity
        self.holder = ""
        self.is_vacant = False
        self.failure = ""
        self.term_began = float("-inf")
        # Our last hold, which the server may not have got, and when its term began.
        self._hold = ""
        self._hold_began = float("-inf")
        self._api = api
        self._folder = path_of(COORDINATION, "leases", lease[0])
        self._path = path_of(COORDINATION, "leases", *lease)
        self._name = lease[1]
        self._ends = ends
        self._clock = clock
        self._now = now
        self._report = report
        self._held_until = float("-inf")
        self._answered_at = clock()
        # The Lease at its last change by a holder, and the time of that by our clock: the times in
        # the Lease are of clocks that need not agree with ours.
        self._seen: object = None
        self._seen_at = float("-inf")
        self._needed_at = self._last_early_turn = float("-inf")
        # The last wish of another replica, and the time by our clock when it was seen first.
        self._wish = ""
        self._wished_at = float("-inf")
        self._wrote_wish_at = float("-inf")
        self._due = asyncio.Event()
        # The Lease after our last update, until it is used or another one has begun.
        self._written: _LeaseObject | None = None
        # Set at each update with which we take or renew it; who waits for it clears it.
        self.has_been_taken = asyncio.Event()

    @property
    def held(self) -> bool:
        """Whether this replica holds the Lease, so that no other one can."""
        return self._clock() < self._held_until

    @property
    def is_cut_off(self) -> bool:
        """Whether the API server has not answered for as long as a holder could renew the Lease."""
        return self._clock() - self._answered_at > _RENEW_DEADLINE

    @property
    def held_until(self) -> float:
        """The time, by the clock, until which no other replica can hold the Lease."""
        return self._held_until

    def need(self) -> None:
        """Note a request that only the leader may answer: the Lease is kept, or wanted."""
        self._needed_at = self._clock()
        if not self.held and self._needed_at - self._last_early_turn >= _RETRY:
            self._last_early_turn = self._needed_at
            self._due.set()

    async def run(self) -> None:
        """Take the Lease when it is free and renew it, until cancelled; then release it."""
        try:
            while True:
                self._due.clear()
                await self.turn()
                await self._pause()
        finally:
            await self._end()

    async def _end(self) -> None:
        """Release the Lease: otherwise the next holder would have to wait until it has expired.

        An update that was under way when `run` was cancelled may still arrive, after we have read
        the Lease; the release is a conflict then, and is tried again.
        """
        if self.holder != self.identity:
            return
        for _ in range(_RELEASE_TRIES):
            try:
                await self._release(await self._read())
            except ApiError as error:
                if error.status == _CONFLICT:
                    continue
            except ApiUnreachableError:
                pass
            return

    async def _pause(self) -> None:
        """Wait until the next turn is due; that is soon while the holder may change."""
        for _ in range(math.ceil(_RETRY / _HURRY)):
            with suppress(TimeoutError):
                async with asyncio.timeout(until_next(_HURRY)):
                    await self._due.wait()
            may_change = not (self.held or self._is_uncalled(DURATION))
            if self._due.is_set() or may_change or self._ends():
                return

    async def turn(self) -> None:
        """Read the Lease once and do what is due. `failure` has the reason if that fails."""
        began = self._clock()
        try:
            if not await self._renewed(began):
                await self._decide(await self._read(), began)
            self.failure, self._answered_at = "", self._clock()
        except (ApiError, ApiUnreachableError) as error:
            if isinstance(error, ApiError):
                self._answered_at = self._clock()
            if isinstance(error, ApiError) and error.status == _CONFLICT:
                return
            self.failure = why(_WORK, error)
        self._report(_WORK, self.failure)

    async def _renewed(self, began: float) -> bool:
        """Go on from the Lease as we wrote it last; False if anybody may have changed it since.

        An update of it succeeds only if nobody has, so there is no need to read it.
        """
        lease, self._written = self._written, None
        if lease is None:
            return False
        try:
            await self._decide(lease, began)
        except ApiError as error:
            if error.status not in (_CONFLICT, _NOT_FOUND):
                raise
            return False
        return True

    async def _decide(self, lease: _LeaseObject | None, began: float) -> None:
        self._observe(lease)
        if lease is None:
            # An earlier leader may not know yet that its Lease is gone.
            await self._write("POST", self._folder, _LeaseObject({"name": self._name}))
            return
        unchanged = self._clock() - self._seen_at
        wanted = lease.wanted_by not in ("", self.identity)
        called = not (self._is_uncalled(DURATION) or self._ends())
        if self._is_ours(lease):
            if wanted and (self._ends() or self._is_uncalled(_UNCALLED)):
                await self._release(lease)
                return
            if wanted and self._needed_at > self._wished_at:
                lease.drop_wish()
            await self._take(lease, began)
        elif (free_for := unchanged - (DURATION if lease.holder or self.is_vacant else 0.0)) >= 0:
            # A replica that is not called leaves the Lease to the one that wants it, for a while:
            # that one may have ended.
            if called or not wanted or free_for > DURATION:
                await self._take(lease, began)
        elif called and not lease.wanted_by and self._needed_at > self._wrote_wish_at:
            wrote_at = self._clock()
            wish = {"metadata": {"annotations": {WANTED_BY: f"{self.identity} {self._stamp()}"}}}
            await patch(self._api, self._path, wish, seconds=_REQUEST_SECONDS)
            self._wrote_wish_at = wrote_at

    def _observe(self, lease: _LeaseObject | None) -> None:
        """Note the holder, and the time by our clock when the Lease was last renewed or edited."""
        if lease is None:
            self.holder, self.is_vacant = "", True
            self._hold, self._held_until = "", float("-inf")
            return
        if lease.hold != self._hold:
            self._hold = ""
        if not self._is_ours(lease):
            self._held_until = float("-inf")
        if lease.wish != self._wish:
            self._wish, self._wished_at = lease.wish, self._clock()
        if lease.state != self._seen:
            self._seen, self._seen_at = lease.state, self._clock()
        self.holder = lease.holder
        self.is_vacant = not lease.holder and not lease.is_released

    def _is_ours(self, lease: _LeaseObject) -> bool:
        """Whether we hold the Lease, as we have written it ourselves."""
        return lease.holder == self.identity and lease.hold == self._hold

    def _is_uncalled(self, seconds: float) -> bool:
        """Whether nobody has called for so long about what only a leader may answer."""
        return self._clock() - self._needed_at > seconds

    async def _take(self, lease: _LeaseObject, began: float) -> None:
        """Acquire or renew. If another replica was faster, the server answers with a conflict."""
        stamp = self._stamp()
        if not self._is_ours(lease):
            if lease.hold != self._hold:
                # Since the Lease was read, nobody else can have held it if this update succeeds.
                self._hold_began = self._clock()
            lease.acquire(self.identity, stamp)
            self._hold = lease.hold
        lease.spec.renewTime = stamp
        lease.spec.leaseDurationSeconds = int(DURATION)
        # Known before the answer: whoever is cancelled while it waits has the Lease to release.
        self.holder, self.is_vacant = self.identity, False
        answer = await self._write("PUT", self._path, lease)
        self.term_began = self._hold_began
        self._held_until = began + _RENEW_DEADLINE
        self.has_been_taken.set()
        with suppress(msgspec.MsgspecError):
            self._written = msgspec.json.decode(answer, type=_LeaseObject)

    async def _release(self, lease: _LeaseObject | None) -> None:
        self._held_until = float("-inf")
        # Only another call makes this replica want it back.
        self._needed_at = float("-inf")
        if lease is not None and self._is_ours(lease):
            lease.release(self._stamp())
            await self._write("PUT", self._path, lease)

    async def _read(self) -> _LeaseObject | None:
        return await read_as(self._api, self._path, _LeaseObject, _REQUEST_SECONDS)

    async def _write(self, method: str, path: str, lease: _LeaseObject) -> bytes:
        """Write the Lease; return it as the API server has it then."""
        body = msgspec.json.encode(lease)
        return await self._api.request(method, path, body=body, timeout_seconds=_REQUEST_SECONDS)

    def _stamp(self) -> str:
        return micro_time(self._now())


def micro_time(moment: Timestamp) -> str:
    """The time as an API MicroTime: RFC 3339 with microseconds."""
    seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment.nanos // 10**9))
    return f"{seconds}.{moment.nanos // 1000 % 10**6:06}Z"


# ---- the leader

# Brings the counts up to date, which a new leader has to do before its first decision. It is given
# the time by the Lease's clock when the term began.
TakeOver = Callable[[float], Awaitable[None]]


class LeaderGate:
    """The gate of the leader: the holder of the Lease once it has taken over. Only it may count.

    A proxy may send calls to all replicas, also to those that stand by and are not ready. If each
    took the Lease for its calls, none would hold it for long: so these do not move it.
    """

    def __init__(self, lease: Lease, *, stands_by: bool = False) -> None:
        self._lease = lease
        self._stands_by = stands_by
        # When the term began that this replica has taken over.
        self._term: float | None = None

    def waiting(self, *, asked: bool = True) -> str:
        """The reason why this replica may not count now, or empty.

        If a client has `asked`, the Lease learns of the need. The Lease follows calls of clients
        only. If our own looks at rejected pods counted too, a leader that nobody calls would never
        let the Lease go.
        """
        if asked and (self._lease.held or not self._stands_by):
            self._lease.need()
        if not self._lease.held:
            holder = self._lease.holder
            if self._lease.failure:
                return self._lease.failure
            if self._lease.is_vacant:
                return "the Lease is new or was edited, so no replica is the leader for 15 s"
            if holder and holder != self._lease.identity:
                if self._stands_by:
                    return f"`{holder}` is the leader, and this replica stands by"
                return f"`{holder}` is the leader and is asked to hand over"
            return "this replica is taking the Lease"
        if self._term == self._lease.term_began:
            return ""
        return "this replica has just become the leader and is listing pods"

    async def run(self, take_over: TakeOver) -> None:
        """Follow the Lease until cancelled. A new leader may count once `take_over` returns."""
        try:
            while True:
                self._lease.has_been_taken.clear()
                term = self._lease.term_began
                if self._lease.held and term != self._term:
                    await take_over(term)
                    # Another term may have begun meanwhile.
                    self._term = term
                await self._lease.has_been_taken.wait()
        finally:
            # The next start of this task takes over again.
            self._term = None
