"""Effects: what each policy and each clause does in a cluster, in a few words.

A policy that says something else than its author means selects no pod, rejects every node or none,
or gives all nodes the same score. Who checks policies against a cluster shows this beside them: the
pods are asked one by one, as if they had no node; of large clusters only some of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np

from engine.cache.cluster_copy import ClusterCopy, NamedPod
from engine.counting.count_clauses import by_replicas, of_unknown_size
from engine.decision.registry import Selection
from engine.engine import Engine
from engine.errors import EngineError
from engine.explanation.inspection import Inspection
from engine.objects.peer import Workload
from engine.work import finished
from grammar.messages.texts import counted

# The pods that are asked which policies select them, and those of a policy that are asked about
# nodes. Of more they are taken evenly.
MOST_PODS = 500
MOST_OF_A_POLICY = 5


class EffectOfClause(msgspec.Struct, frozen=True):
    """The effect of a clause; `isVoid` says that it makes no difference, or leaves no node."""

    clause: str
    text: str
    isVoid: bool


class EffectOfPolicy(msgspec.Struct, frozen=True):
    """The effect of a policy in the cluster: the pods that are selected, and what clauses do."""

    policy: str
    text: str
    isVoid: bool
    clauses: Sequence[EffectOfClause]


@dataclass(slots=True)
class _SeenOfPolicy:
    """What was seen of one policy: the pods that it selects, and how many were asked about nodes.

    By clause: how many nodes it rejects for each pod, and whether it scores all alike.
    """

    pods: int = 0
    asked: int = 0
    taken_from: Counter[str] = field(default_factory=Counter)
    gave_way: Counter[str] = field(default_factory=Counter)
    rejected: dict[str, list[int]] = field(default_factory=dict)
    equal: dict[str, bool] = field(default_factory=dict)
    unknown: set[Workload] = field(default_factory=set)

    def ways(self) -> str:
        """From which policies it takes pods over, and to which it gives way, with their numbers."""
        taken = (f", takes over {n} from {other}" for other, n in self.taken_from.most_common())
        given = (f", gives way to {other} for {n}" for other, n in self.gave_way.most_common())
        unknown = [f"; {of_unknown_size(self.unknown)}"] if self.unknown else []
        return "".join((*taken, *given, *unknown))


_Seen = Mapping[str, _SeenOfPolicy]


def effects(
    engine: Engine,
    cluster: ClusterCopy,
    bodies: Mapping[str, bytes | msgspec.Raw] | None = None,
    most: int = MOST_PODS,
) -> list[EffectOfPolicy]:
    """The effects of the policies that the engine enforces, by their addresses.

    `bodies` are the pods, where the cluster has none of its own; so many of them are asked about.
    """
    names = sorted(cluster.snapshot().table.rows)
    seen = {program.address: _SeenOfPolicy() for program in engine.registry.programs}
    keys = sorted(cluster.pod_bodies if bodies is None else bodies)
    step = max(1, -(-len(keys) // most))
    asked = keys[::step]
    for key in asked:
        pod = cluster.pod(key) if bodies is None else NamedPod.of(bodies[key])
        with cluster.asking(pod):
            _ask(seen, engine, pod.body, names)
    whole = counted(len(asked), "pod") if step == 1 else f"{len(asked)} pods of {len(keys):,}"
    return [
        EffectOfPolicy(
            address,
            f"selects {each.pods} of {whole}{each.ways()}",
            each.pods == 0,
            [
                *(_of_rejections(name, n, len(names)) for name, n in each.rejected.items()),
                *(_of_points(n, equal=same and len(names) > 1) for n, same in each.equal.items()),
            ],
        )
        for address, each in sorted(seen.items())
    ]


def _ask(seen: _Seen, engine: Engine, pod: bytes, names: Sequence[str]) -> None:
    """Adds what the policies do with a pod; one that cannot be decided adds nothing."""
    try:
        inspection = Inspection(engine, pod, names)
        applying = _add_selection(seen, inspection.selection)
        if (unknown := inspection.unknown_size) is not None:
            for program in inspection.selection.enforced:
                if by_replicas(program.counts):
                    seen[program.address].unknown.add(unknown)
        if all(each.asked >= MOST_OF_A_POLICY for each in applying):
            return
        objections = finished(inspection.objections())
        for program in inspection.selection.audited:
            objections += finished(inspection.objections_of(program))
        given = finished(inspection.contributions())
        for part in engine.parts:
            part.note(inspection.call)
    except EngineError:
        # What cannot be decided about a pod is an error of its own.
        return
    for policy in applying:
        policy.asked += 1
    for found in objections:
        if found.policy in seen:
            rejected = seen[found.policy].rejected.setdefault(found.name, [])
            rejected.append(int(found.refused.sum()))
    for each in given:
        if each.policy in seen and len(each.points):
            equal, is_equal = seen[each.policy].equal, bool(np.ptp(each.points) == 0)
            equal[each.name] = equal.get(each.name, True) and is_equal


def _add_selection(seen: _Seen, selection: Selection) -> list[_SeenOfPolicy]:
    """Adds a pod to the policies that select it. Returns those that apply to it."""
    applying = [seen[p.address] for p in (*selection.enforced, *selection.audited)]
    losers = [seen[p.address] for p in selection.gave_way]
    for each in (*applying, *losers):
        each.pods += 1
    if selection.governing is not None:
        governing = selection.governing.address
        for program, loser in zip(selection.gave_way, losers, strict=True):
            loser.gave_way[governing] += 1
            seen[governing].taken_from[program.address] += 1
    return applying


def _of_rejections(name: str, numbers: Sequence[int], nodes: int) -> EffectOfClause:
    """By how many nodes a clause rejects for each of some pods."""
    least, most = min(numbers), max(numbers)
    if most == 0:
        return EffectOfClause(name, "passes on every node", isVoid=True)
    if least == nodes:
        every = "the only node" if nodes == 1 else f"all {nodes:,} nodes"
        return EffectOfClause(name, f"rejects {every}", isVoid=True)
    number = f"{most:,}" if least == most else f"{least:,} to {most:,}"
    return EffectOfClause(name, f"rejects {number} of {counted(nodes, 'node')}", isVoid=False)


def _of_points(name: str, *, equal: bool) -> EffectOfClause:
    text = "gives all nodes the same score" if equal else "gives nodes different scores"
    return EffectOfClause(name, text, isVoid=equal)
