"""The openb trace as Kubernetes objects: Alibaba's cluster-trace-gpu-v2023, nodes and pods in CSV.

A card is a whole one: Kubernetes knows no parts of an `nvidia.com/gpu`, so a pod that wants a part
of a card takes all of it, and says in an annotation how much it wanted.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from cli.command import CommandError
from cli.render import counted
from cli.world import Cluster, PodBodies, engine, read_policies
from engine.cache.cluster_file import ClusterFileError, ClusterFileReader, documents, files_of
from engine.cache.snapshot import ENDED
from engine.errors import BadObjectError
from engine.objects.codec import ObjectCodec
from engine.simulation.cycle import Simulation, Waiting, waiting
from grammar.schema import Schema

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


# ---- Pods to schedule, from what kubectl wrote or from a trace: as they were before they had
# nodes.

_NAMESPACE = "default"


@dataclass(frozen=True, slots=True)
class PodFile:
    """The JSON of each pod by `namespace/name`, in order, and sentences about what was read."""

    file: Path
    bodies: Mapping[str, bytes]
    notices: tuple[str, ...]


@dataclass(slots=True)
class _Found:
    """What there is so far; `beyond` counts the pods that want what the model leaves out."""

    bodies: dict[str, bytes] = field(default_factory=dict)
    others: int = 0
    gone: int = 0
    beyond: Counter[str] = field(default_factory=Counter)


def read_pods(file: Path) -> PodFile:
    """The pods of a file that still have to run, wherever they run now. Raises CommandError."""
    found = _Found()
    for item in _items(file):
        _take(item, file, found)
    if not found.bodies:
        gone = f": {_gone(found.gone)}" if found.gone else ""
        raise CommandError(f"there are no pods to schedule in `{file}`{gone}", _hint(file))
    return PodFile(file, found.bodies, tuple(_notices(found)))


def _items(file: Path) -> Iterator[Any]:
    """Every object, those of lists one by one."""
    try:
        contents = [pods(file)] if is_trace(file) else list(documents(file))
    except ClusterFileError as error:
        raise CommandError(error.message, _hint(file)) from None
    for content in contents:
        try:
            document = msgspec.json.decode(content)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise CommandError(f"`{file}` is not JSON: {error}", _hint(file)) from None
        inside = document.get("items") if isinstance(document, dict) else document
        if not isinstance(inside, list):
            yield document
            continue
        kind = (isinstance(document, dict) and document.get("kind")) or ""
        for item in inside:
            # The items of a PodList do not repeat what they are.
            known = isinstance(item, dict) and not item.get("kind") and kind == "PodList"
            yield {**item, "kind": "Pod"} if known else item


def _take(item: Any, file: Path, found: _Found) -> None:
    if not isinstance(item, dict) or not isinstance(item.get("kind"), str):
        raise CommandError(f"`{file}` is no list of pods", _hint(file))
    if item["kind"] != "Pod":
        found.others += 1
        return
    metadata, spec, status = (item.get(part) or {} for part in ("metadata", "spec", "status"))
    if not all(isinstance(part, dict) for part in (metadata, spec, status)):
        raise CommandError(f"a pod in `{file}` has a part that is no object", _hint(file))
    if not isinstance(metadata.get("name"), str):
        raise CommandError(f"a pod in `{file}` has no name", "give each pod a `metadata.name`")
    if status.get("phase") in ENDED or metadata.get("deletionTimestamp") is not None:
        found.gone += 1
        return
    key = f"{metadata.get('namespace') or _NAMESPACE}/{metadata['name']}"
    if key in found.bodies:
        raise CommandError(f"`{file}` has two pods `{key}`", "give each pod a name of its own")
    found.bodies[key] = _fresh(item, metadata, spec)
    found.beyond.update({what for what, wants in _BEYOND.items() if wants(spec)})


def _fresh(pod: Object, metadata: Object, spec: Object) -> bytes:
    """The pod as the API server would have it when it has just been made."""
    namespace = metadata.get("namespace") or _NAMESPACE
    uid = metadata.get("uid") or f"{namespace}/{metadata['name']}"
    named = {**metadata, "namespace": namespace, "uid": uid}
    unplaced = {k: v for k, v in spec.items() if k != "nodeName"}
    return msgspec.json.encode(
        {**pod, "metadata": named, "spec": unplaced, "status": {"phase": "Pending"}}
    )


def _notices(found: _Found) -> Iterator[str]:
    if found.others:
        others = counted(found.others, "object that is no pod", "objects that are no pods")
        yield f"skipped {others}"
    if found.gone:
        yield f"skipped {_gone(found.gone)}"
    if found.beyond:
        wanted = ", ".join(
            f"{what} ({counted(count, 'pod')})" for what, count in sorted(found.beyond.items())
        )
        yield f"the model leaves out what some pods ask for: {wanted}"


def _gone(count: int) -> str:
    one = "pod that has ended or is being deleted"
    return counted(count, one, "pods that have ended or are being deleted")


def _hint(file: Path) -> str:
    return f"write one with `kubectl get pods -A -o json > {file.with_suffix('.json')}`"


def _affinity(kind: str) -> Callable[[Object], bool]:
    def wants(spec: Object) -> bool:
        affinity = _part(spec, "affinity")
        return bool(_part(affinity, kind).get("requiredDuringSchedulingIgnoredDuringExecution"))

    return wants


def _spreads(spec: Object) -> bool:
    constraints = _parts(spec, "topologySpreadConstraints")
    return any(c.get("whenUnsatisfiable") == "DoNotSchedule" for c in constraints)


def _has_host_port(spec: Object) -> bool:
    ports = (port for c in _parts(spec, "containers") for port in _parts(c, "ports"))
    return any(port.get("hostPort") for port in ports)


def _has_claim(spec: Object) -> bool:
    return any(v.get("persistentVolumeClaim") for v in _parts(spec, "volumes"))


def _part(value: Object, name: str) -> Object:
    """What is of another type is told when the pod is decoded."""
    part = value.get(name)
    return part if isinstance(part, dict) else {}


def _parts(value: Object, name: str) -> list[Object]:
    parts = value.get(name)
    return [p for p in parts if isinstance(p, dict)] if isinstance(parts, list) else []


_BEYOND: Mapping[str, Callable[[Object], bool]] = {
    "pod affinity": _affinity("podAffinity"),
    "pod anti-affinity": _affinity("podAntiAffinity"),
    "topology spread": _spreads,
    "host ports": _has_host_port,
    "volume claims": _has_claim,
    "resource claims": lambda spec: bool(spec.get("resourceClaims")),
}


# ---- A simulation from files: the same cluster and the same pods, under one set of policies or
# two.


@dataclass(frozen=True, slots=True)
class Inputs:
    """What does not depend on policies: the cluster's documents, each with its file, and pods."""

    files: Sequence[Path]
    contents: Sequence[tuple[Path, bytes]]
    pods: PodFile


