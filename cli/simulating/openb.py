"""The openb trace as Kubernetes objects: Alibaba's cluster-trace-gpu-v2023, nodes and pods in CSV.

A card is a whole one: Kubernetes knows no parts of an `nvidia.com/gpu`, so a pod that wants a part
of a card takes all of it, and says in an annotation how much it wanted.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from cli.exits import CommandError

NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
POD_COLUMNS = (
    *("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec", "qos"),
    "creation_time",
)
NAMESPACE = "openb"
GPU = "nvidia.com/gpu"
# What NVIDIA's GPU feature discovery calls it.
MODEL = "nvidia.com/gpu.product"
SHARE = "openb/gpu-milli"
# The trace counts seconds from its own beginning; its nodes are older than its pods.
_BEGINNING = datetime(2023, 1, 1, tzinfo=UTC)
# The kubelet's default.
_PODS = "110"

Object = dict[str, Any]
Row = dict[str, str]


class _RowError(Exception):
    """What is wrong with a row."""


def is_trace(file: Path) -> bool:
    return file.suffix.lower() == ".csv"


def nodes(file: Path) -> bytes:
    """The JSON of a list of Nodes. Raises CommandError."""
    return _objects(file, NODE_COLUMNS, "nodes", _node)


def pods(file: Path) -> bytes:
    """The JSON of a list of Pods, all of them waiting. Raises CommandError."""
    return _objects(file, POD_COLUMNS, "pods", _pod)


def _objects(
    file: Path, columns: tuple[str, ...], what: str, made: Callable[[Row], Object]
) -> bytes:
    hint = f"openb's {what} have the columns {', '.join(columns)}"
    items: list[Object] = []
    try:
        with file.open(encoding="utf-8-sig", newline="") as lines:
            rows = csv.DictReader(lines)
            absent = [c for c in columns if c not in (rows.fieldnames or ())]
            if absent:
                raise CommandError(f"`{file}` has no column `{absent[0]}`", hint)
            for row in rows:
                try:
                    items.append(made(row))
                except _RowError as error:
                    raise CommandError(f"`{file}` line {rows.line_num}: {error}", hint) from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise CommandError(f"cannot read `{file}`: {reason}", "check the path") from None
    except (UnicodeDecodeError, csv.Error):
        raise CommandError(f"`{file}` is no CSV text", hint) from None
    if not items:
        raise CommandError(f"there are no {what} in `{file}`", hint)
    return msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": items})


def _node(row: Row) -> Object:
    name, gpus, model = _text(row, "sn"), _number(row, "gpu"), row["model"] or ""
    node = _object("Node", name, 0)
    node["metadata"]["labels"] = {"kubernetes.io/hostname": name}
    amounts = {**_amounts(row), "pods": _PODS}
    if gpus:
        amounts[GPU] = str(gpus)
        if model:
            node["metadata"]["labels"][MODEL] = model
    node["status"] = {
        "capacity": amounts,
        "allocatable": amounts,
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    return node


def _pod(row: Row) -> Object:
    name, gpus = _text(row, "name"), _number(row, "num_gpu")
    pod = _object("Pod", name, _number(row, "creation_time"))
    pod["metadata"] |= {"namespace": NAMESPACE, "labels": {"qos": row["qos"] or ""}}
    resources: Object = {"requests": _amounts(row)}
    if gpus:
        resources["requests"][GPU] = str(gpus)
        resources["limits"] = {GPU: str(gpus)}
        pod["metadata"]["annotations"] = {SHARE: str(_number(row, "gpu_milli"))}
    pod["spec"] = {"containers": [{"name": "main", "image": "openb", "resources": resources}]}
    models = (row["gpu_spec"] or "").split("|")
    if models != [""]:
        pod["spec"]["affinity"] = {"nodeAffinity": _one_of(models)}
    pod["status"] = {"phase": "Pending"}
    return pod


def _one_of(models: list[str]) -> Object:
    """The models that a pod may run on are required ones."""
    term = {"matchExpressions": [{"key": MODEL, "operator": "In", "values": models}]}
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}


def _object(kind: str, name: str, seconds: int) -> Object:
    try:
        created = _BEGINNING + timedelta(seconds=seconds)
    except OverflowError:
        raise _RowError(f"`{seconds}` seconds are too many") from None
    metadata = {
        "name": name,
        "uid": f"openb/{name}",
        "creationTimestamp": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata}


def _amounts(row: Row) -> dict[str, str]:
    cpu, memory = _number(row, "cpu_milli"), _number(row, "memory_mib")
    return {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}


def _text(row: Row, column: str) -> str:
    if not row[column]:
        raise _RowError(f"`{column}` is empty")
    return row[column]


def _number(row: Row, column: str) -> int:
    text = row[column] or ""
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise _RowError(f"`{text}` is no whole number for `{column}`")
    return int(text)
