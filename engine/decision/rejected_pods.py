"""Breaks kube-scheduler's hot loop: what is rejected again and again gets an error."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from cachetools import LRUCache, TTLCache

from engine.objects.peer import Peer
from engine.objects.request_pod import RequestPod

WINDOW_SECONDS = 10.0
# Rejections within the window before the next one is sent as an error.
REJECTIONS = 3
_MOST_PODS = 50_000


class Damper:
    """Remembers when each pod was last rejected.

    kube-scheduler retries a pod without backoff whenever the text of its condition changes (C47),
    and the counts beside our texts change with the nodes it happens to offer. Errors do back off
    (C49).
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._asked: TTLCache[str, deque[float]] = TTLCache(_MOST_PODS, WINDOW_SECONDS, timer=clock)

    def rejected(self, uid: str) -> bool:
        """Notes a rejection of the pod; True if it is at least the fourth within ten seconds."""
        asked = self._asked.get(uid)
        if asked is None:
            asked = deque(maxlen=REJECTIONS)
        now = self._clock()
        hot = len(asked) == REJECTIONS and now - asked[0] < WINDOW_SECONDS
        asked.append(now)
        self._asked[uid] = asked
        return hot


# ---- Pods that were sent away, to be looked at again.
#
# kube-scheduler asks again after an event of its own watch, but our answer depends on our watch. A
# pod that was rejected because our view was late, or by a rule that depends on the time, would wait
# for minutes (docs/policy-api.md, Requeuing pods).

_MOST_BYTES = 64 << 20


@dataclass(slots=True)
class RejectedPod:
    """One pod; when it was last refused, and may be nudged next, in seconds of the clock."""

    asked: RequestPod
    at: float
    due: float
    pause: float


class RejectedPods:
    """The pods that were refused last, by uid; those that are gone or placed are forgotten."""

    def __init__(self, clock: Callable[[], float], first_pause: float, most_pause: float) -> None:
        self._clock = clock
        self._first = first_pause
        self._most = most_pause
        self._known: LRUCache[str, RejectedPod] = LRUCache(_MOST_BYTES, _size)

    def __contains__(self, uid: str) -> bool:
        return uid in self._known

    def heard(self, asked: RequestPod, passed: bool) -> None:  # noqa: FBT001 - it is a Listener
        """A pod was answered."""
        if passed:
            self._known.pop(asked.uid, None)
            return
        now, known = self._clock(), self._known.get(asked.uid)
        pause = self._first if known is None else known.pause
        self._known[asked.uid] = RejectedPod(asked, now, now + pause, pause)

    def changed(self, old: Peer | None, new: Peer | None, _revision: int) -> None:
        """The cache has another state of a pod; see `PodListener`."""
        if old is not None and (new is None or new.uid != old.uid or new.nodeName):
            self._known.pop(old.uid, None)

    def requeued(self, rejected_pod: RejectedPod) -> None:
        """The next time is twice as far away."""
        rejected_pod.pause = min(2 * rejected_pod.pause, self._most)
        rejected_pod.due = self._clock() + rejected_pod.pause

    def due(self) -> Iterator[RejectedPod]:
        """Those that may be nudged now."""
        now = self._clock()
        return (
            rejected_pod for rejected_pod in list(self._known.values()) if rejected_pod.due <= now
        )


def _size(rejected_pod: RejectedPod) -> int:
    return len(rejected_pod.asked.body)
