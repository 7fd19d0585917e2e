"""View: what a replica shows of its decisions and its state, on a listener of its own.

It listens on 127.0.0.1 and has no verbs. It reads the journal and the state of the server, checks
drafts of policies, and changes nothing. Records are turned into JSON in a thread, one answer at a
time, so that no decision waits for it; a follower that reads too slowly misses decisions, and is
told how many. Pages of other sites get no answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from importlib.resources import files
from itertools import islice
from typing import Protocol
from urllib.parse import urlsplit

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from engine.decision.journal import DecisionRecord, Journal
from engine.drift.drift_document import DriftDocument
from engine.errors import EngineError
from engine.explanation.decision_document import detail, listing, summary
from engine.objects.remembered import Remembered
from grammar.messages.texts import escaped_values, shown
from grammar.syntax.parser import plain_keywords
from server.answers.view_answers import ReplicaStatus
from server.view.api_description import API, MOST_HOURS, MOST_LISTED, description
from server.view.drafts import MOST_BYTES, Drafts
from server.view.explaining import Explainer
from server.view.history import History
from server.view.overview import Overview
from server.view.policy_states import PolicyStates
from server.view.simulating import Simulator
from server.view.view_access import ViewAccess, guard

DEFAULT_PORT = 12346
HOST = "127.0.0.1"
# All clients are on this host, so half of these connections are allowed.
MOST_CONNECTIONS = 32
# Of a view that users share: a browser opens six, and a proxy those of all users.
MOST_SHARED_CONNECTIONS = 256
# The decisions of one listing, unless `limit` says otherwise; the journal has no more than these.
_LISTED = 100
# A stream looks at the journal this often, and sends at most so many decisions each time.
_LOOK_SECONDS = 0.1
_MOST_SENT = 100
# The bytes of events that are kept for others who follow.
_MOST_MADE = 8 << 20
# A comment that keeps a connection open through proxies.
_SILENT_SECONDS = 15.0
_LOCAL = frozenset({HOST, "localhost", "::1"})
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}


class Watched(Protocol):
    """The cluster that a server watches. `drift` is what has drifted there."""

    @property
    def drift(self) -> DriftDocument | None: ...

    async def compare(self) -> Mapping[str, object]:
        """The differences from the API server, as JSON. Raises EngineError."""
        ...


class View:
    """The handlers of the view. `status` is called on the event loop and must be quick.

    `watched` is None without a watched cluster. `ends` says whether the server is shutting down.
    """

    def __init__(
        self,
        replica: str,
        journal: Journal,
        status: Callable[[], ReplicaStatus],
        watched: Watched | None,
        explainer: Explainer,
        policies: PolicyStates,
        drafts: Drafts,
        overview: Overview,
        history: History,
        simulator: Simulator,
        ends: Callable[[], bool] = lambda: False,
    ) -> None:
        self._replica = replica
        self._journal = journal
        self._status = status
        self._watched = watched
        self._explainer = explainer
        self._policies = policies
        self._drafts = drafts
        self._overview = overview
        self._history = history
        self._simulator = simulator
        self._ends = ends
        # One answer at a time is turned into JSON, whoever asks.
        self._formatting = asyncio.Lock()
        self._comparing = asyncio.Lock()
        # The last events of decisions, by their numbers.
        self._made: Remembered[int, bytes] = Remembered(_MOST_MADE)

    def routes(self) -> Sequence[web.RouteDef]:
        return [
            web.get(f"{API}/decisions", self.decisions),
            web.get(f"{API}/decisions/stream", self.stream),
            web.get(f"{API}/decisions/{{namespace}}/{{name}}", self.decision),
            web.get(f"{API}/explain/{{namespace}}/{{name}}", self.explain),
            web.get(f"{API}/overview", self.overview),
            web.get(f"{API}/waiting", self.waiting),
            web.get(f"{API}/fills", self.fills),
            web.get(f"{API}/selected", self.selected),
            web.get(f"{API}/revisions", self.revisions),
            web.get(f"{API}/history", self.history),
            web.get(f"{API}/audit", self.audit),
            web.get(f"{API}/drift", self.drift),
            web.get(f"{API}/policies", self.policies),
            web.get(f"{API}/policies/{{name}}", self.policy),
            web.get(f"{API}/policies/{{namespace}}/{{name}}", self.policy),
            web.get(f"{API}/session", self.session),
            web.post(f"{API}/check", self.check),
            web.post(f"{API}/complete", self.complete),
            web.post(f"{API}/describe", self.describe),
            web.post(f"{API}/objects", self.objects),
            web.post(f"{API}/evaluate", self.evaluate),
            web.post(f"{API}/place", self.place),
            web.post(f"{API}/simulate", self.simulate),
            web.get(f"{API}/status", self.status),
            web.get(f"{API}/cache/compare", self.compare),
            web.get(f"{API}/openapi.json", self.description),
        ]

    async def decisions(self, request: web.Request) -> web.Response:
        """The last decisions; `limit` and `namespace` restrict them."""
        text, namespace = request.query.get("limit", str(_LISTED)), request.query.get("namespace")
        if not text.isdecimal() or not text.isascii() or not 1 <= int(text[:9]) <= MOST_LISTED:
            raise web.HTTPBadRequest(text=f"limit is a number from 1 to {MOST_LISTED}\n")
        records = (r for r in self._journal if namespace is None or r.namespace == namespace)
        found = list(islice(records, int(text) + 1))
        shown, more = found[: int(text)], len(found) > int(text)
        return await self._json(lambda: listing(self._replica, shown, more=more))

    async def decision(self, request: web.Request) -> web.Response:
        """The last decision about one pod."""
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        record = self._journal.find(namespace, name)
        if record is None:
            text = f"there is no recent decision about {namespace}/{name}\n"
            raise web.HTTPNotFound(text=text)
        generation, audits = self._journal.generation, self._policies.audits_of(record.uid)
        return await self._json(lambda: detail(self._replica, record, generation, audits))

    async def explain(self, request: web.Request) -> web.Response:
        """What would be decided about a pod now; with `node` also what is said of that node."""
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        answer = await self._explainer.explain(namespace, name, request.query.get("node"))
        return await self._json(answer)

    async def overview(self, request: web.Request) -> web.Response:
        """The cluster at a glance: nodes by `label`, and how full a bound is there."""
        query = request.query
        bound = None
        if "policy" in query and "clause" in query:
            bound = query["policy"], query["clause"], query.get("of", "")
        found = await self._overview.at_a_glance(query.get("label"), bound)
        return await self._json(lambda: found)

    async def waiting(self, _request: web.Request) -> web.Response:
        """The pods without a node, and why they wait."""
        found = await self._overview.waiting()
        return await self._json(lambda: found)

    async def fills(self, _request: web.Request) -> web.Response:
        """How full bounds are."""
        found = await self._overview.fills()
        return await self._json(lambda: found)

    async def selected(self, request: web.Request) -> web.Response:
        """The pods that the `policy` selects."""
        address = request.query.get("policy", "")
        try:
            found = await self._overview.selected(address)
        except EngineError as error:
            raise web.HTTPServiceUnavailable(text=f"{error}\n") from None
        if found is None:
            raise web.HTTPNotFound(text=f"no policy `{shown(address)}` is in force\n")
        return await self._json(lambda: found)

    async def revisions(self, request: web.Request) -> web.Response:
        """The texts that the `policy` had."""
        return await self._json(self._policies.revisions(request.query.get("policy", "")))

    async def audit(self, _request: web.Request) -> web.Response:
        """What policies in audit mode would have rejected."""
        found = self._policies.audits()
        return await self._json(lambda: found)

    async def drift(self, _request: web.Request) -> web.Response:
        """The pods that break rules where they are."""
        found = self._watched.drift if self._watched is not None else None
        if found is None:
            why = "this server watches no cluster"
            found = DriftDocument(replica=self._replica, problem=why)
        return await self._json(lambda: found)

    async def history(self, request: web.Request) -> web.Response:
        """Numbers of the last `hours`: all, or those of a `policy`."""
        text = request.query.get("hours", "168")
        if not text.isdecimal() or not text.isascii() or not 1 <= int(text[:9]) <= MOST_HOURS:
            raise web.HTTPBadRequest(text=f"hours is a number from 1 to {MOST_HOURS}\n")
        hours, policy = int(text), request.query.get("policy")
        return await self._json(lambda: self._history.listed(hours, policy))

    async def policies(self, _request: web.Request) -> web.Response:
        """The policies and their state."""
        return await self._json(self._policies.listing())

    async def policy(self, request: web.Request) -> web.Response:
        """One policy: its text, what is wrong with it, and the numbers of its pods over time."""
        namespace, name = request.match_info.get("namespace"), request.match_info["name"]
        address = name if namespace is None else f"{namespace}/{name}"
        answer = self._policies.detail(address)
        if answer is None:
            raise web.HTTPNotFound(text=f"there is no policy `{shown(address)}`\n")
        return await self._json(answer)

    async def session(self, _request: web.Request) -> web.Response:
        """The token for drafts, which pages of other sites cannot read."""
        return await self._json(lambda: self._drafts.session)

    async def check(self, request: web.Request) -> web.Response:
        """The diagnostics of a draft."""
        found = await self._drafts.check(request)
        return await self._json(lambda: found)

    async def complete(self, request: web.Request) -> web.Response:
        """What can stand at a place of a draft."""
        found = await self._drafts.complete(request)
        return await self._json(lambda: found)

    async def describe(self, request: web.Request) -> web.Response:
        """What the name at a place of a draft stands for."""
        found = await self._drafts.describe(request)
        return await self._json(lambda: found)

    async def objects(self, request: web.Request) -> web.Response:
        """The policies of a draft as objects."""
        found = await self._drafts.objects(request)
        return await self._json(lambda: found)

    async def evaluate(self, request: web.Request) -> web.Response:
        """What a draft would change in a cluster that comes with it."""
        found = await self._drafts.evaluate(request)
        return await self._json(lambda: found)

    async def place(self, request: web.Request) -> web.Response:
        """Where a pod of manifests would go."""
        return await self._json(await self._explainer.place(*await self._drafts.pasted(request)))

    async def simulate(self, request: web.Request) -> web.Response:
        """Where pods would go, if nodes came or were drained."""
        return await self._json(await self._simulator.simulate(request))

    async def status(self, _request: web.Request) -> web.Response:
        """The state of the replica and of what it knows."""
        status = self._status()
        return await self._json(lambda: status)

    async def compare(self, _request: web.Request) -> web.Response:
        """What differs from the API server; it lists every object of the cluster."""
        if self._watched is None:
            raise web.HTTPNotFound(text="this server watches no cluster\n")
        if self._comparing.locked():
            raise web.HTTPTooManyRequests(text="another comparison has not ended\n")
        async with self._comparing:
            try:
                found = await self._watched.compare()
            except EngineError as error:
                raise web.HTTPServiceUnavailable(text=f"{error}\n") from None
        return await self._json(lambda: {"replica": self._replica, **found})

    async def description(self, _request: web.Request) -> web.Response:
        """The description of this API."""
        return await self._json(description)

    async def stream(self, request: web.Request) -> web.StreamResponse:
        """Decisions as they are made, as server-sent events.

        It begins with `replica`. A `decision` is a summary; `dropped` says how many decisions were
        not sent before the next one.
        """
        response = web.StreamResponse(headers={**_HEADERS, "Content-Type": "text/event-stream"})
        number = self._journal.number
        await response.prepare(request)
        await response.write(_event("replica", {"replica": self._replica}))
        async for events in self._events(request, number):
            await response.write(events)
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
                yield b"".join([*parts, *map(self._decision, records)])
            elif silent >= _SILENT_SECONDS:
                silent = 0.0
                yield b": nothing new\n\n"

    def _decision(self, record: DecisionRecord) -> bytes:
        """The event of a decision, which is made once for all who follow."""
        event = self._made.get(record.number)
        if event is None:
            event = self._made.put(record.number, _event("decision", summary(record)))
        return event

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

    async def _json(self, content: Callable[[], object]) -> web.Response:
        async with self._formatting:
            body = await asyncio.to_thread(_encoded, content)
        return web.Response(body=body, content_type="application/json")


def view_app(view: View, access: ViewAccess | None = None) -> web.Application:
    """The application of the view of this host, or of one that users share by `access`."""
    middlewares = [_only_own_pages(shared=access is not None)]
    if access is not None:
        middlewares.append(guard(access))
    app = web.Application(middlewares=middlewares, client_max_size=MOST_BYTES)
    app.add_routes([*view.routes(), *PageFiles().routes()])
    return app


def _only_own_pages(*, shared: bool) -> Middleware:
    """A middleware that answers requests which come from no page or from one of the view.

    A view that is not shared answers to a local name only: a site whose name leads to 127.0.0.1
    sends its own name as Host. Other sites have another Origin or say that they are another site;
    a link from there may still open the page, which holds nothing of the cluster.
    """

    @web.middleware
    async def answer(request: web.Request, handler: Handler) -> web.StreamResponse:
        host = request.headers.get("Host", "")
        if not shared and _host_name(host) not in _LOCAL:
            text = "the view answers only to 127.0.0.1, [::1] and localhost\n"
            raise web.HTTPForbidden(text=text, headers=_HEADERS)
        origin, site = request.headers.get("Origin"), request.headers.get("Sec-Fetch-Site", "none")
        own = f"{'https' if shared else 'http'}://{host}"
        is_own = origin in (None, own) and site in ("none", "same-origin")
        if not is_own and not _opens_page(request):
            text = "the view answers no pages of other sites\n"
            raise web.HTTPForbidden(text=text, headers=_HEADERS)
        try:
            response = await handler(request)
        except web.HTTPException as error:
            error.headers.update(_HEADERS)
            raise
        if not response.prepared:
            # The page has a policy of its own.
            for name, value in _HEADERS.items():
                response.headers.setdefault(name, value)
        return response

    return answer


def _opens_page(request: web.Request) -> bool:
    """Whether a browser follows a link to the page, which goes into a window of its own."""
    mode, into = (request.headers.get(f"Sec-Fetch-{name}", "") for name in ("Mode", "Dest"))
    is_page = request.path in ("/", ROOT, f"{ROOT}/")
    return is_page and request.method == "GET" and (mode, into) == ("navigate", "document")


def _host_name(host: str) -> str:
    """The name of `localhost:12346` or `[::1]:12346`; empty for what is none."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _event(kind: str, content: object) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), json_of(content))


