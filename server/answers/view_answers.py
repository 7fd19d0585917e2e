"""Answers of the view: the status of one replica as JSON, which `placet status` decodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from engine.decision.registry import Registry
from engine.program.program import Program


class Latency(msgspec.Struct, frozen=True):
    """The calls of a verb, and seconds within which a part of them was answered.

    They are estimated from the histogram in the metrics; null beyond its last bucket.
    """

    verb: str
    calls: int
    p50: float | None
    p90: float | None
    p99: float | None


class ClauseRejections(msgspec.Struct, frozen=True):
    """The nodes that a clause has rejected since the replica started, in all calls of filter."""

    policy: str
    clause: str
    nodes: int


class PolicyInForce(msgspec.Struct, frozen=True):
    """A policy that decides; `expensive` says that it had no time for a call of the last minute."""

    address: str
    guardrail: bool
    mode: str
    weight: int
    digest: str
    expensive: bool


class FailedCheck(msgspec.Struct, frozen=True):
    """A check of `/readyz` that does not hold; one that is a warning does not make it fail."""

    name: str
    failure: str
    warning: bool


class InFlight(msgspec.Struct, frozen=True):
    """A pod that may be on its way to a node; `pod` is its uid while its name is not known."""

    pod: str
    seconds: float
    nodes: int | None


class ReplicaStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What a replica is and knows at this time.

    `notInForce` are strict policies without a valid version. `cluster` is the state of what is
    watched, null without a watched cluster. `inFlight` has the first of `podsInFlight`, and
    `rejections` the clauses that have rejected most.
    """

    replica: str
    version: str
    at: str
    started: str
    ready: bool
    failing: Sequence[FailedCheck]
    policies: Sequence[PolicyInForce]
    notInForce: Sequence[str]
    cluster: Mapping[str, object] | None
    podsInFlight: int
    inFlight: Sequence[InFlight]
    latency: Sequence[Latency]
    rejections: Sequence[ClauseRejections]
    decisions: int
    recorded: int


# The clauses in a status.
_MOST_CLAUSES = 20


def rejections(found: Mapping[tuple[str, str], int]) -> Sequence[ClauseRejections]:
    """The clauses with most rejected nodes first."""
    ranked = sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))
    return [ClauseRejections(*names, nodes) for names, nodes in ranked[:_MOST_CLAUSES]]


def policies_in_force(registry: Registry, expensive: frozenset[str]) -> Sequence[PolicyInForce]:
    return [_in_force(program, expensive) for program in registry.programs]


def _in_force(program: Program, expensive: frozenset[str]) -> PolicyInForce:
    return PolicyInForce(
        program.address,
        program.cluster,
        "audit" if program.audit else "enforce",
        program.weight,
        program.digest,
        program.address in expensive,
    )


def latency(verb: str, buckets: Sequence[tuple[float, float]]) -> Latency:
    """The latency of a verb from cumulative counts by upper bound; the last one is infinite."""
    calls = buckets[-1][1] if buckets else 0
    return Latency(verb, int(calls), *(_within(buckets, calls * part) for part in (0.5, 0.9, 0.99)))


def _within(buckets: Sequence[tuple[float, float]], rank: float) -> float | None:
    """The bound that so many calls are below, in proportion between the bounds of a bucket."""
    low, below = 0.0, 0.0
    for bound, count in buckets:
        if rank > 0 and count >= rank:
            if bound == float("inf"):
                return None
            return round(low + (bound - low) * (rank - below) / (count - below), 6)
        low, below = bound, count
    return None
