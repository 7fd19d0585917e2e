"""A simulation from API objects and the text of policies."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from random import Random

from engine.program.policy_time import DecisionTime
from engine.simulation.cycle import (
    PodOutcome,
    SimulatedClock,
    Simulation,
    SimulationOptions,
    begin,
    waiting,
)
from engine.work import finished
from tests.support.builders import Object, raw
from tests.support.engines import CODEC, NOW, cache_of, engine_over


def simulation(
    nodes: Iterable[Object],
    pods: Iterable[Object],
    policies: str = "",
    *,
    there: Iterable[Object] = (),
    weight: int = 1,
    plugins: bool = True,
    ties: Random | None = None,
) -> Simulation:
    """`pods` wait, whatever node they name; those that are `there` are left alone."""
    cache = cache_of(nodes, there)
    clock = SimulatedClock()
    engine = engine_over(policies, cache, time=DecisionTime(clock, lambda: NOW))
    queue = [waiting(raw(_unplaced(pod)), CODEC) for pod in pods]
    options = SimulationOptions(weight, plugins, ties)
    return finished(begin(engine, cache, queue, options, clock))


def where(outcomes: Sequence[PodOutcome]) -> dict[str, str]:
    """The node of each pod by its name, empty for one that is pending."""
    return {o.pod.partition("/")[2]: o.node or "" for o in outcomes}


def _unplaced(pod: Object) -> Object:
    made = copy.deepcopy(pod)
    made["spec"].pop("nodeName", None)
    return made
