"""The nodes of the cache and their places: tables that share all that has not changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from engine.cache.name_index import NameIndex
from engine.cache.node_table import NodeTable, Versions
from engine.cache.node_view import NodeView, view
from engine.objects import Node
from engine.peer import Peer


class Nodes:
    """Nodes with the pods that are on them, whether the node is there or not.

    A node that something happened to is viewed anew when the next table is made, once, however much
    happened.
    """

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._pods: dict[str, dict[str, Peer]] = {}
        self._vacant: list[int] = []
        self._version = 0
        self._changed: dict[str, None] = {}  # in order, as a set is not
        self._missing: set[str] = set()
        self._table = NodeTable(self, {}, (None,), np.zeros(1, np.int64))

    def __len__(self) -> int:
        return len(self._nodes)

    def get(self, name: str) -> Node | None:
        return self._nodes.get(name)

    def names(self) -> Iterable[str]:
        return self._nodes.keys()

    def put(self, node: Node) -> None:
        self._nodes[node.name] = node
        self._changed[node.name] = None

    def remove(self, name: str) -> None:
        if self._nodes.pop(name, None) is not None:
            self._changed[name] = None

    def pods(self, name: str) -> dict[str, Peer]:
        """The pods on a node, by key. Whoever changes them says so with `touch`."""
        return self._pods.setdefault(name, {})

    def touch(self, name: str) -> None:
        """The pods on a node are others now; of no node, if the name is empty."""
        if name:
            self._changed[name] = None

    def strays(self) -> Mapping[str, Peer]:
        """The pods on nodes that were not there when the last table was made."""
        return {key: pod for name in self._missing for key, pod in self._pods[name].items()}

    def table(self) -> NodeTable:
        """The nodes as they are; the last table again if nothing has happened.

        Costs two copies of a pointer or number per node, and a view of each node that changed.
        """
        if not self._changed:
            return self._table
        changed, self._changed = self._changed, {}
        places, views = self._settled(changed)
        versions: Versions = np.zeros(len(views), np.int64)
        versions[: len(self._table.versions)] = self._table.versions
        for name in changed:
            pods = self._pods.get(name, {})
            self._missing.discard(name)
            if (place := places.get(name)) is not None:
                self._version += 1
                versions[place] = self._version
                views[place] = view(self._nodes[name], pods.values())
            elif pods:
                self._missing.add(name)
            else:
                self._pods.pop(name, None)
        known, index = self._table.places, self._table.index
        if places is not known or index is None:
            index = NameIndex(places)
        self._table = NodeTable(self, places, views, versions, index)
        return self._table

    def _settled(self, changed: Iterable[str]) -> tuple[Mapping[str, int], list[NodeView | None]]:
        """The places of the nodes that are there now, and the views so far.

        A new node takes a place that has become free. Its version is new, so nothing that is kept
        about the node that was there before is taken for its own.
        """
        known, views = self._table.places, list(self._table.views)
        arrived = [n for n in changed if n in self._nodes and n not in known]
        gone = [n for n in changed if n in known and n not in self._nodes]
        if not arrived and not gone:
            return known, views
        places = dict(known)
        for name in gone:
            self._vacant.append(place := places.pop(name))
            views[place] = None
        for name in arrived:
            if not self._vacant:
                self._vacant.append(len(views))
                views.append(None)
            places[name] = self._vacant.pop()
        return places, views
