"""Effects: what each policy and each clause does, in a few words, asked of a cluster or decided.

A policy that says something else than its author means selects no pod, rejects every node or none,
or gives all nodes the same score. Who checks policies against a cluster shows this beside them: the
pods are asked one by one, as if they had no node; of large clusters only some of them. A server
reads the same of the journal for the policies in force, which costs no evaluation.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal

import msgspec
import numpy as np

from engine.cache.cluster_copy import ClusterCopy, NamedPod
from engine.decision.journal import ConcernedPolicies, DecisionRecord, Journal, concerned
from engine.decision.verdict import Failed, Rejected
from engine.enforced import enforced
from engine.engine import Engine
from engine.errors import EngineError
from engine.explanation.inspection import Inspection, PodResults
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
_SAME_SCORE = "gives all nodes the same score"


@dataclass(slots=True)
class _SeenOfPolicy:
    """The pods that one policy selects, and how many of them were asked about nodes."""

    pods: int = 0
    asked: int = 0
    taken_from: Counter[str] = field(default_factory=Counter)
    gave_way: Counter[str] = field(default_factory=Counter)

    def ways(self) -> str:
        """From which policies it takes pods over, and to which it gives way, with their numbers."""
        taken = (f", takes over {n} from {other}" for other, n in self.taken_from.most_common())
        given = (f", gives way to {other} for {n}" for other, n in self.gave_way.most_common())
        return "".join((*taken, *given))


def _add_selection(seen: Mapping[str, _SeenOfPolicy], policies: ConcernedPolicies) -> list[str]:
    """Adds a pod to the policies that select it. Returns those that apply and do not audit."""
    governing = policies.governing
    applying = [*policies.guardrails, *([] if governing is None else [governing])]
    for address in (*applying, *policies.audited, *policies.gave_way):
        seen[address].pods += 1
    if governing is not None:
        for loser in policies.gave_way:
            seen[loser].gave_way[governing] += 1
            seen[governing].taken_from[loser] += 1
    return applying


def _all_nodes(nodes: int) -> str:
    return "the only node" if nodes == 1 else f"all {nodes:,} nodes"


# ---- by asking about pods


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
class _AskedOfPolicy(_SeenOfPolicy):
    """By clause: how many nodes it rejects for each pod, and whether it scores all alike."""

    rejected: dict[str, list[int]] = field(default_factory=dict)
    equal: dict[str, bool] = field(default_factory=dict)


class EffectsOfPods:
    """The effects of the enforced policies on pods, which are told one by one."""

    def __init__(
        self, engine: Engine, names: Sequence[str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._engine = engine
        self._names = names
        self._clock = clock
        self._seen = {p.address: _AskedOfPolicy() for p in engine.registry.programs}

    def ask(self, pod: bytes) -> Work[None]:
        """Adds what the policies do with a pod, in portions; an undecidable pod adds nothing."""
        seen = self._seen
        try:
            inspection = Inspection.of(self._engine, pod)
            policies = concerned(inspection.selection)
            applying = [*_add_selection(seen, policies), *policies.audited]
            if all(seen[a].asked >= MOST_OF_A_POLICY for a in applying):
                return
            work = PodResults(inspection, self._names, self._clock)
            objections = yield from work.objections()
            for program in inspection.selection.audited:
                objections += yield from work.objections_of(program)
            given = yield from work.contributions(list(self._names))
        except EngineError:
            # What cannot be decided about a pod is an error of its own.
            return
        for address in applying:
            seen[address].asked += 1
        for found in objections:
            if found.policy in seen:
                rejected = seen[found.policy].rejected.setdefault(found.name, [])
                rejected.append(int(found.refused.sum()))
        for each in given:
            if each.policy in seen and len(each.points):
                equal, is_equal = seen[each.policy].equal, bool(np.ptp(each.points) == 0)
                equal[each.name] = equal.get(each.name, True) and is_equal

    def found(self, whole: str) -> list[EffectOfPolicy]:
        """The effects by the addresses of the policies; `whole` says how many pods were asked."""
        nodes = len(self._names)
        return [
            EffectOfPolicy(
                address,
                f"selects {seen.pods} of {whole}{seen.ways()}",
                seen.pods == 0,
                [
                    *(_of_rejections(name, each, nodes) for name, each in seen.rejected.items()),
                    *(
                        _of_points(name, equal=each and nodes > 1)
                        for name, each in seen.equal.items()
                    ),
                ],
            )
            for address, seen in sorted(self._seen.items())
        ]


def _of_rejections(name: str, numbers: Sequence[int], nodes: int) -> EffectOfClause:
    """By how many nodes a clause rejects for each of some pods."""
    least, most = min(numbers), max(numbers)
    if most == 0:
        return EffectOfClause(name, "passes on every node", isVoid=True)
    if least == nodes:
        return EffectOfClause(name, f"rejects {_all_nodes(nodes)}", isVoid=True)
    number = f"{most:,}" if least == most else f"{least:,} to {most:,}"
    return EffectOfClause(name, f"rejects {number} of {counted(nodes, 'node')}", isVoid=False)


def _of_points(name: str, *, equal: bool) -> EffectOfClause:
    text = _SAME_SCORE if equal else "gives nodes different scores"
    return EffectOfClause(name, text, isVoid=equal)


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


# ---- by the last decisions

# So many decisions are looked at, the newest ones.
MOST_DECISIONS = 50
# All nodes are rejected, or get the same score, if it was so for each of at least so many pods.
_LEAST = 3

Kind = Literal["", "SelectsNoPod", "RejectsEveryNode", "SameScore"]


@dataclass(frozen=True, slots=True)
class DecidedEffect:
    """The effect of a policy in the last decisions.

    `kind` says why it makes no difference or leaves no node; it is empty for any other effect.
    `clauses` are the ones that reject every node.
    """

    kind: Kind
    text: str
    clauses: tuple[str, ...] = ()


@dataclass(slots=True)
class _DecidedOfPolicy(_SeenOfPolicy):
    """The numbers of decided pods; `rejected` has those for which it alone rejected every node."""

    rejected: int = 0
    nodes: int = 0
    clauses: set[str] = field(default_factory=set)
    scored: int = 0
    equal: int = 0


class DecidedEffects:
    """The effects of policies by their addresses, worked out again after further decisions."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._at = (0, 0)
        self._decisions = 0
        self._seen: Mapping[str, _DecidedOfPolicy] = {}

    def of(self, programs: Iterable[Program]) -> Mapping[str, DecidedEffect]:
        """The effect of each policy, while there are decisions under the policies in force."""
        journal = self._journal
        if (at := (journal.generation, journal.number)) != self._at:
            records = (r for r in journal if r.generation == journal.generation and not r.error)
            newest = [*islice(records, MOST_DECISIONS)]
            seen = defaultdict[str, _DecidedOfPolicy](_DecidedOfPolicy)
            for record in newest:
                _add_decision(seen, record)
            self._at, self._decisions, self._seen = at, len(newest), seen
        if not self._decisions:
            return {}
        nothing = _DecidedOfPolicy()
        return {
            p.address: _decided(self._seen.get(p.address, nothing), p, self._decisions)
            for p in programs
            if not p.only_used
        }


