"""The controller that a pod comes from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from engine.objects.api_types import Metadata, OwnerReference
from engine.objects.decoding import JsonInt, ObjectDecoder


class Workload(msgspec.Struct, frozen=True, gc=False):
    """A controller of pods; two pods belong together if their workloads have the same uid.

    `replicas` is how many pods it wants, None where that is not known. A pod itself names only its
    direct controller, a ReplicaSet for one: who knows the ReplicaSets replaces it with the root.
    """

    kind: str
    name: str
    uid: str
    replicas: int | None = None


def workload_of(owners: Iterable[OwnerReference]) -> Workload | None:
    """The direct controller among an object's owners; the API server allows one."""
    for owner in owners:
        if owner.controller:
            return Workload(owner.kind or "", owner.name or "", owner.uid or "")
    return None


# ---- Controllers of pods, and the one at the root of each: the Deployment of a ReplicaSet.

# How many pods a kind wants when its object does not say: the API's own default. No other kind
# ever says.
_DEFAULT_REPLICAS = {"Deployment": 1, "ReplicaSet": 1, "StatefulSet": 1, "Job": 1}


class Controller(msgspec.Struct, frozen=True, gc=False):
    """A controller as a workload, and the controller that it belongs to itself."""

    workload: Workload
    owner: Workload | None


class _Spec(msgspec.Struct, frozen=True, gc=False):
    replicas: JsonInt | None = None
    parallelism: JsonInt | None = None


class _SlimController(msgspec.Struct, frozen=True, gc=False):
    metadata: Metadata | None = None
    spec: _Spec | None = None


class ControllerDecoder:
    """Decodes Deployments, ReplicaSets, StatefulSets, DaemonSets and Jobs."""

    def __init__(self) -> None:
        self._decoder = ObjectDecoder("controller", _SlimController)

    def decode(self, kind: str, data: bytes | msgspec.Raw) -> Controller:
        """The controller of an object's JSON. Raises BadObjectError, naming the path."""
        slim = self._decoder.decode(data)
        metadata, spec = slim.metadata or Metadata(), slim.spec or _Spec()
        wanted = spec.parallelism if kind == "Job" else spec.replicas
        if wanted is None or kind not in _DEFAULT_REPLICAS:
            wanted = _DEFAULT_REPLICAS.get(kind)
        workload = Workload(kind, metadata.name or "", metadata.uid or "", wanted)
        return Controller(workload, workload_of(metadata.ownerReferences or ()))


def roots(controllers: Iterable[Controller]) -> Mapping[str, Workload]:
    """The root controller's workload by the uid of each controller."""
    by_uid = {c.workload.uid: c for c in controllers}
    return {uid: root_of(controller, by_uid) for uid, controller in by_uid.items()}


def root_of(controller: Controller, known: Mapping[str, Controller]) -> Workload:
    """The workload at the root of a controller, given the controllers by uid.

    Only ReplicaSets are looked through: a Job of a CronJob stays a workload of its own, because the
    Job says how many pods it wants. An owner that is not known is a workload of unknown size.
    """
    owner = controller.owner
    if controller.workload.kind != "ReplicaSet" or owner is None:
        return controller.workload
    above = known.get(owner.uid)
    return above.workload if above is not None else owner


def bare(workload: Workload) -> Workload:
    """The workload without its number of pods, which changes without its pods."""
    return Workload(workload.kind, workload.name, workload.uid)
