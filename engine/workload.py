"""The controller that a pod comes from."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from engine.slim import OwnerReference


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
