"""RepairObserver: follows the pods of a repaired policy, and finds evictions that should not be.

Its model is as plain as that of the Observer: it knows pods, nodes and the bound, and nothing of
Placet. An eviction is told from other deletions by the condition that the API server sets. It
belongs to one run, is told by one thread, and asked by another one.
"""

from __future__ import annotations

import json
import math
import threading
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass

from tests.chaos.observer import (
    NODES,
    PODS,
    SHARE_PERCENT,
    SPOT,
    STEADY,
    Finding,
    Node,
    Pod,
    node_of,
    pod_of,
)
from tests.chaos.schedule import REPAIRED
from tests.e2e.control_plane import Change

# The controllers, the pods of each, and the evictions in a minute.
SETS, OF_SET, PER_MINUTE = 3, 6, 4
# By then a replacement has its node, if nothing disturbs it.
_PLACED_SECONDS = 10.0
# How late a Placet may see that there is no node any more, or that nothing is to be repaired.
_BEHIND_SECONDS = 45.0
# Times of evictions are seen with so much delay.
_MINUTE = 59.0
_MOST_OF_A_KIND = 5


@dataclass(slots=True)
class _Eviction:
    """An eviction, until the workload has its pods again, or the nemesis has taken some of it."""

    at: float
    pod: str
    workload: str
    is_over: bool = False


class RepairObserver:
    """`troubled` says until when a fault of the nemesis may be noticed."""

    def __init__(self, clock: Callable[[], float], troubled: Callable[[], float]) -> None:
        self.findings: list[Finding] = []
        self.evictions = 0
        self._clock = clock
        self._troubled = troubled
        self._lock = threading.Lock()
        self._pods: dict[str, Pod] = {}
        self._nodes: dict[str, Node] = {}
        self._made: deque[_Eviction] = deque(maxlen=100)
        self._uids: set[str] = set()
        # When there was a place for pods that leave spot nodes, and when there were too many.
        self._place_at = self._many_at = -math.inf

    def change(self, change: Change) -> None:
        """Takes a change of a pod or of a node."""
        value = None if change.value is None else json.loads(change.value)
        with self._lock:
            self._note()
            name = change.key.rpartition("/")[2]
            if change.key.startswith(NODES):
                self._nodes.pop(name, None)
                if value is not None:
                    self._nodes[name] = node_of(value)
            elif change.key.startswith(PODS):
                old, new = self._pods.get(name), None if value is None else pod_of(value)
                if REPAIRED in (old and old.app, new and new.app):
                    self._pod(name, old, new)
            self._note()

    def look(self) -> None:
        """Looks which replacements are late."""
        with self._lock:
            self._note()

    def _pod(self, name: str, old: Pod | None, new: Pod | None) -> None:
        if new is not None and new.evicted and new.uid not in self._uids:
            self._uids.add(new.uid)
            self._evicted(new)
        elif old is not None and not old.ends and old.uid not in self._uids and _goes(old, new):
            # Somebody else takes it.
            for each in self._made:
                each.is_over |= each.workload == workload_of(old)
        if new is None:
            self._pods.pop(name, None)
        else:
            self._pods[name] = new

    def _evicted(self, pod: Pod) -> None:
        now, what = self._clock(), f"{pod.name} of {pod.node}"
        self.evictions += 1
        open_ones = [e for e in self._made if not e.is_over and now - e.at < _MINUTE]
        if open_ones:
            last = open_ones[-1]
            text = f"{what}, {now - last.at:.1f} s after {last.pod}, for which no pod has come"
            self._find("evicted too early", text)
        if now - self._place_at > _BEHIND_SECONDS:
            self._find("evicted without a place", what)
        if now - self._many_at > _BEHIND_SECONDS:
            self._find("evicted in vain", what)
        self._made.append(_Eviction(now, pod.name, workload_of(pod)))
        number = sum(now - each.at < _MINUTE for each in self._made)
        if number > PER_MINUTE:
            self._find("evicted too fast", f"{what}, the eviction {number} of a minute")

    def _note(self) -> None:
        """Notes what holds now."""
        now = self._clock()
        there = [p for p in self._pods.values() if not p.ends and p.uid not in self._uids]
        if any(each.is_open and each.capacity == STEADY for each in self._nodes.values()):
            self._place_at = now
        on_spot = sum(n.capacity == SPOT for p in there if (n := self._nodes.get(p.node)))
        if on_spot > len(there) * SHARE_PERCENT // 100:
            self._many_at = now
        placed = Counter(workload_of(each) for each in there if each.node)
        for each in self._made:
            if each.is_over or now == each.at:
                continue
            if placed[each.workload] >= OF_SET:
                each.is_over = True
            elif now > each.at + _PLACED_SECONDS and self._troubled() <= each.at:
                each.is_over = True
                text = f"no pod came for {each.pod} in {now - each.at:.1f} s"
                self._find("evicted, and not placed", text)

    def _find(self, kind: str, text: str) -> None:
        if sum(each.kind == kind for each in self.findings) < _MOST_OF_A_KIND:
            self.findings.append(Finding(kind, text))


def _goes(old: Pod, new: Pod | None) -> bool:
    return new is None or new.ends or new.uid != old.uid


def workload_of(pod: Pod) -> str:
    """The name of the controller of a pod, which begins the pod's name."""
    return pod.name.rpartition("-")[0]
