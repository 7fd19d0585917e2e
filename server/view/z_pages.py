"""z-pages: how long a server has run and with what configuration, as Kubernetes' components say it.

`/statusz` is text for people, or a Statusz of `config.k8s.io` as JSON, if `Accept` names that in
full (KEP-4827). `/configz` is the configuration as JSON. Both are pages of the view.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Mapping, Sequence

import msgspec
from aiohttp import web

from grammar.values.time import SECOND, Timestamp

COMPONENT = "placet"
_WARNING = (
    "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility "
    "guarantees and is for debugging purposes only."
)
_JSON = "application/json"
# The parameters of `Accept` for the structured form.
_STATUSZ = {"as": "Statusz", "g": "config.k8s.io", "v": "v1alpha1"}
_TEXT = frozenset({"", "*/*", "text/*", "text/plain"})


class ZPages:
    """The handlers of the z-pages. `configuration` gives documents by the group of their API."""

    def __init__(self, version: str, configuration: Callable[[], Mapping[str, object]]) -> None:
        self._version = version
        self._configuration = configuration
        self._started = Timestamp.now()
        self._clock = time.monotonic()

    def routes(self) -> Sequence[web.RouteDef]:
        return [web.get("/statusz", self.statusz), web.get("/configz", self.configz)]

    async def configz(self, _request: web.Request) -> web.Response:
        """The configuration in force, with the defaults."""
        return web.Response(body=msgspec.json.encode(self._configuration()), content_type=_JSON)

    async def statusz(self, request: web.Request) -> web.Response:
        """The version, the start and the paths of the server."""
        seconds = int(time.monotonic() - self._clock)
        paths = sorted(each.canonical for each in request.app.router.resources())
        for kind, parameters in _accepted(request.headers.get("Accept", "")):
            if kind == _JSON and _STATUSZ.items() <= parameters.items():
                return self._structured(seconds, paths)
            if kind in _TEXT:
                return self._text(seconds, paths)
        needed = ";".join(f"{key}={value}" for key, value in sorted(_STATUSZ.items()))
        raise web.HTTPNotAcceptable(text=f"ask for text/plain, or for {_JSON};{needed}\n")

    def _structured(self, seconds: int, paths: Sequence[str]) -> web.Response:
        found = {
            "kind": _STATUSZ["as"],
            "apiVersion": f"{_STATUSZ['g']}/{_STATUSZ['v']}",
            "metadata": {"name": COMPONENT},
            "startTime": self._started.to_second(),
            "uptimeSeconds": seconds,
            "binaryVersion": self._version,
            "paths": paths,
        }
        return web.Response(body=msgspec.json.encode(found), content_type=_JSON)

    def _text(self, seconds: int, paths: Sequence[str]) -> web.Response:
        minutes, rest = divmod(seconds, 60)
        hours, minutes = divmod(minutes, 60)
        started = time.gmtime(self._started.nanos // SECOND)
        lines = [
            f"{COMPONENT} statusz",
            _WARNING,
            "",
            f"Started: {time.strftime('%a %b %d %H:%M:%S UTC %Y', started)}",
            f"Up: {hours} hr {minutes:02} min {rest:02} sec",
            f"Python version: {platform.python_version()}",
            f"Binary version: {self._version}",
            f"Paths: {' '.join(paths)}",
        ]
        return web.Response(text="\n".join(lines) + "\n")


def _accepted(header: str) -> Sequence[tuple[str, Mapping[str, str]]]:
    """The media types of `Accept` with their parameters, in the order in which they are named."""
    found = []
    for each in header.split(","):
        kind, *parameters = (part.strip() for part in each.split(";"))
        pairs = (part.partition("=") for part in parameters)
        found.append((kind.lower(), {key.strip(): value.strip() for key, _, value in pairs}))
    return found
