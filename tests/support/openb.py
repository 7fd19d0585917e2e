"""The openb trace, which is beside the project or nowhere; and a little one that is like it.

It has the nodes and pods of Alibaba's cluster-trace-gpu-v2023, in CSV. Kubernetes has no parts of
an `nvidia.com/gpu`. So a pod that wants a part of a card takes a whole one, and an annotation has
the part.
"""

from __future__ import annotations

import csv
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.builders import kubectl_list, raw

TRACE = Path(__file__).parents[3] / "shared" / "data" / "openb"
NODES = "openb_node_list_all_node.csv"
PODS = "openb_pod_list_default.csv"

with_trace = pytest.mark.skipif(
    not (TRACE / NODES).exists(), reason="the openb trace is not beside the project"
)

SMALL_NODES = """\
sn,cpu_milli,memory_mib,gpu,model
n-0,8000,16384,0,
n-1,8000,16384,2,T4
n-2,8000,16384,2,V100M16
"""
SMALL_PODS = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
p-0,6000,2048,0,0,,LS,Running,0,90,0
p-1,4000,4096,1,1000,,LS,Running,10,90,10
p-2,1000,1024,1,460,V100M16|V100M32,BE,Failed,20,90,21
p-3,1000,1024,2,1000,,LS,Pending,30,90,
p-4,1000,1024,2,1000,T4,LS,Pending,40,90,
"""

Object = dict[str, Any]
Row = dict[str, str]
CARDS = "nvidia.com/gpu"
# The label of NVIDIA's GPU feature discovery.
_MODEL = "nvidia.com/gpu.product"
# The trace counts seconds from its start. Its nodes are older than its pods.
_START = datetime(2023, 1, 1, tzinfo=UTC)
# The default of the kubelet.
_MAX_PODS = "110"


def write(nodes: Path, pods: Path, folder: Path) -> None:
    """`nodes.json` and `pods.json` of two lists of the trace, as kubectl would write them."""
    (folder / "nodes.json").write_bytes(raw(kubectl_list(trace_nodes(nodes))))
    (folder / "pods.json").write_bytes(raw(kubectl_list(trace_pods(pods))))


def write_small(folder: Path) -> None:
    """The same files of the little trace."""
    nodes, pods = folder / "small-nodes.csv", folder / "small-pods.csv"
    nodes.write_text(SMALL_NODES, encoding="utf-8")
    pods.write_text(SMALL_PODS, encoding="utf-8")
    write(nodes, pods, folder)


def trace_nodes(file: Path) -> list[Object]:
    return [_node(row) for row in _rows(file)]


def trace_pods(file: Path) -> list[Object]:
    """The pods, which are all pending."""
    return [_pod(row) for row in _rows(file)]


def _rows(file: Path) -> list[Row]:
    with file.open(encoding="utf-8-sig", newline="") as lines:
        return list(csv.DictReader(lines))


def _node(row: Row) -> Object:
    labels, amounts = {"kubernetes.io/hostname": row["sn"]}, {**_amounts(row), "pods": _MAX_PODS}
    if row["gpu"] != "0":
        amounts[CARDS] = row["gpu"]
        if row["model"]:
            labels[_MODEL] = row["model"]
    status = {
        "capacity": amounts,
        "allocatable": amounts,
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    metadata = {**_metadata(row["sn"], "0"), "labels": labels}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}


def _pod(row: Row) -> Object:
    """A pod; some lists have no `gpu_spec`, `qos` and `creation_time`."""
    metadata = {**_metadata(row["name"], row.get("creation_time", "0")), "namespace": "openb"}
    if "qos" in row:
        metadata["labels"] = {"qos": row["qos"]}
    resources: Object = {"requests": _amounts(row)}
    if row["num_gpu"] != "0":
        resources["requests"][CARDS] = row["num_gpu"]
        resources["limits"] = {CARDS: row["num_gpu"]}
        metadata["annotations"] = {"openb/gpu-milli": row["gpu_milli"]}
    spec: Object = {"containers": [{"name": "main", "image": "openb", "resources": resources}]}
    if models := row.get("gpu_spec"):
        term = {
            "matchExpressions": [{"key": _MODEL, "operator": "In", "values": models.split("|")}]
        }
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
        spec["affinity"] = {"nodeAffinity": required}
    status = {"phase": "Pending"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def _metadata(name: str, seconds: str) -> Object:
    created = _START + timedelta(seconds=int(seconds))
    return {
        "name": name,
        "uid": f"openb/{name}",
        "creationTimestamp": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def _amounts(row: Row) -> dict[str, str]:
    return {"cpu": f"{row['cpu_milli']}m", "memory": f"{row['memory_mib']}Mi"}
