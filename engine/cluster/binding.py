"""Binds pods: one Binding each, however often kube-scheduler asks and whatever gets lost (C43-C46).

asked --allowed--> counted on the node --created------> the watch shows it there
                                     |--nobody knows--> counted until a GET tells
                                     +--refused-------> not counted any more
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec
from cachetools import LRUCache

from engine.cache.cache import Cache
from engine.engine import Admission
from engine.errors import (
    ApiError,
    ApiUnreachableError,
    DeadlineExceededError,
    EngineError,
    NotSentError,
    RefusedError,
)
from engine.objects.peer import Peer, key_of
from engine.objects.request_pod import RequestPod

# ReplicaSets delete the pods with the least first; the API server copies it to the pod.
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
# How long a pod may be counted on a node that no watch shows it on.
HOLD_SECONDS = 900.0
# Bodies of pods that were asked about, so that they need not be fetched again.
_BODY_BYTES = 16 << 20
_NOT_FOUND, _CONFLICT, _TOO_MANY = 404, 409, 429
_SERVER_ERRORS = 500
_PAUSE_SECONDS = 0.1
# Between looks at a pod of which nobody knows whether it was bound.
_LOOK_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Binding:
    """What kube-scheduler asks for: this pod, by name and uid, on this node (C43)."""

    namespace: str
    name: str
    uid: str
    node: str

    @property
    def path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods/{self.name}"


class Api(Protocol):
    """What of the API server is needed. Raises ApiError and ApiUnreachableError."""

    async def request(
        self, method: str, path: str, *, body: bytes | None = None, timeout_seconds: float = ...
    ) -> bytes: ...


Admit = Callable[[bytes, str, float], Admission]


class Binder:
    """Creates Bindings. On one event loop; whoever stops it waits for `idle` first."""

    def __init__(
        self,
        api: Api,
        cache: Cache,
        admit: Admit,
        *,
        hold_seconds: float = HOLD_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._cache = cache
        self._admit = admit
        self._hold = hold_seconds
        self._clock = clock
        self._bodies: LRUCache[str, bytes] = LRUCache(_BODY_BYTES, len)
        self._running: dict[str, tuple[Binding, asyncio.Task[None]]] = {}
        self._looking: set[asyncio.Task[None]] = set()

    def heard(self, asked: RequestPod, passed: bool) -> None:  # noqa: FBT001 - it is a Listener
        """Remembers a pod that may go somewhere: kube-scheduler may want to bind it next."""
        if passed and len(asked.body) <= self._bodies.maxsize:
            self._bodies[asked.uid] = asked.body

    async def bind(self, binding: Binding, deadline: float) -> None:
        """Returns when the pod is on the node. `deadline` is in seconds of the clock.

        Calls about one pod are one call. Raises EngineError where it is not, or nobody knows.
        """
        self._cache.expire(self._clock())
        known = self._running.get(binding.uid)
        if known is not None and known[0] != binding:
            raise RefusedError(f"the pod is being bound to `{known[0].node}`")
        if known is None:
            task = asyncio.create_task(self._bind(binding, deadline))
            known = self._running[binding.uid] = binding, task
            task.add_done_callback(lambda _: self._running.pop(binding.uid, None))
        # Who stops waiting does not stop the work: the Binding may have been sent.
        await asyncio.shield(known[1])

    async def idle(self) -> None:
        """Returns when nothing is being bound any more."""
        while self._running:
            await asyncio.wait([task for _, task in self._running.values()])
        for task in self._looking:
            task.cancel()

    async def _bind(self, binding: Binding, deadline: float) -> None:
        if self._is_there(binding):
            return
        body = self._bodies.get(binding.uid)
        if body is None:
            body = await self._fetch(binding, deadline)
        # From here to where the pod counts on the node nobody else gets a turn.
        admission = self._admit(body, binding.node, deadline)
        self._cache.assume(admission.pod, binding.node, self._clock() + self._hold)
        try:
            await self._create(binding, admission, deadline)
        except NotSentError:
            self._cache.forget(key_of(admission.pod))
            raise
        except ApiUnreachableError as error:
            self._look_after(binding, admission.pod)
            text = f"nobody knows yet whether the pod was bound: {error}"
            raise ApiUnreachableError(text) from error
        except EngineError:
            self._cache.forget(key_of(admission.pod))
            raise

    def _is_there(self, binding: Binding) -> bool:
        """Whether the watch shows the pod on the node already. Raises RefusedError."""
        pod = self._cache.pod(f"{binding.namespace}/{binding.name}")
        if pod is None:
            return False
        assumed = any(each.uid == pod.uid for each in self._cache.assumed())
        return _is_bound(binding, pod.uid, "" if assumed else pod.nodeName, pod.deletionTimestamp)

    async def _create(self, binding: Binding, admission: Admission, deadline: float) -> None:
        body = msgspec.json.encode(_object(binding, admission))
        unknown: ApiUnreachableError | None = None
        never: EngineError = DeadlineExceededError("the request's time is over")
        while (left := deadline - self._clock()) > 0:
            try:
                await self._api.request(
                    "POST", f"{binding.path}/binding", body=body, timeout_seconds=left
                )
            except NotSentError as error:
                never = error
            except ApiUnreachableError as error:
                # It may have been created: creating it again then is a conflict.
                unknown = error
            except ApiError as error:
                if error.status == _CONFLICT:
                    return await self._confirm(binding, error, deadline)
                if error.status == _NOT_FOUND:
                    raise RefusedError("the pod is gone") from error
                if error.status != _TOO_MANY and error.status < _SERVER_ERRORS:
                    raise
                unknown, never = unknown or _outcome_of(error), error
                left = deadline - self._clock()
                await asyncio.sleep(min(error.retry_after_seconds or 0.0, max(0.0, left)))
            else:
                return None
            await asyncio.sleep(_PAUSE_SECONDS)
        raise unknown or never

    async def _confirm(self, binding: Binding, conflict: ApiError, deadline: float) -> None:
        """Whether the pod is where it should be, as the API server says that it has a node."""
        pod = await self._pod(binding, max(_PAUSE_SECONDS, deadline - self._clock()))
        if not _is_bound(binding, pod.uid, pod.node, pod.deletion):
            raise conflict

    async def _fetch(self, binding: Binding, deadline: float) -> bytes:
        try:
            body = await self._api.request(
                "GET", binding.path, timeout_seconds=deadline - self._clock()
            )
        except ApiError as error:
            if error.status == _NOT_FOUND:
                raise RefusedError("the pod is gone") from error
            raise
        pod = _decode(body)
        _is_bound(binding, pod.uid, "", pod.deletion)
        return body

    def _look_after(self, binding: Binding, pod: Peer) -> None:
        task = asyncio.create_task(self._find_out(binding, pod))
        self._looking.add(task)
        task.add_done_callback(self._looking.discard)

    async def _find_out(self, binding: Binding, pod: Peer) -> None:
        """Counts the pod on its node until it is known not to be there."""
        until = self._clock() + self._hold
        while self._clock() < until:
            await asyncio.sleep(_LOOK_SECONDS)
            with suppress(ApiError, ApiUnreachableError, RefusedError):
                found = await self._pod(binding, _LOOK_SECONDS)
                if not found.node and binding.uid not in self._running:
                    self._cache.forget(key_of(pod))
                return

    async def _pod(self, binding: Binding, seconds: float) -> _Pod:
        try:
            return _decode(await self._api.request("GET", binding.path, timeout_seconds=seconds))
        except ApiError as error:
            if error.status == _NOT_FOUND:
                raise RefusedError("the pod is gone") from error
            raise


class _Metadata(msgspec.Struct):
    uid: str = ""
    deletionTimestamp: str | None = None


class _Spec(msgspec.Struct):
    nodeName: str = ""


class _Pod(msgspec.Struct):
    """What of a pod says whether it is bound."""

    metadata: _Metadata
    spec: _Spec

    @property
    def uid(self) -> str:
        return self.metadata.uid

    @property
    def node(self) -> str:
        return self.spec.nodeName

    @property
    def deletion(self) -> str | None:
        return self.metadata.deletionTimestamp


def _decode(body: bytes) -> _Pod:
    try:
        return msgspec.json.decode(body, type=_Pod)
    except msgspec.MsgspecError as error:
        raise ApiUnreachableError(f"what came is no pod: {error}") from error


def _is_bound(binding: Binding, uid: str, node: str, deletion: object) -> bool:
    """Whether the pod is on the node of the request. Raises RefusedError where it cannot be."""
    if uid != binding.uid:
        raise RefusedError("the pod is gone, and another one has its name")
    if node == binding.node:
        return True
    if node:
        raise RefusedError(f"the pod is on node `{node}` already")
    if deletion is not None:
        raise RefusedError("the pod is being deleted")
    return False


def _outcome_of(error: ApiError) -> ApiUnreachableError | None:
    """A server that failed within may have done its work before."""
    return ApiUnreachableError(str(error)) if error.status != _TOO_MANY else None


def _object(binding: Binding, admission: Admission) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "name": binding.name,
        "namespace": binding.namespace,
        "uid": binding.uid,
    }
    if admission.deletion_cost is not None:
        metadata["annotations"] = {DELETION_COST: str(admission.deletion_cost)}
    target = {"apiVersion": "v1", "kind": "Node", "name": binding.node}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
