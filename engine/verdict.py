"""What evaluation says of one node: feasible, rejected or failed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Feasible:
    """Every clause that applies lets the pod run here."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """A clause says no.

    `reason` is constant for the pod (C47: a text that changes between calls makes kube-scheduler
    retry without backoff). `resolvable` is what was inferred about eviction; the wire sends it only
    if asked to (C48).
    """

    reason: str
    policy: str
    clause: str
    resolvable: bool = False


@dataclass(frozen=True, slots=True)
class Failed:
    """A clause could not be evaluated, and its policy says that this rejects the node.

    `reason` goes to kube-scheduler and is constant; `error` says what happened, to explain and
    metrics.
    """

    reason: str
    policy: str
    clause: str
    error: str


Verdict = Feasible | Rejected | Failed
