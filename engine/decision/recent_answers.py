"""Recent answers: the pods that filter was asked about last, and how it answered.

RejectedPods and OfferedBodies are values that the engine writes and others read: the requeuer looks
at rejected pods again, the binder finds the body of a pod that it has to bind. The Damper belongs
to the engine. All live as long as the server, on its event loop.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from cachetools import LRUCache, TTLCache

from engine.objects.peer import Peer
from engine.objects.request_pod import RequestPod

# The listener for filter's answers: the pod, and whether any node was offered.
AnswerListener = Callable[[RequestPod, bool], None]

WINDOW_SECONDS = 10.0
# The number of rejections within the window before the next one is sent as an error.
REJECTIONS = 3
_MOST_PODS = 50_000
_MOST_REJECTED_BYTES = 64 << 20
_MOST_OFFERED_BYTES = 16 << 20


class Damper:
    """The times at which each pod was rejected last, to break kube-scheduler's hot loop.

    kube-scheduler retries a pod without backoff whenever the text of its condition changes (C47),
    and the counts beside our texts change with the nodes of each request. Errors back off (C49).
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._times: TTLCache[str, deque[float]] = TTLCache(_MOST_PODS, WINDOW_SECONDS, timer=clock)

    def rejected(self, uid: str) -> bool:
        """Takes a rejection of the pod; True from the fourth within ten seconds on."""
        times = self._times.get(uid)
        if times is None:
            times = deque(maxlen=REJECTIONS)
        now = self._clock()
        hot = len(times) == REJECTIONS and now - times[0] < WINDOW_SECONDS
        times.append(now)
        self._times[uid] = times
        return hot


class OfferedBodies:
    """The bodies of the pods that were offered a node last, by uid, so that bind needs no GET."""

    def __init__(self) -> None:
        self._bodies: LRUCache[str, bytes] = LRUCache(_MOST_OFFERED_BYTES, len)

    def answered(self, pod: RequestPod, offered: bool) -> None:  # noqa: FBT001 - AnswerListener
        if offered and len(pod.body) <= self._bodies.maxsize:
            self._bodies[pod.uid] = pod.body

    def get(self, uid: str) -> bytes | None:
        return self._bodies.get(uid)


@dataclass(slots=True)
class RejectedPod:
    """One rejected pod: when it was rejected, and when it is due again, in seconds of the clock."""

    pod: RequestPod
    at: float
    due: float
    pause: float


class RejectedPods:
    """The pods that were rejected last, by uid. Bound and deleted pods are forgotten.

    kube-scheduler asks again on an event of its own watch, and we answer from ours. A pod that was
    rejected because our view was late, or by a rule that time makes true, would wait for minutes.
    """

    def __init__(self, clock: Callable[[], float], first_pause: float, most_pause: float) -> None:
        self._clock = clock
        self._first = first_pause
        self._most = most_pause
        self._known: LRUCache[str, RejectedPod] = LRUCache(
            _MOST_REJECTED_BYTES, lambda rejected: len(rejected.pod.body)
        )

    def __contains__(self, uid: str) -> bool:
        return uid in self._known

    def answered(self, pod: RequestPod, offered: bool) -> None:  # noqa: FBT001 - AnswerListener
        if offered:
            self._known.pop(pod.uid, None)
            return
        now, known = self._clock(), self._known.get(pod.uid)
        pause = self._first if known is None else known.pause
        self._known[pod.uid] = RejectedPod(pod, now, now + pause, pause)

    def pod_changed(self, old: Peer | None, new: Peer | None, _revision: int) -> None:
        """Takes a new state of a pod from the cache; it is a PodEventHandler."""
        if old is not None and (new is None or new.uid != old.uid or new.nodeName):
            self._known.pop(old.uid, None)

    def requeued(self, rejected: RejectedPod) -> None:
        """Doubles the pause before the next look at the pod."""
        rejected.pause = min(2 * rejected.pause, self._most)
        rejected.due = self._clock() + rejected.pause

    def due(self) -> Iterator[RejectedPod]:
        """The pods that may be requeued now."""
        now = self._clock()
        return (rejected for rejected in list(self._known.values()) if rejected.due <= now)
