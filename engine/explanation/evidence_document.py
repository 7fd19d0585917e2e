"""Evidence for programs: what each clause says of one node, as plain values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from engine.counting.pod_counter import PodInGroup
from engine.explanation.evidence import ClauseEvidence, CountEvidence, ScoreEvidence, Traced
from engine.explanation.value_text import Values
from grammar.values.errors import EvaluationError


class ReadValue(msgspec.Struct, frozen=True, omit_defaults=True):
    """A part of an expression, and its value in the syntax of the language, or its error.

    A part of another one has a greater `depth`.
    """

    expression: str
    depth: int
    value: str | None = None
    error: str | None = None


class CountedPod(msgspec.Struct, frozen=True):
    """A pod that a clause counts, and how it is there."""

    name: str
    presence: str


class NodeCounts(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a clause counts for a node, and the pods behind it."""

    text: str
    pods: Sequence[CountedPod]
    emptiestDomain: Sequence[CountedPod] = ()


class ClauseOnNode(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one clause says of a node."""

    policy: str
    clause: str
    holds: bool
    detail: str = ""
    values: Sequence[ReadValue] = ()
    counts: NodeCounts | None = None


class ScoreTerm(msgspec.Struct, frozen=True):
    """The points 0..100 that one clause gives a node, and what they add to the score.

    `missing` says that the clause has no number for the node.
    """

    policy: str
    clause: str
    weight: float
    points: float
    adds: float
    missing: bool
    values: Sequence[ReadValue]


def clauses_document(found: Iterable[ClauseEvidence], values: Values) -> Sequence[ClauseOnNode]:
    return [_clause(each, values) for each in found]


def _clause(said: ClauseEvidence, values: Values) -> ClauseOnNode:
    parts = [said.when, *said.requires] if said.when is not None else list(said.requires)
    return ClauseOnNode(
        said.objection.policy,
        said.objection.name,
        not said.refuses,
        said.detail,
        tuple(value for part in parts for value in _values(part, values)),
        None if said.counts is None else _counts(said.counts),
    )


def scores_document(
    found: Sequence[ScoreEvidence], index: int, values: Values
) -> Sequence[ScoreTerm]:
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
                () if each.value is None else tuple(_values(each.value, values)),
            )
        )
        so_far = end
    return terms


def _values(traced: Traced, values: Values) -> Iterator[ReadValue]:
    for depth, text, step in traced.rows:
        if isinstance(step.outcome, EvaluationError):
            yield ReadValue(text, depth, error=str(step.outcome))
        else:
            yield ReadValue(text, depth, values.line(step.outcome, step.expr.type))


def _counts(counts: CountEvidence) -> NodeCounts:
    return NodeCounts(counts.text, _pods(counts.pods), _pods(counts.emptiest))


def _pods(pods: Sequence[PodInGroup]) -> Sequence[CountedPod]:
    return tuple(CountedPod(pod.key, pod.presence) for pod in pods)
