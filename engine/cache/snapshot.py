"""An immutable view of the cluster: its nodes, what their pods take, and the pods that wait."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import msgspec

from engine.cache.controllers import Controller, roots
from engine.cache.namespace import Namespace
from engine.objects import Node
from engine.peer import Peer
from engine.resources import Resources, total_requests
from engine.workload import Workload
from grammar.values.quantity import Quantity
from grammar.values.timestamp import Timestamp

# A pod in one of these has given back what it took.
ENDED = frozenset({"Succeeded", "Failed"})

Record = Any


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node with the pods on it. The attributes are those of the schema's Node, and a few more.

    `requested`, `free` and `pods` are None where the cluster's pods are not known. `generation` is
    a different one whenever anything else here is.
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
    generation: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The cluster at one moment. `taken` is the newest time that its objects name, if any.

    `pods` are by namespace and name: with those that have no node, without those that have ended.
    `pending` are those without a node. `workloads` are root controllers by the uid of the
    controller that a pod names.
    """

    nodes: Mapping[str, NodeView]
    generation: int
    taken: Timestamp | None
    pods: Mapping[tuple[str, str], Peer]
    pending: Sequence[Peer]
    namespaces: Mapping[str, Namespace]
    workloads: Mapping[str, Workload]


def build(
    nodes: Iterable[Node],
    pods: Iterable[Peer],
    *,
    namespaces: Iterable[Namespace] = (),
    controllers: Iterable[Controller] = (),
    generation: int = 1,
) -> Snapshot:
    """A snapshot from decoded objects. Of two objects of one name the later counts.

    As in kube-scheduler, a pod counts on its node until it has succeeded or failed, terminating or
    not. A pod on a node that is not among `nodes` counts nowhere, but is among the pods.
    """
    workloads = roots(controllers)
    known = {(p.namespace, p.name): _rooted(p, workloads) for p in pods if p.phase not in ENDED}
    placed: dict[str, list[Peer]] = {}
    pending: list[Peer] = []
    for peer in known.values():
        if peer.nodeName:
            placed.setdefault(peer.nodeName, []).append(peer)
        else:
            pending.append(peer)
    views = {n.name: view(n, placed.get(n.name, ()), generation) for n in nodes}
    return Snapshot(
        nodes=views,
        generation=generation,
        taken=_newest(views.values(), known.values()),
        pods=known,
        pending=tuple(pending),
        namespaces={n.name: n for n in namespaces},
        workloads=workloads,
    )


def view(node: Node, pods: Iterable[Peer], generation: int) -> NodeView:
    """A node with its pods, all of them: those that have ended must not be among them."""
    there = tuple(pods)
    return _view(node, total_requests(p.requests for p in there), there, generation)


def view_of(node: Node, known: NodeView | None) -> NodeView:
    """A node as a request shows it, with the pods that the cache has on it."""
    if known is None:
        return _view(node, None, None, 0)
    return _view(node, known.requested, known.pods, known.generation)


def _view(
    node: Node, requested: Resources | None, pods: Sequence[Peer] | None, generation: int
) -> NodeView:
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
        generation=generation,
    )


def free(allocatable: Resources, requested: Resources) -> Resources:
    """What is left of each resource that either side names; below zero on an over-full node."""
    left = Resources(allocatable)
    for resource, amount in requested.items():
        whole = left[resource]
        left[resource] = Quantity(whole.nanos - amount.nanos, whole.suffix)
    return left


def _rooted(peer: Peer, workloads: Mapping[str, Workload]) -> Peer:
    """The peer with its root controller in place of the one that it names."""
    if peer.workload is None or (root := workloads.get(peer.workload.uid)) is None:
        return peer
    return msgspec.structs.replace(peer, workload=root)


def _newest(nodes: Iterable[NodeView], pods: Iterable[Peer]) -> Timestamp | None:
    """The latest of the times when something was created, or a kubelet was heard of."""
    times = chain(_node_times(nodes), (p.created for p in pods))
    return max((at for at in times if at is not None), default=None)


def _node_times(nodes: Iterable[NodeView]) -> Iterable[Timestamp | None]:
    for node in nodes:
        if node.metadata is not None:
            yield node.metadata.creationTimestamp
        for condition in (node.status and node.status.conditions) or ():
            yield condition.lastHeartbeatTime
            yield condition.lastTransitionTime
