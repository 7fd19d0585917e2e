"""Tests of the failure matrix: Placet's own answers; tests/e2e has kube-scheduler's side.

Without kube-scheduler, an answer is the same whether or not the extender is ignorable.
"""

import asyncio
import json
import logging
import time
from collections.abc import Collection, Mapping, Sequence

import pytest
from prometheus_client import CollectorRegistry

from engine.cache.cache import Cache
from engine.cache.node_table import Snapshot
from engine.decision.verdict import Feasible
from engine.errors import EngineError, NotSyncedError
from engine.objects.request_pod import ObjectCodec
from grammar.meaning.schema import load_schema
from server.http.health import ReadinessCheck
from server.metrics.metrics import Metrics
from server.runtime.file_cluster import ClusterSource
from server.runtime.observers import LogObserver
from tests.support.builders import node, pod, raw
from tests.support.failures import (
    MATRIX,
    ON_ERROR,
    POOL,
    Case,
    Failure,
    Fate,
    OnError,
    labels,
    policy,
)
from tests.support.simulated import reloader_of

SCHEMA = load_schema()
NAMES = ["web", "other"]
# In the other cases there is no answer of ours.
OURS = [f for f in Failure if f not in (Failure.DOWN, Failure.HUNG, Failure.STATUS_500)]
# On a machine that is busy, what is not slow must not become so.
SECONDS = {Failure.SLOW: 0.1}


class Cluster(ClusterSource):
    """A view of a cluster with policies; `synced` says whether it knows what there is."""

    def __init__(self, policies: Sequence[Mapping[str, object]], *, synced: bool) -> None:
        self._synced = synced
        self._policies = dict(map(_stored, policies))
        self._cache = Cache()

    def edit(self, policies: Sequence[Mapping[str, object]]) -> None:
        self._policies = dict(map(_stored, policies))

    def register(self) -> None:
        for name in NAMES:
            shown = node(name, labels={"pool": name, "zero": "0"})
            self._cache.put_node(ObjectCodec(SCHEMA).node(raw(shown)))

    def snapshot(self) -> Snapshot:
        if not self._synced:
            raise NotSyncedError("not synced: nodes 0 so far")
        return self._cache.snapshot()

    @property
    def pods(self) -> Cache:
        return self._cache

    def node_count(self) -> int:
        return len(self._cache.nodes)

    def checks(self) -> Sequence[ReadinessCheck]:
        return ()

    def policies(self) -> Mapping[str, bytes] | None:
        return self._policies if self._synced else None

    async def pods_named(self, _keys: Collection[str]) -> Mapping[str, bytes]:
        raise AssertionError("nobody asks why, or what policies do")

    async def pods_on(self, _node: str) -> Mapping[str, bytes]:
        raise AssertionError("nobody asks what a drain does")


def _stored(value: Mapping[str, object]) -> tuple[str, bytes]:
    metadata = value["metadata"]
    assert isinstance(metadata, dict)
    return f"placementpolicies/shop/{metadata['name']}", json.dumps(value).encode()


def answer(failure: Failure, on_error: OnError) -> Fate:
    """What the pod of a case gets."""
    good = [policy(failure, on_error, "shop", POOL)]
    broken = [policy(failure, on_error, "shop")]
    cluster = Cluster(
        good if failure is Failure.BROKEN else broken, synced=failure is not Failure.UNSYNCED
    )
    if failure is not Failure.UNKNOWN_NODES:
        cluster.register()
    log = logging.getLogger("placet.test")
    observer = LogObserver(log, Metrics(CollectorRegistry(), "0"))
    reloader = reloader_of([], lambda _: cluster, SCHEMA, observer, log)
    cluster.edit(broken)
    asyncio.run(reloader.catch_up())
    asked = raw(pod("p", "shop", labels=labels(failure, on_error)))
    try:
        deadline = time.monotonic() + SECONDS.get(failure, 60.0)
        verdicts = reloader.engine.filter(asked, NAMES, None, deadline)
    except EngineError:
        return Fate.WAITS
    passing = [n for n, v in zip(NAMES, verdicts, strict=True) if isinstance(v, Feasible)]
    return {"": Fate.REFUSED, "web": Fate.GOVERNED}.get(",".join(passing), Fate.UNGOVERNED)


@pytest.mark.parametrize("on_error", ON_ERROR)
@pytest.mark.parametrize("failure", OURS)
def test_our_answer(failure: Failure, on_error: OnError) -> None:
    assert answer(failure, on_error) is MATRIX[Case(failure, ignorable=False, on_error=on_error)]


@pytest.mark.parametrize("failure", Failure)
def test_an_ignorable_extender_is_left_out_where_it_would_keep_pods_waiting(
    failure: Failure,
) -> None:
    """C31: and in no other case."""
    for on_error in ON_ERROR:
        firm = MATRIX[Case(failure, ignorable=False, on_error=on_error)]
        soft = MATRIX[Case(failure, ignorable=True, on_error=on_error)]
        assert soft is (Fate.UNGOVERNED if firm is Fate.WAITS else firm)
