"""PodFailure: a pod that ended with the phase Failed, as later pods of its controller see it."""

from __future__ import annotations

import msgspec

from engine.objects.api_types import PodStatus
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


def how_it_ended(status: PodStatus) -> tuple[Timestamp | None, str]:
    """When a pod ended, None if nobody knows, and why.

    It did when its last container ended, or else when a condition of it changed last. The reason is
    that of the pod, such as `Evicted`, or else of the container that ended last without success,
    such as `OOMKilled`.
    """
    containers = (*(status.initContainerStatuses or ()), *(status.containerStatuses or ()))
    states = (each.state.terminated for each in containers if each.state is not None)
    ends = [(each.finishedAt, each.reason or "") for each in states if each and each.finishedAt]
    ends.sort(key=lambda end: (end[0].nanos, end[1]))
    changes = (each.lastTransitionTime for each in status.conditions or ())
    times = [at for at, _ in ends] or [at for at in (*changes, status.startTime) if at]
    reasons = [reason for _, reason in ends if reason not in _FINE]
    reason = status.reason or (reasons[-1] if reasons else "")
    return max(times, key=lambda at: at.nanos, default=None), reason[:_LONGEST_REASON]
