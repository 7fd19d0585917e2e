"""View: the decisions and the state of a replica, shown on a listener of its own.

It listens on 127.0.0.1 and has no verbs. It reads the journal and the state of the server, checks
drafts of policies, and changes nothing. Answers are turned into JSON in a thread, one at a time, so
that no decision waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from inspect import isawaitable
from typing import Any, TypeVar

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler

from engine.engine import Engine
from engine.errors import BadObjectError, EngineError, UnknownNodeError
from engine.explanation.document import Listing, summary
from engine.explanation.reader import EVERYTHING
from grammar.messages.diagnostics import UserError
from grammar.messages.texts import shown
from server.admission.checking_process import CheckStoppedError, CheckTimeoutError
from server.answers import PolicyInForce, ReplicaStatus
from server.view.explaining import Explainer
from server.view.page import json_of, only_own_pages, page_routes, with_headers
from server.view.routes import API, ROUTES, Answer, Route, ViewQuestion
from server.view.turns import Line
from server.view.view_access import READER, ViewAccess, guard

T = TypeVar("T")
# All clients are on this host.
MOST_CONNECTIONS = 32
# Of a view that users share: a browser opens six, and a proxy those of all users.
MOST_SHARED_CONNECTIONS = 256
# A body has a text of at most 256 Ki characters, and a cluster of at most 4 Mi, in JSON.
_MOST_BYTES, _READ_SECONDS = 6 * 1024 * 1024, 10.0
# For operators alone: its answer is not described.
_COMPARE = Route("/cache/compare", dict, named="compare")


@dataclass(eq=False, slots=True)
class View:
    """The handlers of the view: the answers of its parts, and a few of its own.

    `here` knows the replica. `read_status` is called on the event loop and must be quick.
    `differences` gives those of the cache from the API server, and raises EngineError; it is None
    without a watched cluster. A body has to say that it is JSON: a browser then asks the view
    before it sends one for a page of another site.
    """

    here: Explainer
    read_status: Callable[[], ReplicaStatus]
    differences: Callable[[], Awaitable[Mapping[str, object]]] | None
    # The other answers by the names of routes, of which there may be `more`.
    parts: Iterable[Mapping[str, Answer]]
    more: Sequence[Route] = ()
    # One answer at a time is turned into JSON.
    _formatting: Line = field(default_factory=lambda: Line("answer"), init=False)
    _comparing: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    def routes(self) -> Sequence[web.RouteDef]:
        answers: dict[str, Answer] = {
            "decisions": self.decisions,
            "decision": self.decision,
            "status": lambda _: self.read_status(),
            "compare": self.compare,
        }
        for part in self.parts:
            answers.update(part)
        return [
            (web.get if each.body is None else web.post)(
                f"{API}{each.path}", self._handler(each, answers[each.name])
            )
            for each in (*ROUTES, *self.more, _COMPARE)
        ]

    async def decisions(self, asked: ViewQuestion) -> object:
        """The last decisions, the newest first; of another start than `after` says, all of them."""
        limit, namespace = asked.numbers["limit"], asked.query.get("namespace")
        journal, after = self.here.journal, asked.numbers["after"]
        records, number = [*journal], journal.number

        def made() -> Listing:
            found = [
                each
                for each in records
                if namespace in (None, each.namespace) and asked.reader.may_list(each.namespace)
                if each.number > after or after > number
            ]
            summaries = [summary(each) for each in found[:limit]]
            return Listing(self.here.replica, summaries, len(found) > limit, number)

        return made

    async def decision(self, asked: ViewQuestion) -> object:
        """The last decision about one pod."""
        namespace, name = asked.names["namespace"], asked.names["name"]
        if (found := self.here.recorded(namespace, name, asked.reader)) is None:
            pod = shown(f"{namespace}/{name}")
            raise web.HTTPNotFound(text=f"there is no recent decision about {pod}\n")
        return found

    async def compare(self, _asked: ViewQuestion) -> object:
        """What differs from the API server; it lists every object of the cluster."""
        if self.differences is None:
            raise web.HTTPNotFound(text="this server watches no cluster\n")
        if self._comparing.locked():
            raise web.HTTPTooManyRequests(text="another comparison has not ended\n")
        async with self._comparing:
            return {"replica": self.here.replica, **await self.differences()}

    def _handler(self, route: Route, answer: Answer) -> Handler:
        async def handle(request: web.Request) -> web.Response:
            query = request.query
            numbers = {p.name: p.number(query.get(p.name)) for p in route.query if p.most}
            body: object = None
            if route.body is not None:
                body = await self._body(request, route.body)
            reader = request.get(READER, EVERYTHING)
            asked = ViewQuestion(request.match_info, query, numbers, body, reader)
            return await self._json(await _answered(partial(answer, asked)), reader.owner)

        return handle

    async def _json(self, content: object, owner: str = "") -> web.Response:
        async with self._formatting.one(owner):
            body = await asyncio.to_thread(
                lambda: json_of(content() if callable(content) else content) + b"\n"
            )
        return web.Response(body=body, content_type="application/json")

    async def _body(self, request: web.Request, kind: type[T]) -> T:
        if request.content_type != "application/json":
            text = "the header `Content-Type` is not `application/json`\n"
            raise web.HTTPUnsupportedMediaType(text=text)
        if request.headers.get("Content-Encoding", "identity") != "identity":
            raise web.HTTPUnsupportedMediaType(text="the body is compressed\n")
        try:
            async with asyncio.timeout(_READ_SECONDS):
                body = await request.read()
        except (TimeoutError, ConnectionError, web.RequestPayloadError):
            raise web.HTTPBadRequest(text="the body did not come in time, or not whole\n") from None
        try:
            return msgspec.json.decode(body, type=kind)
        except (ValueError, RecursionError) as error:
            # A text that is no UTF-8 or nested too deeply has an error of its own.
            raise web.HTTPBadRequest(text=f"the body is no question: {error}\n") from None


# What an error of the engine or of a text is called in HTTP; the first that fits.
_FAILURES: Sequence[tuple[type[Exception], type[web.HTTPException]]] = (
    (UnknownNodeError, web.HTTPNotFound),
    (BadObjectError, web.HTTPConflict),
    (EngineError, web.HTTPServiceUnavailable),
    (CheckTimeoutError, web.HTTPServiceUnavailable),
    (CheckStoppedError, web.HTTPUnprocessableEntity),
    (UserError, web.HTTPBadRequest),
)


async def _answered(answer: Callable[[], object]) -> Any:
    """The answer, also one that has to be waited for. Raises HTTPException."""
    try:
        found = answer()
        return await found if isawaitable(found) else found
    except (EngineError, UserError) as error:
        failure = next(found for kind, found in _FAILURES if isinstance(error, kind))
        hint = error.hint if isinstance(error, UserError) else ""
        raise failure(text=f"{error}{f' ({hint})' if hint else ''}\n") from None


def view_app(view: View, access: ViewAccess | None = None) -> web.Application:
    """The application of the view of this host, or of one that users share by `access`."""
    middlewares = [only_own_pages(shared=access is not None)]
    if access is not None:
        middlewares.append(guard(access))
    app = web.Application(middlewares=middlewares, client_max_size=_MOST_BYTES)
    app.on_response_prepare.append(with_headers)
    app.add_routes([*view.routes(), *page_routes()])
    return app


def policies_in_force(engine: Engine) -> Sequence[PolicyInForce]:
    return [
        PolicyInForce(
            program.address,
            program.cluster,
            "audit" if program.audit else "enforce",
            program.weight,
            program.digest,
            program.address in engine.expensive,
            engine.unmet.get(program.address, ""),
        )
        for program in engine.registry.programs
    ]
