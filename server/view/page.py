"""Page: the files that browsers get, the headers of all answers, and which pages get one.

Pages of other sites get no answer. Texts of the cluster are escaped in all JSON.
"""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import PurePath
from urllib.parse import urlsplit

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from grammar.messages.texts import escaped_values
from grammar.syntax.parser import keywords

DEFAULT_PORT, HOST = 12346, "127.0.0.1"
_LOCAL = frozenset({HOST, "localhost", "::1"})
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
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


def only_own_pages(*, shared: bool) -> Middleware:
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
            raise web.HTTPForbidden(text=text)
        origin, site = request.headers.get("Origin"), request.headers.get("Sec-Fetch-Site", "none")
        own = f"{'https' if shared else 'http'}://{host}"
        is_own = origin in (None, own) and site in ("none", "same-origin")
        # A browser that follows a link to the page shows it in a window of its own.
        mode, into = (request.headers.get(f"Sec-Fetch-{name}", "") for name in ("Mode", "Dest"))
        is_link = request.method == "GET" and (mode, into) == ("navigate", "document")
        if not is_own and not (is_link and request.path in ("/", ROOT, f"{ROOT}/")):
            text = "the view answers no pages of other sites\n"
            raise web.HTTPForbidden(text=text)
        return await handler(request)

    return answer


async def with_headers(_request: web.Request, response: web.StreamResponse) -> None:
    """Gives headers to an answer that is about to be sent; the page has a policy of its own."""
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)


def _host_name(host: str) -> str:
    """The name of `localhost:12346` or `[::1]:12346`; empty for what is none."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def json_of(content: object) -> bytes:
    """JSON for the page and for commands, in which the texts of the cluster are escaped."""
    plain = msgspec.json.encode(content)
    if plain.isascii() and b"\\" not in plain and b"\x7f" not in plain:
        # Nothing is to be escaped, and to look at each text would take many times as long.
        return plain
    return msgspec.json.encode(escaped_values(msgspec.to_builtins(content)))


@cache
def page_files() -> Mapping[str, bytes]:
    """The content of each file that the page can load, by its path below `/ui/`."""
    root = files("server.view").joinpath("ui")
    found = {
        f"{prefix}{each.name}": each.read_bytes()
        for prefix in ("", "vendor/")
        for each in root.joinpath(prefix).iterdir()
        if PurePath(each.name).suffix in _TYPES
    }
    # For the colours of texts. The tables of the parser are read for these at the first request.
    words = msgspec.json.encode(sorted({*keywords().values()} - {"true", "false", "null"}))
    return {**found, "words.js": b"export const WORDS = new Set(" + words + b");\n"}


def page_routes() -> Sequence[web.RouteDef]:
    """The routes of the page, to which the addresses above it lead."""

    async def moved(_request: web.Request) -> web.Response:
        raise web.HTTPFound("ui/")

    async def file(request: web.Request) -> web.Response:
        path, known = request.match_info["path"] or "index.html", await to_thread(page_files)
        if path not in known:
            raise web.HTTPNotFound(text=f"the page has no file {path}\n")
        headers = {"Content-Security-Policy": POLICY, "Referrer-Policy": "no-referrer"}
        kind = _TYPES[PurePath(path).suffix]
        return web.Response(body=known[path], content_type=kind, charset="utf-8", headers=headers)

    return [web.get("/", moved), web.get(ROOT, moved), web.get(f"{ROOT}/{{path:.*}}", file)]
