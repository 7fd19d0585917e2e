"""Snapshot: an immutable state of the cluster, taken once per request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain

from engine.cache.node_table import NodeTable, NodeWithPods
from engine.objects.codec import Namespace
from engine.objects.peer import Peer, Workload, key_of
from grammar.values.time import Timestamp

# The phases of a pod that has ended: it takes no resources any more.
ENDED = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The cluster at one moment.

    `pending` are the pods without a node, and `strays` the pods on an unknown node, by key
    (`namespace/name`). Pods that have ended are in neither of the two, and on no node. `workloads`
    are the root workloads by the uid of a pod's direct controller.
    """

    table: NodeTable
    pending: Mapping[str, Peer]
    strays: Mapping[str, Peer]
    namespaces: Mapping[str, Namespace]
    workloads: Mapping[str, Workload]

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
        """The latest creation time, heartbeat or transition time of all nodes and pods."""
        times = chain(_node_times(self.nodes.values()), (p.created for p in self.pods().values()))
        return max((at for at in times if at is not None), default=None)


def _node_times(nodes: Iterable[NodeWithPods]) -> Iterable[Timestamp | None]:
    for node in nodes:
        if node.metadata is not None:
            yield node.metadata.creationTimestamp
        for condition in (node.status and node.status.conditions) or ():
            yield condition.lastHeartbeatTime
            yield condition.lastTransitionTime
