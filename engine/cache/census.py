"""Census: pods in groups, kept up to date event by event.

A tally adds up what pods add by one function; a census has a group for each key that pods have, so
that something can be found out once for all pods of a key, as for mutual limits. Tallies own
censuses, tell them every event, and drop the least recently used.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field

from engine.objects.peer import Peer
from engine.objects.remembered import bytes_of

# `arrived` is made anew when it has more than this many groups beyond twice those that there are,
# or so many bytes of texts of groups that are gone.
_MOST_STALE, MOST_STALE_BYTES = 1024, 4 << 20


@dataclass(slots=True)
class CensusGroup:
    """A group of a census: one of the pods with its key, and how many are on each node.

    `version` rises with each change of `nodes`.
    """

    sample: Peer
    nodes: Counter[str] = field(default_factory=Counter)
    version: int = 0

    def add(self, node: str, by: int) -> None:
        self.nodes[node] += by
        if not self.nodes[node]:
            del self.nodes[node]
        self.version += 1

    def copied(self) -> CensusGroup:
        """A group of its own, of no version of this one."""
        return CensusGroup(self.sample, self.nodes.copy(), -1)


class Census:
    """A census: the pods of a scope that are on nodes, in groups by their keys.

    `every` are all of them as one group, None without any. `arrived` has the key and a pod of each
    group in the order in which they came, also of groups that are gone; it is replaced when it has
    too many of these.
    """

    def __init__(self, key_of: Callable[[Peer], Hashable]) -> None:
        self._key_of = key_of
        self.bytes = 0
        self.groups: dict[Hashable, CensusGroup] = {}
        self.every: CensusGroup | None = None
        self.arrived: list[tuple[Hashable, Peer]] = []
        self._stale = 0

    def without(self, gone: Iterable[Peer]) -> Census:
        """The census as if some of its pods were not there. Groups without them are shared."""
        left = Census(self._key_of)
        left.groups, left.arrived = self.groups.copy(), self.arrived
        left.every = self.every and self.every.copied()
        copied = set()
        for pod in gone:
            if not pod.nodeName or (known := left.groups.get(key := self._key_of(pod))) is None:
                continue
            if key not in copied:
                copied.add(key)
                left.groups[key] = known.copied()
            left.leaves("", pod)
        return left

    def leaves(self, _: str, pod: Peer) -> None:
        if pod.nodeName:
            assert self.every is not None, "the pod is one of them"
            self.every.add(pod.nodeName, -1)
            group = self.groups[key := self._key_of(pod)]
            group.add(pod.nodeName, -1)
            if not group.nodes:
                del self.groups[key]
                self._stale += bytes_of(pod.labels) + bytes_of(pod.annotations)
                most = 2 * len(self.groups) + _MOST_STALE
                if len(self.arrived) > most or self._stale > MOST_STALE_BYTES:
                    self.arrived = [(key, group.sample) for key, group in self.groups.items()]
                    self._stale = 0

    def arrives(self, _: str, pod: Peer) -> None:
        self.all_arrive({"": pod})

    def all_arrive(self, pods: Mapping[str, Peer]) -> None:
        """Adds pods that have one key."""
        placed = [pod for pod in pods.values() if pod.nodeName]
        if not placed:
            return
        key = self._key_of(pod := placed[0])
        if (group := self.groups.get(key)) is None:
            group = self.groups[key] = CensusGroup(pod)
            self.arrived.append((key, pod))
        if self.every is None:
            self.every = CensusGroup(pod)
        for each in (group, self.every):
            each.nodes.update([pod.nodeName for pod in placed])
            each.version += 1
