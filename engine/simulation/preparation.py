"""Preparation: from a cluster, policies, pods and a change of nodes to a simulation.

The terminal and a running server make theirs here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from random import Random

import msgspec

from engine.cache.cluster_copy import ClusterCopy
from engine.cache.node_table import NodeWithPods
from engine.decision.registry import Registry
from engine.errors import BadObjectError
from engine.objects.codec import ObjectCodec
from engine.objects.eligibility import ineligible
from engine.objects.peer import decode_controller
from engine.objects.request_pod import Exemptions
from engine.objects.resources import CPU
from engine.objects.workload_pods import MOST_PODS, pinned
from engine.offline import USUAL_EXEMPTIONS, offline_engine
from engine.program.tables import Tables
from engine.simulation.cycle import (
    CycleOptions,
    SimulatedClock,
    Simulation,
    Waiting,
    begin,
    grown,
    shuffled,
    waiting,
)
from engine.simulation.node_resources import NodeResources
from engine.simulation.pod_list import PodList
from engine.simulation.what_if import NO_CHANGE, Changed, WhatIf, changed
from engine.work import Work
from grammar.messages.diagnostics import UserError

_PODS_OF_A_PORTION = 16


@dataclass(frozen=True, slots=True)
class SimulationOptions:
    """What a simulation does beside kube-scheduler's usual way, with chances from the seed.

    `grow` is a part of what the nodes have of `resource`: clones of pods come until all together
    request it. `plugins` says whether the score of kube-scheduler's plugin counts. Nodes need not
    have room for `ignored` resources. `preempts`: pods of lower priority are evicted. At most so
    many pods are scheduled, in portions of so many seconds of a `real` clock. `tables` are those of
    a server, in place of those beside the cluster.
    """

    weight: int = 1
    plugins: bool = True
    random_ties: bool = False
    shuffle: bool = False
    resource: str = CPU
    grow: Fraction | None = None
    ignored: tuple[str, ...] = ()
    preempts: bool = False
    most: int = MOST_PODS
    portion: float = math.inf
    real: Callable[[], float] = lambda: 0.0
    tables: Tables | None = None
    exemptions: Exemptions = USUAL_EXEMPTIONS

    @property
    def draws(self) -> bool:
        """Whether chance decides something."""
        return self.random_ties or self.shuffle or self.grow is not None


@dataclass(frozen=True, slots=True)
class Prepared:
    """A simulation that has not begun, its cluster, and what was changed for it."""

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
    seed: int = 0,
) -> Work[Prepared]:
    """A simulation that changes the cluster; without `pods`, those of drained nodes alone.

    Raises UserError.
    """
    made = yield from changed(change, cluster, codec, options.most)
    every = list[Waiting]()
    for some in (made.pods, pods):
        for owner in some.owners if some is not None else ():
            controller = decode_controller(owner["kind"], msgspec.json.encode(owner))
            cluster.pods.put_controller(controller)
        known = {each.key for each in every}
        nodes = cluster.snapshot().nodes
        for each in _waiting(some, codec, nodes) if some is not None else ():
            if each.key not in known:
                every.append(each)
            if not len(every) % _PODS_OF_A_PORTION:
                yield
            if len(every) > options.most:
                hint = "ask about a part of them"
                raise UserError(f"these are more than {options.most} pods", hint)
    queue: Sequence[Waiting] = every
    # Order and ties have a source each, so that the same pods come under both rules of ties.
    order = Random(f"{seed}/order")  # noqa: S311 (a simulation, not a secret)
    if options.shuffle:
        queue = shuffled(queue, order)
    clock = SimulatedClock(options.real)
    engine = offline_engine(registry, cluster, codec, exemptions=options.exemptions, clock=clock)
    if options.tables is not None:
        engine.take_tables(options.tables)
    if registry.cards:
        queue = [replace(each, cards=engine.cards.demand(each.body)) for each in queue]
    resource = options.resource
    if options.grow is not None:
        views = list(cluster.pods.snapshot().nodes.values())
        room = NodeResources(views, cards=engine.cards.sums(views))
        try:
            most = int(room.allocatable(resource) * options.grow)
            queue = grown(queue, order, codec, resource, most)
        except ValueError as error:
            where = f"`{pods.file}`" if pods is not None else "the drained nodes"
            raise UserError(str(error), f"name a resource that pods of {where} request") from None
    # Results must not depend on how the nodes of a cluster happen to be named, so --shuffle draws
    # their order too. It has a source of its own: its draws must not change the pods.
    nodes_order = Random(f"{seed}/nodes") if options.shuffle else None  # noqa: S311 (as above)
    ties = Random(f"{seed}/ties") if options.random_ties else None  # noqa: S311 (as above)
    how = CycleOptions(
        options.weight,
        options.plugins,
        ties,
        nodes_order,
        options.ignored,
        options.preempts,
        frozenset(change.drained),
        options.portion,
    )
    simulation = yield from begin(engine, cluster.pods, queue, how, clock)
    return Prepared(simulation, cluster, made)


def _waiting(
    pods: PodList, codec: ObjectCodec, nodes: Mapping[str, NodeWithPods]
) -> Iterator[Waiting]:
    for key, body in pods.bodies.items():
        try:
            each = waiting(body, codec)
        except BadObjectError as error:
            message = f"pod `{key}` in `{pods.file}` cannot be read: {error}"
            raise UserError(message, "correct the pod") from None
        if key in pods.daemons:
            yield from _daemons(each, codec, nodes)
        else:
            yield each


def _daemons(
    pod: Waiting, codec: ObjectCodec, nodes: Mapping[str, NodeWithPods]
) -> Iterator[Waiting]:
    """The pods of a DaemonSet, which creates them only where they could ever run."""
    body = msgspec.json.decode(pod.body)
    for name, node in sorted(nodes.items()):
        if not ineligible(pod.pod, node):
            yield waiting(msgspec.json.encode(pinned(body, name)), codec)
