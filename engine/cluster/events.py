"""Events (events.k8s.io/v1) about policies and pods, each sent once until its text changes."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import msgspec

from engine.cluster.client import Api, TokenBucket, path_of
from engine.errors import ApiError, ApiUnreachableError
from engine.fairness import FairQueue
from engine.objects.remembered import Remembered
from grammar.messages.texts import shown
from policies.resource import Metadata

_CONTROLLER = "placet"
# The limits of kube-scheduler's own events, so that events delay no other requests.
_PER_SECOND, _BURST = 5.0, 50
_MOST_WAITING = 1000


class Regarding(msgspec.Struct, frozen=True, rename="camel"):
    """Regarding: the object that an event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str


class _RegardedObject(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    metadata: Metadata = Metadata()


def regarding(body: bytes) -> Regarding:
    """The object with this JSON."""
    found = msgspec.json.decode(body, type=_RegardedObject)
    meta = found.metadata
    return Regarding(found.api_version, found.kind, meta.namespace, meta.name, meta.uid)


@dataclass(frozen=True, slots=True)
class PodEvent:
    """An event. `reason` and `action` are one word each; `note` is its text."""

    regarding: Regarding
    type: Literal["Normal", "Warning"]
    reason: str
    action: str
    note: str


class Events:
    """The events that wait to be sent, in turns by namespace. On one event loop."""

    def __init__(
        self, api: Api, instance: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._api = api
        self._instance = instance
        self._bucket = TokenBucket(_PER_SECOND, _BURST, clock)
        self._waiting = FairQueue[PodEvent](_MOST_WAITING)
        # The last note by object and reason.
        self._sent: Remembered[tuple[str, str], str] = Remembered()

    def add(self, event: PodEvent) -> None:
        """Add an event, unless it repeats the last note about its object for the same reason.

        Its note is shown as every text is: the API server takes at most 1024 bytes, and a character
        has up to 4.
        """
        event = replace(event, note=shown(event.note))
        key = event.regarding.uid, event.reason
        if self._sent.get(key) != event.note:
            self._sent.put(key, event.note)
            self._waiting.put(event.regarding.namespace, event)

    def forget(self) -> None:
        """Drop the waiting events, because another replica sends them."""
        self._waiting.clear()

    async def send(self, now: str) -> None:
        """Send the waiting events within the limits. `now` is an RFC 3339 time in microseconds.

        An event that the API server refuses is dropped. Raises ApiUnreachableError, and ApiError if
        Placet may send none or the server has failed; the events stay then.
        """
        while self._waiting and self._bucket.try_take():
            event = self._waiting.take()
            namespace = event.regarding.namespace or "default"
            path = path_of("/apis/events.k8s.io/v1", "events", namespace)
            body = msgspec.json.encode(self._object(event, namespace, now))
            try:
                await self._api.request("POST", path, body=body)
            except (ApiError, ApiUnreachableError) as error:
                if not isinstance(error, ApiError) or error.is_denied or error.is_transient:
                    self._waiting.put(event.regarding.namespace, event)
                    raise

    def _object(self, event: PodEvent, namespace: str, now: str) -> dict[str, Any]:
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
            "note": event.note,
            "regarding": about,
        }
