"""TableDecider: a Decider that answers from tables and records its calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from engine.decision.preemption import Victims
from engine.decision.verdict import FEASIBLE, Decision, Rejected, Scores, Verdict, decision


def rejected(reason: str, *, resolvable: bool = False) -> Rejected:
    """A rejection by the clause `ssd` of the policy `shop/web`."""
    return Rejected(reason, policy="shop/web", clause="ssd", resolvable=resolvable)


@dataclass(frozen=True)
class DeciderCall:
    """The arguments of one call."""

    verb: str
    pod: bytes
    names: Sequence[str]
    nodes: Sequence[bytes] | None
    deadline: float


@dataclass
class TableDecider:
    """A node that is not in `verdicts` is feasible; without `scores` no score applies.

    With `error`, every call raises it instead.
    """

    verdicts: Mapping[str, Verdict] = field(default_factory=dict)
    scores: Mapping[str, int] | None = None
    error: Exception | None = None
    calls: list[DeciderCall] = field(default_factory=list)

    def filter(
        self,
        pod: bytes,
        names: Sequence[str],
        nodes: Sequence[bytes] | None,
        deadline: float,
    ) -> Decision:
        self._record(DeciderCall("filter", pod, names, nodes, deadline))
        return decision(self.verdicts.get(name, FEASIBLE) for name in names)

    def prioritize(
        self,
        pod: bytes,
        names: Sequence[str],
        nodes: Sequence[bytes] | None,
        deadline: float,
    ) -> Scores | None:
        self._record(DeciderCall("prioritize", pod, names, nodes, deadline))
        if self.scores is None:
            return None
        return Scores(np.array([self.scores.get(name, 0) for name in names], np.int64))

    def preempt(
        self, pod: bytes, victims: Mapping[str, Victims], deadline: float
    ) -> Mapping[str, Victims]:
        self._record(DeciderCall("preempt", pod, list(victims), None, deadline))
        return {node: found for node, found in victims.items() if node not in self.verdicts}

    def _record(self, call: DeciderCall) -> None:
        self.calls.append(call)
        if self.error is not None:
            raise self.error
