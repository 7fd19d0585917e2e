"""Pods on their way: kube-scheduler was told where they may go, and no watch shows them there yet.

kube-scheduler never says which node it chose, and asks about the next pod before the last binding
is visible. So a pod that was answered is possible on every node of the answer until more is known:

    asked --answered--> possible on the nodes of the answer --the watch shows its node--> counted
                 |               |
                 +-- rejected    +-- deleted, given up (PodScheduled=False), or held too long
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from engine.cache.node_table import Places
from engine.peer import Peer

CellIds = npt.NDArray[np.int32]
# A name may keep alive what it is about.
_MOST_NAMES = 64


@dataclass(slots=True)
class Possible:
    """One pod on its way.

    `bits` has the places of the answer, of the tables of `owner`, as a set: many pods can be on
    their way where nobody says that they are bound, each to thousands of nodes. `predicted` is the
    place that suits the pod best by our own scores. `tried` are the places of narrowed answers so
    far: if the pod asks again, they did not take it. `excused` says that it was sent back for that
    once. `revision` is the resource version of the pod that asked.
    """

    pod: Peer
    owner: object
    bits: npt.NDArray[np.uint8]
    predicted: int
    until: float
    revision: int = 0
    is_narrow: bool = False
    tried: Places = field(default_factory=lambda: np.empty(0, np.intp))
    excused: bool = False
    _cells: dict[int, tuple[CellIds, CellIds]] = field(default_factory=dict)
    _members: dict[Hashable, bool] = field(default_factory=dict)

    @property
    def places(self) -> Places:
        """Those of the answer, in order."""
        return np.flatnonzero(np.unpackbits(self.bits))

    def counts(self, name: Hashable, counts: Callable[[Peer], bool]) -> bool:
        """Whether a function is true for the pod; `name` stands for the function."""
        known = self._members.get(name)
        if known is None:
            if len(self._members) > _MOST_NAMES:
                self._members.clear()
            known = self._members[name] = counts(self.pod)
        return known

    def cells(self, ids: CellIds) -> CellIds:
        """The cells that it may end up in, each once; `ids` has the cell of every place."""
        known = self._cells.get(id(ids))
        if known is None or known[0] is not ids:
            if len(self._cells) > _MOST_NAMES:
                self._cells.clear()
            found = np.unique(ids[self.places])
            known = self._cells[id(ids)] = (ids, found[found >= 0])
        return known[1]


class Ledger:
    """The pods on their way, by uid. `hold_seconds` is how long one may be, at most."""

    def __init__(self, clock: Callable[[], float], hold_seconds: float) -> None:
        self._clock = clock
        self._hold = hold_seconds
        self._possible: dict[str, Possible] = {}

    def __len__(self) -> int:
        return len(self._possible)

    def answered(
        self,
        pod: Peer,
        revision: int,
        owner: object,
        places: Places,
        predicted: int,
        *,
        is_narrow: bool,
    ) -> None:
        """An answer takes the place of the last one; an empty one ends the pod's way.

        `revision` is the resource version of the pod that asked; `is_narrow` says that there were
        more places with room than it was told.
        """
        before = self.narrowed(pod.uid)
        self._possible.pop(pod.uid, None)
        if len(places):
            until = self._clock() + self._hold
            now = Possible(pod, owner, _bits(places), predicted, until, revision, is_narrow)
            if is_narrow:
                # When all have been tried, they are tried again.
                tried = before.tried if before is not None else places[:0]
                fresh = bool(np.isin(places, tried).any())
                now.tried = places if fresh else np.concatenate([tried, places])
            self._possible[pod.uid] = now

    def narrowed(self, uid: str) -> Possible | None:
        """The last answer to a pod, if it was told fewer places than there were."""
        possible = self._possible.get(uid)
        return possible if possible is not None and possible.is_narrow else None

    def forget(self, uid: str) -> None:
        """The pod was refused, or is known to be elsewhere."""
        self._possible.pop(uid, None)

    def predict(self, uid: str, place: int) -> None:
        """Which node suits the pod best, if it is on its way."""
        if (possible := self._possible.get(uid)) is not None:
            possible.predicted = place

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
            possible = self._possible.get(new.uid)
            # What kube-scheduler knew when it asked was given up before, not since.
            if possible is not None and not 0 < revision <= possible.revision:
                self.forget(new.uid)

    def take_over(self, pods: Iterable[Peer], owner: object, places: Places) -> None:
        """Another one may have answered these until now: each may go anywhere."""
        everywhere = _bits(places)
        for pod in pods:
            self._possible.setdefault(
                pod.uid, Possible(pod, owner, everywhere, 0, self._clock() + self._hold)
            )

    def others(self, uid: str, owner: object) -> Iterator[Possible]:
        """All but this one that are on their way, in the tables of `owner`."""
        now = self._clock()
        ended = [known for known, possible in self._possible.items() if possible.until <= now]
        for known in ended:
            del self._possible[known]
        for known, possible in self._possible.items():
            if known != uid and possible.owner is owner:
                yield possible


def _bits(places: Places) -> npt.NDArray[np.uint8]:
    mask = np.zeros(int(places.max(initial=0)) + 1, np.bool_)
    mask[places] = True
    return np.packbits(mask)
