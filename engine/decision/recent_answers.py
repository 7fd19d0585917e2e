"""Recent answers: the pods that filter was asked about last, and how it answered.

RejectedPods and LastAnswers are values that the engine writes and others read: the requeuer looks
at rejected pods again, the binder finds the nodes that a pod was offered. The Damper belongs to the
engine. All live as long as the server, on its event loop.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from cachetools import LRUCache, TTLCache

from engine.cache.node_table import NodeTable
from engine.decision.verdict import Decision
from engine.objects.peer import Peer
from engine.objects.request_pod import RequestPod

# The listener for filter's answers: the pod, and whether any node was offered.
AnswerListener = Callable[[RequestPod, bool], None]

WINDOW_SECONDS = 10.0
# The number of rejections within the window before the next one is sent as an error.
REJECTIONS = 3
_MOST_PODS = 50_000
_MOST_REJECTED_BYTES = 64 << 20
_MOST_ANSWERED_BYTES = 16 << 20
# What an answer takes besides its body and its bits.
_ANSWER_BYTES = 256
# The number of sets of nodes whose answers are kept: a binding follows its answer within seconds.
_MOST_NODE_SETS = 8


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


@dataclass(frozen=True, slots=True)
class LastAnswer:
    """The last answer of filter about a pod: the pod's body, and the nodes that it was offered.

    `nodes` has the row of every node at the time of the answer, `bits` a bit for each offered row.
    """

    body: bytes
    bits: bytes
    nodes: Mapping[str, int]

    def offers(self, node: str) -> bool:
        row = self.nodes.get(node)
        if row is None or row // 8 >= len(self.bits):
            return False
        return bool(self.bits[row // 8] & (128 >> row % 8))


class _KeptAnswer(msgspec.Struct, frozen=True, gc=False):
    """A LastAnswer with the number of its nodes: those of many answers are the same."""

    body: bytes
    bits: bytes
    nodes: int

    @property
    def bytes(self) -> int:
        return len(self.body) + len(self.bits) + _ANSWER_BYTES


class LastAnswers:
    """The last answer of filter about each pod, by uid: the binder binds only what it offers.

    `table` has the nodes of the cache. Answers that are used least, and those that are older than
    the last changes of the set of nodes, are forgotten.
    """

    def __init__(self, table: Callable[[], NodeTable]) -> None:
        self._table = table
        self._kept: LRUCache[str, _KeptAnswer] = LRUCache(
            _MOST_ANSWERED_BYTES, lambda kept: kept.bytes
        )
        # The rows of all nodes, by number. Old ones are dropped, because each may be a megabyte.
        self._nodes: dict[int, Mapping[str, int]] = {0: {}}
        self._newest = 0

    def answered(self, pod: RequestPod, names: Sequence[str], decided: Decision | None) -> None:
        """Takes an answer about these nodes; None is an error, which offers none."""
        kept = _KeptAnswer(b"", b"", self._newest)
        if decided is not None and not np.logical_and.reduce(decided.codes):
            known = decided.known_rows
            if known is not None:
                rows, nodes = known.rows, known.nodes
            else:
                table = self._table()
                rows, nodes = table.find(names), table.rows
            if np.logical_or.reduce(decided.codes):
                rows = rows[decided.codes == 0]
            offered = np.zeros(int(np.maximum.reduce(rows)) + 1, np.bool_)
            offered[rows] = True
            kept = _KeptAnswer(pod.body, np.packbits(offered).tobytes(), self._number(nodes))
        self._kept.pop(pod.uid, None)
        if kept.bytes <= self._kept.maxsize:
            self._kept[pod.uid] = kept

    def find(self, uid: str) -> LastAnswer | None:
        kept = self._kept.get(uid)
        if kept is None or (nodes := self._nodes.get(kept.nodes)) is None:
            return None
        return LastAnswer(kept.body, kept.bits, nodes)

    def _number(self, nodes: Mapping[str, int]) -> int:
        if nodes is not self._nodes[self._newest]:
            self._newest += 1
            self._nodes[self._newest] = nodes
            self._nodes.pop(self._newest - _MOST_NODE_SETS, None)
        return self._newest


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
