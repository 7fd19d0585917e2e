"""EndedPods: pods that have ended, for an hour, for rules that count them or read of failures.

The API server deletes many of them sooner: a Job's own time may be over, and a node that ran out of
memory has its pods replaced. They belong to a cache and live as long as it does. Their number and
their bytes have a bound; the ones that came first go first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from engine.cache.tallies import AddsUntil, Scope, Tallies
from engine.objects.peer import FAILED, Peer, PodFailure, key_of
from engine.objects.remembered import bytes_of
from grammar.values.time import NEVER, SECOND, Timestamp

# For so long a pod counts after it has ended.
KEPT_NANOS = 3600 * SECOND
_MOST, MOST_BYTES = 20_000, 32 << 20
# So many failures of one controller are known.
MOST_FAILURES = 10
# The last failed pods by the uid of their direct controller, the latest first.
KnownFailures = Mapping[str, tuple[Peer, ...]]


class EndedPods:
    """The pods that have ended lately, in the order in which they were seen."""

    def __init__(self) -> None:
        # By uid: another pod may have the same name by now.
        self._pods: dict[str, Peer] = {}
        self._sizes: dict[str, int] = {}
        self._bytes = 0
        self._spaces: dict[str, dict[str, Peer]] = {}
        self.tallies = Tallies(self._spaces)
        self._last = 0
        self._failed: dict[str, tuple[Peer, ...]] = {}
        self._shown: KnownFailures | None = None

    def put(self, pod: Peer) -> None:
        """Takes a pod that has ended, or what is known of it now."""
        if self._pods.get(pod.uid) == pod:
            return
        self._remove(pod.uid)
        ended = until(pod) - KEPT_NANOS
        if pod.ended is not None:
            self._last = max(self._last, ended)
        if ended < self._last - KEPT_NANOS:
            return
        self._pods[pod.uid], size = pod, bytes_of(pod)
        self._sizes[pod.uid] = size
        self._bytes += size
        self._spaces.setdefault(pod.namespace, {})[pod.uid] = pod
        self.tallies.arrives(pod.uid, pod)
        if pod.phase == FAILED and pod.nodeName:
            self._fail(pod.controller, pod)
        while self._is_full() or until(next(iter(self._pods.values()))) < self._last:
            self._remove(next(iter(self._pods)))

    def holds(self, pod: Peer) -> bool:
        """Whether this state of the pod is remembered, or is too old to be."""
        return self._pods.get(pod.uid) == pod or until(pod) < self._last

    def _is_full(self) -> bool:
        return len(self._pods) > 1 and (len(self._pods) > _MOST or self._bytes > MOST_BYTES)

    def _remove(self, uid: str) -> None:
        if (pod := self._pods.pop(uid, None)) is None:
            return
        self._bytes -= self._sizes.pop(uid)
        space = self._spaces[pod.namespace]
        del space[uid]
        if not space:
            del self._spaces[pod.namespace]
        self.tallies.leaves(uid, pod)
        if pod in self._failed.get(pod.controller, ()):
            self._fail(pod.controller, without=pod)

    def _fail(self, controller: str, *more: Peer, without: Peer | None = None) -> None:
        known = [pod for pod in self._failed.pop(controller, ()) if pod is not without]
        latest = sorted([*known, *more], key=failed_at, reverse=True)[:MOST_FAILURES]
        if controller and latest:
            self._failed[controller] = tuple(latest)
        self._shown = None

    def failures(self) -> KnownFailures:
        """The last failures of each controller. A change makes another mapping."""
        if self._shown is None:
            self._shown = self._failed.copy()
        return self._shown

    def within(self, scope: Scope) -> Iterator[tuple[str, Peer]]:
        """The pods of a scope, by `namespace/name`, as they are now."""
        found = [pod for pod in self._pods.values() if scope.holds(pod)]
        return ((key_of(pod), pod) for pod in found)


def for_an_hour(adds: AddsUntil, now: int) -> AddsUntil:
    """The same of pods that have ended, which add something for an hour."""

    def adds_for_an_hour(pod: Peer) -> tuple[int, int]:
        over = until(pod)
        if over <= now:
            return 0, NEVER
        amount, moment = adds(pod)
        return amount, min(moment, over)

    return adds_for_an_hour


def until(pod: Peer) -> int:
    """The moment from which on a pod that has ended does not count, in nanoseconds."""
    return NEVER if pod.ended is None else pod.ended.nanos + KEPT_NANOS


def lately(failed: Sequence[Peer], now: int) -> tuple[PodFailure, ...]:
    """Those of some failures that count at a moment, in nanoseconds."""
    times = ((pod, failed_at(pod)) for pod in failed)
    return tuple(
        PodFailure(pod.name, pod.nodeName, at, pod.reason)
        for pod, at in times
        if at.nanos > now - KEPT_NANOS
    )


def failed_at(pod: Peer) -> Timestamp:
    """The time of a failure: when the pod came, if nobody knows when it ended."""
    return pod.ended or pod.created or Timestamp.ZERO
