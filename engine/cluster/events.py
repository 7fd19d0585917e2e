"""Events (events.k8s.io/v1) about policies and pods: each piece of news once."""

from __future__ import annotations

import hashlib
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import msgspec
from cachetools import LRUCache

from engine.cluster.client import TokenBucket
from engine.errors import ApiError, ApiUnreachableError

_CONTROLLER = "placet"
# kube-scheduler's own limits: an event is no reason to keep anybody waiting.
_PER_SECOND, _BURST = 5.0, 50
_MOST_WAITING = 1000
_MOST_KNOWN = 50_000
_MOST_TEXT = 1024


@dataclass(frozen=True, slots=True)
class Regarding:
    """The object that an event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Event:
    """One piece of news; `type` is Normal or Warning, `reason` one word, `action` another."""

    regarding: Regarding
    type: Literal["Normal", "Warning"]
    reason: str
    action: str
    note: str


class Api(Protocol):
    """What of the API server is needed. Raises ApiError and ApiUnreachableError."""

    async def request(self, method: str, path: str, *, body: bytes | None = None) -> bytes: ...


class Events:
    """Takes events at any time; `send` sends those that are due. On one event loop."""

    def __init__(
        self, api: Api, instance: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._api = api
        self._instance = instance
        self._bucket = TokenBucket(_PER_SECOND, _BURST, clock)
        self._waiting: deque[Event] = deque(maxlen=_MOST_WAITING)
        # What was last said of an object for a reason.
        self._said: LRUCache[tuple[str, str], str] = LRUCache(_MOST_KNOWN)

    def tell(self, event: Event) -> None:
        """Takes an event, unless it says what the last one of its kind about the object said."""
        key = event.regarding.uid, event.reason
        if self._said.get(key) != event.note:
            self._said[key] = event.note
            self._waiting.append(event)

    def forget(self) -> None:
        """Drops what has not been sent: another replica sends it."""
        self._waiting.clear()

    async def send(self, now: str) -> None:
        """Sends what is waiting, as fast as is decent. `now` is an RFC 3339 time in microseconds.

        An event that is refused is dropped. Raises ApiUnreachableError, and then nothing is.
        """
        while self._waiting:
            if self._bucket.take():
                self._bucket.give_back()
                return
            event = self._waiting[0]
            namespace = event.regarding.namespace or "default"
            path = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
            try:
                body = msgspec.json.encode(self._object(event, namespace, now))
                await self._api.request("POST", path, body=body)
            except ApiUnreachableError:
                raise
            except ApiError:
                pass
            self._waiting.popleft()

    def _object(self, event: Event, namespace: str, now: str) -> dict[str, Any]:
        about = event.regarding
        text = f"{self._instance} {about.uid} {event.reason} {event.note} {now}"
        suffix = hashlib.sha256(text.encode()).hexdigest()[:16]
        return {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": f"{about.name[:230]}.{suffix}", "namespace": namespace},
            "eventTime": now,
            "reportingController": _CONTROLLER,
            "reportingInstance": self._instance[:128],
            "type": event.type,
            "reason": event.reason,
            "action": event.action,
            "note": event.note[:_MOST_TEXT],
            "regarding": {
                "apiVersion": about.api_version,
                "kind": about.kind,
                "namespace": about.namespace,
                "name": about.name,
                "uid": about.uid,
            },
        }
