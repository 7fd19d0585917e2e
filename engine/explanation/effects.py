"""Effects: what each policy and each clause does in a cluster, in a few words.

A policy that says something else than its author means selects no pod, rejects every node or none,
or gives all nodes the same score. Who checks policies against a cluster shows this beside them. The
pods are asked one by one, as if they had no node; of large clusters only some of them.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from engine.cache.cluster_copy import ClusterCopy, NamedPod
from engine.decision.registry import Selection
from engine.enforced import enforced
from engine.engine import Engine
from engine.errors import EngineError
from engine.explanation.inspection import Contribution, Inspection, Objection, PodResults
from engine.objects.codec import ObjectCodec
from engine.offline import offline_engine
from engine.program.program import Program
from engine.work import Work, finished
from grammar.messages.texts import counted
from policies.validation import Validation

# The pods that are asked which policies select them, and those of a policy that are asked about
# nodes. Of more they are taken evenly.
MOST_PODS = 500
MOST_OF_A_POLICY = 5


class EffectOfClause(msgspec.Struct, frozen=True):
    """What a clause does; `isVoid` says that it makes no difference, or leaves no node."""

    clause: str
    text: str
    isVoid: bool


class EffectOfPolicy(msgspec.Struct, frozen=True):
    """The effect of a policy in the cluster: which pods it selects, and what its clauses do."""

    policy: str
    text: str
    isVoid: bool
    clauses: Sequence[EffectOfClause]


@dataclass(slots=True)
class _SeenOfPolicy:
    """What was seen of one policy."""

    pods: int = 0
    taken_from: Counter[str] = field(default_factory=Counter)
    gave_way: Counter[str] = field(default_factory=Counter)
    asked: int = 0
    rejected: dict[str, list[int]] = field(default_factory=dict)
    equal: dict[str, bool] = field(default_factory=dict)


class EffectsOfPods:
    """What the policies that an engine enforces do with some pods, which are told one by one."""

    def __init__(
        self, engine: Engine, names: Sequence[str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._engine = engine
        self._names = names
        self._clock = clock
        self._programs = {p.address: p for p in engine.registry.programs}
        self._seen = {address: _SeenOfPolicy() for address in self._programs}

    def ask(self, pod: bytes) -> Work[None]:
        """Adds what the policies do with a pod, in portions; an undecidable pod adds nothing."""
        seen = self._seen
        try:
            inspection = Inspection.of(self._engine, pod)
            selection = inspection.selection
            applying = [p.address for p in (*selection.enforced, *selection.audited)]
            self._add_selection(selection, applying)
            if all(seen[a].asked >= MOST_OF_A_POLICY for a in applying):
                return
            work = PodResults(inspection, self._names, self._clock)
            objections = yield from work.objections()
            for program in selection.audited:
                objections += yield from work.objections_of(program)
            given = yield from work.contributions(list(self._names))
        except EngineError:
            # What cannot be decided about a pod is an error of its own.
            return
        for address in applying:
            seen[address].asked += 1
        for objection in objections:
            _rejection(objection, seen)
        for each in given:
            _points(each, seen)

    def _add_selection(self, selection: Selection, applying: Sequence[str]) -> None:
        seen, governing = self._seen, selection.governing
        for address in applying:
            seen.setdefault(address, _SeenOfPolicy()).pods += 1
        for loser in selection.gave_way:
            lost = seen.setdefault(loser.address, _SeenOfPolicy())
            lost.pods += 1
            if governing is not None:
                lost.gave_way[governing.address] += 1
                seen[governing.address].taken_from[loser.address] += 1

    def found(self, whole: str) -> list[EffectOfPolicy]:
        """The effects by the addresses of the policies; `whole` says how many pods were asked."""
        return [
            _of_policy(self._programs[address], found, whole, len(self._names))
            for address, found in sorted(self._seen.items())
        ]


def effects(
    engine: Engine,
    cluster: ClusterCopy,
    bodies: Mapping[str, bytes] | None = None,
    most: int = MOST_PODS,
    clock: Callable[[], float] = time.monotonic,
) -> list[EffectOfPolicy]:
    """The effects of the policies that the engine enforces, by their addresses.

    `bodies` are the pods, where the cluster has none of its own; so many of them are asked about.
    """
    found = EffectsOfPods(engine, sorted(cluster.snapshot().table.rows), clock)
    keys = sorted(cluster.pod_bodies if bodies is None else bodies)
    step = max(1, -(-len(keys) // most))
    asked = keys[::step]
    for key in asked:
        pod = cluster.pod(key) if bodies is None else NamedPod.of(bodies[key])
        with cluster.asking(pod):
            finished(found.ask(pod.body))
    whole = counted(len(asked), "pod") if step == 1 else f"{len(asked)} pods of {len(keys):,}"
    return found.found(whole)


def effects_of(
    validation: Validation, cluster: ClusterCopy, codec: ObjectCodec, most: int = MOST_PODS
) -> list[EffectOfPolicy]:
    """The effects of the policies of checked files."""
    engine = offline_engine(enforced(validation).registry, cluster, codec)
    return effects(engine, cluster, most=most)


def _rejection(found: Objection, seen: dict[str, _SeenOfPolicy]) -> None:
    if found.policy in seen:
        rejected = int(found.refused.sum())
        seen[found.policy].rejected.setdefault(found.name, []).append(rejected)


def _points(found: Contribution, seen: dict[str, _SeenOfPolicy]) -> None:
    if found.policy in seen and len(found.points):
        is_equal = bool((found.points == found.points[0]).all())
        equal = seen[found.policy].equal
        equal[found.name] = equal.get(found.name, True) and is_equal


# ---- in words


def _of_policy(program: Program, seen: _SeenOfPolicy, whole: str, nodes: int) -> EffectOfPolicy:
    text = f"selects {seen.pods} of {whole}"
    text += ways(seen.taken_from, seen.gave_way)
    clauses = [
        *(_of_rejections(name, numbers, nodes) for name, numbers in seen.rejected.items()),
        *(_of_points(name, equal=equal, nodes=nodes) for name, equal in seen.equal.items()),
    ]
    return EffectOfPolicy(program.address, text, seen.pods == 0, clauses)


def ways(taken_from: Counter[str], gave_way: Counter[str]) -> str:
    """From which policies one takes pods over, and to which it gives way, with their numbers."""
    taken = (f", takes over {n} from {other}" for other, n in taken_from.most_common())
    given = (f", gives way to {other} for {n}" for other, n in gave_way.most_common())
    return "".join((*taken, *given))


def all_nodes(nodes: int) -> str:
    return "the only node" if nodes == 1 else f"all {nodes:,} nodes"


SAME_SCORE = "gives all nodes the same score"


def _of_rejections(name: str, numbers: Sequence[int], nodes: int) -> EffectOfClause:
    """By how many nodes a clause rejects for each of some pods."""
    least, most = min(numbers), max(numbers)
    if most == 0:
        return EffectOfClause(name, "passes on every node", isVoid=True)
    if least == nodes:
        return EffectOfClause(name, f"rejects {all_nodes(nodes)}", isVoid=True)
    number = f"{most:,}" if least == most else f"{least:,} to {most:,}"
    return EffectOfClause(name, f"rejects {number} of {counted(nodes, 'node')}", isVoid=False)


def _of_points(name: str, *, equal: bool, nodes: int) -> EffectOfClause:
    if equal and nodes > 1:
        return EffectOfClause(name, SAME_SCORE, isVoid=True)
    return EffectOfClause(name, "gives nodes different scores", isVoid=False)
