"""Plain words: what words of plain English are for numbers, places, nodes and their states.

They stand alone, or in a name: `free_cpu`, `nodeZone`, `hasLabel`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from grammar.tree.printer import print_string

# Words for places, and what a node says of its own.
DOMAINS: Mapping[str, str] = MappingProxyType(
    {
        "zone": "node.zone",
        "zones": "node.zone",
        "az": "node.zone",
        "topology.kubernetes.io/zone": "node.zone",
        "failure-domain.beta.kubernetes.io/zone": "node.zone",
        "region": "node.region",
        "topology.kubernetes.io/region": "node.region",
        "host": "node.name",
        "hostname": "node.name",
        "kubernetes.io/hostname": "node.name",
        "machine": "node.name",
        "server": "node.name",
        "node": "node.name",
        "nodes": "node.name",
        "metadata.name": "node.name",
    }
)

_ARCH, _OS = 'node.labels["kubernetes.io/arch"]', 'node.labels["kubernetes.io/os"]'
_CAPACITY = 'node.labels["karpenter.sh/capacity-type"]'
# Words for nodes, and the condition that they are.
WORDS_OF_NODES: Mapping[str, str] = MappingProxyType(
    dict.fromkeys(("spot", "preemptible"), f'{_CAPACITY} == "spot"')
    | dict.fromkeys(("on-demand", "ondemand"), f'{_CAPACITY} == "on-demand"')
    | dict.fromkeys(("gpu", "gpus"), '"nvidia.com/gpu" in node.allocatable')
    | dict.fromkeys(("arm", "arm64"), f'{_ARCH} == "arm64"')
    | dict.fromkeys(("amd64", "x86"), f'{_ARCH} == "amd64"')
    | {"linux": f'{_OS} == "linux"', "windows": f'{_OS} == "windows"'}
    | dict.fromkeys(
        ("control", "control-plane", "master", "masters"),
        'has(node.labels["node-role.kubernetes.io/control-plane"])',
    )
    | dict.fromkeys(
        ("maintenance", "drained", "cordoned", "unschedulable"), "node.spec.unschedulable"
    )
    | dict.fromkeys(("ready", "healthy"), "node.ready")
    | dict.fromkeys(("unready", "unhealthy"), "!node.ready")
    | dict.fromkeys(("schedulable", "uncordoned"), "!node.spec.unschedulable")
    | {"tainted": "(size(node.spec.taints) > 0)", "ssd": 'node.labels["disktype"] == "ssd"'}
)

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def of_taint(name: str, text: str) -> str:
    """`gpu=true:NoSchedule`, as kubectl writes a taint, as a condition on a taint."""
    key, _, effect = (f":{text}" if text in EFFECTS else text).partition(":")
    key, sign, value = key.partition("=")
    parts = [("key", key), ("value", value if sign else ""), ("effect", effect)]
    return " && ".join(f"{name}.{f} == {print_string(v)}" for f, v in parts if v)


# ---- words in names

_NAME_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
RESOURCES = {"cpu": "cpu", "cpus": "cpu", "cores": "cpu", "memory": "memory", "mem": "memory"}
RESOURCES |= {"ram": "memory", "gpu": "nvidia.com/gpu", "gpus": "nvidia.com/gpu"}
_AMOUNTS_OF_NODE = {
    "free": frozenset({"free", "available", "avail", "idle", "left", "remaining", "unused"}),
    "requested": frozenset({"requested", "requests", "request", "allocated", "reserved"}),
    "allocatable": frozenset({"total", "capacity", "allocatable", "size", "max"}),
}
_AMOUNTS_OF_POD = {
    "requests": frozenset({"request", "requests", "requested", "need", "needs"}),
    "limits": frozenset({"limit", "limits", "max"}),
}
# The name of a series of Prometheus.
_SERIES = re.compile(
    r"(?:kube|container|node|machine|kubelet|nvidia|DCGM_FI)_\w+_\w+|node_load\d+|DCGM_FI_\w+"
)


def words_of(name: str) -> list[str]:
    """The words of a name: `nodeZone` and `node_zone` are `node` and `zone`."""
    return [w.lower() for w in _NAME_WORD.findall(name)]


def amount_in_words(name: str, record: str) -> str | None:
    """`free_cpu` and `memoryUsage` as a field and its resource; None for any other name."""
    words = words_of(name)
    resource = next((RESOURCES[w] for w in words if w in RESOURCES), None)
    fields = _AMOUNTS_OF_NODE if record == "Node" else _AMOUNTS_OF_POD
    field = next((f for f, said in fields.items() if said & set(words)), None)
    is_part = bool({"percent", "pct", "percentage", "ratio"} & set(words))
    if is_part or resource is None or field is None or record not in ("Node", "Pod", "Peer"):
        return None
    return f"{field}[{print_string(resource)}]"


def is_series(name: str) -> bool:
    """Whether a name is one of a series of Prometheus, such as `kube_pod_info`."""
    return _SERIES.fullmatch(name) is not None
