"""A decider that answers from tables, and remembers what it was asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from engine.decision.preemption import Victims
from engine.decision.verdict import FEASIBLE, Decision, Rejected, Scores, Verdict, decision


def rejected(reason: str, *, resolvable: bool = False) -> Rejected:
    return Rejected(reason, policy="shop/web", clause="ssd", resolvable=resolvable)


@dataclass(frozen=True)
class Asked:
    """The arguments of one call."""

    verb: str
    pod: bytes
    names: Sequence[str]
    nodes: Sequence[bytes] | None
    deadline: float


@dataclass
class TableDecider:
    """Nodes that are not in `verdicts` are feasible; without `scores` no score applies.

    With `error`, that is raised instead.
    """

    verdicts: Mapping[str, Verdict] = field(default_factory=dict)
    scores: Mapping[str, int] | None = None
    error: Exception | None = None
    asked: list[Asked] = field(default_factory=list)

    def filter(
        self,
        pod: bytes,
        names: Sequence[str],
        nodes: Sequence[bytes] | None,
        deadline: float,
    ) -> Decision:
        self._remember(Asked("filter", pod, names, nodes, deadline))
        return decision(self.verdicts.get(name, FEASIBLE) for name in names)

    def prioritize(
        self,
        pod: bytes,
        names: Sequence[str],
        nodes: Sequence[bytes] | None,
        deadline: float,
    ) -> Scores | None:
        self._remember(Asked("prioritize", pod, names, nodes, deadline))
        scores = self.scores
        return (
            None
            if scores is None
            else Scores(np.array([scores.get(name, 0) for name in names], np.int64))
        )

    def preempt(
        self, pod: bytes, victims: Mapping[str, Victims], deadline: float
    ) -> Mapping[str, Victims]:
        self._remember(Asked("preempt", pod, list(victims), None, deadline))
        rejected = (node for node in victims if node in self.verdicts)
        return {node: victims[node] for node in victims if node not in set(rejected)}

    def _remember(self, asked: Asked) -> None:
        self.asked.append(asked)
        if self.error is not None:
            raise self.error
