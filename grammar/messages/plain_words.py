"""Plain words: what words of plain English are for numbers, places, nodes and their states."""

from __future__ import annotations

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

FRACTIONS: Mapping[str, str] = MappingProxyType(
    {"half": "50%", "a half": "50%", "third": "33%", "a third": "33%", "quarter": "25%"}
    | {"a quarter": "25%", "two thirds": "67%", "three quarters": "75%"}
)
# A pattern of what stands before a number, the bound that it is, and what is added to the number.
BOUNDS = (
    (r"(?:(?:no|not) more than|maximum of|max of|up to|limit to|cap at|at max|only)", "at most", 0),
    (r"(?:(?:no|not) less than|no fewer than|minimum of|min of)", "at least", 0),
    (r"(?:fewer than|less than|below|under)", "at most", -1),
    (r"(?:more than|above|over)", "at least", 1),
)
WORKLOADS = frozenset(("deployment", "statefulset", "daemonset", "cronjob", "job"))
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
    | dict.fromkeys(("maintenance", "drained", "cordoned"), "node.spec.unschedulable")
    | {"ready": "node.ready", "ssd": 'node.labels["disktype"] == "ssd"'}
)
STATES: Mapping[str, str] = MappingProxyType(
    dict.fromkeys(("ready", "healthy"), "node.ready")
    | dict.fromkeys(("unready", "unhealthy"), "!node.ready")
    | dict.fromkeys(("cordoned", "unschedulable", "drained"), "node.spec.unschedulable")
    | dict.fromkeys(("schedulable", "uncordoned"), "!node.spec.unschedulable")
    | {"tainted": "(size(node.spec.taints) > 0)"}
)

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def of_taint(name: str, text: str) -> str:
    """`gpu=true:NoSchedule`, as kubectl writes a taint, as a condition on a taint."""
    key, _, effect = (f":{text}" if text in EFFECTS else text).partition(":")
    key, sign, value = key.partition("=")
    parts = [("key", key), ("value", value if sign else ""), ("effect", effect)]
    return " && ".join(f"{name}.{f} == {print_string(v)}" for f, v in parts if v)
