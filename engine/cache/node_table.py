"""NodeTable and Snapshot: nodes by row with their pods and what these leave free, and the rest."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, repeat

import numpy as np
import numpy.typing as npt

from engine.cache.names import KnownRows, ListedNames, NameIndex
from engine.objects.codec import Namespace, Node
from engine.objects.disruption_budget import Budgets
from engine.objects.peer import Peer, Workload, key_of
from engine.objects.resources import total_requests
from grammar.values.quantity import Resources, less
from grammar.values.time import Timestamp


@dataclass(frozen=True, slots=True)
class NodeWithPods(Node):
    """A node with the pods on it. Its attributes include the fields of the schema's Node.

    `requested`, `free` and `pods` are None if the pods of the cluster are not known.
    """

    requested: Resources | None
    free: Resources | None
    pods: Sequence[Peer] | None


def with_pods(
    node: Node, pods: Sequence[Peer] | None, requested: Resources | None = None
) -> NodeWithPods:
    """A node with all its pods that have not ended; None if they are not known.

    `requested` is the sum of their requests, if the caller has it already.
    """
    if requested is None and pods is not None:
        requested = total_requests([pod.requests for pod in pods])
    free = None if requested is None else less(node.allocatable, requested)
    return NodeWithPods(
        name=node.name,
        labels=node.labels,
        kind=node.kind,
        apiVersion=node.apiVersion,
        metadata=node.metadata,
        spec=node.spec,
        status=node.status,
        allocatable=node.allocatable,
        requested=requested,
        free=free,
        pods=pods,
    )


def as_offered(node: Node, known: NodeWithPods | None) -> NodeWithPods:
    """A node as a request shows it, with the pods that the cache has on it."""
    return with_pods(node, None) if known is None else with_pods(node, known.pods, known.requested)


def without(known: NodeWithPods, gone: Collection[Peer]) -> NodeWithPods:
    """The node as if these pods were not on it."""
    uids = {pod.uid for pod in gone}
    left = tuple(pod for pod in known.pods or () if pod.uid not in uids)
    requested = total_requests([pod.requests for pod in left])
    return replace(known, requested=requested, free=less(known.allocatable, requested), pods=left)


NodeRows = npt.NDArray[np.intp]
Versions = npt.NDArray[np.int64]

# The row of a name that is not known. It has no node, and its version never changes.
UNKNOWN_ROW = 0


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class RowUse:
    """The use of rows. While it lives, a row of its tables stands for no other name of a node.

    `number` rises with each change of the names.
    """

    number: int = 0


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class NodeTable:
    """Views of nodes by row, and the version of each. `index` finds the rows of many names at once.

    A node keeps its row as long as it exists. If two tables have the same `owner`, a row with the
    same version has the same node in both. Rows of tables with different owners are unrelated.

    Who keeps rows for later keeps their `use`: a row then has the node of its name, or none, also
    if the node goes and another one comes under the name.
    """

    owner: object
    rows: Mapping[str, int]
    nodes: Sequence[NodeWithPods | None]
    versions: Versions
    index: NameIndex | None = None
    use: RowUse = field(default_factory=RowUse)

    def node(self, name: str) -> NodeWithPods | None:
        """The node with its pods; None if the name is not known."""
        return self.nodes[self.rows.get(name, UNKNOWN_ROW)]

    def find(self, names: Sequence[str]) -> NodeRows:
        """The row of each name, UNKNOWN_ROW for an unknown one."""
        if type(names) is ListedNames and self.index is not None:
            if (known := names.known_rows) is not None and known.nodes is self.rows:
                return known.rows
            if (rows := self.index.find(names)) is not None:
                return rows
        found = map(self.rows.get, names, repeat(UNKNOWN_ROW))
        return np.fromiter(found, np.intp, len(names))

    def locate(self, names: Sequence[str]) -> tuple[NodeRows, KnownRows | None]:
        """As `find`, and the same as KnownRows if every name is known and unique.

        The names remember them.
        """
        rows = self.find(names)
        listed = names if type(names) is ListedNames else None
        if listed is not None and listed.known_rows is not None and listed.known_rows.rows is rows:
            return rows, listed.known_rows
        if not len(rows):
            return rows, None
        counts = np.bincount(rows)
        if counts[UNKNOWN_ROW] or np.maximum.reduce(counts) > 1:
            return rows, None
        known_rows = KnownRows(rows, self.rows)
        if listed is not None:
            listed.known_rows = known_rows
        return rows, known_rows


# A table of a cluster of which nothing is known.
NO_NODES = NodeTable(object(), {}, (None,), np.zeros(1, np.int64))


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The cluster at one moment.

    `pending` are the pods without a node, and `strays` the pods on an unknown node, by key
    (`namespace/name`). Pods that have ended are in neither of the two, and on no node. `workloads`
    are the root workloads by the uid of a pod's direct controller, and `failures` the last pods of
    that controller that failed. `budgets` are the disruption budgets, None if they are not known.
    """

    table: NodeTable
    pending: Mapping[str, Peer]
    strays: Mapping[str, Peer]
    namespaces: Mapping[str, Namespace]
    workloads: Mapping[str, Workload]
    budgets: Budgets | None = None
    failures: Mapping[str, Sequence[Peer]] = field(default_factory=dict)

    def node(self, name: str) -> NodeWithPods | None:
        return self.table.node(name)

    @property
    def nodes(self) -> Mapping[str, NodeWithPods]:
        """The nodes by name. Each call makes a new mapping."""
        return {view.name: view for view in self.table.nodes if view is not None}

    def pods(self) -> Mapping[str, Peer]:
        """All pods by key. Each call makes a new mapping."""
        placed = ((node and node.pods) or () for node in self.table.nodes)
        on_nodes = {key_of(pod): pod for pods in placed for pod in pods}
        return {**on_nodes, **self.strays, **self.pending}

    def newest(self) -> Timestamp | None:
        """The latest creation time, heartbeat or transition time of all nodes and pods.

        A pod may also have failed since.
        """
        failed = (p.ended or p.created for known in self.failures.values() for p in known)
        created = (pod.created for pod in self.pods().values())
        times = chain(_node_times(self.nodes.values()), created, failed)
        return max((at for at in times if at is not None), default=None)


def _node_times(nodes: Iterable[NodeWithPods]) -> Iterable[Timestamp | None]:
    for node in nodes:
        if node.metadata is not None:
            yield node.metadata.creationTimestamp
        for condition in (node.status and node.status.conditions) or ():
            yield condition.lastHeartbeatTime
            yield condition.lastTransitionTime
