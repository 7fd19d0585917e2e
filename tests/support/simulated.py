"""A simulation from API objects and the text of policies."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterable, Sequence
from logging import Logger
from pathlib import Path
from random import Random

from engine.cache.informers import Needs
from engine.engine import Engine
from engine.objects.request_pod import NO_EXEMPTIONS, Exemptions, ObjectCodec
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
from grammar.meaning.schema import Schema
from server.runtime.file_cluster import ClusterSource
from server.runtime.observers import LogObserver
from server.runtime.policies import PolicyReader, PolicyReloader
from tests.support.builders import Object, raw
from tests.support.engines import CODEC, NOW, cache_of, engine_over
from tests.support.served import PROCESSES


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


# ---- A PolicyReloader over a view, built as `server.runtime.server_runtime` builds it


def reloader_of(
    paths: Sequence[Path],
    open_view: Callable[[Needs], ClusterSource],
    schema: Schema,
    observer: LogObserver,
    log: Logger,
    exemptions: Exemptions = NO_EXEMPTIONS,
    clock: Callable[[], float] = time.monotonic,
    *,
    binds: bool = True,
) -> PolicyReloader:
    """The reloader of these policy files; `open_view` opens the view for what they read."""
    policies = PolicyReader(paths, schema, log, PROCESSES[0], clock)
    view = open_view(policies.read({}).needs)
    enforced = policies.read(view.policies())
    engine = Engine(enforced.registry, view, ObjectCodec(schema), observer, exemptions=exemptions)
    return PolicyReloader(policies, view, engine, log, binds=binds)
