"""Inputs: the cluster and the pods of a simulation, read from files.

The files are what kubectl wrote, or CSV files of the openb trace. They are read once; `prepare`
makes a simulation from them for each set of policies.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import cached_property
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from cli.command import CommandError
from engine.cache.cluster_copy import ClusterDocuments, read_documents
from engine.cache.cluster_file import ClusterFileError, documents, workload_uids
from engine.cache.node_table import NodeWithPods
from engine.cache.pod_manifests import DEFAULT_NAMESPACE, expanded, objects, stored
from engine.enforced import EnforcedPolicies
from engine.errors import BadObjectError
from engine.objects.api_types import mapping, mappings
from engine.objects.codec import ObjectCodec
from engine.objects.eligibility import ineligible
from engine.objects.peer import ENDED, decode_controller
from engine.objects.resources import CPU
from engine.objects.workload_pods import WorkloadPods, is_workload, pinned
from engine.offline import offline_engine
from engine.simulation.cycle import SimulatedClock, Simulation, Waiting, grown, shuffled, waiting
from engine.simulation.node_resources import NodeResources
from grammar.meaning.schema import Schema
from grammar.messages.texts import counted, os_reason

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PodFile:
    """The JSON of each pod by `namespace/name`, in order, and notes about the file.

    `owners` are the workloads of the file. `daemons` are the keys of pods that stand for one on
    each node.
    """

    file: Path
    bodies: Mapping[str, bytes]
    notes: tuple[str, ...]
    owners: Sequence[Object] = ()
    daemons: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class Inputs:
    """The documents of the cluster and the pods to schedule: all that policies do not change."""

    cluster: ClusterDocuments
    pods: PodFile


def read_inputs(cluster: Sequence[Path], pods: Path, namespace: str = DEFAULT_NAMESPACE) -> Inputs:
    """Raises CommandError for files that cannot be read; see `read_pods`."""
    read = read_documents(cluster, lambda f: [trace_nodes(f)] if is_trace(f) else documents(f))
    return Inputs(read, read_pods(pods, read, namespace))


def pending_pods(cluster: ClusterDocuments, namespace: str, name: str) -> PodFile:
    """The pending pods of a running cluster, of one namespace or of all.

    `name` is that of the cluster. Raises CommandError without any.
    """
    pods = _PodsRead()
    for document in (d for _, d in cluster.contents):
        listed = msgspec.json.decode(document)
        if listed.get("kind") != "PodList":
            continue
        for item in listed["items"]:
            here = namespace in ("", item["metadata"].get("namespace"))
            if here and not (item.get("spec") or {}).get("nodeName"):
                _add({**item, "kind": "Pod"}, Path(name), DEFAULT_NAMESPACE, pods)
    if not pods.bodies:
        where = f"in the namespace `{namespace}`" if namespace else "in any namespace"
        hint = "give the pods with --pods FILE, or other namespaces with -n or -A"
        raise CommandError(f"no pod is pending {where} of `{name}`", hint)
    return PodFile(Path(name), pods.bodies, tuple(_notes(pods)))


@dataclass(frozen=True, slots=True)
class SimulationOptions:
    """What a simulation does beside kube-scheduler's usual way, with chances from the seed.

    `grow` is a part of what the nodes have of `resource`: clones of pods come until all together
    request it. `plugins` says whether the score of kube-scheduler's plugin counts. Nodes need not
    have room for `ignored` resources. `preempts`: pods of lower priority are evicted.
    """

    weight: int = 1
    plugins: bool = True
    random_ties: bool = False
    shuffle: bool = False
    resource: str = CPU
    grow: Fraction | None = None
    ignored: tuple[str, ...] = ()
    preempts: bool = False

    @property
    def draws(self) -> bool:
        """Whether chance decides something."""
        return self.random_ties or self.shuffle or self.grow is not None


def prepare(
    inputs: Inputs,
    read: EnforcedPolicies,
    schema: Schema,
    conditions: SimulationOptions,
    seed: int = 0,
) -> Simulation:
    """A simulation with a cluster of its own, because it changes the cluster.

    Raises CommandError for an invalid snapshot and invalid pods.
    """
    codec = ObjectCodec(schema, read.needs.annotations)
    cluster = inputs.cluster.cluster(codec)
    for owner in inputs.pods.owners:
        controller = decode_controller(owner["kind"], msgspec.json.encode(owner))
        cluster.pods.put_controller(controller)
    pods = _waiting(inputs.pods, codec, cluster.snapshot().nodes)
    # Order and ties have a source each, so that the same pods come under both rules of ties.
    order = Random(f"{seed}/order")  # noqa: S311 (a simulation, not a secret)
    if conditions.shuffle:
        pods = shuffled(pods, order)
    clock = SimulatedClock()
    made = offline_engine(read.registry, cluster, codec, clock=clock)
    if read.registry.cards:
        pods = [replace(each, cards=made.cards.demand(each.body)) for each in pods]
    resource = conditions.resource
    if conditions.grow is not None:
        views = list(cluster.pods.snapshot().nodes.values())
        nodes = NodeResources(views, cards=made.cards.sums(views))
        try:
            most = int(nodes.allocatable(resource) * conditions.grow)
            pods = grown(pods, order, codec, resource, most)
        except ValueError as error:
            hint = f"name a resource that pods of `{inputs.pods.file}` request"
            raise CommandError(str(error), hint) from None
    # Results must not depend on how the nodes of a cluster happen to be named, so --shuffle draws
    # their order too. It has a source of its own: its draws must not change the pods.
    nodes_order = Random(f"{seed}/nodes") if conditions.shuffle else None  # noqa: S311 (as above)
    ties = Random(f"{seed}/ties") if conditions.random_ties else None  # noqa: S311 (as above)
    return Simulation(
        made,
        cluster.pods,
        pods,
        weight=conditions.weight,
        plugins=conditions.plugins,
        ties=ties,
        order=nodes_order,
        ignored=conditions.ignored,
        preempts=conditions.preempts,
        clock=clock,
    )


def _waiting(
    pods: PodFile, codec: ObjectCodec, nodes: Mapping[str, NodeWithPods]
) -> Sequence[Waiting]:
    found: list[Waiting] = []
    for key, body in pods.bodies.items():
        try:
            each = waiting(body, codec)
            if key in pods.daemons:
                found.extend(_daemons(each, codec, nodes))
            else:
                found.append(each)
        except BadObjectError as error:
            message = f"pod `{key}` in `{pods.file}` cannot be read: {error}"
            raise CommandError(message, "correct the pod") from None
    return found


def _daemons(
    pod: Waiting, codec: ObjectCodec, nodes: Mapping[str, NodeWithPods]
) -> Iterator[Waiting]:
    """The pods of a DaemonSet, which creates them only where they could ever run."""
    body = msgspec.json.decode(pod.body)
    for name, node in sorted(nodes.items()):
        if not ineligible(pod.pod, node):
            yield waiting(msgspec.json.encode(pinned(body, name)), codec)


# ---- pods to schedule


@dataclass(slots=True)
class _PodsRead:
    """What was read so far, and the numbers of skipped objects and of ignored constraints."""

    bodies: dict[str, bytes] = field(default_factory=dict)
    owners: list[Object] = field(default_factory=list)
    daemons: set[str] = field(default_factory=set)
    workloads: int = 0
    others: int = 0
    ended: int = 0
    ignored: Counter[str] = field(default_factory=Counter)


def read_pods(
    file: Path, cluster: ClusterDocuments | None = None, namespace: str = DEFAULT_NAMESPACE
) -> PodFile:
    """The pods of a file that have not ended, as they were before they had a node.

    Those of its workloads are among them; workloads that are in the cluster keep their uids.
    `namespace` is that of objects without one. Raises CommandError.
    """
    pods, uids = _PodsRead(), Uids(cluster)
    try:
        contents = [trace_pods(file)] if is_trace(file) else list(documents(file))
        found: list[Object | WorkloadPods] = [
            expanded(item, file, namespace, uids.known) if is_workload(item) else item
            for item in objects(contents, file, _hint(file))
        ]
        made = [each for each in found if isinstance(each, WorkloadPods)]
        # All at once: for that, the whole file is looked at.
        every = iter(stored([pod for each in made for pod in each.pods], contents))
        for each in found:
            if not isinstance(each, WorkloadPods):
                _add(each, file, namespace, pods)
                continue
            pods.workloads += 1
            pods.owners.extend(each.controllers)
            for pod in islice(every, len(each.pods)):
                _add(pod, file, namespace, pods)
                if each.of_each_node:
                    pods.daemons.add(f"{each.namespace}/{pod['metadata']['name']}")
    except ClusterFileError as error:
        raise CommandError(error.message, error.hint or _hint(file)) from None
    if not pods.bodies:
        ended = f": {_ended(pods.ended)}" if pods.ended else ""
        raise CommandError(f"there are no pods to schedule in `{file}`{ended}", _hint(file))
    return PodFile(file, pods.bodies, tuple(_notes(pods)), pods.owners, frozenset(pods.daemons))


class Uids:
    """The uids of the workloads of a cluster, which is read when the first is asked for."""

    def __init__(self, cluster: ClusterDocuments | None) -> None:
        self._cluster = cluster

    @cached_property
    def _known(self) -> Mapping[tuple[str, str], str]:
        if self._cluster is None:
            return {}
        return workload_uids([document for _, document in self._cluster.contents])

    def known(self, kind: str, key: str) -> str | None:
        return self._known.get((kind, key))


def _add(item: Object, file: Path, default: str, pods: _PodsRead) -> None:
    """Adds an object to the pods. Raises CommandError for one that is not an API object."""
    if not isinstance(item.get("kind"), str):
        raise CommandError(f"`{file}` is not a list of pods", _hint(file))
    if item["kind"] != "Pod":
        pods.others += 1
        return
    metadata, spec, status = (item.get(part) or {} for part in ("metadata", "spec", "status"))
    if not all(isinstance(part, dict) for part in (metadata, spec, status)):
        message = f"`metadata`, `spec` or `status` of a pod in `{file}` is not an object"
        raise CommandError(message, _hint(file))
    if not isinstance(metadata.get("name"), str):
        raise CommandError(f"a pod in `{file}` has no name", "give each pod a `metadata.name`")
    if status.get("phase") in ENDED or metadata.get("deletionTimestamp") is not None:
        pods.ended += 1
        return
    namespace = metadata.get("namespace") or default
    key = f"{namespace}/{metadata['name']}"
    if key in pods.bodies:
        raise CommandError(f"`{file}` has two pods `{key}`", "give each pod a name of its own")
    # The pod as the API server has it right after its creation.
    created = {
        **item,
        "metadata": {**metadata, "namespace": namespace, "uid": metadata.get("uid") or key},
        "spec": {k: v for k, v in spec.items() if k != "nodeName"},
        "status": {"phase": "Pending"},
    }
    pods.bodies[key] = msgspec.json.encode(created)
    pods.ignored.update({name for name, has in _IGNORED.items() if has(spec)})


def _notes(pods: _PodsRead) -> Iterator[str]:
    if pods.others:
        one, many = "object that is not a pod", "objects that are not pods"
        if pods.workloads:
            one, many = "object without pods", "objects without pods"
        others = counted(pods.others, one, many)
        yield f"skipped {others}"
    if pods.ended:
        yield f"skipped {_ended(pods.ended)}"
    if pods.ignored:
        counts = ", ".join(f"{n} ({counted(c, 'pod')})" for n, c in sorted(pods.ignored.items()))
        yield f"the model ignores constraints of some pods: {counts}"


def _ended(count: int) -> str:
    one = "pod that has ended or is being deleted"
    return counted(count, one, "pods that have ended or are being deleted")


def _hint(file: Path) -> str:
    return f"write one with `kubectl get pods -A -o json > {file.with_suffix('.json')}`"


# ---- constraints that the model ignores; a wrong type is an error when the pod is decoded


def _requires(affinity: str) -> Callable[[Object], bool]:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    return lambda spec: bool(mapping(mapping(spec, "affinity"), affinity).get(required))


def _has_spread(spec: Object) -> bool:
    constraints = mappings(spec, "topologySpreadConstraints")
    return any(c.get("whenUnsatisfiable") == "DoNotSchedule" for c in constraints)


def _has_host_port(spec: Object) -> bool:
    ports = (port for c in mappings(spec, "containers") for port in mappings(c, "ports"))
    return any(port.get("hostPort") for port in ports)


def _has_claim(spec: Object) -> bool:
    return any(v.get("persistentVolumeClaim") for v in mappings(spec, "volumes"))


_IGNORED: Mapping[str, Callable[[Object], bool]] = {
    "pod affinity": _requires("podAffinity"),
    "pod anti-affinity": _requires("podAntiAffinity"),
    "topology spread": _has_spread,
    "host ports": _has_host_port,
    "volume claims": _has_claim,
    "resource claims": lambda spec: bool(spec.get("resourceClaims")),
}


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
        raise CommandError(f"cannot read `{file}`: {os_reason(error)}", "check the path") from None
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
