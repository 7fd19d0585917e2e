"""View status: what one replica is and knows now, for the view.

It is read on the event loop that decides, so it takes what is there and counts nothing anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from engine.counting.in_flight_pods import InFlightPod
from engine.decision.journal import Journal
from engine.engine import Engine
from engine.explanation.effects import DecidedEffects
from engine.program.tables import SourceStatus
from grammar.values.time import Timestamp
from server.answers.view_answers import (
    CertificateInUse,
    FailedCheck,
    InFlight,
    ReplicaStatus,
    data_sources,
    gangs_of_policies,
    latency,
    policies_in_force,
    rejections,
    some_gangs,
)
from server.http.health import Readiness
from server.metrics.metrics import Metrics
from server.runtime.cluster_runtime import ClusterRuntime

# Pods in flight that are named.
_MOST_NAMED = 20


def status_reader(
    replica: str,
    version: str,
    readiness: Readiness,
    engine: Engine,
    journal: Journal,
    metrics: Metrics,
    cluster: ClusterRuntime | None,
    data: Callable[[], Sequence[SourceStatus]],
    certificate: Callable[[], CertificateInUse | None] = lambda: None,
    now: Callable[[], Timestamp] = Timestamp.now,
) -> Callable[[], ReplicaStatus]:
    """A function that reads the status of a server; `cluster` is None if none is watched.

    `data` gives the sources of tables, and `certificate` that of new connections.
    """
    started = now().to_second()
    effects = DecidedEffects(journal)

    def read() -> ReplicaStatus:
        failing = [
            FailedCheck(check.name, check.failure, check.is_warning)
            for check in readiness()
            if check.failure
        ]
        registry, gangs = engine.registry, engine.gangs.statuses()
        return ReplicaStatus(
            replica=replica,
            version=version,
            at=now().to_second(),
            started=started,
            ready=all(check.warning for check in failing),
            failing=failing,
            policies=policies_in_force(
                registry,
                engine.expensive,
                engine.unmet,
                effects.of(registry.programs),
            ),
            notInForce=sorted(program.address for program in registry.refusing),
            cluster=None if cluster is None else cluster.status(),
            podsInFlight=len(engine.in_flight),
            inFlight=_named(engine.in_flight.first(_MOST_NAMED)),
            gangs=gangs_of_policies(registry, gangs),
            someGangs=some_gangs(gangs),
            data=data_sources(data()),
            latency=[latency(*each) for each in sorted(metrics.calls.durations().items())],
            rejections=rejections(metrics.rejections()),
            decisions=journal.number,
            recorded=len(journal),
            certificate=certificate(),
        )

    return read


def _named(found: Sequence[tuple[InFlightPod, float]]) -> Sequence[InFlight]:
    return [_in_flight(known, seconds) for known, seconds in found]


def _in_flight(known: InFlightPod, seconds: float) -> InFlight:
    return InFlight(known.name, round(seconds, 1), known.offered)
