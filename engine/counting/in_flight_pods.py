"""In-flight pods: offered to kube-scheduler with some nodes, and not yet known to be bound.

kube-scheduler never says which node it chose, and asks about the next pod before the last binding
is visible. So a pod counts on every node that it was offered until more is known:

    asked --offered--> in flight on the offered nodes --a watch shows its node--> counted there
             |              |
             +-- rejected   +-- deleted, given up (PodScheduled=False), or held too long

InFlightPods belongs to the engine and lives as long as it does. Everything happens on one event
loop.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial

import numpy as np
import numpy.typing as npt

from engine.cache.node_table import UNKNOWN_ROW, NodeRows
from engine.errors import BadObjectError
from engine.objects.peer import Peer

GroupIds = npt.NDArray[np.int32]
# What a pod remembers by tally keeps the tally alive, so it remembers few.
_MOST_TALLIES = 64
# The number of pods whose request may be kept because nobody has asked for their rows yet.
_MOST_UNSETTLED = 64


class InFlightPod:
    """One in-flight pod.

    `owner` identifies the tables that its rows belong to. `predicted` is the row that our own
    scores rank first. `tried` has the rows of its narrow offers so far: if the pod is asked about
    again, it was not bound there. `excused` says that it was rejected once for that reason.
    `revision` is the resource version of the pod in the request.
    """

    __slots__ = (
        "_bits",
        "_find",
        "_groups",
        "_members",
        "_pod",
        "_predicted",
        "_read",
        "excused",
        "is_narrow",
        "owner",
        "revision",
        "tried",
        "uid",
        "until",
    )

    def __init__(
        self,
        uid: str,
        pod: Callable[[], Peer],
        owner: object,
        find: Callable[[], NodeRows],
        until: float,
        revision: int = 0,
        *,
        predicted: int | None = None,
        is_narrow: bool = False,
    ) -> None:
        """`pod` decodes the pod, `find` finds its rows; both are called when first needed."""
        self.uid = uid
        self._read: Callable[[], Peer] | None = pod
        self._pod: Peer | None = None
        self.owner = owner
        self.until = until
        self.revision = revision
        self.is_narrow = is_narrow
        self.tried: NodeRows = np.empty(0, np.intp)
        self.excused = False
        self._find: Callable[[], NodeRows] | None = find
        self._predicted = predicted
        # The rows as a bitmap: without bindVerb, many pods can be in flight at once.
        self._bits: npt.NDArray[np.uint8] = np.empty(0, np.uint8)
        self._groups: dict[int, tuple[GroupIds, GroupIds]] = {}
        self._members: dict[object, bool] = {}

    def settle(self) -> None:
        """Decodes the pod and finds its rows, once."""
        self._read_pod()
        if self._find is not None:
            rows, self._find = self._find(), None
            mask = np.zeros(int(rows.max(initial=0)) + 1, np.bool_)
            mask[rows] = True
            self._bits = np.packbits(mask)
            if self._predicted is None:
                self._predicted = int(rows[0])

    @property
    def rows(self) -> NodeRows:
        """The offered rows, in ascending order."""
        self.settle()
        return np.flatnonzero(np.unpackbits(self._bits))

    @property
    def predicted(self) -> int:
        self.settle()
        assert self._predicted is not None, "it is settled"
        return self._predicted

    @predicted.setter
    def predicted(self, row: int) -> None:
        self._predicted = row

    def counts(self, tally: object, counts: Callable[[Peer], bool]) -> bool:
        """Whether a tally's function is true for the pod; remembered by tally."""
        known = self._members.get(tally)
        if known is None:
            if len(self._members) > _MOST_TALLIES:
                self._members.clear()
            known = self._members[tally] = self.is_such(counts)
        return known

    def is_such(self, counts: Callable[[Peer], bool]) -> bool:
        """Whether a function is true for the pod. A pod that cannot be decoded counts nowhere."""
        self._read_pod()
        return self._pod is not None and counts(self._pod)

    def _read_pod(self) -> None:
        if self._read is not None:
            with suppress(BadObjectError):
                self._pod = self._read()
            self._read = None

    def groups(self, ids: GroupIds) -> GroupIds:
        """The groups where the pod may end, each once; `ids` has the group of every row."""
        known = self._groups.get(id(ids))
        if known is None or known[0] is not ids:
            if len(self._groups) > _MOST_TALLIES:
                self._groups.clear()
            # The first count is of OUTSIDE, -1.
            there = np.bincount(ids[self.rows] + 1)[1:]
            known = self._groups[id(ids)] = (ids, there.nonzero()[0].astype(np.int32))
        return known[1]


