"""GangObserver: follows the pods of gangs in etcd, and finds gangs that are bound in part.

It sees every state in the order of resource versions, and knows nothing of Placet: each pod takes
one of the places of a node, and a gang needs as many members as its pods say. Of a held pod the API
server shows the node where it will be. One belongs to a run.
"""

from __future__ import annotations

import json
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from tests.chaos.observer import Finding
from tests.e2e.control_plane import Change
from tests.e2e.gangs import MEMBERS

# The labels that name the gang of a pod: anywhere, in one rack, or a PodGroup of coscheduling.
ANYWHERE, IN_RACK, OF_GROUP = "job", "in-rack", "scheduling.x-k8s.io/pod-group"
KINDS = (IN_RACK, OF_GROUP, ANYWHERE)
# For how long a member may be held after what ended its gang.
HELD_SECONDS = 5.0
# A member that goes so soon before or after the first binding of its gang was on its way.
_AT_ONCE_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Member:
    """A pod as far as the model knows it."""

    name: str
    uid: str
    gang: str
    in_rack: bool
    quorum: int
    node: str
    gated: bool
    kind: str = ANYWHERE
    shown: str = ""


@dataclass
class Seen:
    """What was seen of a gang: who was bound as its member and where, and who left it, and when."""

    quorum: int = 0
    in_rack: bool = False
    bound: dict[str, tuple[float, str]] = field(default_factory=dict)
    left: dict[str, float] = field(default_factory=dict)

    @property
    def began(self) -> float:
        """When its first member was bound."""
        return min(at for at, _ in self.bound.values())

    @property
    def seconds(self) -> float:
        """How long some were bound before enough were."""
        times = sorted(at for at, _ in self.bound.values())
        return times[min(len(times), self.quorum) - 1] - times[0]

    @property
    def is_part(self) -> bool:
        """Whether some were bound and not enough, but for those that went at the same time."""
        if not self.bound:
            return False
        went = [
            uid
            for uid, at in self.left.items()
            if uid not in self.bound and abs(at - self.began) < _AT_ONCE_SECONDS
        ]
        return len(self.bound) + len(went) < self.quorum


class GangObserver:
    """Takes changes from a thread; the rest is asked by another one.

    `racks` has the rack of each node, `places` the number of places of a node.
    """

    def __init__(self, racks: Mapping[str, str], places: int, clock: Callable[[], float]) -> None:
        self._racks = racks
        self._places = places
        self._clock = clock
        self._lock = threading.Lock()
        self._pods: dict[str, Member] = {}
        self._gangs: defaultdict[str, Seen] = defaultdict(Seen)
        self.last_binding = 0.0
        # By uid: the held members whose gang was ended, and when; and how long they were held yet.
        self._ended: dict[str, float] = {}
        self.held_seconds: list[float] = []

    def change(self, change: Change) -> None:
        """Takes a change of a pod."""
        with self._lock:
            old = self._pods.pop(change.key, None)
            new = None if change.value is None else _member(change.value)
            if new is not None:
                self._pods[change.key] = new
            now = self._clock()
            goes_on = new is not None and (new.shown, new.node) == (old.shown if old else "", "")
            if old is not None and not goes_on and old.uid in self._ended:
                self.held_seconds.append(now - self._ended.pop(old.uid))
            if (
                old is not None
                and old.gang
                and (new is None or (new.uid, new.gang) != (old.uid, old.gang))
            ):
                self._gangs[old.gang].left[old.uid] = now
            if new is None or not new.gang:
                return
            seen = self._gangs[new.gang]
            if new.kind != OF_GROUP or not seen.quorum:
                # The number of a PodGroup is that of the pods which were created with it.
                seen.quorum = max(seen.quorum, new.quorum)
            seen.in_rack = new.in_rack
            was_bound = old is not None and old.uid == new.uid and old.node
            if new.node and not was_bound:
                seen.bound[new.uid] = now, new.node
                self.last_binding = now

    def end(self, which: Callable[[Member], bool]) -> None:
        """Takes the news that something ends the gangs of these members."""
        with self._lock:
            gangs = {each.gang for each in self._pods.values() if which(each)}
            now = self._clock()
            for each in self._pods.values():
                if each.gang in gangs and each.shown and not each.node:
                    self._ended.setdefault(each.uid, now)

    def pardon(self) -> None:
        """Whoever lets members go is disturbed itself, so nothing is said of how long it takes."""
        with self._lock:
            self._ended.clear()
            self.held_seconds.clear()

    def held(self) -> Iterator[Finding]:
        """The members that were held for too long, or are."""
        with self._lock:
            now = self._clock()
            seconds = [*self.held_seconds, *(now - at for at in self._ended.values())]
            if (longest := max(seconds, default=0.0)) > HELD_SECONDS:
                yield Finding("held", f"a member for {longest:.1f} s after the end of its gang")

    def pods(self) -> list[Member]:
        with self._lock:
            return list(self._pods.values())

    def gangs(self) -> Mapping[str, Seen]:
        """What was seen of each gang so far."""
        with self._lock:
            return dict(self._gangs)

    def forget(self) -> None:
        """Begins anew: the pods are other ones from now on."""
        with self._lock:
            self._gangs.clear()
            self._ended.clear()
            self.held_seconds.clear()

    def parts(self) -> list[str]:
        """The gangs that are bound in part."""
        return [name for name, seen in self.gangs().items() if seen.is_part]

    def overruns(self) -> Iterator[Finding]:
        """Gangs in more racks than one, and nodes with more pods than places."""
        for name, seen in self.gangs().items():
            racks = {self._racks[node] for _, node in seen.bound.values()}
            if seen.in_rack and len(racks) > 1:
                yield Finding("racks", f"{name} is in {sorted(racks)}")
        for node, number in Counter(p.node for p in self.pods() if p.node).items():
            if number > self._places:
                yield Finding("overrun", f"{number} pods on {node}")

    def could_be_bound(self) -> list[str]:
        """The gangs that wait although there is room for all that they need."""
        pods = self.pods()
        free = Counter(dict.fromkeys(self._racks, self._places))
        free.subtract(p.node for p in pods if p.node)
        in_rack: Counter[str] = Counter()
        for node, number in free.items():
            in_rack[self._racks[node]] += max(0, number)
        found = []
        for name in {p.gang for p in pods if p.gang}:
            members = [p for p in pods if p.gang == name]
            there = [p for p in members if p.node]
            waiting = [p for p in members if not p.node and not p.gated]
            needed = 1 if there else max(each.quorum for each in members)
            if not waiting or len(waiting) < needed:
                continue
            racks = {self._racks[p.node] for p in there} or set(in_rack)
            sums = [in_rack[rack] for rack in racks]
            if not members[0].in_rack:
                sums = [in_rack.total()]
            if max(sums) >= needed:
                found.append(name)
        return found


def _member(value: bytes) -> Member:
    found = json.loads(value)
    metadata, spec = found["metadata"], found["spec"]
    labels = metadata.get("labels", {})
    return Member(
        name=metadata["name"],
        uid=metadata["uid"],
        gang=next((labels[kind] for kind in KINDS if kind in labels), ""),
        in_rack=IN_RACK in labels,
        quorum=int(metadata.get("annotations", {}).get(MEMBERS, 1)),
        node=spec.get("nodeName", ""),
        gated=bool(spec.get("schedulingGates")),
        kind=next((kind for kind in KINDS if kind in labels), ANYWHERE),
        shown=found.get("status", {}).get("nominatedNodeName", ""),
    )
