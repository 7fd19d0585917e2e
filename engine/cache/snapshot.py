"""An immutable view of the cluster: its nodes, what their pods take, and the pods that wait."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain

import msgspec

from engine.cache.node_table import NodeTable, NodeView, table_of, view
from engine.objects.codec import Namespace, Node
from engine.objects.controllers import Controller, Workload, bare, roots
from engine.objects.peer import Peer
from grammar.values.time import Timestamp

# A pod in one of these has given back what it took.
ENDED = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The cluster at one moment.

    `pending` are the pods without a node and `strays` those on a node that is not there, by key
    (`namespace/name`); pods that have ended are nowhere. `workloads` are root controllers by the
    uid of the controller that a pod names.
    """

    table: NodeTable
    pending: Mapping[str, Peer]
    strays: Mapping[str, Peer]
    namespaces: Mapping[str, Namespace]
    workloads: Mapping[str, Workload]

    def node(self, name: str) -> NodeView | None:
        return self.table.views[self.table.rows.get(name, 0)]

    @property
    def nodes(self) -> Mapping[str, NodeView]:
        """By name; made anew each time."""
        return {view.name: view for view in self.table.views if view is not None}

    def pods(self) -> Mapping[str, Peer]:
        """All of them by key; made anew each time."""
        placed = ((node and node.pods) or () for node in self.table.views)
        on_nodes = {key_of(pod): pod for pods in placed for pod in pods}
        return {**on_nodes, **self.strays, **self.pending}

    def newest(self) -> Timestamp | None:
        """The latest of the times when something was created, or a kubelet was heard of."""
        times = chain(_node_times(self.nodes.values()), (p.created for p in self.pods().values()))
        return max((at for at in times if at is not None), default=None)


def build(
    nodes: Iterable[Node],
    pods: Iterable[Peer],
    *,
    namespaces: Iterable[Namespace] = (),
    controllers: Iterable[Controller] = (),
) -> Snapshot:
    """A snapshot from decoded objects. Of two objects of one name the later counts.

    As in kube-scheduler, a pod counts on its node until it has succeeded or failed, terminating or
    not. A pod on a node that is not among `nodes` counts nowhere, but is among the pods.
    """
    workloads = roots(controllers)
    by_name = {n.name: n for n in nodes}
    placed: dict[str, list[Peer]] = {name: [] for name in by_name}
    pending: dict[str, Peer] = {}
    strays: dict[str, Peer] = {}
    for key, peer in {key_of(p): rooted(p, workloads) for p in pods}.items():
        if peer.phase in ENDED:
            continue
        if not peer.nodeName:
            pending[key] = peer
        elif peer.nodeName in placed:
            placed[peer.nodeName].append(peer)
        else:
            strays[key] = peer
    return Snapshot(
        table=table_of(view(n, placed[n.name]) for n in by_name.values()),
        pending=pending,
        strays=strays,
        namespaces={n.name: n for n in namespaces},
        workloads=workloads,
    )


def key_of(peer: Peer) -> str:
    return f"{peer.namespace}/{peer.name}"


def rooted(peer: Peer, roots: Mapping[str, Workload]) -> Peer:
    """The peer with its root controller in place of the one that it names.

    How many pods the root wants is left out: it changes without the peer, and no rule reads it.
    """
    root = roots.get(peer.controller)
    return peer if root is None else msgspec.structs.replace(peer, workload=bare(root))


def _node_times(nodes: Iterable[NodeView]) -> Iterable[Timestamp | None]:
    for node in nodes:
        if node.metadata is not None:
            yield node.metadata.creationTimestamp
        for condition in (node.status and node.status.conditions) or ():
            yield condition.lastHeartbeatTime
            yield condition.lastTransitionTime
