"""Held pods: what the API server shows of pods whose bindings wait.

Others read `status.nominatedNodeName` of a pod: provisioners prepare the node, autoscalers count
the pod there. kube-scheduler sets it before a long binding cycle, too (KEP-5278). It is set after a
pod has been held for some seconds, and removed when the pod is held no longer and has no node.

INVARIANT: what another component has set stays: each change is of the version of the pod that was
read, and what is removed is what was set here, or by a Placet that led before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import msgspec

from engine.cache.cache import Cache
from engine.cluster.client import CORE, Api, TokenBucket, patch, path_of, read_if_there
from engine.cluster.events import PodEvent, Regarding
from engine.errors import ApiError
from engine.objects.api_types import mapping, mappings
from engine.objects.peer import Peer

# Most pods are bound before this time.
_SHOWN_SECONDS = 2.0
_PER_SECOND, _BURST = 20.0, 50
_NOT_FOUND, _CONFLICT = 404, 409
# Who has set a field, by the API server: the beginning of the User-Agent.
_MANAGER = "placet"


@dataclass(frozen=True, slots=True)
class HeldPod:
    """A held pod with its chosen node, since a time; `why` says what it waits for."""

    pod: Peer
    node: str
    since: float
    why: Callable[[], str]


class HeldPods:
    """The held pods of a binder. On one event loop.

    `shown` has those that the API server may show, also when they are held no longer, by uid, each
    with whether it certainly does.
    """

    def __init__(self, api: Api, cache: Cache, clock: Callable[[], float]) -> None:
        self._api = api
        self._cache = cache
        self._clock = clock
        self._bucket = TokenBucket(_PER_SECOND, _BURST, clock)
        self._held: dict[str, HeldPod] = {}
        self.shown: dict[str, tuple[HeldPod, bool]] = {}
        self._leads = False

    @contextmanager
    def holding(self, pod: Peer, node: str, why: Callable[[], str]) -> Iterator[None]:
        """A time in which the binding of a pod waits."""
        self._held[pod.uid] = HeldPod(pod, node, self._clock(), why)
        try:
            yield
        finally:
            del self._held[pod.uid]

    async def show(self, tell: Callable[[PodEvent], None], *, leads: bool) -> None:
        """Shows the pods that are held for some time, if this replica `leads`, and no others.

        `tell` takes an event about each. Raises ApiError and ApiUnreachableError.
        """
        if leads and not self._leads:
            self._take_over()
        self._leads = leads
        for uid, (each, _) in list(self.shown.items()):
            if self._held.get(uid) is not each and self._bucket.try_take():
                await self._end(uid, each)
        due = self._clock() - _SHOWN_SECONDS
        for uid, each in list(self._held.items()) if leads else ():
            if each.since > due or self.shown.get(uid) == (each, True):
                continue
            if (body := self._cache.body(uid)) is not None and self._bucket.try_take():
                event = _event(each)
                await self._begin(uid, each, msgspec.json.decode(body))
                if uid in self.shown:
                    tell(event)

    def _take_over(self) -> None:
        """Takes the pods that an earlier leader has shown: it may be gone, and they are let go."""
        for pod in self._cache.snapshot().pending.values():
            body = self._cache.body(pod.uid) or b""
            known = msgspec.json.decode(body) if b'"f:nominatedNodeName"' in body else {}
            for by in mappings(mapping(known, "metadata"), "managedFields"):
                fields = mapping(mapping(by, "fieldsV1"), "f:status")
                if by.get("manager") == _MANAGER and "f:nominatedNodeName" in fields:
                    before = HeldPod(pod, str(_shown(known)), 0.0, str)
                    self.shown.setdefault(pod.uid, (before, True))

    async def _begin(self, uid: str, held: HeldPod, known: Mapping[str, Any]) -> None:
        """Shows a pod, unless another component does, or there is a newer version."""
        if self._held.get(uid) is not held or _shown(known):
            is_set = _shown(known) == held.node and uid in self.shown
        else:
            # Whatever becomes of the request, the node may be there afterwards.
            self.shown[uid] = held, False
            is_set = await self._set(held.pod, known, held.node)
        if is_set:
            self.shown[uid] = held, True
        else:
            self.shown.pop(uid, None)

    async def _end(self, uid: str, held: HeldPod) -> None:
        """Removes what is shown of a pod that has no node."""
        path = path_of(CORE, "pods", held.pod.namespace, held.pod.name)
        known = msgspec.json.decode(await read_if_there(self._api, path) or b"{}")
        is_there = mapping(known, "metadata").get("uid") == uid
        waits = is_there and not mapping(known, "spec").get("nodeName")
        if not (waits and _shown(known) == held.node) or await self._set(held.pod, known, None):
            self.shown.pop(uid, None)

    async def _set(self, pod: Peer, known: Mapping[str, Any], node: str | None) -> bool:
        """Sets the node of one version of a pod; False if there is a newer one."""
        version = {
            "uid": pod.uid,
            "resourceVersion": mapping(known, "metadata").get("resourceVersion"),
        }
        path = path_of(CORE, "pods", pod.namespace, pod.name, "status")
        try:
            change = {"metadata": version, "status": {"nominatedNodeName": node}}
            await patch(self._api, path, change)
        except ApiError as error:
            if error.status not in (_NOT_FOUND, _CONFLICT):
                raise
            return False
        return True


def _shown(pod: Mapping[str, Any]) -> object:
    """The node that the API server shows of a pod that waits; empty for none."""
    return mapping(pod, "status").get("nominatedNodeName", "")


def _event(held: HeldPod) -> PodEvent:
    about = Regarding("v1", "Pod", held.pod.namespace, held.pod.name, held.pod.uid)
    note = f"its binding to node {held.node} waits: {held.why()}"
    return PodEvent(about, "Normal", "Held", "Bind", note)
