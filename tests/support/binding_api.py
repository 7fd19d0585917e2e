"""The part of an API server that Bindings need, in memory, with answers that get lost."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from typing import Any, Literal

from engine.errors import ApiError, ApiUnreachableError

# What becomes of a request: `lost` acts and its answer never comes, `deaf` never gets there.
Fault = Literal["", "lost", "deaf", "busy", "broken", "forbidden"]


class BindingApi:
    """Pods by key; `bindings` are those that were created, `faults` those of the next requests."""

    def __init__(self) -> None:
        self.pods: dict[str, dict[str, Any]] = {}
        self.bindings: list[dict[str, Any]] = []
        self.faults: deque[Fault] = deque()
        self.requests: list[tuple[str, str]] = []

    def put(self, pod: dict[str, Any]) -> None:
        metadata = pod["metadata"]
        self.pods[f"{metadata['namespace']}/{metadata['name']}"] = pod

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        timeout_seconds: float = 30.0,
        **_: Any,
    ) -> bytes:
        self.requests.append((method, path))
        fault = self.faults.popleft() if self.faults else ""
        await asyncio.sleep(0)
        if fault == "deaf":
            raise ApiUnreachableError("cannot be reached")
        if fault == "busy":
            raise ApiError(429, "TooManyRequests", "slow down", 0.0)
        if fault == "broken":
            raise ApiError(500, "InternalError", "etcdserver: no leader")
        if fault == "forbidden":
            text = 'User "placet" cannot create resource "pods/binding" in API group ""'
            raise ApiError(403, "Forbidden", f'pods "a" is forbidden: {text}')
        answer = self._act(method, path, json.loads(body) if body else {})
        await asyncio.sleep(0)
        if fault == "lost":
            raise ApiUnreachableError(f"sent nothing for {timeout_seconds:g} s")
        return json.dumps(answer).encode()

    def _act(self, method: str, path: str, sent: dict[str, Any]) -> dict[str, Any]:
        _, _, _, _, namespace, _, name, *rest = path.split("/")
        pod = self.pods.get(f"{namespace}/{name}")
        if pod is None:
            raise ApiError(404, "NotFound", f'pods "{name}" not found')
        if method == "GET":
            return pod
        assert (method, rest) == ("POST", ["binding"])
        if sent["metadata"]["uid"] != pod["metadata"]["uid"]:
            raise ApiError(409, "Conflict", "the UID in the precondition is another")
        if pod["spec"].get("nodeName"):
            raise ApiError(409, "Conflict", f'pod {name} is already assigned to node "x"')
        if "deletionTimestamp" in pod["metadata"]:
            raise ApiError(409, "Conflict", f"pod {name} is being deleted")
        pod["spec"]["nodeName"] = sent["target"]["name"]
        # In the same write, as registry/core/pod/storage does.
        its = pod["metadata"].setdefault("annotations", {})
        its |= sent["metadata"].get("annotations", {})
        self.bindings.append(sent)
        return {"kind": "Status", "status": "Success"}
