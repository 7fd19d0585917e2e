"""What an engine says of the nodes of one test, asked for when an expectation needs it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from itertools import count

from cli.testing.stage import Stage
from cli.world import Silent
from engine.engine import Engine
from engine.errors import EngineError
from engine.inspection import Inspection
from engine.objects import ObjectCodec
from engine.registry import Registry
from engine.verdict import Feasible, Verdict

# Between two questions: an engine that is asked often in a row takes that for a loop.
_HOUR = 3600.0


class Answers:
    """An engine of its own, which has been asked nothing yet.

    Each node is asked about by itself. Of several that are as good, an engine may answer only one,
    so that a bound holds whatever comes of it; a test is about the rules.
    """

    def __init__(self, registry: Registry, stage: Stage, codec: ObjectCodec) -> None:
        clock = count(step=_HOUR)
        self._stage = stage
        self._engine = Engine(
            registry,
            stage.cluster,
            codec,
            Silent(),
            clock=lambda: next(clock),
            now=lambda: stage.now,
        )
        self._verdicts: dict[str, Verdict] = {}

    def verdict(self, node: str) -> Verdict:
        """Raises EngineError where there is none."""
        if node not in self._verdicts:
            body = self._stage.pod.body
            (self._verdicts[node],) = self._engine.filter(body, [node], None, math.inf)
            # The answer was to nobody: the pod is not on its way there.
            self._engine.placement.ledger.forget(self._uid)
        return self._verdicts[node]

    @cached_property
    def scores(self) -> Mapping[str, int] | None:
        """0..10 of each node that passes; None where no score applies. Raises EngineError."""
        passing = self.passing
        given = self._engine.prioritize(self._stage.pod.body, passing, None, math.inf)
        return None if given is None else dict(zip(passing, given, strict=True))

    @cached_property
    def passing(self) -> list[str]:
        """Raises EngineError."""
        return [n for n in self._stage.names if isinstance(self.verdict(n), Feasible)]

    @cached_property
    def inspection(self) -> Inspection:
        """Raises EngineError."""
        return self._engine.inspect(self._stage.pod.body)

    def refusing(self, node: str) -> list[str]:
        """The clauses that refuse a node, the first of which is named; none if the pod is refused.

        Empty where an error stands in the way.
        """
        try:
            found = self.inspection.objections(self.inspection.selection.enforced, [node])
        except EngineError:
            return []
        return [objection.name for objection in found if objection.refused.any()]

    @cached_property
    def _uid(self) -> str:
        peer = self._stage.cluster.pods.pod(self._stage.pod.key)
        return peer.uid if peer is not None else ""
