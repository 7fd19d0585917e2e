"""List of the pods to schedule of a file or a request, also of those of workloads.

It is read once, and policies do not change it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from engine.cache.cluster_file import ClusterFileError
from engine.cache.pod_manifests import DEFAULT_NAMESPACE, expanded, objects
from engine.objects.api_types import mappings
from engine.objects.eligibility import NOT_LOOKED_AT
from engine.objects.peer import ENDED
from engine.objects.workload_pods import (
    ANY_CLUSTER,
    MOST_PODS,
    ClusterDefaults,
    KnownUid,
    WorkloadPods,
    default_pod,
    defaults_in,
    is_workload,
    nothing_known,
)
from grammar.messages.texts import counted, shown

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PodList:
    """The JSON of each pod by `namespace/name`, in order, and notes about what is left out.

    `file` is where they come from. `owners` are the workloads there. `daemons` are the keys of pods
    that stand for one on each node.
    """

    file: Path
    bodies: Mapping[str, bytes]
    notes: tuple[str, ...] = ()
    owners: Sequence[Object] = ()
    daemons: Collection[str] = ()


@dataclass(slots=True)
class PodReader:
    """What was read so far, and the numbers of skipped objects and of ignored constraints.

    `defaults` is what the cluster gives to new pods.
    """

    file: Path
    namespace: str = DEFAULT_NAMESPACE
    most: int = MOST_PODS
    defaults: ClusterDefaults = ANY_CLUSTER
    bodies: dict[str, bytes] = field(default_factory=dict)
    owners: list[Object] = field(default_factory=list)
    daemons: set[str] = field(default_factory=set)
    workloads: int = 0
    others: int = 0
    ended: int = 0
    ignored: Counter[str] = field(default_factory=Counter)

    def add(self, item: Object) -> None:
        """Adds an object. Raises ClusterFileError for one that is not an API object."""
        if not isinstance(item.get("kind"), str):
            raise ClusterFileError(f"`{self.file}` is not a list of pods", hint(self.file))
        if item["kind"] != "Pod":
            self.others += 1
            return
        metadata, spec, status = (item.get(part) or {} for part in ("metadata", "spec", "status"))
        if not all(isinstance(part, dict) for part in (metadata, spec, status)):
            message = f"`metadata`, `spec` or `status` of a pod in `{self.file}` is not an object"
            raise ClusterFileError(message, hint(self.file))
        if not isinstance(metadata.get("name"), str):
            message = f"a pod in `{self.file}` has no name"
            raise ClusterFileError(message, "give each pod a `metadata.name`")
        if status.get("phase") in ENDED or metadata.get("deletionTimestamp") is not None:
            self.ended += 1
            return
        namespace = metadata.get("namespace") or self.namespace
        key = f"{namespace}/{metadata['name']}"
        if key in self.bodies:
            message = f"`{self.file}` has two pods `{key}`"
            raise ClusterFileError(message, "give each pod a name of its own")
        if len(self.bodies) >= self.most:
            raise _too_many(self.file, self.most)
        # The pod as the API server has it right after its creation.
        created = {
            **item,
            "metadata": {**metadata, "namespace": namespace, "uid": metadata.get("uid") or key},
            "spec": {k: v for k, v in spec.items() if k != "nodeName"},
            "status": {},
        }
        default_pod(created, self.defaults)
        self.bodies[key] = msgspec.json.encode(created)
        self.ignored.update({name for name, has in _IGNORED.items() if has(spec)})

    def read(self) -> PodList:
        """What was read."""
        notes, daemons = tuple(self._notes()), frozenset(self.daemons)
        return PodList(self.file, self.bodies, notes, self.owners, daemons)

    def _notes(self) -> Iterator[str]:
        if self.others:
            one, many = "object that is not a pod", "objects that are not pods"
            if self.workloads:
                one, many = "object without pods", "objects without pods"
            others = counted(self.others, one, many)
            yield f"skipped {others}"
        if self.ended:
            yield f"skipped {_ended(self.ended)}"
        if self.ignored:
            counts = ", ".join(
                f"{n} ({counted(c, 'pod')})" for n, c in sorted(self.ignored.items())
            )
            yield f"the model ignores constraints of some pods: {counts}"


def pods_in(
    contents: Sequence[bytes], reader: PodReader, known: KnownUid = nothing_known
) -> PodList:
    """The pods of JSON documents that have not ended, as the API server would have stored them.

    Those of workloads are among them; workloads that are in the cluster keep their uids, which
    `known` tells. Raises ClusterFileError.
    """
    file, found = reader.file, list[tuple[Object, WorkloadPods | None]]()
    left, reader.defaults = reader.most, defaults_in(contents, reader.defaults)
    for item in objects(contents, file, hint(file)):
        if not is_workload(item):
            found.append((item, None))
            continue
        made = expanded(item, file, reader.namespace, known, reader.most)
        found += [(pod, made) for pod in made.pods]
        reader.workloads += 1
        reader.owners.extend(made.controllers)
        if (left := left - len(made.pods)) < 0:
            raise _too_many(file, reader.most)
    for item, workload in found:
        reader.add(item)
        if workload is not None and workload.of_each_node:
            reader.daemons.add(f"{workload.namespace}/{item['metadata']['name']}")
    if not reader.bodies:
        kinds = ", ".join(sorted({str(item["kind"]) for item, _ in found} - {"Pod"}))
        why = f"of {shown(kinds)} no pods are known" if kinds else ""
        why = _ended(reader.ended) if reader.ended else why
        text = f"there are no pods to schedule in `{file}`{': ' * bool(why)}{why}"
        raise ClusterFileError(text, hint(file))
    return reader.read()


def hint(file: Path) -> str:
    """How to write such a file."""
    return f"write one with `kubectl get pods -A -o json > {file.with_suffix('.json')}`"


def _too_many(file: Path, most: int) -> ClusterFileError:
    return ClusterFileError(f"`{file}` has more than {most} pods", "ask about a part of them")


def _ended(count: int) -> str:
    one = "pod that has ended or is being deleted"
    return counted(count, one, "pods that have ended or are being deleted")


# ---- constraints that the model ignores; a wrong type is an error when the pod is decoded


_IGNORED: Mapping[str, Callable[[Object], bool]] = {
    **NOT_LOOKED_AT,
    "host ports": lambda spec: any(
        port.get("hostPort")
        for container in mappings(spec, "containers")
        for port in mappings(container, "ports")
    ),
}
