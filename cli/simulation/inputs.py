"""Inputs: the cluster and the pods of a simulation, read from files.

The files are what kubectl wrote, or CSV files of the openb trace. They are read once; `prepare`
makes a simulation from them for each set of policies.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from cli.command import CommandError, unreadable
from engine.cache.cluster_copy import ClusterDocuments, read_documents
from engine.cache.cluster_file import ClusterFileError, documents, workload_uids
from engine.cache.pod_manifests import DEFAULT_NAMESPACE
from engine.enforced import EnforcedPolicies
from engine.objects.codec import ObjectCodec
from engine.objects.workload_pods import KnownUid
from engine.simulation.pod_list import PodList, PodReader, hint, pods_in
from engine.simulation.preparation import Prepared, SimulationOptions, prepared
from engine.simulation.what_if import NO_CHANGE, NodesToAdd, WhatIf
from engine.work import finished
from grammar.meaning.schema import Schema

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Inputs:
    """The documents of the cluster and the pods to schedule: all that policies do not change.

    `change` is what else is asked about: nodes that come, and nodes that go.
    """

    cluster: ClusterDocuments
    pods: PodList | None
    change: WhatIf = NO_CHANGE


def read_cluster(cluster: Sequence[Path]) -> ClusterDocuments:
    """The documents of snapshots, or openb's nodes. Raises UserError."""
    return read_documents(cluster, lambda f: [trace_nodes(f)] if is_trace(f) else documents(f))


def what_if(
    added: Iterable[NodesToAdd], drained: Sequence[str], cluster: ClusterDocuments
) -> WhatIf:
    """The nodes that come and go. Raises UserError."""
    pods = cluster.bodies("Pod") if drained else {}
    return WhatIf([with_manifest(each) for each in added], drained, pods)


def with_manifest(each: NodesToAdd) -> NodesToAdd:
    """With the manifest of the node, if the template is a file. Raises UserError."""
    file = Path(each.template)
    try:
        if not file.is_file():
            return each
    except OSError as error:
        raise unreadable(str(file), error, "check the path") from None
    read = list(documents(file))
    if len(read) != 1:
        raise CommandError(f"`{file}` has {len(read)} objects", "give a file with one node")
    return replace(each, body=bytes(read[0]))


def pending_pods(cluster: ClusterDocuments, namespace: str, name: str) -> PodList:
    """The pending pods of a running cluster, of one namespace or of all.

    `name` is that of the cluster. Raises CommandError without any.
    """
    reader = PodReader(Path(name))
    for document in (d for _, d in cluster.contents):
        listed = msgspec.json.decode(document)
        if listed.get("kind") != "PodList":
            continue
        for item in listed["items"]:
            here = namespace in ("", item["metadata"].get("namespace"))
            if here and not (item.get("spec") or {}).get("nodeName"):
                reader.add({**item, "kind": "Pod"})
    if not reader.bodies:
        where = f"in the namespace `{namespace}`" if namespace else "in any namespace"
        hint = "give the pods with --pods FILE, or other namespaces with -n or -A"
        raise CommandError(f"no pod is pending {where} of `{name}`", hint)
    return reader.read()


def prepare(
    inputs: Inputs,
    read: EnforcedPolicies,
    schema: Schema,
    conditions: SimulationOptions,
    seed: int = 0,
) -> Prepared:
    """A simulation with a cluster of its own, because it changes the cluster.

    Raises UserError for an invalid snapshot and invalid pods.
    """
    codec = ObjectCodec(schema, read.needs.annotations)
    cluster = inputs.cluster.cluster(codec)
    work = prepared(cluster, codec, read.registry, inputs.pods, conditions, inputs.change, seed)
    return finished(work)


# ---- pods to schedule


def read_pods(
    file: Path, cluster: ClusterDocuments | None = None, namespace: str = DEFAULT_NAMESPACE
) -> PodList:
    """The pods of a file that have not ended, as they were before they had a node.

    `namespace` is that of objects without one. Raises UserError.
    """
    try:
        contents = [trace_pods(file)] if is_trace(file) else list(documents(file))
        return pods_in(contents, PodReader(file, namespace), _uids(cluster))
    except ClusterFileError as error:
        raise ClusterFileError(error.message, error.hint or hint(file)) from None


