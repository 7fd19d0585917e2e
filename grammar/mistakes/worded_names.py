"""Worded names: what a name says by its words: `free_cpu`, `nodeZone`, `hasLabel`.

The remedies of names and of calls ask here. Nothing here knows where a name stands.
"""

from __future__ import annotations

import re

from grammar.tree.printer import print_string

_NAME_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
RESOURCES = {"cpu": "cpu", "cpus": "cpu", "cores": "cpu", "memory": "memory", "mem": "memory"}
RESOURCES |= {"ram": "memory", "gpu": "nvidia.com/gpu", "gpus": "nvidia.com/gpu"}
_AMOUNTS_OF_NODE = {
    "free": frozenset({"free", "available", "avail", "idle", "left", "remaining", "unused"}),
    "usage": frozenset({"usage", "used", "utilization", "utilisation", "load", "percent", "ratio"}),
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
    if resource is None or field is None or record not in ("Node", "Pod", "Peer"):
        return None
    return f"{field}[{print_string(resource)}]"


def is_series(name: str) -> bool:
    """Whether a name is one of a series of Prometheus, such as `kube_pod_info`."""
    return _SERIES.fullmatch(name) is not None