def read_inputs(cluster: Sequence[Path], pods: Path) -> Inputs:
    """Raises CommandError for files that cannot be read."""
    try:
        files = files_of(cluster)
        contents = [(file, document) for file in files for document in _documents(file)]
    except ClusterFileError as error:
        raise CommandError(error.message, error.hint) from None
    return Inputs(files, contents, read_pods(pods))


def prepare(inputs: Inputs, policies: Sequence[Path], schema: Schema, weight: int) -> Simulation:
    """Everything made anew: a simulation changes the cluster that it looks at.

    Raises CommandError for a snapshot that is none, pods that are none, and policies with errors.
    """
    read = read_policies(policies, schema)
    codec = ObjectCodec(schema, read.needs.annotations)
    try:
        reading = ClusterFileReader(codec).take(inputs.files, inputs.contents)
    except ClusterFileError as error:
        raise CommandError(error.message, error.hint) from None
    cluster = Cluster(reading.cache, PodBodies(()), inputs.files)
    decides = engine(read.registry, cluster, codec)
    return Simulation(decides, reading.cache, _waiting(inputs.pods, codec), weight=weight)


def _documents(file: Path) -> Sequence[bytes]:
    return [nodes(file)] if is_trace(file) else list(documents(file))


def _waiting(pods: PodFile, codec: ObjectCodec) -> Sequence[Waiting]:
    found = []
    for key, body in pods.bodies.items():
        try:
            found.append(waiting(body, codec))
        except BadObjectError as error:
            message = f"pod `{key}` in `{pods.file}` cannot be read: {error}"
            raise CommandError(message, "mend the pod") from None
    return found
