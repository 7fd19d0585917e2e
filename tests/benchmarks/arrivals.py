"""Arrivals: the published way of pods and nodes, in an order that a seed draws, with clones.

The nodes get names in a random order, which decides between equal ones. The pods come shuffled,
and then clones of some, until all together request 130 % of what the nodes have.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import msgspec

from cli.world import read_policies
from engine.cache.cluster_copy import ClusterDocuments
from engine.decision.part import demanded, summed
from engine.enforced import EnforcedPolicies
from engine.objects.request_pod import ObjectCodec
from engine.offline import offline_engine
from engine.simulation.cycle import (
    SimulatedClock,
    Simulation,
    SimulationOptions,
    Waiting,
    begin,
    waiting,
)
from engine.work import finished
from grammar.meaning.schema import load_schema
from tests.support import openb
from tests.support.builders import Object, kubectl_list, raw

GROW = Fraction(130, 100)


@dataclass(frozen=True, slots=True)
class Arrivals:
    """One run: the lists of a trace, the policies, and the measured resource.

    With `ties` of equal nodes one is drawn; else the first by its drawn name is taken. With
    `plugins` the score of kube-scheduler's own plugins counts, too.
    """

    nodes: Path
    pods: Path
    policies: str
    resource: str
    seed: int
    ties: bool = False
    plugins: bool = False


def by_arrivals(asked: Arrivals) -> Sequence[Mapping[str, float]]:
    """The allocated parts at each percent of what has arrived."""
    schema = load_schema()
    with TemporaryDirectory() as folder:
        file = Path(folder) / "run.policy"
        file.write_text(asked.policies)
        policies = read_policies([file], schema)
    # Order and ties have a source each, so that the same pods come under both rules of ties.
    nodes = renamed(openb.trace_nodes(asked.nodes), Random(f"{asked.seed}/nodes"))
    ties = Random(f"{asked.seed}/ties") if asked.ties else None
    codec = ObjectCodec(schema, policies.needs.annotations)
    options = SimulationOptions(plugins=asked.plugins, ties=ties, ignored=(openb.CARDS,))
    order = Random(f"{asked.seed}/order")
    pods = shuffled([waiting(raw(pod), codec) for pod in openb.trace_pods(asked.pods)], order)
    made = _begun(nodes, pods, policies, codec, (asked.resource, order, options))
    return course(made, asked.resource)


def _begun(
    nodes: Sequence[Object],
    pods: Sequence[Waiting],
    policies: EnforcedPolicies,
    codec: ObjectCodec,
    how: tuple[str, Random, SimulationOptions],
) -> Simulation:
    resource, order, options = how
    file = Path("openb")
    cluster = ClusterDocuments([file], [(file, raw(kubectl_list(nodes)))]).cluster(codec)
    clock = SimulatedClock()
    engine = offline_engine(policies.registry, cluster, codec, clock=clock)
    pods = [replace(each, beside=demanded(engine.parts, each.body)) for each in pods]
    cards = [summed(engine.parts, each) for each in cluster.pods.snapshot().nodes.values()]
    most = int(sum(its[resource][0] for its in cards if resource in its) * GROW)
    queue = grown(pods, order, codec, resource, most)
    return finished(begin(engine, cluster.pods, queue, options, clock))


def renamed(nodes: Sequence[Object], random: Random) -> Sequence[Object]:
    """The nodes with names whose order is drawn."""
    drawn = random.sample(sorted(node["metadata"]["name"] for node in nodes), len(nodes))
    ranks = {name: rank for rank, name in enumerate(drawn)}
    return [
        {**node, "metadata": {**node["metadata"], "name": f"n-{ranks[name]:05}"}}
        for node in nodes
        for name in (node["metadata"]["name"],)
    ]


def shuffled(pods: Sequence[Waiting], random: Random) -> Sequence[Waiting]:
    """The pods in another order."""
    return random.sample(pods, len(pods))


def grown(
    pods: Sequence[Waiting], random: Random, codec: ObjectCodec, resource: str, most: int
) -> Sequence[Waiting]:
    """The pods and clones of some, which are drawn with replacement.

    It ends before the clone with which all pods would request more than `most` of the resource.
    """
    requested = [each.demand.amounts.get(resource, 0) for each in pods]
    assert any(requested), f"no pod requests `{resource}`"
    found, total = list(pods), sum(requested)
    while total + requested[drawn := random.randrange(len(pods))] <= most:
        total += requested[drawn]
        found.append(_clone(pods[drawn], len(found) - len(pods) + 1, codec))
    return found


def _clone(pod: Waiting, number: int, codec: ObjectCodec) -> Waiting:
    document = msgspec.json.decode(pod.body)
    metadata = document["metadata"]
    name = f"{metadata['name']}-clone-{number}"
    document["metadata"] = {**metadata, "name": name, "uid": f"{metadata['uid']}-clone-{number}"}
    return replace(waiting(msgspec.json.encode(document), codec), beside=pod.beside)


def course(simulation: Simulation, resource: str) -> Sequence[Mapping[str, float]]:
    """The allocated parts of all resources when 0 %, 1 %, 2 % and so on of one have arrived.

    Percent of what the nodes have: the last pod counts that keeps the arrived amount within it. The
    last entry is that of all pods, at a percentage that is rounded.
    """
    resources = simulation.resources
    has = {name: resources.allocatable(name) for name in resources.resources}

    def parts() -> Mapping[str, float]:
        return {name: resources.requested(name) / most for name, most in has.items()}

    arrived, found = [resources.requested(resource)], [parts()]
    for pod, _ in zip(simulation.pods, simulation.run(), strict=True):
        arrived.append(arrived[-1] + pod.demand.amounts.get(resource, 0))
        found.append(parts())
    hundredth = has[resource] / 100
    percents = range(round(arrived[-1] / hundredth))
    steps = [max(bisect_right(arrived, percent * hundredth) - 1, 0) for percent in percents]
    return [found[step] for step in steps] + [found[-1]]
