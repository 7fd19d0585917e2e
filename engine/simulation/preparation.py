"""Preparation: from a cluster, policies, pods and a change of nodes to a simulation.

The terminal and a running server make theirs here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import msgspec

from engine.cache.cluster_copy import ClusterCopy
from engine.cache.node_table import NodeWithPods
from engine.decision.registry import Registry
from engine.errors import BadObjectError
from engine.objects.codec import ObjectCodec
from engine.objects.eligibility import ineligible
from engine.objects.peer import decode_controller
from engine.objects.workload_pods import pinned
from engine.offline import offline_engine
from engine.simulation.cycle import (
    SimulatedClock,
    Simulation,
    SimulationOptions,
    Waiting,
    begin,
    waiting,
)
from engine.simulation.pod_list import PodList
from engine.simulation.what_if import NO_CHANGE, Changed, WhatIf, changed
from engine.work import Work
from grammar.messages.diagnostics import UserError

_PODS_OF_A_PORTION = 16


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
    every = list(queue.values())
    if registry.cards:
        every = [replace(each, cards=engine.cards.demand(each.body)) for each in every]
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
