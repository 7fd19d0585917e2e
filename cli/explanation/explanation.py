"""Explanation: the answers about one pod and every node of a world."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cli.command import CommandError
from cli.world import World
from engine.cache.cluster_copy import NamedPod
from engine.decision.inspection import Contribution
from engine.decision.verdict import Feasible, Verdict
from engine.errors import BadObjectError, EngineError
from engine.explanation.written import ClauseResults, WrittenClauses
from engine.offline import offline_engine


class UndecidedError(CommandError):
    """Nothing is decided about a pod: it waits for a policy that is not in force."""


@dataclass(frozen=True, slots=True)
class Explanation(ClauseResults):
    """The answers of one filter and one prioritize call, and the objections of every clause.

    `problem` is the error of the calls, empty without one.
    """

    pod: NamedPod
    verdicts: Mapping[str, Verdict]
    problem: str

    @property
    def contributions(self) -> Sequence[Contribution]:
        """The contributions to the scores."""
        return self.inspection.contributions(list(self.scores)) if self.scores else ()

    @property
    def passing(self) -> list[str]:
        return [n for n, verdict in self.verdicts.items() if isinstance(verdict, Feasible)]


def explain(world: World, pod: NamedPod) -> Explanation:
    """The explanation of a pod on every node.

    Raises UndecidedError for a pod of a policy that is not in force, and CommandError for a
    malformed one.
    """
    extender = offline_engine(world.policies.registry, world.cluster, world.codec)
    names = sorted(world.cluster.snapshot().table.rows)
    try:
        inspection = extender.inspect(pod.body)
    except BadObjectError as error:
        raise CommandError(str(error), "fix the pod") from None
    except EngineError as error:
        raise UndecidedError(str(error), "correct the policy") from None
    verdicts: dict[str, Verdict] = {}
    scores: dict[str, int] = {}
    problem = ""
    try:
        decided = extender.filter(pod.body, names, None, math.inf)
        verdicts = dict(zip(names, decided, strict=True))
        passing = [n for n, verdict in verdicts.items() if isinstance(verdict, Feasible)]
        given = extender.prioritize(pod.body, passing, None, math.inf)
        scores = dict(zip(passing, given or (), strict=False))
    except EngineError as error:
        problem = str(error)
    objections = inspection.all_objections(names)
    return Explanation(inspection, names, scores, objections, pod, verdicts, problem)


def written_clauses(world: World) -> WrittenClauses:
    """The clauses of the policies of a world."""
    return WrittenClauses(world.policies.policies, world.policies.texts)
