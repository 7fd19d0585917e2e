"""Pods that were sent away, to be looked at again.

kube-scheduler asks again on its own watch's edge, and we answered from ours: a pod that was refused
because our view was late, or by a rule that time cures, would wait for minutes (policy API, What
happens on change).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from cachetools import LRUCache

from engine.asked import AskedPod
from engine.peer import Peer

_MOST_BYTES = 64 << 20


@dataclass(slots=True)
class Refusal:
    """One pod; when it was last refused, and may be nudged next, in seconds of the clock."""

    asked: AskedPod
    at: float
    due: float
    pause: float


class Refusals:
    """The pods that were refused last, by uid; those that are gone or placed are forgotten."""

    def __init__(self, clock: Callable[[], float], first_pause: float, most_pause: float) -> None:
        self._clock = clock
        self._first = first_pause
        self._most = most_pause
        self._known: LRUCache[str, Refusal] = LRUCache(_MOST_BYTES, _size)

    def __contains__(self, uid: str) -> bool:
        return uid in self._known

    def heard(self, asked: AskedPod, passed: bool) -> None:  # noqa: FBT001 - it is a Listener
        """A pod was answered."""
        if passed:
            self._known.pop(asked.uid, None)
            return
        now, known = self._clock(), self._known.get(asked.uid)
        pause = self._first if known is None else known.pause
        self._known[asked.uid] = Refusal(asked, now, now + pause, pause)

    def changed(self, old: Peer | None, new: Peer | None, _revision: int) -> None:
        """The cache has another state of a pod; see `PodListener`."""
        if old is not None and (new is None or new.uid != old.uid or new.nodeName):
            self._known.pop(old.uid, None)

    def nudged(self, refusal: Refusal) -> None:
        """The next time is twice as far away."""
        refusal.pause = min(2 * refusal.pause, self._most)
        refusal.due = self._clock() + refusal.pause

    def due(self) -> Iterator[Refusal]:
        """Those that may be nudged now."""
        now = self._clock()
        return (refusal for refusal in list(self._known.values()) if refusal.due <= now)


def _size(refusal: Refusal) -> int:
    return len(refusal.asked.body)
