"""Documents of an explanation for programs: plain values, for JSON and YAML."""

from __future__ import annotations

from typing import Any

import msgspec

from cli.explanation.explanation import Explanation, written_clauses
from cli.explanation.pending import Cause
from cli.world import World
from engine.cache.cluster_copy import NamedPod
from engine.explanation.evidence import clauses_on, scores_on
from engine.explanation.evidence_document import clauses_document, scores_document
from engine.explanation.value_text import Values

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
    values, written = Values(world.schema), written_clauses(world)
    index = list(found.scores).index(name) if name in found.scores else 0
    scores = list(scores_on(written, found, found.contributions, name))
    document: Json = msgspec.to_builtins(
        {
            "clauses": clauses_document(clauses_on(written, found, name), values),
            "scores": scores_document(scores, index, values),
        }
    )
    return document
