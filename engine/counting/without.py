"""The pods of the cluster as they would be without some of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator

from engine.cache.namespace import Namespace
from engine.cache.snapshot import key_of
from engine.cache.tallies import Scope, Tally
from engine.counting.census import Pods
from engine.peer import Peer


class Without:
    """What a census asks for, with some pods gone."""

    def __init__(self, pods: Pods, gone: Collection[Peer]) -> None:
        self._pods = pods
        self._gone = {key_of(pod): pod for pod in gone}

    def tally(self, name: Hashable, scope: Scope, counts: Callable[[Peer], bool]) -> Tally:
        whole = self._pods.tally(name, scope, counts)
        left = Tally(counts)
        left.nodes, left.placed = whole.nodes.copy(), whole.placed
        left.waiting = whole.waiting.copy()
        for key, pod in self._gone.items():
            if scope.holds(pod):
                left.leaves(key, pod)
        return left

    def within(self, scope: Scope) -> Iterator[tuple[str, Peer]]:
        return ((key, pod) for key, pod in self._pods.within(scope) if key not in self._gone)

    def pod(self, key: str) -> Peer | None:
        return None if key in self._gone else self._pods.pod(key)

    def namespaces(self) -> Iterable[Namespace]:
        return self._pods.namespaces()

    def assumed(self) -> Iterator[Peer]:
        return (pod for pod in self._pods.assumed() if key_of(pod) not in self._gone)

    def nominated(self) -> Iterator[Peer]:
        return (pod for pod in self._pods.nominated() if key_of(pod) not in self._gone)
