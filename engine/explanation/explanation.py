"""Explanation: makes the PodExplanation of an analysis; pure, so that a thread can do it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from engine.cache.cluster_copy import NamedPod
from engine.decision.verdict import Failed, Feasible, HeldBack, full_reason, message_of
from engine.enforced import EnforcedPolicies
from engine.explanation.analysis import Analysis
from engine.explanation.application import application, told_to_others
from engine.explanation.cause import cause_of, last_words
from engine.explanation.decision_document import DecisionDetail, clause_counts
from engine.explanation.difference import changes
from engine.explanation.document import (
    ClauseOnNode,
    ConcernedPolicy,
    GangExplanation,
    MemberOfGang,
    NamedClause,
    NodeExplanation,
    NodeGroup,
    NodeRow,
    PodExplanation,
    PolicyNotInForce,
    ReadValue,
    RejectingClause,
    Relaxation,
    ScoredNode,
    ScoreTerm,
    TracedExpression,
    TracedPart,
    UnfitNodes,
)
from engine.explanation.evidence import ClauseEvidence, ScoreEvidence
from engine.explanation.inspection import ClauseResults, Objection
from engine.explanation.written import Traced, Values
from engine.gangs.gang import GangOfPod
from grammar.values.errors import EvaluationError
from grammar.values.time import Timestamp

_MOST_RELAXATIONS = 20


@dataclass(frozen=True, slots=True)
class Asker:
    """What a question is asked with: who answers, what schedulers said, and the last decision.

    `replica` is None for a command. `events` are those about the pod. Without `is_live` nobody
    knows what a scheduler has said, unless the pod itself has it. `then` is the last decision.
    """

    replica: str | None = None
    is_live: bool = False
    events: Sequence[dict[str, Any]] = ()
    then: DecisionDetail | None = None


def explain(found: Analysis, values: Values, asker: Asker) -> PodExplanation:
    """The explanation of an analysed pod."""
    results, pod = found.results, found.question.pod
    selection, names = results.inspection.selection, results.names
    passing = sum(results.holds(name) for name in names)
    explained = PodExplanation(
        replica=asker.replica,
        pod=pod.key,
        at=results.inspection.frame.now.to_second(),
        on=pod.node or None,
        notInForce=not_in_force(found.policies, pod.namespace),
        problem=found.problem or None,
        exempt=selection.exempt or None,
        policies=[
            ConcernedPolicy(
                program.address,
                *application(program, selection, results.inspection.frame),
                program.digest,
            )
            for program in found.registry.programs
            if program.namespace in (None, pod.namespace)
        ],
        otherPolicies=sum(
            program.namespace not in (None, pod.namespace) for program in found.registry.programs
        ),
        toldToOthers=list(told_to_others(pod.body, found.registry)),
        nodes=len(names),
        passing=passing,
        heldBack=None if found.problem else len(found.held),
        groups=_groups(found),
        unfit=_unfit(found),
        clauses=found.clauses,
        nearest=found.nearest,
        relaxations=_relaxations(found),
        audits=found.audits,
        rows=None if found.rows is None else _rows(found, found.rows),
        scores=_scores(found),
        counts=[clause_counts(each) for each in found.counts],
        then=asker.then,
        node=None if found.question.node is None else _node(found, found.question.node, values),
        gang=None if found.gang is None else _gang(found, found.gang),
    )
    changed = () if asker.then is None else changes(asker.then, explained)
    return msgspec.structs.replace(_with_cause(explained, pod, asker), changes=changed)


def undecided(
    pod: NamedPod, at: Timestamp, policies: EnforcedPolicies, problem: str, asker: Asker
) -> PodExplanation:
    """The explanation of a pod about which nothing is decided, because of a `problem`."""
    explained = PodExplanation(
        replica=asker.replica,
        pod=pod.key,
        at=at.to_second(),
        on=pod.node or None,
        notInForce=not_in_force(policies, pod.namespace),
        problem=problem,
        then=asker.then,
    )
    return _with_cause(explained, pod, asker)


def _with_cause(explained: PodExplanation, pod: NamedPod, asker: Asker) -> PodExplanation:
    """The explanation with the cause, and with what schedulers have said last."""
    body = msgspec.json.decode(pod.body)
    whole = {**body, "spec": {**(body.get("spec") or {}), "nodeName": pod.node}}
    broken = explained.notInForce
    cause = cause_of(whole, asker.events, explained, broken, is_live=asker.is_live)
    said = last_words(whole, asker.events) or None
    return msgspec.structs.replace(explained, cause=cause, said=said)


def not_in_force(policies: EnforcedPolicies, namespace: str) -> Sequence[PolicyNotInForce]:
    """The policies that are not in force as written and can concern the pods of a namespace."""
    broken = policies.broken_in(namespace)
    return [PolicyNotInForce(each.name, each.instead, each.line) for each in broken]


# ---- the nodes


def _held_back(verdict: HeldBack) -> str:
    return full_reason(verdict.policy, verdict.clause, verdict.reason)


def _broken(results: ClauseResults) -> list[RejectingClause]:
    """The policies that reject every node, because their `for` cannot be evaluated."""
    return [
        RejectingClause(
            each.program.address,
            "for",
            f"{each.program.address}: its `for` cannot be evaluated: {each.error}",
        )
        for each in results.inspection.selection.unselectable
    ]


def _groups(found: Analysis) -> list[NodeGroup]:
    """The group that passes first, then the largest."""
    results = found.results
    indexes: dict[tuple[bytes, str], list[int]] = {}
    bits = [b""] * len(results.names)
    if results.objections:
        columns = np.ascontiguousarray(np.packbits(results.refused, axis=0).T)
        bits = [column.tobytes() for column in columns]
    for index, (name, column) in enumerate(zip(results.names, bits, strict=True)):
        why = _held_back(found.held[name]) if name in found.held else ""
        indexes.setdefault((column, why), []).append(index)
    broken, groups = _broken(results), []
    for (_, why), each in indexes.items():
        against = [_clause(o) for o in results.objections if o.refused[each[0]]]
        names = [results.names[index] for index in each]
        groups.append(NodeGroup([*broken, *against], len(names), names, why))
    return sorted(groups, key=lambda g: (bool(g.rejectedBy), -g.nodes, g.names[0]))


def _unfit(found: Analysis) -> list[UnfitNodes]:
    """The reasons of kube-scheduler's own plugins, that of the most nodes first."""
    names: dict[str, list[str]] = {}
    for name, reasons in found.unfit.items():
        for reason in reasons:
            names.setdefault(reason, []).append(name)
    unfit = [UnfitNodes(reason, len(on), on) for reason, on in names.items()]
    return sorted(unfit, key=lambda each: (-each.nodes, each.text))


