"""Documents of an explanation for programs: plain values, for JSON and YAML."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cli.explaining.evidence import CountEvidence, Traced, clauses_on, scores_on
from cli.explaining.explanation import Explanation
from cli.explaining.pending import Cause
from cli.expressions import Values
from cli.world import NamedPod, World
from engine.counting.pod_counter import PodInGroup
from grammar.errors import EvaluationError

Json = dict[str, Any]


def decision_document(
    world: World, pod: NamedPod, found: Explanation | None, why: Cause | None, node: str | None
) -> Json:
    """What text shows: the cause, policies, nodes; of one node also each value."""
    document: Json = {"pod": pod.key, "at": str(world.cluster.now)}
    if pod.node:
        document["node"] = pod.node
    if why is not None:
        document["cause"] = {"kind": why.kind, "text": why.text, "hint": why.hint}
    broken = world.policies.broken_in(pod.namespace)
    document["notInForce"] = [
        {"policy": b.name, "instead": b.instead, "because": b.line} for b in broken
    ]
    if found is None:
        return document
    selection = found.inspection.selection
    document["policies"] = {
        "guardrails": [program.address for program in selection.guardrails],
        "governing": None if selection.governing is None else selection.governing.address,
        "losing": [program.address for program in selection.losers],
        "audited": [program.address for program in selection.audited],
    }
    if found.problem:
        document["problem"] = found.problem
    names = found.names if node is None else [node]
    document["nodes"] = [_node(found, name) for name in names]
    if node is not None:
        document["nodes"][0] |= _evidence(world, found, node)
    return document


def analysis_document(world: World, found: Explanation) -> Json:
    """By clause, how many nodes it rejects, and how many are rejected by it alone."""
    rejecting = {name: found.against(name) for name in found.names}
    clauses = [
        {
            "policy": each.policy,
            "clause": each.name,
            "fails": sum(each in against for against in rejecting.values()),
            "failsOnlyThis": sum([each] == against for against in rejecting.values()),
        }
        for each in found.objections
    ]
    passing = [name for name in found.names if found.holds(name)]
    return {
        "pod": found.pod.key,
        "at": str(world.cluster.now),
        "nodes": len(found.names),
        "passing": len(passing),
        "clauses": clauses,
    }


def _node(found: Explanation, name: str) -> Json:
    rejections = [
        {"policy": each.policy, "clause": each.name, "text": each.text}
        for each in found.against(name)
    ]
    document: Json = {"name": name, "passes": found.holds(name), "offered": name in found.passing}
    if name in found.scores:
        document["score"] = found.scores[name]
    return {**document, "rejectedBy": rejections}


def _evidence(world: World, found: Explanation, name: str) -> Json:
    values = Values(world.schema)
    clauses = []
    for said in clauses_on(world, found, name):
        parts = [said.when, *said.requires] if said.when is not None else list(said.requires)
        clause: Json = {
            "policy": said.objection.policy,
            "clause": said.objection.name,
            "holds": not said.refuses,
        }
        if said.detail:
            clause["detail"] = said.detail
        if parts:
            clause["values"] = [value for part in parts for value in _values(part, values)]
        if said.counts is not None:
            clause["counts"] = _counts(said.counts)
        clauses.append(clause)
    index = list(found.scores).index(name) if name in found.scores else 0
    scores = [
        {
            "policy": each.contribution.policy,
            "clause": each.contribution.name,
            "weight": each.contribution.weight,
            "points": float(each.contribution.points[index]),
            "values": [] if each.value is None else _values(each.value, values),
        }
        for each in scores_on(world, found, name)
    ]
    return {"clauses": clauses, "scores": scores}


def _values(traced: Traced, values: Values) -> list[Json]:
    found: list[Json] = []
    for depth, text, step in traced.rows:
        shown: Json = {"expression": text, "depth": depth}
        if isinstance(step.outcome, EvaluationError):
            shown["error"] = str(step.outcome)
        else:
            shown["value"] = values.line(step.outcome, step.expr.type)
        found.append(shown)
    return found


def _counts(counts: CountEvidence) -> Json:
    document: Json = {"text": counts.text, "pods": _pods(counts.pods)}
    if counts.emptiest:
        document["emptiestDomain"] = _pods(counts.emptiest)
    return document


def _pods(pods: Sequence[PodInGroup]) -> list[Json]:
    return [{"name": pod.key, "presence": pod.presence} for pod in pods]
