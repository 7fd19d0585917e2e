"""The Lease by which one replica decides what is counted, and writes: held, renewed, handed over.

client-go's leader election is the model, with its times. Two things are added: a replica that is
asked and does not hold the Lease says so in it, and a holder that nobody asks then lets go.

    free --our update is taken--> held --renewed every 2 s--> held
                                   |  not renewed for 10 s, let go, or taken by another
                                   v
                                  free
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from engine.errors import ApiError, ApiUnreachableError
from grammar.values.time import Timestamp

# A replica that wants the Lease writes its identity and a time here.
WANTED_BY = "placement-policy.scheduling.x-k8s.io/wanted-by"
_REQUEST_SECONDS = 5.0
_NOT_FOUND, _CONFLICT = 404, 409


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """Seconds, the first three those of client-go's leader election."""

    duration: float = 15.0
    renew_deadline: float = 10.0
    retry: float = 2.0
    # Between looks of one that is about to end, and of one that is asked and waits for the Lease.
    hurry: float = 0.5


class LeaseSpec(msgspec.Struct, omit_defaults=True):
    """The fields of coordination.k8s.io/v1 LeaseSpec that are used here."""

    holderIdentity: str | None = None
    leaseDurationSeconds: int | None = None
    acquireTime: str | None = None
    renewTime: str | None = None
    leaseTransitions: int | None = None


class _Object(msgspec.Struct):
    metadata: dict[str, Any]
    spec: LeaseSpec = msgspec.field(default_factory=LeaseSpec)
    apiVersion: str = "coordination.k8s.io/v1"
    kind: str = "Lease"

    @property
    def holder(self) -> str:
        return self.spec.holderIdentity or ""

    @property
    def wanted_by(self) -> str:
        """Who wants it, the first word of what that replica wrote."""
        text = (self.metadata.get("annotations") or {}).get(WANTED_BY, "")
        return str(text).partition(" ")[0]


