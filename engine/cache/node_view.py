"""A node as rules see it: the object, and what the pods on it take."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from engine.objects import Node
from engine.peer import Peer
from engine.resources import Resources, total_requests
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
