"""Tallies: pods counted by node, kept up to date event by event, for shares, spreads and limits.

The cache owns them. A tally lives until so many others were used later that it is dropped.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from engine.objects.peer import Peer

# The least recently used tally above this number is dropped. It is counted again on demand.
_MOST = 4096
# A reader that is more changes behind than this has to read the whole tally again.
_MOST_CHANGES = 256


class Scope(NamedTuple):
    """The pods that a tally may count: all, those of a namespace, or those of a workload in one.

    `workload` is the uid of a root controller.
    """

    namespace: str | None = None
    workload: str | None = None

    def holds(self, pod: Peer) -> bool:
        if self.workload is not None and (
            pod.workload is None or pod.workload.uid != self.workload
        ):
            return False
        return self.namespace is None or pod.namespace == self.namespace


_ANYWHERE = Scope()


class Tally:
    """The pods of a scope for which `counts` is true.

    `nodes` has the number on each node, `placed` is their sum, and `waiting` has the keys of those
    without a node. `version` rises by one with each change of `nodes`.
    """

    __slots__ = ("_changes", "_counts", "nodes", "placed", "version", "waiting")

    def __init__(self, counts: Callable[[Peer], bool]) -> None:
        self._counts = counts
        self.nodes: Counter[str] = Counter()
        self.placed = 0
        self.waiting: set[str] = set()
        self.version = 0
        self._changes: deque[tuple[str, int]] = deque(maxlen=_MOST_CHANGES)

    def since(self, version: int) -> Iterator[tuple[str, int]] | None:
        """The changes of `nodes` since a version; None if they are not kept any more."""
        count = self.version - version
        if count > len(self._changes):
            return None
        return islice(self._changes, len(self._changes) - count, None)

    def leaves(self, key: str, pod: Peer) -> None:
        if not self._counts(pod):
            return
        if not pod.nodeName:
            self.waiting.discard(key)
            return
        if self.nodes[pod.nodeName] == 1:
            del self.nodes[pod.nodeName]
        else:
            self.nodes[pod.nodeName] -= 1
        self._changed(pod.nodeName, -1)

    def arrives(self, key: str, pod: Peer) -> None:
        if not self._counts(pod):
            return
        if not pod.nodeName:
            self.waiting.add(key)
            return
        self.nodes[pod.nodeName] += 1
        self._changed(pod.nodeName, 1)

    def _changed(self, node: str, by: int) -> None:
        self.placed += by
        self.version += 1
        self._changes.append((node, by))


class Tallies:
    """The tallies that are in use, by scope and name."""

    def __init__(self) -> None:
        self._used: OrderedDict[tuple[Scope, Hashable], Tally] = OrderedDict()
        self._within: dict[Scope, dict[Hashable, Tally]] = {}

    def get(
        self,
        name: Hashable,
        scope: Scope,
        counts: Callable[[Peer], bool],
        pods: Iterable[tuple[str, Peer]],
    ) -> Tally:
        """The tally of this name and scope, counted from `pods` if it is not kept yet.

        `name` identifies the function. `counts` must return the same for equal pods, and may raise
        only while the tally is counted for the first time.
        """
        tally = self._used.get((scope, name))
        if tally is None:
            tally = Tally(counts)
            for key, pod in pods:
                if scope.holds(pod):
                    tally.arrives(key, pod)
            # Kept only when complete: `counts` may raise at the deadline.
            self._used[scope, name] = tally
            self._within.setdefault(scope, {})[name] = tally
            self._drop_unused()
        self._used.move_to_end((scope, name))
        return tally

    def leaves(self, key: str, pod: Peer) -> None:
        for tally in self._of(pod):
            tally.leaves(key, pod)

    def arrives(self, key: str, pod: Peer) -> None:
        for tally in self._of(pod):
            tally.arrives(key, pod)

    def _of(self, pod: Peer) -> Iterator[Tally]:
        scopes = [_ANYWHERE, Scope(pod.namespace)]
        if pod.workload is not None:
            scopes.append(Scope(pod.namespace, pod.workload.uid))
        for scope in scopes:
            if scope in self._within:
                yield from self._within[scope].values()

    def _drop_unused(self) -> None:
        while len(self._used) > _MOST:
            (scope, name), _ = self._used.popitem(last=False)
            del self._within[scope][name]
            if not self._within[scope]:
                del self._within[scope]
