"""Decisions: the last ones of a replica, and those to come as a stream of events.

They are read of the journal. A follower that reads too slowly misses decisions, and is told how
many.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from itertools import islice

from aiohttp import web

from engine.decision.audit_log import AuditLog
from engine.decision.journal import DecisionRecord, Journal
from engine.explanation.decided import decided, listing, summary
from grammar.messages.texts import shown
from server.view.page import HEADERS, json_of
from server.view.routes import Answer, ViewQuestion

# A stream looks at the journal this often, and sends at most so many decisions each time.
_LOOK_SECONDS, _MOST_SENT = 0.1, 100
# A comment that keeps a connection open through proxies.
_SILENT_SECONDS = 15.0


class Decisions:
    """The decisions of one replica. `ends` says whether the server is shutting down."""

    def __init__(
        self,
        replica: str,
        journal: Journal,
        log: AuditLog,
        ends: Callable[[], bool],
    ) -> None:
        self._replica = replica
        self._journal = journal
        self._log = log
        self._ends = ends

    @property
    def answers(self) -> Mapping[str, Answer]:
        return {"decisions": self.decisions, "decision": self.decision}

    async def decisions(self, asked: ViewQuestion) -> object:
        """The last decisions; `limit` and `namespace` restrict them."""
        limit, namespace = asked.numbers["limit"], asked.query.get("namespace")
        records = (r for r in self._journal if namespace is None or r.namespace == namespace)
        found = list(islice(records, limit + 1))
        return lambda: listing(self._replica, found[:limit], more=len(found) > limit)

    async def decision(self, asked: ViewQuestion) -> object:
        """The last decision about one pod."""
        namespace, name = asked.names["namespace"], asked.names["name"]
        record = self._journal.find(namespace, name)
        if record is None:
            pod = shown(f"{namespace}/{name}")
            raise web.HTTPNotFound(text=f"there is no recent decision about {pod}\n")
        generation = self._journal.generation
        return lambda: decided(self._replica, record, generation, self._log)

    async def stream(self, request: web.Request) -> web.StreamResponse:
        """Decisions as server-sent events, until the client or the server ends it."""
        # A decision that is made while the headers are sent comes, too.
        number = self._journal.number
        response = web.StreamResponse(headers={**HEADERS, "Content-Type": "text/event-stream"})
        await response.prepare(request)
        try:
            await response.write(_event("replica", {"replica": self._replica}))
            async for events in self._events(request, number):
                await response.write(events)
        except ConnectionError:
            pass
        return response

    async def _events(self, request: web.Request, number: int) -> AsyncIterator[bytes]:
        """The decisions after this number, a few at a time, until the client is gone."""
        silent = 0.0
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            transport = request.transport
            if self._ends() or transport is None or transport.is_closing():
                return
            if transport.get_write_buffer_size():
                # The client has not read the last ones: what comes now may be dropped.
                continue
            records, dropped = self._newer(number)
            number = self._journal.number
            silent = 0.0 if records else silent + _LOOK_SECONDS
            if records:
                parts = [_event("dropped", {"decisions": dropped})] if dropped else []
                yield b"".join([*parts, *(_event("decision", summary(each)) for each in records)])
            elif silent >= _SILENT_SECONDS:
                silent = 0.0
                yield b": nothing new\n\n"

    def _newer(self, number: int) -> tuple[Sequence[DecisionRecord], int]:
        """The last decisions after this number, the oldest first, and the number of others."""
        made = self._journal.number - number
        if not made:
            return (), 0
        found: list[DecisionRecord] = []
        for record in self._journal:
            if record.number > number:
                found.append(record)
                if len(found) == made:
                    break
        found.sort(key=lambda record: record.number)
        kept = found[-_MOST_SENT:]
        return kept, made - len(kept)


def _event(kind: str, content: object) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), json_of(content))
