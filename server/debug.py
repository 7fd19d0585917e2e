"""`/debug/…`: what is known of the cluster, whether that is so, and what was decided last."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec
from aiohttp import web

from engine.errors import EngineError
from server.decisions import Decisions


class Inspection(Protocol):
    """What can be told of a view of the cluster."""

    def status(self) -> Mapping[str, object]:
        """What is known, as JSON."""
        ...

    async def compare(self) -> Mapping[str, object]:
        """The differences to the API server, as JSON. Raises EngineError."""
        ...


class Debug:
    """For people with a suspicion. Comparing lists everything: it is not for probes."""

    def __init__(self, inspection: Inspection) -> None:
        self._inspection = inspection

    async def cache(self, request: web.Request) -> web.Response:
        """The state of each resource that is watched; with `compare=1` what is wrong with it."""
        if request.query.get("compare", "0") in ("0", ""):
            return _json(self._inspection.status())
        try:
            return _json(await self._inspection.compare())
        except EngineError as error:
            return web.Response(status=503, text=f"{error}\n")


class Decided:
    """For people with a pod that is pending, or is where it should not be."""

    def __init__(self, decisions: Decisions) -> None:
        self._decisions = decisions

    async def every(self, _request: web.Request) -> web.Response:
        """A line for each pod that kube-scheduler asked about last."""
        return _json(self._decisions.list())

    async def one(self, request: web.Request) -> web.Response:
        """The last answer about one pod."""
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        told = self._decisions.find(namespace, name)
        if told is None:
            text = f"no decision about {namespace}/{name} is kept\n"
            return web.Response(status=404, text=text)
        return _json(told)


def _json(content: Mapping[str, object] | msgspec.Struct) -> web.Response:
    body = msgspec.json.format(msgspec.json.encode(content))
    return web.Response(body=body + b"\n", content_type="application/json")
