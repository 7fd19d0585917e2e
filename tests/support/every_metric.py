"""Every metric of a server, with samples of each, so that its labels can be seen."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import msgspec
import numpy as np
from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric

from engine.decision.journal import Journal
from engine.decision.recent_answers import RejectedStatus
from engine.decision.verb_call import GangChange
from engine.drift.drift_document import PolicyRepair
from engine.gangs.gang import GangStatus
from engine.program.tables import SourceStatus
from server.answers import (
    AmountOfCards,
    CardsOfClause,
    GangsOfPolicy,
    InFlight,
    PolicyInForce,
    ReplicaStatus,
    WatchedResource,
)
from server.call import CallRecord, ReviewedObject
from server.metrics.metrics import Metrics
from server.settings import Settings
from tests.support.view_server import status_of

RESOURCE = WatchedResource(
    objects=3,
    synced=True,
    secondsSinceLastEvent=2.0,
    unreadable=1,
    failures={"unreachable": 3, "denied": 1},
    relists={"first": 1, "expired": 2},
)
CARDS = CardsOfClause(
    idle=3,
    split=2,
    full=1,
    amounts={"milli": AmountOfCards(6000, 2500)},
    placed=6,
    guessed=1,
    guessedPods=["ml/other"],
    lost=12,
    lostPods=["ml/a", "ml/b"],
)


def full_status(replica: str = "placet-0") -> ReplicaStatus:
    """A status with something of everything."""
    plain = status_of(replica, Journal())
    (policy,) = plain.policies
    audited = PolicyInForce("shop/new", False, "audit", 101, "0", True, "")
    assert plain.cluster is not None
    silent = msgspec.structs.replace(RESOURCE, secondsSinceLastEvent=None)
    cluster = msgspec.structs.replace(
        plain.cluster,
        rejected=RejectedStatus(5, {"shop/web": 4, "": 1}, 9, 6, 2),
        beyondBounds={"shop/web": 3},
        drift={"shop/web": {"share": 3, "filter": 1}},
        repairs=[PolicyRepair("shop/web", "moving", "", 4, 2, 0, 1, ["shop/web-1"], ["spot"])],
        cards={"gpu": CARDS},
        resources={"pods": RESOURCE, "nodes": silent},
    )
    return msgspec.structs.replace(
        plain,
        policies=[policy, audited],
        podsInFlight=2,
        inFlight=[InFlight("shop/a", 7.5, 3), InFlight("shop/b", 1.0, None)],
        cluster=cluster,
        data=[
            SourceStatus(
                "load", "", "metrics", ("shop/web",), 12, 7.5, left_out=1, cause="no value"
            ),
            SourceStatus(
                "racks", "", "configmap", ("shop/web",), error="it is gone", is_stale=True
            ),
        ],
        gangs=[GangsOfPolicy("ml/gangs", 3, 1, 2, 4000.0)],
        someGangs=[
            GangStatus("ml/gangs", "together", "ml", "ml/a", "gathering", 8, 5, 0, 12.4, "", {}),
            GangStatus(
                "ml/gangs",
                "together",
                "ml",
                "ml/b",
                "waiting",
                8,
                0,
                6,
                4000.0,
                "6 of 8 members exist",
                {},
            ),
        ],
    )


async def look(metrics: Metrics, status: Callable[[], ReplicaStatus]) -> None:
    """Have the metrics look at the status once."""
    looking = asyncio.create_task(metrics.follow(status))
    await asyncio.sleep(0)
    looking.cancel()


def count_everything(metrics: Metrics) -> None:
    """Calls every method that counts."""
    call = CallRecord("filter", 0.0, received=1000, offered=5000, returned=12)
    metrics.ended(call, 200, 0.003, 200)
    metrics.ended(CallRecord("prioritize", 0.0, scores=np.array([0, 10])), 200, 0.003, 200)
    metrics.ended(CallRecord("preempt", 0.0, victims=(3, 1)), 200, 0.003, 200)
    metrics.configured(Settings())
    metrics.in_flight("filter").value += 1
    metrics.full_nodes("filter")
    metrics.sampled()
    metrics.rejected("shop/web", "ssd", 40)
    metrics.held_back("shop/web", "one", 2)
    metrics.would_reject("shop/web", "ssd", 7)
    metrics.failed("shop/web", "ssd", "no such key: `disk`")
    metrics.conflict("shop/web", "shop/other")
    metrics.bypassed("shop/web-1", "u1", "INC-1")
    metrics.expensive("shop/web")
    metrics.charged("shop/web", 0.02)
    metrics.data_failed("load (metrics)", "late")
    metrics.gave_up("audit", "shop/web")
    metrics.gang(GangChange("shop/web", "g", "shop/a", "given up", 3, 60.0, 90.0, "late", "late"))
    metrics.reviewed("validate", ReviewedObject("CREATE", "shop/web", allowed=True))
    metrics.connection_refused("too_many")
    metrics.certificate_expires("tls.crt", 1e9)
    metrics.handshake_failed()
    metrics.task_restarted("events")
    metrics.pod_seen(0.5)
    metrics.api_failing(lambda: {"bind pods": "cannot bind pods: no"})


@dataclass(frozen=True, slots=True)
class Described:
    """What a scrape says of a metric; `text` is its `HELP` without the stability."""

    type: str
    stability: str
    text: str
    labels: frozenset[str]


def every_metric() -> Mapping[str, Described]:
    """The metrics by their names; that of a counter ends with `_total`."""
    registry = CollectorRegistry()
    metrics = Metrics(registry, "1.2.3")
    count_everything(metrics)
    asyncio.run(look(metrics, full_status))
    return {_name(metric): _described(metric) for metric in registry.collect()}


def series(metrics: Mapping[str, Described]) -> Mapping[str, Described]:
    """The metrics by the names that queries use: a histogram has three."""
    parts = ("_bucket", "_count", "_sum")
    histograms = {
        n + part: m for n, m in metrics.items() for part in parts if m.type == "histogram"
    }
    others = {name: metric for name, metric in metrics.items() if metric.type != "histogram"}
    return {**others, **histograms}


def _name(metric: Metric) -> str:
    return metric.name + ("_total" if metric.type == "counter" else "")


def _described(metric: Metric) -> Described:
    found = re.match(r"\[(\w+)\] (.+)", metric.documentation)
    stability, text = found.groups() if found is not None else ("", metric.documentation)
    samples = [each for each in metric.samples if not each.name.endswith("_created")]
    labels = frozenset(label for each in samples for label in each.labels)
    return Described(metric.type, stability, text, labels - {"le"})
