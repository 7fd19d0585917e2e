"""The demo's cluster has something of everything that policies are written about."""

from collections import Counter
from pathlib import Path

import msgspec
import pytest

from cli.demo.demo_cluster import demo_cluster, node_names
from engine.cache.cluster_file import Reading, read_cluster
from engine.cache.node_table import NodeWithPods
from engine.objects.request_pod import ObjectCodec
from grammar.meaning.schema import load_schema
from grammar.values.time import Timestamp


@pytest.fixture(scope="module")
def reading() -> Reading:
    document = msgspec.json.encode(demo_cluster(Timestamp.parse("2026-11-21T10:00:00Z")))
    codec = ObjectCodec(load_schema())
    return read_cluster(codec, [Path("demo")], [(Path("demo"), document)])


def labels(views: list[NodeWithPods], key: str) -> Counter[str]:
    return Counter(view.labels[key] for view in views)


def test_nodes_are_of_many_kinds(reading: Reading) -> None:
    views = list(reading.cache.snapshot().nodes.values())
    assert sorted(view.name for view in views) == sorted(node_names())
    assert len(views) == 12
    assert len(labels(views, "topology.kubernetes.io/zone")) == 3
    assert set(labels(views, "kubernetes.io/arch")) == {"amd64", "arm64"}
    assert set(labels(views, "karpenter.sh/capacity-type")) == {"spot", "on-demand"}
    assert sum("nvidia.com/gpu" in view.allocatable for view in views) == 2
    assert sum(bool(view.spec.unschedulable) for view in views) == 1
    assert (
        sum("maintenance.example.com/start" in (v.metadata.annotations or {}) for v in views) == 1
    )


def test_pods_fit_where_they_are(reading: Reading) -> None:
    """No node is over-full, and every pod has a controller whose size is known or has none."""
    assert reading.notices == ()
    assert len(reading.cache.snapshot().pods()) == 42
    waiting = reading.cache.snapshot().pending
    assert sorted(waiting) == ["ml/train-large-0x", "shop/reports-7d9c6b-0x"]
    assert all(pod.unscheduled is not None for pod in waiting.values())
    for view in reading.cache.snapshot().nodes.values():
        assert view.free is not None
        assert all(amount.nanos >= 0 for amount in view.free.values())
    workloads = {pod.workload for pod in reading.cache.snapshot().pods().values()}
    kinds = Counter(workload.kind for workload in workloads if workload is not None)
    assert kinds == {"Deployment": 7, "StatefulSet": 1, "Job": 2, "DaemonSet": 1}
