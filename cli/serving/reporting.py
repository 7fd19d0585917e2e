"""What the holder of the Lease writes into the cluster: statuses, events, and nudges."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from logging import Logger

import msgspec

from cli.serving.policies import Policies
from cli.serving.statuses import Statuses
from engine.cache.informers import Informers
from engine.cluster import status
from engine.cluster.client import ApiClient
from engine.cluster.events import Event, Events, Regarding
from engine.cluster.lease import micro_time
from engine.cluster.nudge import Nudger
from engine.engine import Engine
from engine.errors import ApiError, ApiUnreachableError, NotSyncedError
from engine.refusals import Refusals
from grammar.values.timestamp import Timestamp

_PERIOD_SECONDS = 1.0


class Reporter:
    """Writes once a second what has changed, while it leads. On the event loop that serves."""

    def __init__(
        self,
        client: ApiClient,
        informers: Informers,
        policies: Policies,
        engine: Engine,
        lost: dict[str, str],
        refusals: Refusals,
        identity: str,
        log: Logger,
    ) -> None:
        """`lost` has, by the policy that lost, who governs pods that it selects too."""
        self._client = client
        self._informers = informers
        self._policies = policies
        self._lost = lost
        self._statuses = Statuses(policies, informers.cache)
        self._events = Events(client, identity)
        self._nudger = Nudger(client, engine, refusals)
        self._in_force: object = None
        self._log = log
        self._failure = ""

    async def run(self, leads: Callable[[], bool]) -> None:
        """Until it is cancelled."""
        while True:
            await asyncio.sleep(_PERIOD_SECONDS)
            if not leads():
                self._events.forget()
                continue
            try:
                await self._report()
                self._failure = ""
            except NotSyncedError:
                continue
            except (ApiError, ApiUnreachableError) as error:
                # The same for as long as it lasts, which may be for good: one line will do.
                if str(error) != self._failure:
                    self._log.warning("writing to the cluster failed: %s", error)
                self._failure = str(error)

    async def _report(self) -> None:
        snapshot, objects = self._informers.snapshot(), self._informers.policies
        if self._policies.in_force is not self._in_force:
            self._in_force = self._policies.in_force
            self._lost.clear()
        now = micro_time(Timestamp.now())
        lost = dict(self._lost)
        reports = list(self._statuses.reports(objects, snapshot, lost))
        self._tell_conflicts(objects, lost)
        await self._nudger.look(snapshot.pending, now)
        await self._events.send(now)
        await status.write(self._client, reports, f"{now[:19]}Z")

    def _tell_conflicts(self, objects: Mapping[str, bytes], lost: Mapping[str, str]) -> None:
        for name in objects:
            program = self._policies.program(name)
            if program is None or (winner := lost.get(program.address)) is None:
                continue
            note = f"`{winner}` governs pods that this policy selects too"
            about = _regarding(objects[name])
            self._events.tell(Event(about, "Warning", "Conflicting", "Select", note))


class _Metadata(msgspec.Struct):
    name: str
    namespace: str = ""
    uid: str = ""


class _Object(msgspec.Struct):
    apiVersion: str
    kind: str
    metadata: _Metadata


def _regarding(raw: bytes) -> Regarding:
    there = msgspec.json.decode(raw, type=_Object)
    metadata = there.metadata
    return Regarding(there.apiVersion, there.kind, metadata.namespace, metadata.name, metadata.uid)
