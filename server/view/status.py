"""Status: what one replica is and knows now, for the view and the metrics.

The event loop that decides reads the status, so nothing is counted anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from engine.decision.journal import Journal
from engine.engine import Engine
from grammar.values.time import Timestamp
from server.answers import (
    CertificateInUse,
    ClauseRejections,
    ClusterStatus,
    FailedCheck,
    InFlight,
    PolicyInForce,
    ReplicaStatus,
)
from server.http.health import Readiness
from server.metrics.metrics import Metrics

# The pods in flight that are named, and the clauses.
_MOST_NAMED = 20


@dataclass(frozen=True, slots=True)
class StatusReader:
    """A reader of the status of a server; a call reads it.

    `cluster` gives the state of what is watched, None without a watched cluster, and `certificate`
    that of new connections. What `capabilities` know is added for who asks.
    """

    replica: str
    version: str
    readiness: Readiness
    engine: Engine
    journal: Journal
    metrics: Metrics
    cluster: Callable[[], ClusterStatus | None]
    certificate: Callable[[], CertificateInUse | None]
    capabilities: Sequence[str]
    started: str = field(default_factory=lambda: Timestamp.now().to_second())

    def __call__(self) -> ReplicaStatus:
        engine, readiness = self.engine, self.readiness()
        ranked = sorted(self.metrics.rejections().items(), key=lambda each: (-each[1], each[0]))
        return ReplicaStatus(
            replica=self.replica,
            version=self.version,
            at=Timestamp.now().to_second(),
            started=self.started,
            ready=all(check.is_warning for check in readiness if check.failure),
            failing=[FailedCheck(c.name, c.failure, c.is_warning) for c in readiness if c.failure],
            policies=policies_in_force(engine),
            notInForce=sorted(program.address for program in engine.registry.refusing),
            cluster=self.cluster(),
            podsInFlight=len(engine.in_flight),
            inFlight=[
                InFlight(known.name, round(seconds, 1), known.offered)
                for known, seconds in engine.in_flight.first(_MOST_NAMED)
            ],
            rejections=[ClauseRejections(*names, n) for names, n in ranked[:_MOST_NAMED]],
            decisions=self.journal.number,
            recorded=len(self.journal),
            certificate=self.certificate(),
            capabilities=self.capabilities,
        )


def policies_in_force(engine: Engine) -> Sequence[PolicyInForce]:
    return [
        PolicyInForce(
            program.address,
            program.cluster,
            "audit" if program.audit else "enforce",
            program.weight,
            program.digest,
            program.address in engine.expensive,
            engine.unmet.get(program.address, ""),
        )
        for program in engine.registry.programs
    ]