def _rows(found: Analysis, reasons: Mapping[str, Sequence[str]]) -> list[NodeRow]:
    results, held = found.results, found.held
    broken = [each.text for each in _broken(results)]
    rows = []
    for name in results.names:
        holds = results.holds(name)
        why = [*broken, *([_held_back(held[name])] if name in held else ()), *reasons[name]]
        why += [f"kube-scheduler: {reason}" for reason in found.unfit.get(name, ())]
        offered = holds and name not in held and not found.problem
        rows.append(NodeRow(name, holds, offered, results.scores.get(name), why))
    return rows


def _scores(found: Analysis) -> list[ScoredNode] | None:
    """The sum of weight times points by the sum of weights, by 10: points are 0..100."""
    scores = found.results.scores
    if not scores:
        return None
    total = sum(each.weight for each in found.given)
    exactly = np.sum([each.weight * each.points for each in found.given], axis=0) / total / 10
    scored = [
        ScoredNode(name, score, round(exact, 4))
        for (name, score), exact in zip(scores.items(), exactly.tolist(), strict=True)
    ]
    return sorted(scored, key=lambda each: (-each.score, -each.exactly, each.node))


def _relaxations(found: Analysis) -> list[Relaxation]:
    names = [NamedClause(each.policy, each.name) for each in found.results.objections]
    return [
        Relaxation([names[index] for index in relaxed.clauses], relaxed.gained)
        for relaxed in found.summary.relaxations[:_MOST_RELAXATIONS]
    ]


