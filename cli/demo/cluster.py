"""The demo's cluster: twelve nodes in three zones, and forty pods."""

from __future__ import annotations

from datetime import datetime, timedelta

from cli.demo.objects import Machine, Object, Place, PodSet, node_object, object_, workload_objects

_GENERAL = Machine("m6i.2xlarge", "amd64", "8", "7910m", "32386528Ki", "31369696Ki")
_ARM = Machine("m7g.2xlarge", "arm64", "8", "7910m", "32214204Ki", "31197372Ki")
_GPU = Machine("g5.12xlarge", "amd64", "48", "47810m", "195788016Ki", "193031024Ki", gpus=4)


_PLACES = (
    Place("general-a1", _GENERAL, timedelta(days=41)),
    Place("general-b1", _GENERAL, timedelta(days=41)),
    Place("general-b2", _GENERAL, timedelta(days=96), cordoned=True),
    Place("general-c1", _GENERAL, timedelta(days=41), maintenance=True),
    Place("spot-a1", _GENERAL, timedelta(hours=7), spot=True),
    Place("spot-b1", _GENERAL, timedelta(hours=19), spot=True),
    Place("spot-c1", _GENERAL, timedelta(hours=2), spot=True),
    Place("arm-a1", _ARM, timedelta(days=12)),
    Place("arm-b1", _ARM, timedelta(days=12)),
    Place("arm-c1", _ARM, timedelta(minutes=2), spot=True),
    Place("gpu-a1", _GPU, timedelta(days=5)),
    Place("gpu-b1", _GPU, timedelta(days=3)),
)


_SETS = (
    PodSet(
        "shop",
        "web",
        "Deployment",
        {"cpu": "500m", "memory": "1Gi"},
        ("general-a1", "general-b1", "spot-a1", "spot-b1", "arm-a1", "arm-b1"),
        tier="web",
    ),
    PodSet(
        "shop",
        "checkout",
        "Deployment",
        {"cpu": "1", "memory": "2Gi"},
        ("general-a1", "general-c1", "spot-c1", "arm-b1"),
        tier="api",
    ),
    PodSet(
        "shop",
        "orders-db",
        "StatefulSet",
        {"cpu": "2", "memory": "8Gi"},
        ("general-a1", "general-b1", "general-c1"),
        tier="db",
        priority=1000,
    ),
    PodSet(
        "shop",
        "cache",
        "Deployment",
        {"cpu": "250m", "memory": "4Gi"},
        ("general-b2", "arm-a1"),
        tier="cache",
    ),
    PodSet(
        "ml",
        "train-embeddings",
        "Job",
        {"cpu": "8", "memory": "48Gi", "nvidia.com/gpu": "2"},
        ("gpu-a1", "gpu-b1"),
    ),
    PodSet(
        "ml",
        "inference",
        "Deployment",
        {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"},
        ("gpu-a1", "gpu-a1"),
        priority=100,
    ),
    PodSet(
        "batch",
        "consumer",
        "Deployment",
        {"cpu": "1", "memory": "3Gi"},
        ("spot-a1", "spot-a1", "spot-b1", "spot-b1", "spot-c1", "spot-c1", "general-b1"),
        priority=-10,
    ),
    PodSet(
        "kube-system",
        "coredns",
        "Deployment",
        {"cpu": "100m", "memory": "70Mi"},
        ("general-a1", "arm-b1"),
        priority=2_000_000_000,
    ),
    PodSet(
        "kube-system",
        "node-agent",
        "DaemonSet",
        {"cpu": "50m", "memory": "128Mi"},
        tuple(place.name for place in _PLACES),
        priority=2_000_001_000,
    ),
)
NODE_NAMES = tuple(place.name for place in _PLACES)


def demo_cluster(now: datetime) -> Object:
    """The whole cluster as one `kind: List`. `now` is in UTC; ages are counted back from it."""
    items = [node_object(place, now) for place in _PLACES]
    for pods in _SETS:
        items.extend(workload_objects(pods, now))
    born = now - timedelta(days=96)
    names = dict.fromkeys(pods.namespace for pods in _SETS)
    items.extend(object_("Namespace", "v1", name, None, born) for name in names)
    return {"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": items}