class Api(Protocol):
    """What of the API server is needed."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        content_type: str = ...,
        timeout_seconds: float = ...,
    ) -> bytes:
        """The body of the answer. Raises ApiError and ApiUnreachableError."""
        ...


class Lease:
    """One replica's hold on the Lease, while `run` runs.

    Everything happens on one event loop. One that `ends` hands over as soon as another wants it.
    `failure` is why the Lease could not be looked at, or
    empty.
    """

    def __init__(
        self,
        api: Api,
        namespace: str,
        name: str,
        identity: str,
        *,
        ends: Callable[[], bool] = lambda: False,
        times: LeaseTimes = LeaseTimes(),
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], Timestamp] = Timestamp.now,
    ) -> None:
        self.identity = identity
        self.holder = ""
        self.failure = ""
        self._api = api
        self._folder = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._path = f"{self._folder}/{name}"
        self._name = name
        self._ends = ends
        self._times = times
        self._clock = clock
        self._now = now
        self._held_until = float("-inf")
        # What the Lease was when it last changed, and when that was: its own times are of clocks
        # that need not agree with ours.
        self._seen: tuple[object, ...] = ()
        self._seen_at = float("-inf")
        self._asked_at = self._asked_in_vain_at = float("-inf")
        self._due = asyncio.Event()

    # ---- what others ask

    @property
    def held(self) -> bool:
        """Whether nobody else can hold it now."""
        return self._clock() < self._held_until

    def asked(self) -> None:
        """Somebody asked what only the holder may say: it is kept, or wanted."""
        self._asked_at = self._clock()
        if not self.held and self._asked_at - self._asked_in_vain_at >= self._times.retry:
            self._asked_in_vain_at = self._asked_at
            self._due.set()

    async def run(self) -> None:
        """Takes the Lease when it is free and renews it, until cancelled; then lets go of it."""
        try:
            while True:
                self._due.clear()
                await self.turn()
                await self._pause()
        finally:
            if self.held:
                # Nobody has to wait for the end of a Lease that its holder has no more use for.
                with suppress(ApiError, ApiUnreachableError):
                    await self._let_go(await self._read())

    async def _pause(self) -> None:
        """Until the next turn is due: soon while it is about to go from one to the other."""
        until = self._clock() + self._times.retry
        while self._clock() < until and not self._due.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._due.wait(), self._times.hurry)
            if self._ends() or not (self.held or self._is_idle()):
                return

    # ---- its turns

    async def turn(self) -> None:
        """Looks at the Lease once, and does what is due; a failure is kept in `failure`."""
        began = self._clock()
        try:
            lease = await self._read()
            await self._decide(lease, began)
            self.failure = ""
        except (ApiError, ApiUnreachableError) as error:
            if not (isinstance(error, ApiError) and error.status == _CONFLICT):
                self.failure = str(error)

    async def _decide(self, lease: _Object | None, began: float) -> None:
        if lease is None:
            await self._take(_Object({"name": self._name}), "POST", self._folder, began)
            return
        self._look(lease)
        wanted = lease.wanted_by not in ("", self.identity)
        if lease.holder == self.identity:
            if wanted and (self._ends() or self._is_idle()):
                await self._let_go(lease)
            else:
                await self._take(lease, "PUT", self._path, began)
        elif (not lease.holder and not wanted) or self._has_run_out():
            await self._take(lease, "PUT", self._path, began)
        elif not self._is_idle() and lease.wanted_by != self.identity:
            await self._want()

    def _look(self, lease: _Object) -> None:
        """Notes when the Lease last changed, by our clock."""
        if lease.holder != self.identity:
            self._held_until = float("-inf")
        self.holder = lease.holder
        seen = (lease.holder, lease.spec.renewTime, lease.spec.acquireTime, lease.wanted_by)
        if seen != self._seen:
            self._seen, self._seen_at = seen, self._clock()

    def _has_run_out(self) -> bool:
        return self._clock() - self._seen_at > self._times.duration

    def _is_idle(self) -> bool:
        return self._clock() - self._asked_at > self._times.duration

    async def _take(self, lease: _Object, method: str, path: str, began: float) -> None:
        """Acquires or renews; a replica that was quicker makes it a conflict."""
        stamp = self._stamp()
        spec = lease.spec
        if lease.holder != self.identity:
            changes = (spec.leaseTransitions or 0) + bool(spec.acquireTime)
            spec.acquireTime, spec.leaseTransitions = stamp, changes
        spec.holderIdentity, spec.renewTime = self.identity, stamp
        spec.leaseDurationSeconds = int(self._times.duration)
        self._forget_wish(lease)
        await self._write(method, path, lease)
        self.holder = self.identity
        self._held_until = began + self._times.renew_deadline

    async def _let_go(self, lease: _Object | None) -> None:
        self._held_until = float("-inf")
        if lease is None or lease.holder != self.identity:
            return
        # As client-go does it: a duration of a second, and no holder.
        lease.spec.holderIdentity, lease.spec.leaseDurationSeconds = "", 1
        lease.spec.renewTime = self._stamp()
        await self._write("PUT", self._path, lease)

    async def _want(self) -> None:
        wish = {"metadata": {"annotations": {WANTED_BY: f"{self.identity} {self._stamp()}"}}}
        await self._api.request(
            "PATCH",
            self._path,
            body=msgspec.json.encode(wish),
            content_type="application/merge-patch+json",
            timeout_seconds=_REQUEST_SECONDS,
        )

    def _forget_wish(self, lease: _Object) -> None:
        if lease.wanted_by == self.identity:
            del lease.metadata["annotations"][WANTED_BY]

    async def _read(self) -> _Object | None:
        try:
            body = await self._api.request("GET", self._path, timeout_seconds=_REQUEST_SECONDS)
        except ApiError as error:
            if error.status == _NOT_FOUND:
                return None
            raise
        try:
            return msgspec.json.decode(body, type=_Object)
        except msgspec.MsgspecError as error:
            raise ApiUnreachableError(f"the Lease cannot be read: {error}") from error

    async def _write(self, method: str, path: str, lease: _Object) -> None:
        body = msgspec.json.encode(lease)
        await self._api.request(method, path, body=body, timeout_seconds=_REQUEST_SECONDS)

    def _stamp(self) -> str:
        return micro_time(self._now())


def micro_time(moment: Timestamp) -> str:
    """RFC 3339 with microseconds, as the API writes a MicroTime."""
    seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment.nanos // 10**9))
    return f"{seconds}.{moment.nanos // 1000 % 10**6:06}Z"


# ---- Whether this replica may decide by counts: it holds the Lease, and has taken over since.

# What has to be done before a new holder may decide.
TakeOver = Callable[[], Awaitable[None]]
_LOOK_SECONDS = 0.1


class LeaderGate:
    """The one replica that decides counted pods is the holder of the Lease, once it is ready to."""

    def __init__(self, lease: Lease) -> None:
        self._lease = lease
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

    async def run(self, take_over: TakeOver) -> None:
        """Follows the Lease until cancelled; `take_over` is done before this replica may decide."""
        while True:
            if not self._lease.held:
                self._ready = False
            elif not self._ready:
                await take_over()
                # The Lease may have been lost meanwhile; the next look says so.
                self._ready = self._lease.held
            await asyncio.sleep(_LOOK_SECONDS)