def _clause(objection: Objection) -> RejectingClause:
    return RejectingClause(objection.policy, objection.name, objection.text)


# ---- the gang of the pod

_MOST_MEMBERS = 1000


def _gang(found: Analysis, gang: GangOfPod) -> GangExplanation:
    # Who was asked as kube-scheduler asks has placed the gang only now.
    fits = gang.state == "gathering" and found.question.offers
    number = Counter(member.presence for member in gang.members)
    return GangExplanation(
        gang.program.policy,
        gang.program.name,
        gang.name,
        found.results.inspection.gang_message(gang.program),
        gang.quorum,
        "fits" if fits else gang.state,
        "it fits now" if fits else gang.text,
        round(gang.seconds, 1) if gang.state == "gathering" and not fits else None,
        round(gang.again, 1) if gang.state == "given up" else None,
        len(gang.members),
        number["placed"] + number["held"],
        number["held"],
        number["bound"],
        [
            MemberOfGang(
                each.pod,
                each.presence,
                each.node or None,
                round(each.seconds, 1) if each.presence == "held" else None,
            )
            for each in gang.members[:_MOST_MEMBERS]
        ],
    )


# ---- one node


def _node(found: Analysis, name: str, values: Values) -> NodeExplanation:
    results = found.results
    scored = list(results.scores)
    index = scored.index(name) if name in results.scores else 0
    return NodeExplanation(
        name,
        results.holds(name),
        _outcome(found, name),
        results.scores.get(name),
        [_on_node(each, values) for each in found.on_node],
        _terms(found.terms, index, values),
        found.unfit.get(name, ()),
    )


def _outcome(found: Analysis, name: str) -> str:
    results = found.results
    if found.problem:
        return "has no verdict"
    verdict = found.verdicts.get(name) if found.verdicts is not None else None
    if isinstance(verdict, Failed):
        return f"fails by {verdict.policy}: {verdict.clause}: {verdict.error}"
    if name in found.held:
        return f"passes; {_held_back(found.held[name])}"
    if results.holds(name):
        return "passes"
    if against := [*_broken(results), *map(_clause, results.against(name))]:
        return f"fails by {against[0].text}"
    assert verdict is not None, "a clause or an answer refuses it"
    assert not isinstance(verdict, Feasible | HeldBack), "a clause or an answer refuses it"
    return f"fails by {verdict.policy}: {message_of(verdict)}"


def _on_node(said: ClauseEvidence, values: Values) -> ClauseOnNode:
    objection = said.objection
    return ClauseOnNode(
        objection.policy,
        objection.name,
        objection.text,
        not said.refuses,
        said.detail,
        [traced_expression(*each, values) for each in said.parts],
        said.counts,
    )


def _terms(found: Sequence[ScoreEvidence], index: int, values: Values) -> list[ScoreTerm]:
    """The terms of one node, which is given by its index among the scored nodes.

    The shown values are differences of rounded sums, so that they add up to the rounded sum.
    """
    total = sum(each.contribution.weight for each in found)
    terms, so_far = [], 0.0
    for each in found:
        given = each.contribution
        points = float(given.points[index])
        end = so_far + given.weight * points / total / 10
        terms.append(
            ScoreTerm(
                given.policy,
                given.name,
                given.weight,
                points,
                round(round(end, 2) - round(so_far, 2), 2),
                given.lacks_value(index),
                None if each.value is None else traced_expression("value", each.value, values),
            )
        )
        so_far = end
    return terms


def traced_expression(part: TracedPart, shown: Traced, values: Values) -> TracedExpression:
    """An expression with the values of its parts."""
    return TracedExpression(part, shown.text, list(_read(shown, values)))


def _read(shown: Traced, values: Values) -> Iterator[ReadValue]:
    for depth, text, step in shown.rows:
        if isinstance(step.outcome, EvaluationError):
            yield ReadValue(text, depth, error=str(step.outcome))
        else:
            yield ReadValue(text, depth, values.line(step.outcome, step.expr.type))
