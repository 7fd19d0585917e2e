"""The part of an API server that Leases need, in memory: resource versions, conflicts, failures."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from typing import Any, Literal

from engine.cluster.lease import RELEASED
from engine.errors import ApiError, ApiUnreachableError


class LeaseApi:
    """One Lease, free at first. Requests take a turn of the loop before and after they act.

    `broken` makes every request fail, and `refused` is an error for each; `lost` loses the answers
    of those that write. What was sent arrives, even if the sender does not wait for it any more.
    `methods` has those of all requests.
    """

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = {
            "metadata": {
                "uid": "uid-0",
                "resourceVersion": "0",
                "annotations": {RELEASED: "uid-0 0 None"},
            },
        }
        self.broken = False
        self.refused: ApiError | None = None
        self.lost = False
        self.methods: list[str] = []
        self._version = 0
        self._made = 0

    def delete(self) -> None:
        """Somebody deletes the Lease."""
        self.lease = None

    def restore(self, lease: dict[str, Any]) -> None:
        """Somebody makes a Lease with the content of an earlier one, if there is none."""
        if self.lease is None:
            self._act("POST", json.loads(json.dumps(lease)), "")

    def edit(self, **spec: object) -> None:
        """Somebody writes other values into the Lease, if there is one."""
        if self.lease is not None:
            self._store({**self.lease, "spec": {**self.lease.get("spec", {}), **spec}})

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout_seconds: float = 30.0,
    ) -> bytes:
        assert path.startswith("/apis/coordination.k8s.io/v1/namespaces/")
        self.methods.append(method)
        await self._travel()
        if self.broken:
            raise ApiUnreachableError("nobody there")
        if self.refused is not None:
            raise self.refused
        sent = json.loads(body) if body else {}
        answer = await self._carried_out(method, sent, content_type)
        await self._travel_back()
        if self.lost and method != "GET":
            raise ApiUnreachableError(f"no answer within {timeout_seconds} s")
        return json.dumps(answer).encode()

    async def _travel(self) -> None:
        """Returns when a request arrives."""
        await asyncio.sleep(0)

    async def _travel_back(self) -> None:
        """Returns when an answer arrives."""

    async def _carried_out(
        self, method: str, sent: dict[str, Any], content_type: str
    ) -> dict[str, Any]:
        return await asyncio.shield(self._arrive(method, sent, content_type))

    async def _arrive(self, method: str, sent: dict[str, Any], content_type: str) -> dict[str, Any]:
        for _ in range(1 if method == "GET" else 3):
            await asyncio.sleep(0)
        return self._act(method, sent, content_type)

    @property
    def holder(self) -> str:
        return str((self.lease or {}).get("spec", {}).get("holderIdentity", ""))

    def _act(self, method: str, sent: dict[str, Any], content_type: str) -> dict[str, Any]:
        if method == "POST":
            if self.lease is not None:
                raise ApiError(409, "AlreadyExists", "it is there")
            self._made += 1
            sent["metadata"]["uid"] = f"uid-{self._made}"
            return self._store(sent)
        if self.lease is None:
            raise ApiError(404, "NotFound", "it is not there")
        match method:
            case "GET":
                return self.lease
            case "PUT":
                if sent["metadata"]["resourceVersion"] != str(self._version):
                    raise ApiError(409, "Conflict", "it has changed")
                return self._store(sent)
            case _:
                assert (method, content_type) == ("PATCH", "application/merge-patch+json")
                metadata = dict(self.lease["metadata"])
                metadata["annotations"] = {
                    **metadata.get("annotations", {}),
                    **sent["metadata"]["annotations"],
                }
                return self._store({**self.lease, "metadata": metadata})

    def _store(self, lease: dict[str, Any]) -> dict[str, Any]:
        self._version += 1
        self.lease = {**lease, "metadata": {**lease["metadata"]}}
        self.lease["metadata"]["resourceVersion"] = str(self._version)
        return self.lease


# ---- the part of an API server that Bindings need, in memory, with answers that get lost


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
        if (method, rest) == ("PATCH", ["status"]):
            return self._patched(pod, sent)
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

    def _patched(self, pod: dict[str, Any], sent: dict[str, Any]) -> dict[str, Any]:
        """A merge patch of the status of one version of a pod."""
        its, version = pod["metadata"], sent["metadata"].get("resourceVersion")
        if version != its.get("resourceVersion") or sent["metadata"]["uid"] != its["uid"]:
            raise ApiError(409, "Conflict", "the object has been modified")
        its["resourceVersion"] = str(int(version) + 1)
        pod["status"] |= sent["status"]
        pod["status"] = {key: value for key, value in pod["status"].items() if value is not None}
        return pod
