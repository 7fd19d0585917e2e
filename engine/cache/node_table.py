"""A node as rules see it: the object, and what the pods on it take."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.cache.names import KnownRows, ListedNames, NameIndex
from engine.objects.codec import Node
from engine.objects.peer import Peer
from engine.objects.resources import Resources, total_requests
from grammar.values.quantity import Quantity

Record = Any


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node with the pods on it. The attributes are those of the schema's Node, and a few more.

    `requested`, `free` and `pods` are None where the cluster's pods are not known.
    """

    name: str
    labels: Mapping[str, str]
    kind: str | None
    apiVersion: str | None
    metadata: Record
    spec: Record
    status: Record
    allocatable: Resources
    requested: Resources | None
    free: Resources | None
    pods: Sequence[Peer] | None


def view(node: Node, pods: Iterable[Peer]) -> NodeView:
    """A node with its pods, all of them: those that have ended must not be among them."""
    there = tuple(pods)
    return _view(node, total_requests([p.requests for p in there]), there)


def view_of(node: Node, known: NodeView | None) -> NodeView:
    """A node as a request shows it, with the pods that the cache has on it."""
    if known is None:
        return _view(node, None, None)
    return _view(node, known.requested, known.pods)


def without(known: NodeView, gone: Collection[Peer]) -> NodeView:
    """The node as it would be without some of its pods, which are known."""
    uids = {pod.uid for pod in gone}
    left = tuple(pod for pod in known.pods or () if pod.uid not in uids)
    requested = total_requests([pod.requests for pod in left])
    return replace(known, requested=requested, free=free(known.allocatable, requested), pods=left)


def _view(node: Node, requested: Resources | None, pods: Sequence[Peer] | None) -> NodeView:
    return NodeView(
        name=node.name,
        labels=node.labels,
        kind=node.kind,
        apiVersion=node.apiVersion,
        metadata=node.metadata,
        spec=node.spec,
        status=node.status,
        allocatable=node.allocatable,
        requested=requested,
        free=None if requested is None else free(node.allocatable, requested),
        pods=pods,
    )


def free(allocatable: Resources, requested: Resources) -> Resources:
    """What is left of each resource that either side names; below zero on an over-full node."""
    left = Resources(allocatable)
    for resource, amount in requested.items():
        whole = left[resource]
        left[resource] = Quantity(whole.nanos - amount.nanos, whole.suffix)
    return left


# ---- Nodes by place: what a decision goes over, as columns, and how it tells what has changed.

NodeRows = npt.NDArray[np.intp]
Versions = npt.NDArray[np.int64]

# No node's place: what a name that is not known has. No view is there, and no version.
UNKNOWN_ROW = 0


@dataclass(frozen=True, slots=True)
class NodeTable:
    """Views of nodes by place, and the version of each; `index` has their names, for many at once.

    A node keeps its place while it is there. Between two tables of one `owner` a place has another
    view only if it has another version; places of different owners have nothing in common.
    """

    owner: object
    rows: Mapping[str, int]
    views: Sequence[NodeView | None]
    versions: Versions
    index: NameIndex | None = None

    def find(self, names: Sequence[str]) -> NodeRows:
        """The place of each name, NOWHERE for one that is not known."""
        if type(names) is ListedNames and self.index is not None:
            if names.where is not None and names.where.nodes is self.rows:
                return names.where.rows
            if (rows := self.index.find(names)) is not None:
                return rows
        found = map(self.rows.get, names, repeat(UNKNOWN_ROW))
        return np.fromiter(found, np.intp, len(names))

    def where(self, names: Sequence[str], rows: NodeRows) -> KnownRows | None:
        """Where all of these names are, if each is known and is there once; `rows` are theirs."""
        known = names.where if type(names) is ListedNames else None
        if known is not None and known.rows is rows:
            return known
        if not len(rows):
            return None
        counts = np.bincount(rows)
        if counts[UNKNOWN_ROW] or np.maximum.reduce(counts) > 1:
            return None
        where = KnownRows(rows, self.rows)
        if type(names) is ListedNames:
            names.where = where
        return where


def table_of(views: Iterable[NodeView]) -> NodeTable:
    """A table that belongs to nobody else. Of two nodes of one name the later counts."""
    by_name = {view.name: view for view in views}
    rows = {name: row for row, name in enumerate(by_name, start=UNKNOWN_ROW + 1)}
    versions = np.ones(len(rows) + 1, np.int64)
    versions[UNKNOWN_ROW] = 0
    views_by_place = (None, *by_name.values())
    return NodeTable(object(), rows, views_by_place, versions, NameIndex(rows))


# ---- The nodes of the cache and their places: tables that share all that has not changed.


class NodeStore:
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
        rows, views = self._settled(changed)
        versions: Versions = np.zeros(len(views), np.int64)
        versions[: len(self._table.versions)] = self._table.versions
        for name in changed:
            pods = self._pods.get(name, {})
            self._missing.discard(name)
            if (row := rows.get(name)) is not None:
                self._version += 1
                versions[row] = self._version
                views[row] = view(self._nodes[name], pods.values())
            elif pods:
                self._missing.add(name)
            else:
                self._pods.pop(name, None)
        known, index = self._table.rows, self._table.index
        if rows is not known or index is None:
            index = NameIndex(rows)
        self._table = NodeTable(self, rows, views, versions, index)
        return self._table

    def _settled(self, changed: Iterable[str]) -> tuple[Mapping[str, int], list[NodeView | None]]:
        """The places of the nodes that are there now, and the views so far.

        A new node takes a place that has become free. Its version is new, so nothing that is kept
        about the node that was there before is taken for its own.
        """
        known, views = self._table.rows, list(self._table.views)
        arrived = [n for n in changed if n in self._nodes and n not in known]
        gone = [n for n in changed if n in known and n not in self._nodes]
        if not arrived and not gone:
            return known, views
        rows = dict(known)
        for name in gone:
            self._vacant.append(row := rows.pop(name))
            views[row] = None
        for name in arrived:
            if not self._vacant:
                self._vacant.append(len(views))
                views.append(None)
            rows[name] = self._vacant.pop()
        return rows, views
