"""What `placet explain` finds out about a pod before it says anything: one call of each verb."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cli.exits import CommandError
from cli.world import AskedPod, World
from engine.errors import BadObjectError, EngineError
from engine.inspection import Inspection, Objection
from engine.verdict import Feasible, Verdict


@dataclass(frozen=True, slots=True)
class Explanation:
    """The answers of an engine about every node, and all that it did not have to look at for them.

    `problem` is the error in place of an answer, empty if there is one. `scores` are 0..10, of the
    nodes that pass; empty where no score applies.
    """

    pod: AskedPod
    inspection: Inspection
    names: Sequence[str]
    verdicts: Mapping[str, Verdict]
    scores: Mapping[str, int]
    objections: Sequence[Objection]
    problem: str

    @property
    def passing(self) -> list[str]:
        return [n for n, verdict in self.verdicts.items() if isinstance(verdict, Feasible)]

    def holds(self, name: str) -> bool:
        """Whether no clause refuses a node, though the answer may be of fewer than such nodes."""
        return not self.inspection.selection.unselectable and not self.against(name)

    def against(self, name: str) -> list[Objection]:
        """The clauses that refuse a node, in the order in which they are named."""
        index = self.names.index(name)
        return [o for o in self.objections if o.refused[index]]


def explain(world: World, pod: AskedPod) -> Explanation:
    """Asks an engine about the pod and every node. Raises CommandError for what is no pod."""
    engine = world.engine()
    names = sorted(world.cluster.snapshot().table.places)
    try:
        inspection = engine.inspect(pod.body)
    except BadObjectError as error:
        raise CommandError(str(error), "mend the pod") from None
    verdicts: dict[str, Verdict] = {}
    scores: dict[str, int] = {}
    problem = ""
    try:
        decided = engine.filter(pod.body, names, None, math.inf)
        verdicts = dict(zip(names, decided, strict=True))
        passing = [n for n, verdict in verdicts.items() if isinstance(verdict, Feasible)]
        given = engine.prioritize(pod.body, passing, None, math.inf)
        scores = dict(zip(passing, given or (), strict=False))
    except EngineError as error:
        problem = str(error)
    objections = inspection.objections(inspection.selection.enforced, names)
    return Explanation(pod, inspection, names, verdicts, scores, objections, problem)