def _itself(pod: Peer) -> Peer:
    """The pod, for a caller that wants a function."""
    return pod


class InFlightPods:
    """The in-flight pods by uid. A pod is in flight for `hold_seconds` at most."""

    def __init__(self, clock: Callable[[], float], hold_seconds: float) -> None:
        self._clock = clock
        self._hold = hold_seconds
        # In the order of their deadlines.
        self._pods: dict[str, InFlightPod] = {}
        self._unsettled: deque[InFlightPod] = deque()

    def __len__(self) -> int:
        return len(self._pods)

    def offer(
        self,
        uid: str,
        pod: Callable[[], Peer],
        revision: int,
        owner: object,
        rows: NodeRows,
        predicted: int,
        *,
        is_narrow: bool,
    ) -> None:
        """Replaces the last offer to a pod; an offer of no rows ends its flight.

        `revision` is the resource version of the pod in the request. `is_narrow` says that more
        rows had headroom than are offered.
        """
        before = self.narrow_offer(uid)
        self._pods.pop(uid, None)
        if len(rows):
            now = InFlightPod(
                uid,
                pod,
                owner,
                lambda: rows,
                self._clock() + self._hold,
                revision,
                predicted=predicted,
                is_narrow=is_narrow,
            )
            if is_narrow:
                # Once every row has been tried, all are tried again.
                tried = before.tried if before is not None else rows[:0]
                fresh = bool(np.isin(rows, tried).any())
                now.tried = rows if fresh else np.concatenate([tried, rows])
            self._put(now)

    def offer_all(
        self,
        uid: str,
        pod: Callable[[], Peer],
        revision: int,
        owner: object,
        find: Callable[[], NodeRows],
    ) -> None:
        """Takes a pod that no policy concerns, and that was offered every node of its request.

        Its rows are found only if a count needs them.
        """
        self._pods.pop(uid, None)
        self._put(InFlightPod(uid, pod, owner, find, self._clock() + self._hold, revision))

    def settle(self, uid: str) -> None:
        """Does the work now that the next pod would wait for, if the pod is in flight."""
        if (known := self._pods.get(uid)) is not None:
            known.settle()

    def _put(self, known: InFlightPod) -> None:
        self._pods[known.uid] = known
        self._unsettled.append(known)
        if len(self._unsettled) > _MOST_UNSETTLED:
            first = self._unsettled.popleft()
            if self._pods.get(first.uid) is first:
                first.settle()

    def narrow_offer(self, uid: str) -> InFlightPod | None:
        """The last offer to a pod, if it was narrow."""
        known = self._pods.get(uid)
        return known if known is not None and known.is_narrow else None

    def forget(self, uid: str) -> None:
        """Ends the flight of a pod that was rejected, or that is bound."""
        self._pods.pop(uid, None)

    def predict(self, uid: str, row: int) -> None:
        """Sets the row that our scores rank first, if the pod is in flight."""
        if (known := self._pods.get(uid)) is not None:
            known.predicted = row

    def pod_changed(self, old: Peer | None, new: Peer | None, revision: int) -> None:
        """Takes a new state of a pod from the cache: it may be bound, or have been given up.

        `revision` is the resource version of that state, 0 if not known. It is a PodEventHandler.
        """
        if old is not None and (new is None or new.uid != old.uid):
            self.forget(old.uid)
        if new is None:
            return
        if new.nodeName:
            self.forget(new.uid)
        elif new.unscheduled is not None and (old is None or old.unscheduled != new.unscheduled):
            known = self._pods.get(new.uid)
            # A condition that the request already had says nothing of this offer.
            if known is not None and not 0 < revision <= known.revision:
                self.forget(new.uid)

    def take_over(self, pods: Iterable[Peer], owner: object, rows: NodeRows) -> None:
        """Takes pods that another replica may have offered anything: each may end in any row."""
        until = self._clock() + self._hold
        for pod in pods:
            if pod.uid not in self._pods:
                everywhere = InFlightPod(
                    pod.uid,
                    partial(_itself, pod),
                    owner,
                    lambda: rows,
                    until,
                    predicted=UNKNOWN_ROW,
                )
                self._put(everywhere)

    def others(self, uid: str, owner: object) -> Sequence[InFlightPod]:
        """The in-flight pods in the tables of `owner`, without the pod with this uid."""
        now = self._clock()
        while self._pods:
            first = next(iter(self._pods))
            if self._pods[first].until > now:
                break
            del self._pods[first]
        return [p for known, p in self._pods.items() if known != uid and p.owner is owner]
