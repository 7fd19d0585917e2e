"""CacheCopy: a second cache, with the cluster of one moment, for questions that change it.

It shares nodes, views and pods with the cache that it is a copy of, because nobody writes to these.
It lives as long as the question.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain

from engine.cache.cache import Cache, NodeStore
from engine.cache.node_table import RowUse
from engine.cache.tallies import Scope
from engine.objects.peer import Peer, key_of
from engine.work import Work

# The pods of a portion, which takes a millisecond or two.
_PER_PORTION = 1000


class _CopiedNodes(NodeStore):
    """The nodes of another store, without their pods, as they were in its last table."""

    def __init__(self, nodes: NodeStore) -> None:
        super().__init__()
        table = nodes.table()
        known = ((name, nodes.get(name)) for name in nodes.names())
        self._nodes = {name: node for name, node in known if node is not None}
        self._missing = {pod.nodeName for pod in nodes.strays().values()}
        self._version = int(table.versions.max())
        self._table = replace(table, owner=self, use=RowUse())


class CacheCopy(Cache):
    """A copy of a cache, which nobody tells of events."""

    def take(self, cache: Cache) -> Work[None]:
        """Takes the cluster as it is now, once; yields after each portion.

        Assumed pods are there for certain. Handlers, and what was counted, are left behind.
        """
        snapshot = cache.snapshot()
        bodies = [(pod.uid, cache.body(pod.uid)) for pod in snapshot.pending.values()]
        ended, grouped = [pod for _, pod in cache.ended.within(Scope())], cache.tallies.grouped
        self.nodes, self.workloads = _CopiedNodes(cache.nodes), cache.workloads.copied()
        self.groups = cache.groups.copy()
        self._namespaces = {each.name: each for each in cache.namespaces()}
        budgets = chain.from_iterable((snapshot.budgets or {}).values())
        self._budgets = {f"{each.namespace}/{each.name}": each for each in budgets}
        self._knows_budgets = snapshot.budgets is not None
        left, views = _PER_PORTION, (view for view in snapshot.table.nodes if view is not None)
        pods_of: Iterator[tuple[str, Iterable[Peer]]] = chain(
            ((view.name, view.pods or ()) for view in views),
            ((pod.nodeName, (pod,)) for pod in snapshot.strays.values()),
            (("", (pod,)) for pod in snapshot.pending.values()),
        )
        for name, pods in pods_of:
            left -= 1 + self._put(self.nodes.pods(name) if name else self._pending, pods)
            if left <= 0:
                left = _PER_PORTION
                yield
        yield from self.tallies.group(grouped)
        for number, ended_pod in enumerate(ended, 1):
            self.ended.put(ended_pod)
            if not number % _PER_PORTION:
                yield
        for uid, body in bodies:
            if body is not None:
                self._bodies.put(uid, body)

    def close(self) -> None:
        """Gives its memory back at once; nothing may be asked after that.

        An engine over it is a part of circles of objects, which the garbage collector finds late.
        """
        vars(self).clear()

    def _put(self, beside: dict[str, Peer], pods: Iterable[Peer]) -> int:
        """Takes pods that nobody has counted yet; those on the same node are `beside` them.

        Returns their number.
        """
        spaces, workloads, number = self._spaces, self.workloads, 0
        for number, pod in enumerate(pods, 1):  # noqa: B007 - it is the result
            key, name = key_of(pod), pod.namespace
            beside[key] = pod
            if (space := spaces.get(name)) is None:
                space = spaces[name] = {}
            space[key] = pod
            if pod.controller:
                workloads.add_pod(pod.controller, key)
            if pod.nominatedNodeName and not pod.nodeName:
                self.nominated[key] = pod
        return number


def copied(cache: Cache) -> Work[CacheCopy]:
    """A copy of the cluster as it is now; yields after each portion."""
    made = CacheCopy()
    yield from made.take(cache)
    return made
