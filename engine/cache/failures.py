"""Failures: the last pods of each controller that failed, after they are deleted as well.

A Failures belongs to the cache and lives as long as it does. A pod that was deleted before is not
known to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from engine.objects.failed_pod import FailedPod, PodFailure
from engine.objects.remembered import Remembered
from grammar.values.time import SECOND

# How long a failure counts, in nanoseconds, and how many there are of one controller.
_LASTING = 3600 * SECOND
MOST = 10
# The bytes of all: of some 20,000 controllers with a failure each.
_MOST_BYTES = 16 << 20

KnownFailures = Mapping[str, tuple[FailedPod, ...]]


class Failures:
    """The failed pods of controllers."""

    def __init__(self) -> None:
        self._known: Remembered[str, tuple[FailedPod, ...]] = Remembered(_MOST_BYTES)
        self._shown: KnownFailures | None = None

    def put(self, pod: FailedPod) -> bool:
        """Takes a failed pod. Returns whether it is among the last of its controller now."""
        if self.holds(pod):
            return False
        others = (e for e in self._known.get(pod.controller) or () if e.uid != pod.uid)
        latest = sorted([*others, pod], key=_when, reverse=True)[:MOST]
        self._known.put(pod.controller, tuple(latest))
        self._shown = None
        return True

    def holds(self, pod: FailedPod) -> bool:
        """Whether nothing is to be learned of a failed pod."""
        known = self._known.peek(pod.controller) or ()
        is_late = len(known) == MOST and _when(pod) <= _when(known[-1])
        return not pod.controller or not pod.failure.node or pod in known or is_late

    def by_controller(self) -> KnownFailures:
        """The failed pods by the uid of their direct controller, the latest first.

        A change makes another mapping.
        """
        if self._shown is None:
            self._shown = {uid: self._known.peek(uid) or () for uid in self._known}
        return self._shown


def lately(failed: Sequence[FailedPod], now: int) -> tuple[PodFailure, ...]:
    """Those of some failures that count at a moment, in nanoseconds."""
    return tuple(each.failure for each in failed if _when(each) > now - _LASTING)


def _when(pod: FailedPod) -> int:
    return int(pod.failure.time.nanos)
