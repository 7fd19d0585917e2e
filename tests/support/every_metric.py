"""Every metric of a server, with samples of each, so that its labels can be seen."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import msgspec
import numpy as np
from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric

from engine.decision.journal import Journal
from engine.decision.recent_answers import RejectedStatus
from engine.facts import PartOf
from server.answers import (
    InFlight,
    PolicyInForce,
    ReplicaStatus,
    WatchedResource,
)
from server.call import CallRecord
from server.capabilities.table import CAPABILITY_METRICS
from server.metrics.families import Sample
from server.metrics.metrics import Metrics
from server.runtime.observers import LogObserver
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
        resources={"pods": RESOURCE, "nodes": silent},
    )
    return msgspec.structs.replace(
        plain,
        policies=[policy, audited],
        podsInFlight=2,
        inFlight=[InFlight("shop/a", 7.5, 3), InFlight("shop/b", 1.0, None)],
        cluster=cluster,
        facts={
            "gangs": [{"policy": "ml/gangs", "waiting": 3, "longest wait (s)": 4000.0}],
            "some gangs": [
                {"gang": "ml/a", "policy": "ml/gangs", "held": PartOf(5, 8)},
                {"gang": "ml/b", "policy": "ml/gangs", "state": "6 of 8 members exist"},
            ],
            "repairs": [{"policy": "shop/web", "moving": ["shop/web-1"], "why": None}],
        },
    )


def samples_of_capabilities() -> Iterator[Sample]:
    """A sample of each metric of a capability."""
    for row in CAPABILITY_METRICS:
        name, _, labels = row.rstrip("}").partition("{")
        yield name, [f"a {label}" for label in labels.split(",")], 1.0


async def look(metrics: Metrics, status: Callable[[], ReplicaStatus]) -> None:
    """Have the metrics look at the status once."""
    looking = asyncio.create_task(metrics.follow(status, samples_of_capabilities))
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
    metrics.count("placet_full_node_requests_total", "filter")
    observer = LogObserver(logging.getLogger("placet.test"), metrics)
    observer.rejected("shop/web", "ssd", 40)
    observer.held_back("shop/web", "one", 2)
    observer.would_reject("shop/web", "ssd", 7)
    observer.failed("shop/web", "ssd", "no such key: `disk`")
    observer.conflict("shop/web", "shop/other")
    observer.expensive("shop/web")
    observer.charged("shop/web", 0.02)
    observer.gave_up("audit", "shop/web")
    metrics.count("placet_admissions_total", "validate", "CREATE", "true")
    metrics.count("placet_connections_refused_total", "too_many")
    metrics.certificate_expires("tls.crt", 1e9)
    metrics.count("placet_task_restarts_total", "events")
    metrics.pod_seen(0.5)
    metrics.read(lambda: [("placet_bodies_held_bytes", (), 0.0)])
    metrics.read(lambda: [("placet_api_failing", ["bind pods", "cannot bind pods: no"], 1.0)])


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
    metrics = Metrics(registry, "1.2.3", CAPABILITY_METRICS)
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
