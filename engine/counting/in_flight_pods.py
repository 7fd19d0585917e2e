"""Pods on their way: kube-scheduler was told where they may go, and no watch shows them there yet.

kube-scheduler never says which node it chose, and asks about the next pod before the last binding
is visible. So a pod that was answered is possible on every node of the answer until more is known:

    asked --answered--> possible on the nodes of the answer --the watch shows its node--> counted
                 |               |
                 +-- rejected    +-- deleted, given up (PodScheduled=False), or held too long
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
# What is remembered of a tally keeps it alive.
_MOST_TALLIES = 64
# The requests of so many pods may be kept, whose places nobody has asked for.
_MOST_UNSETTLED = 64


class InFlightPod:
    """One pod on its way.

    `owner` is whose tables the places are of, those of the answer. `predicted` is the place that
    suits the pod best by our own scores. `tried` are the places of narrowed answers so far: if the
    pod asks again, they did not take it. `excused` says that it was sent back for that once.
    `revision` is the resource version of the pod that asked.
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
        """`pod` has the pod, and `find` finds the places; they are kept until somebody asks."""
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
        # A set of places: many pods can be on their way where nobody says that they are bound.
        self._bits: npt.NDArray[np.uint8] = np.empty(0, np.uint8)
        self._groups: dict[int, tuple[GroupIds, GroupIds]] = {}
        self._members: dict[object, bool] = {}

    def settle(self) -> None:
        """Reads the pod and finds the places, if that has not been done."""
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
        """Those of the answer, in order."""
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
        """Whether a function is true for the pod: the one of a tally, which stands for it."""
        known = self._members.get(tally)
        if known is None:
            if len(self._members) > _MOST_TALLIES:
                self._members.clear()
            known = self._members[tally] = self.is_such(counts)
        return known

    def is_such(self, counts: Callable[[Peer], bool]) -> bool:
        """Whether a function is true for the pod. Nobody can count what cannot be read."""
        self._read_pod()
        return self._pod is not None and counts(self._pod)

    def _read_pod(self) -> None:
        if self._read is not None:
            with suppress(BadObjectError):
                self._pod = self._read()
            self._read = None

    def groups(self, ids: GroupIds) -> GroupIds:
        """The cells that it may end up in, each once; `ids` has the cell of every place."""
        known = self._groups.get(id(ids))
        if known is None or known[0] is not ids:
            if len(self._groups) > _MOST_TALLIES:
                self._groups.clear()
            # The first one is of no cell: -1.
            there = np.bincount(ids[self.rows] + 1)[1:]
            known = self._groups[id(ids)] = (ids, there.nonzero()[0].astype(np.int32))
        return known[1]


def _itself(pod: Peer) -> Peer:
    return pod


class InFlightPods:
    """The pods on their way, by uid. `hold_seconds` is how long one may be, at most."""

    def __init__(self, clock: Callable[[], float], hold_seconds: float) -> None:
        self._clock = clock
        self._hold = hold_seconds
        # The first one is held for the shortest time from now.
        self._possible: dict[str, InFlightPod] = {}
        self._unsettled: deque[InFlightPod] = deque()

    def __len__(self) -> int:
        return len(self._possible)

    def answered(
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
        """An answer takes the place of the last one; an empty one ends the pod's way.

        `revision` is the resource version of the pod that asked; `is_narrow` says that there were
        more places with room than it was told.
        """
        before = self.narrowed(uid)
        self._possible.pop(uid, None)
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
                # When all have been tried, they are tried again.
                tried = before.tried if before is not None else rows[:0]
                fresh = bool(np.isin(rows, tried).any())
                now.tried = rows if fresh else np.concatenate([tried, rows])
            self._put(now)

    def passed(
        self,
        uid: str,
        pod: Callable[[], Peer],
        revision: int,
        owner: object,
        find: Callable[[], NodeRows],
    ) -> None:
        """A pod that no policy concerns was answered all nodes it was asked about, at least one.

        Where they are may never matter, so they are found when it does.
        """
        self._possible.pop(uid, None)
        self._put(InFlightPod(uid, pod, owner, find, self._clock() + self._hold, revision))

    def settle(self, uid: str) -> None:
        """Has what the next pod will ask of this one, if it is on its way."""
        if (in_flight_pod := self._possible.get(uid)) is not None:
            in_flight_pod.settle()

    def _put(self, in_flight_pod: InFlightPod) -> None:
        self._possible[in_flight_pod.uid] = in_flight_pod
        self._unsettled.append(in_flight_pod)
        if len(self._unsettled) > _MOST_UNSETTLED:
            first = self._unsettled.popleft()
            if self._possible.get(first.uid) is first:
                first.settle()

    def narrowed(self, uid: str) -> InFlightPod | None:
        """The last answer to a pod, if it was told fewer places than there were."""
        in_flight_pod = self._possible.get(uid)
        return in_flight_pod if in_flight_pod is not None and in_flight_pod.is_narrow else None

    def forget(self, uid: str) -> None:
        """The pod was refused, or is known to be elsewhere."""
        self._possible.pop(uid, None)

    def predict(self, uid: str, row: int) -> None:
        """Which node suits the pod best, if it is on its way."""
        if (in_flight_pod := self._possible.get(uid)) is not None:
            in_flight_pod.predicted = row

    def changed(self, old: Peer | None, new: Peer | None, revision: int) -> None:
        """The cache has another state of a pod: it may have arrived, or have been given up.

        `revision` is the resource version of that state, 0 where it is not known.
        """
        if old is not None and (new is None or new.uid != old.uid):
            self.forget(old.uid)
        if new is None:
            return
        if new.nodeName:
            self.forget(new.uid)
        elif new.unscheduled is not None and (old is None or old.unscheduled != new.unscheduled):
            in_flight_pod = self._possible.get(new.uid)
            # What kube-scheduler knew when it asked was given up before, not since.
            if in_flight_pod is not None and not 0 < revision <= in_flight_pod.revision:
                self.forget(new.uid)

    def take_over(self, pods: Iterable[Peer], owner: object, rows: NodeRows) -> None:
        """Another one may have answered these until now: each may go anywhere."""
        until = self._clock() + self._hold
        for pod in pods:
            if pod.uid not in self._possible:
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
        """All but this one that are on their way, in the tables of `owner`."""
        now = self._clock()
        while self._possible:
            first = next(iter(self._possible))
            if self._possible[first].until > now:
                break
            del self._possible[first]
        return [p for known, p in self._possible.items() if known != uid and p.owner is owner]
