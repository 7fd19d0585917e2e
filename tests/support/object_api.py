"""The part of an API server that single objects need, in memory: versions, conflicts, patches."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Collection
from typing import Any

import msgspec

from engine.errors import ApiError, BadObjectError

Object = dict[str, Any]


class ObjectApi:
    """Objects by path. `denied` has the paths that nobody may use, and the errors for them."""

    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}
        self.folders: set[str] = set()
        self.denied: dict[str, ApiError] = {}
        self.written: list[str] = []
        self._version = 0

    def put(self, path: str, **fields: Any) -> None:
        """Somebody else makes or replaces an object."""
        self._store(path, {"metadata": {"name": path.rpartition("/")[2]}, **fields})

    def knows(self, path: str) -> bool:
        """Whether requests for this path are answered here."""
        return path.rpartition("/")[0] in self.folders or path in self.folders

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout_seconds: float = 30.0,
    ) -> bytes:
        """As ApiClient; whoever waits at the same time has a turn before."""
        assert timeout_seconds > 0
        await asyncio.sleep(0)
        found = self.act(method, path, body or b"")
        is_list = isinstance(json.loads(body), list) if body else False
        assert content_type == {
            "PATCH": f"application/{'json' if is_list else 'merge'}-patch+json"
        }.get(method, "application/json")
        await asyncio.sleep(0)
        return json.dumps(found).encode()

    def act(self, method: str, path: str, body: bytes) -> Object:
        if (error := self.denied.get(f"{method} {path}")) is not None:
            raise error
        sent = json.loads(body) if body else {}
        if method == "POST":
            path = f"{path}/{sent['metadata']['name']}"
            if path in self.objects:
                raise ApiError(409, "AlreadyExists", "it is there")
            self.written.append(path)
            return self._store(path, sent)
        if path not in self.objects:
            raise ApiError(404, "NotFound", "it is not there")
        known = copy.deepcopy(self.objects[path])
        if method == "GET":
            return known
        assert method == "PATCH"
        if isinstance(sent, list):
            for step in sent:
                _apply(known, step)
        else:
            if sent["metadata"]["resourceVersion"] != known["metadata"]["resourceVersion"]:
                raise ApiError(409, "Conflict", "it has changed")
            known["data"] = known.get("data", {}) | sent["data"]
        self.written.append(path)
        return self._store(path, known)

    def _store(self, path: str, value: Object) -> Object:
        self._version += 1
        value["metadata"]["resourceVersion"] = str(self._version)
        self.objects[path] = value
        return value


def _apply(target: Object, step: Object) -> None:
    """One step of a JSON patch."""
    *parents, last = step["path"].strip("/").split("/")
    at: Any = target
    for part in parents:
        at = at[int(part)] if isinstance(at, list) else at[part]
    if step["op"] == "test":
        if at[last] != step["value"]:
            raise ApiError(422, "Invalid", "the test of the patch fails")
    else:
        at[last] = step["value"]


# ---- objects as JSON by key: the plainest store that a reflector can fill


class ObjectStore:
    """An object with a field `bad` is one that it cannot read."""

    def __init__(self) -> None:
        self.objects: dict[str, Any] = {}

    def upsert(self, key: str, version: str, raw: bytes | msgspec.Raw) -> None:
        item = json.loads(bytes(raw))
        assert version == item["metadata"]["resourceVersion"]
        if "bad" in item:
            raise BadObjectError("it is bad")
        self.objects[key] = item

    def remove(self, key: str, version: str) -> None:
        assert version
        self.objects.pop(key, None)

    def retain(self, keys: Collection[str]) -> None:
        self.objects = {key: item for key, item in self.objects.items() if key in keys}

    def reach(self, version: str) -> None:
        """The versions are those of the reflector."""

    def __len__(self) -> int:
        return len(self.objects)
