"""Page: the files under `/ui/`, which show in a browser what the view knows.

They are read once, when the view is built, and never change while it runs. `words.js`, the keywords
that the editor colours, is made of the grammar of the language. All their addresses are
relative, nothing comes from another host, and no script or style stands in the HTML.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files

import msgspec
from aiohttp import web

from grammar.syntax.parser import plain_keywords

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
        return [web.get(ROOT, self.moved), web.get(f"{ROOT}/{{path:.*}}", self.file)]

    async def moved(self, _request: web.Request) -> web.Response:
        """The address without a slash leads to the page."""
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
