"""FailedPod: a pod that ended with the phase Failed, as later pods of its controller see it.

The pods of a cluster are watched without those that have ended. These come from another watch.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from engine.objects.api_types import ObjectCondition, ObjectMeta
from engine.objects.decoding import JsonTimestamp, ObjectDecoder
from engine.objects.peer import workload_of
from grammar.values.time import Timestamp

FAILED = "Failed"
# The longest reason that is kept; the API bounds the other texts.
_LONGEST_REASON = 128
# What is no reason to fail.
_FINE = frozenset({"", "Completed"})


class PodFailure(msgspec.Struct, frozen=True, gc=False):
    """A failed attempt as policies see it: attributes are the fields of the schema's Failure."""

    pod: str
    node: str
    time: Timestamp
    reason: str


class FailedPod(msgspec.Struct, frozen=True, gc=False):
    """A failure, and the uids of the pod and of its direct controller, empty without one."""

    uid: str
    controller: str
    failure: PodFailure


class _Ended(msgspec.Struct, frozen=True, gc=False):
    reason: str | None = None
    finishedAt: JsonTimestamp | None = None


class _State(msgspec.Struct, frozen=True, gc=False):
    terminated: _Ended | None = None


class _ContainerStatus(msgspec.Struct, frozen=True, gc=False):
    state: _State | None = None


class _FailedStatus(msgspec.Struct, frozen=True, gc=False):
    phase: str | None = None
    reason: str | None = None
    conditions: tuple[ObjectCondition, ...] | None = None
    containerStatuses: tuple[_ContainerStatus, ...] | None = None
    initContainerStatuses: tuple[_ContainerStatus, ...] | None = None


class _FailedSpec(msgspec.Struct, frozen=True, gc=False):
    nodeName: str | None = None


class _Pod(msgspec.Struct, frozen=True, gc=False):
    metadata: ObjectMeta | None = None
    spec: _FailedSpec | None = None
    status: _FailedStatus | None = None


_POD = ObjectDecoder("Pod", _Pod)


def decode_failed(data: bytes | msgspec.Raw) -> FailedPod | None:
    """The failure of a pod, None if its phase is not Failed. Raises BadObjectError.

    It failed when its last container ended, or else when its conditions changed last, or it was
    created. The reason is that of the pod, such as `Evicted`, or else of the container that ended
    last without success, such as `OOMKilled`.
    """
    pod = _POD.decode(data)
    meta, status = pod.metadata or ObjectMeta(), pod.status
    if status is None or status.phase != FAILED:
        return None
    ends = sorted((e.finishedAt.nanos, e.reason or "") for e in _ends(status) if e.finishedAt)
    changes = (each.lastTransitionTime for each in status.conditions or ())
    times = [at for at, _ in ends] or [at.nanos for at in (*changes, meta.creationTimestamp) if at]
    reasons = [reason for _, reason in ends if reason not in _FINE]
    reason = status.reason or (reasons[-1] if reasons else "")
    owner = workload_of(meta.ownerReferences or ())
    return FailedPod(
        meta.uid or "",
        owner.uid if owner is not None else "",
        PodFailure(
            meta.name or "",
            (pod.spec and pod.spec.nodeName) or "",
            Timestamp(max(times, default=0)),
            reason[:_LONGEST_REASON],
        ),
    )


def _ends(status: _FailedStatus) -> Iterator[_Ended]:
    for each in (*(status.initContainerStatuses or ()), *(status.containerStatuses or ())):
        if each.state is not None and each.state.terminated is not None:
            yield each.state.terminated