def _uids(cluster: ClusterDocuments | None) -> KnownUid:
    """The uids of the workloads of a cluster, which is read when the first is asked for."""

    @cache
    def every() -> Mapping[tuple[str, str], str]:
        read = cluster.contents if cluster is not None else ()
        return workload_uids([document for _, document in read])

    return lambda kind, key: every().get((kind, key))


# ---- the openb trace: nodes and pods of Alibaba's cluster-trace-gpu-v2023, in CSV
#
# Kubernetes has no parts of an `nvidia.com/gpu`. So a pod that wants a part of a card takes a whole
# one, and an annotation has the part.

NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
# Some of its lists of pods have `gpu_spec`, `qos` and `creation_time` too.
POD_COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
_TRACE_NAMESPACE = "openb"
_GPU = "nvidia.com/gpu"
# The label of NVIDIA's GPU feature discovery.
_MODEL = "nvidia.com/gpu.product"
_GPU_PART = "openb/gpu-milli"
# The trace counts seconds from its start. Its nodes are older than its pods.
_START = datetime(2023, 1, 1, tzinfo=UTC)
# The default of the kubelet.
_MAX_PODS = "110"

Row = dict[str, str]


class _RowError(Exception):
    """A row with a wrong value."""


def is_trace(file: Path) -> bool:
    return file.suffix.lower() == ".csv"


def trace_nodes(file: Path) -> bytes:
    """The JSON of a list of nodes. Raises CommandError."""
    return _trace(file, NODE_COLUMNS, "nodes", _node)


def trace_pods(file: Path) -> bytes:
    """The JSON of a list of pending pods. Raises CommandError."""
    return _trace(file, POD_COLUMNS, "pods", _pod)


def _trace(
    file: Path, columns: tuple[str, ...], what: str, build: Callable[[Row], Object]
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
                    items.append(build(row))
                except _RowError as error:
                    raise CommandError(f"`{file}` line {rows.line_num}: {error}", hint) from None
    except OSError as error:
        raise unreadable(str(file), error, "check the path") from None
    except (UnicodeDecodeError, csv.Error):
        raise CommandError(f"`{file}` is not CSV text", hint) from None
    if not items:
        raise CommandError(f"there are no {what} in `{file}`", hint)
    return msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": items})


def _node(row: Row) -> Object:
    name, gpus, model = _text(row, "sn"), _number(row, "gpu"), row["model"] or ""
    labels, amounts = {"kubernetes.io/hostname": name}, {**_amounts(row), "pods": _MAX_PODS}
    if gpus:
        amounts[_GPU] = str(gpus)
        if model:
            labels[_MODEL] = model
    status = {
        "capacity": amounts,
        "allocatable": amounts,
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    metadata = {**_metadata(name, 0), "labels": labels}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}


def _pod(row: Row) -> Object:
    name, gpus = _text(row, "name"), _number(row, "num_gpu")
    created = _number(row, "creation_time") if "creation_time" in row else 0
    metadata = {**_metadata(name, created), "namespace": _TRACE_NAMESPACE}
    if "qos" in row:
        metadata["labels"] = {"qos": row["qos"] or ""}
    resources: Object = {"requests": _amounts(row)}
    if gpus:
        resources["requests"][_GPU] = str(gpus)
        resources["limits"] = {_GPU: str(gpus)}
        metadata["annotations"] = {_GPU_PART: str(_number(row, "gpu_milli"))}
    spec: Object = {"containers": [{"name": "main", "image": "openb", "resources": resources}]}
    if spec_of_card := row.get("gpu_spec"):
        models = spec_of_card.split("|")
        term = {"matchExpressions": [{"key": _MODEL, "operator": "In", "values": models}]}
        required = {"nodeSelectorTerms": [term]}
        spec["affinity"] = {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}
        }
    status = {"phase": "Pending"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def _metadata(name: str, seconds: int) -> Object:
    try:
        created = _START + timedelta(seconds=seconds)
    except OverflowError:
        raise _RowError(f"`{seconds}` seconds are too many") from None
    return {
        "name": name,
        "uid": f"openb/{name}",
        "creationTimestamp": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


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
        raise _RowError(f"`{column}` is `{text}`, not a whole number")
    return int(text)