def _add_decision(seen: Mapping[str, _DecidedOfPolicy], record: DecisionRecord) -> None:
    applying = [seen[address] for address in _add_selection(seen, record.policies)]
    if record.answered is not None and record.offered:
        codes = np.unique(record.answered.codes).tolist()
        verdicts = [record.answered.verdicts[code] for code in codes]
        refusals = [v for v in verdicts if isinstance(v, Rejected | Failed)]
        policies = {v.policy for v in refusals}
        for each in applying:
            each.asked += 1
        only = seen.get(next(iter(policies))) if len(policies) == 1 else None
        if only is not None and len(refusals) == len(verdicts):
            only.rejected += 1
            only.nodes = max(only.nodes, record.offered)
            only.clauses.update(v.clause for v in refusals)
    if record.scored is not None and len(record.scored.points) > 1:
        is_equal = bool(np.ptp(record.scored.points) == 0)
        for each in applying:
            each.scored += 1
            each.equal += is_equal


def _decided(seen: _DecidedOfPolicy, program: Program, decisions: int) -> DecidedEffect:
    """The effect in words, from the decisions about pods that the policy selects."""
    text = f"selected {seen.pods or 'none'} of the last {decisions} pods asked about"
    if decisions == 1:
        selected = "selected" if seen.pods else "did not select"
        text = f"{selected} the last pod asked about"
    text += seen.ways()
    if not seen.pods:
        return DecidedEffect("SelectsNoPod", text)
    if seen.asked >= _LEAST and seen.rejected == seen.asked:
        text = f"{text}, rejects {_all_nodes(seen.nodes)}"
        return DecidedEffect("RejectsEveryNode", text, (*sorted(seen.clauses),))
    if program.scores and seen.scored >= _LEAST and seen.equal == seen.scored:
        return DecidedEffect("SameScore", f"{text}, {_SAME_SCORE}")
    return DecidedEffect("", text)
