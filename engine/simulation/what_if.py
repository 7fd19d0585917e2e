"""WhatIf: nodes that would come or be drained before pods are scheduled, and that simulation.

It is applied to a cluster of its own, once. The terminal and a running server prepare their
simulations here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from engine.cache.cache import Cache
from engine.cache.cluster_copy import ClusterCopy, similar
from engine.cache.node_table import NodeWithPods
from engine.decision.part import demanded
from engine.decision.registry import Registry
from engine.errors import BadObjectError
from engine.objects.eligibility import ineligible
from engine.objects.kept_pods import Unmoved, unmoved
from engine.objects.peer import Peer, decode_controller, key_of
from engine.objects.request_pod import Node, ObjectCodec
from engine.objects.workload_pods import as_stored, pinned
from engine.offline import offline_engine
from engine.simulation.cycle import (
    SimulatedClock,
    Simulation,
    SimulationOptions,
    Waiting,
    begin,
    waiting,
)
from engine.simulation.pod_list import PodList, PodReader
from engine.work import Work
from grammar.messages.diagnostics import UserError

# The labels that name a type or a pool of nodes, the ones of Kubernetes first.
POOLS = (
    "node.kubernetes.io/instance-type",
    "karpenter.sh/nodepool",
    "eks.amazonaws.com/nodegroup",
    "cloud.google.com/gke-nodepool",
    "kubernetes.azure.com/agentpool",
    "node.cluster.x-k8s.io/machine-deployment",
)
# The most nodes of one template in a question to a server.
MOST_ADDED = 1000
_HOSTNAME = "kubernetes.io/hostname"
_PODS_OF_A_PORTION = 16
# A taint of these says how a node is now, and not what a new one of its kind is like.
_PASSING = re.compile(
    r"node\.kubernetes\.io/|node\.cloudprovider\.kubernetes\.io/|karpenter\.sh/disrupt"
    r"|ToBeDeleted|DeletionCandidate"
)


class NodesToAdd(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """So many nodes like a `template`: the name of a node, a label `NAME=VALUE`, a type or a pool.

    With the manifest of a `node`, `template` only gives the names of the new nodes.
    """

    template: Annotated[str, Meta(min_length=1, max_length=512)]
    count: Annotated[int, Meta(ge=1, le=MOST_ADDED)]
    node: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class WhatIf:
    """What if: the nodes that come, and the names of drained nodes.

    `bodies` has the JSON of the pods on these by `namespace/name`.
    """

    added: Sequence[NodesToAdd] = ()
    drained: Sequence[str] = ()
    bodies: Mapping[str, bytes | msgspec.Raw] = field(default_factory=dict)


NO_CHANGE = WhatIf()


@dataclass(frozen=True, slots=True)
class LeftPod:
    """A pod of a drained node for which no other one comes elsewhere."""

    pod: str
    node: str
    why: Unmoved


@dataclass(frozen=True, slots=True)
class CoveringBudget:
    """Budget that covers pods: how many may be evicted now, and how many would be."""

    budget: str
    allowed: int
    pods: int


class SimulatedDrain(msgspec.Struct, frozen=True):
    """Nodes that are drained, with the pods that are `left` where no other one comes elsewhere.

    `budgets` are those of the pods that go: how many evictions each allows now, and how many there
    would be. It is null while those of the cluster are not known.
    """

    nodes: Sequence[str]
    left: Sequence[LeftPod]
    budgets: Sequence[CoveringBudget] | None


@dataclass(frozen=True, slots=True)
class Changed:
    """What was changed: the names of new nodes, and the drained ones with the pods that leave.

    `moved` has the node that each of these pods leaves.
    """

    added: Sequence[str] = ()
    drained: SimulatedDrain | None = None
    moved: Mapping[str, str] = field(default_factory=dict)
    pods: PodList | None = None


UNCHANGED = Changed()


def changed(change: WhatIf, cluster: ClusterCopy, codec: ObjectCodec, most: int) -> Work[Changed]:
    """Changes a cluster, from whose drained nodes at most so many pods go. Raises UserError."""
    cache, drained = cluster.pods, tuple(dict.fromkeys(change.drained))
    names = sorted(cache.nodes.names()) if drained else []
    for name in drained:
        if name not in names:
            raise UserError(f"there is no node `{name}`", similar(name, names))
    added = list[str]()
    for each in change.added:
        made = _template(each, cache, codec, drained)
        for _ in range(each.count):
            added.append(_add(cluster, codec, each, made))
            yield
    if not drained:
        return Changed(added)
    snapshot = cache.snapshot()
    views = [view for name in drained if (view := snapshot.node(name)) is not None]
    pods = [pod for view in views for pod in view.pods or ()]
    reader = PodReader(Path("drain"), most=most)
    going, left = list[Peer](), list[LeftPod]()
    for number, pod in enumerate(pods, 1):
        if pod.deletionTimestamp is not None:
            # It goes by itself.
            continue
        if (why := unmoved(pod)) is not None:
            left.append(LeftPod(key_of(pod), pod.nodeName, why))
        elif body := change.bodies.get(key_of(pod)):
            reader.add({"kind": "Pod", **msgspec.json.decode(body)})
            going.append(pod)
        if not number % _PODS_OF_A_PORTION:
            yield
    for view in views:
        spec = view.spec if view.spec is not None else codec.node(b'{"spec":{}}').spec
        cordoned = msgspec.structs.replace(spec, unschedulable=True)
        cache.put_node(replace(_plain(view), spec=cordoned))
    budgets = None
    if snapshot.budgets is not None:
        every = (budget for some in snapshot.budgets.values() for budget in some)
        found = ((each, sum(each.covers(pod) for pod in going)) for each in every)
        budgets = [
            CoveringBudget(f"{each.namespace}/{each.name}", each.allowed, number)
            for each, number in found
            if number
        ]
    moved = {key_of(pod): pod.nodeName for pod in going}
    return Changed(added, SimulatedDrain(drained, left, budgets), moved, reader.read())


# ---- nodes that come


def _template(
    each: NodesToAdd, cache: Cache, codec: ObjectCodec, drained: Sequence[str]
) -> NodeWithPods | Node:
    """The node to copy. Raises UserError."""
    if each.node is not None:
        try:
            (stored,) = as_stored([msgspec.json.encode({"kind": "Node", **each.node})])
            made = codec.node(stored)
        except BadObjectError as error:
            raise UserError(f"the node `{each.template}` cannot be read: {error}") from None
        if made.kind not in (None, "Node"):
            hint = "give the manifest of a node, as `kubectl get node NAME -o json` writes it"
            raise UserError(f"`{each.template}` is not a node, but a {made.kind}", hint)
        return made
    snapshot, wanted = cache.snapshot(), each.template
    if (view := snapshot.node(wanted)) is not None:
        return view
    key, equals, value = wanted.rpartition("=")
    labels = [(key, value)] if equals else [(pool, wanted) for pool in POOLS]
    for name, text in labels:
        found = [view for view in snapshot.nodes.values() if view.labels.get(name) == text]
        if found:
            return min(found, key=lambda v: (v.name in drained, *_is_out(v), v.name))
    text = f"no node is called `{wanted}`, and none is of such a type or pool"
    if equals:
        text = f"no node has the label `{wanted}`"
    known = {view.labels[p] for view in snapshot.nodes.values() for p in POOLS if p in view.labels}
    raise UserError(text, similar(wanted, sorted({*known, *snapshot.nodes})))


def _is_out(view: NodeWithPods) -> tuple[bool, bool]:
    """Whether a node is cordoned, and whether something is wrong with it: others come first."""
    spec = view.spec
    taints = (spec and spec.taints) or ()
    return bool(spec and spec.unschedulable), any(_PASSING.match(taint.key) for taint in taints)


def _add(
    cluster: ClusterCopy, codec: ObjectCodec, each: NodesToAdd, like: NodeWithPods | Node
) -> str:
    """A new node with the pods of DaemonSets, and of the kubelet, that the template has."""
    cache, number = cluster.pods, 1
    base = re.sub(r"[^a-z0-9.-]+", "-", each.template.lower()).strip("-.") or "node"
    while cache.nodes.get(name := f"{base}-new-{number}") is not None:
        number += 1
    labels = {**like.labels, _HOSTNAME: name}
    metadata = like.metadata
    if metadata is None:
        metadata = codec.node(b'{"metadata":{}}').metadata
    metadata = msgspec.structs.replace(
        metadata, name=name, uid=f"added:{name}", labels=labels, creationTimestamp=cluster.now
    )
    spec = like.spec
    if spec is not None:
        kept = [taint for taint in spec.taints or () if not _PASSING.match(taint.key)]
        spec = msgspec.structs.replace(spec, unschedulable=None, taints=kept)
    cache.put_node(replace(_plain(like), name=name, labels=labels, metadata=metadata, spec=spec))
    for pod in (like.pods or ()) if isinstance(like, NodeWithPods) else ():
        if pod.workload is not None and unmoved(pod) is not None:
            own = {"name": f"{pod.name}-{name}", "uid": f"{pod.uid}:{name}", "nodeName": name}
            cache.put_pod(msgspec.structs.replace(pod, **own))
    return name


def _plain(node: Node) -> Node:
    """The node without its pods."""
    given = node.name, node.labels, node.kind, node.apiVersion
    return Node(*given, node.metadata, node.spec, node.status, node.allocatable)


# ---- the simulation of it


@dataclass(frozen=True, slots=True)
class Prepared:
    """Prepared simulation that has not begun, with the cluster and the changes."""

    simulation: Simulation
    cluster: ClusterCopy
    changed: Changed


def prepared(
    cluster: ClusterCopy,
    codec: ObjectCodec,
    registry: Registry,
    pods: PodList | None,
    options: SimulationOptions,
    change: WhatIf = NO_CHANGE,
) -> Work[Prepared]:
    """A simulation that changes the cluster; without `pods`, those of drained nodes alone.

    Raises UserError.
    """
    made = yield from changed(change, cluster, codec, options.most)
    queue = dict[str, Waiting]()
    for some in (made.pods, pods):
        if some is None:
            continue
        for owner in some.owners:
            controller = decode_controller(owner["kind"], msgspec.json.encode(owner))
            cluster.pods.put_controller(controller)
        for number, each in enumerate(_waiting(some, codec, cluster.snapshot().nodes), 1):
            queue.setdefault(each.key, each)
            if not number % _PODS_OF_A_PORTION:
                yield
            if len(queue) > options.most:
                hint = "ask about a part of them"
                raise UserError(f"these are more than {options.most} pods", hint)
    clock = SimulatedClock(options.real)
    engine = offline_engine(registry, cluster, codec, exemptions=options.exemptions, clock=clock)
    if options.tables is not None:
        engine.take_tables(options.tables)
    every = [replace(each, beside=demanded(engine.parts, each.body)) for each in queue.values()]
    how = replace(options, drained=frozenset(change.drained))
    simulation = yield from begin(engine, cluster.pods, every, how, clock)
    return Prepared(simulation, cluster, made)


def _waiting(
    pods: PodList, codec: ObjectCodec, nodes: Mapping[str, NodeWithPods]
) -> Iterator[Waiting]:
    """The pods, and for one of a DaemonSet those of the nodes where they could ever run."""
    for key, body in pods.bodies.items():
        try:
            each = waiting(body, codec)
        except BadObjectError as error:
            message = f"pod `{key}` in `{pods.file}` cannot be read: {error}"
            raise UserError(message, "correct the pod") from None
        if key not in pods.daemons:
            yield each
            continue
        pod = msgspec.json.decode(body)
        for name, node in sorted(nodes.items()):
            if not ineligible(each.pod, node):
                yield waiting(msgspec.json.encode(pinned(pod, name)), codec)