def _encoded(content: Callable[[], object]) -> bytes:
    return json_of(content()) + b"\n"


def json_of(content: object) -> bytes:
    """JSON for the page and for commands, in which the texts of the cluster are escaped."""
    plain = msgspec.json.encode(content)
    if plain.isascii() and b"\\" not in plain and b"\x7f" not in plain:
        # Nothing is to be escaped, and to look at each text would take many times as long.
        return plain
    return msgspec.json.encode(escaped_values(msgspec.to_builtins(content)))


# ---- the page


ROOT = "/ui"
# Scripts, styles and answers come from the view alone, and no other page may frame this one.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}


def page_files() -> Mapping[str, bytes]:
    """The content of each file that the page can load, by its path below `/ui/`."""
    root = files("server.view").joinpath("ui")
    folders = {"": root, "vendor/": root.joinpath("vendor")}
    found = {
        f"{prefix}{each.name}": each.read_bytes()
        for prefix, folder in folders.items()
        for each in folder.iterdir()
        if _suffix(each.name) in _TYPES
    }
    return {**found, "words.js": _words()}


def _words() -> bytes:
    """A script with the keywords of the language, for the colours of the editor."""
    words = msgspec.json.encode(plain_keywords())
    return b"export const WORDS = new Set(" + words + b");\n"


class PageFiles:
    """The handlers of the page."""

    def __init__(self) -> None:
        self._files = page_files()

    def routes(self) -> Sequence[web.RouteDef]:
        return [
            web.get("/", self.moved),
            web.get(ROOT, self.moved),
            web.get(f"{ROOT}/{{path:.*}}", self.file),
        ]

    async def moved(self, _request: web.Request) -> web.Response:
        """The address of the view, and that of the page without a slash, lead to the page."""
        raise web.HTTPFound("ui/")

    async def file(self, request: web.Request) -> web.Response:
        """One file of the page; the page itself without a name."""
        path = request.match_info["path"] or "index.html"
        body = self._files.get(path)
        if body is None:
            raise web.HTTPNotFound(text=f"the page has no file {path}\n")
        headers = {"Content-Security-Policy": POLICY, "Referrer-Policy": "no-referrer"}
        kind = _TYPES[_suffix(path)]
        return web.Response(body=body, content_type=kind, charset="utf-8", headers=headers)


def _suffix(name: str) -> str:
    return name[name.rfind(".") :] if "." in name else ""
