"""Breaks kube-scheduler's hot loop: what is rejected again and again gets an error."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from cachetools import TTLCache

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
