"""An extender that keeps the contract, and defects that tests plant in it."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable, Sequence
from typing import Any

from aiohttp import ClientSession, web

Json = dict[str, Any]
Defect = Callable[[Json, Any], Any]


class StubExtender:
    """Rejects nodes of `zone-1`, or with names those that end in 1; `defects` change answers.

    A defect is a function of the request and the good answer of its verb.
    """

    def __init__(self, api: str = "", **defects: Defect) -> None:
        self.api, self.defects = api, defects
        self.bound: dict[str, str] = {}

    def app(self) -> web.Application:
        made = web.Application(client_max_size=1 << 26)
        made.router.add_post("/{verb}", self.handle)
        return made

    async def handle(self, request: web.Request) -> web.StreamResponse:
        verb = request.match_info["verb"]
        try:
            asked: Json = json.loads(await request.read())
        except ValueError:
            return web.json_response({"Error": "not JSON"})
        answer = await getattr(self, verb)({key.lower(): each for key, each in asked.items()})
        defect = self.defects.get(verb)
        found = answer if defect is None else defect(asked, answer)
        if asyncio.iscoroutine(found):
            found = await found
        return found if isinstance(found, web.StreamResponse) else web.json_response(found)

    async def filter(self, asked: Json) -> Json:
        names, nodes = asked.get("nodenames"), (asked.get("nodes") or {}).get("items")
        every: Sequence[str] = names if names is not None else [_name(each) for each in nodes or ()]
        bad = [name for name in every if name.endswith("1")]
        return {
            "Nodes": None
            if names is not None
            else {"items": [each for each in nodes or () if _name(each) not in bad]},
            "NodeNames": None if names is None else [name for name in names if name not in bad],
            "FailedNodes": {},
            "FailedAndUnresolvableNodes": dict.fromkeys(bad, "its number is odd"),
            "Error": "",
        }

    async def prioritize(self, asked: Json) -> list[Json]:
        names = asked.get("nodenames")
        if names is None:
            names = [_name(each) for each in asked["nodes"]["items"]]
        return [{"Host": name, "Score": len(name) % 11} for name in names]

    async def preempt(self, asked: Json) -> Json:
        meta = asked.get("nodenametometavictims")
        if meta is None:
            meta = {
                node: each | {"Pods": [{"UID": pod["metadata"]["uid"]} for pod in each["Pods"]]}
                for node, each in asked["nodenametovictims"].items()
            }
        return {"NodeNameToMetaVictims": meta}

    async def bind(self, asked: Json) -> Json:
        key = f"{asked['podnamespace']}/{asked['podname']}"
        if self.bound.get(key) == asked["node"]:
            return {"Error": ""}
        path = f"/api/v1/namespaces/{asked['podnamespace']}/pods/{asked['podname']}/binding"
        body = {
            "metadata": {"name": asked["podname"], "uid": asked["poduid"]},
            "target": {"kind": "Node", "name": asked["node"]},
        }
        async with ClientSession() as session, session.post(self.api + path, json=body) as response:
            if response.status != 201:
                return {"Error": f"not bound: {response.status}"}
        self.bound[key] = asked["node"]
        return {"Error": ""}


def _name(node: Json) -> str:
    return str(node["metadata"]["name"])


# ---- defects


def changed(**fields: Any) -> Defect:
    """The answer with other fields."""
    return lambda _, answer: answer | fields


def with_status(status: int, text: str = "no") -> Defect:
    return lambda _, __: web.Response(status=status, text=text)


def unknown_nodes_are(status: int) -> Defect:
    """Another status where a node is not known."""

    def defect(asked: Json, answer: Json) -> Any:
        if "conformance-no-such-node" in asked["NodeNames"]:
            return web.Response(status=status, text="no such node")
        return answer

    return defect


def errors_are(status: int) -> Defect:
    """Another status where `Error` says something."""

    def defect(_: Json, answer: Json) -> Any:
        return web.json_response(answer, status=status if answer["Error"] else 200)

    return defect


def after(calls: int, text: str) -> Defect:
    """Another text after so many good answers."""
    numbers = itertools.count()
    return lambda _, answer: answer if next(numbers) < calls else web.Response(text=text)


def counting() -> Defect:
    """Reasons that have a counter."""
    numbers = itertools.count()

    def defect(_: Json, answer: Json) -> Json:
        failed = answer["FailedAndUnresolvableNodes"]
        said = {node: f"{text}, call {next(numbers)}" for node, text in failed.items()}
        return answer | {"FailedAndUnresolvableNodes": said}

    return defect


def refusing_above(size: int) -> Defect:
    """Status 400 for a request of more bytes, as a server with a limit answers."""

    def defect(asked: Json, answer: Any) -> Any:
        if len(json.dumps(asked)) > size:
            return web.Response(status=400, text="body too large")
        return answer

    return defect


def without_fields(asked: Json, answer: Json) -> Json:
    """Whole nodes as an extender answers that has decoded them with older types."""
    del asked
    items = [
        {key: each[key] for key in ("metadata", "status") if key in each}
        for each in answer["Nodes"]["items"]
    ]
    return answer | {"Nodes": {"items": items}}


def one_by_one_only(asked: Json, answer: Json) -> Json:
    """Accepts the first node alone."""
    del asked
    names = answer["NodeNames"]
    rest = dict.fromkeys(names[1:], "one is enough")
    failed = answer["FailedAndUnresolvableNodes"] | rest
    return answer | {"NodeNames": names[:1], "FailedAndUnresolvableNodes": failed}


def each_score(make: Callable[[int], Any]) -> Defect:
    return lambda _, answer: [each | {"Score": make(each["Score"])} for each in answer]


def each_candidate(make: Callable[[Json], Any]) -> Defect:
    """Preemption with other victims."""
    return lambda _, answer: {
        "NodeNameToMetaVictims": {
            node: make(each) for node, each in answer["NodeNameToMetaVictims"].items()
        }
    }
