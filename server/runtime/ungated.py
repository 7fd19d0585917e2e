"""Ungated pods: created without the marker, so kube-scheduler does not ask about them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from engine.counting.in_flight_pods import Schedulers
from engine.objects.peer import Peer
from engine.objects.request_pod import Exemptions
from grammar.values.time import SECOND, Timestamp

# There is no event about a pod that is older than this when a watch first shows it: after a start,
# or with the first use of the gate, these are all pods.
_NEW_SECONDS = 60.0
_MOST_NEW = 1000


class UngatedPods:
    """The pods that are ungated, and the new ones among them. On one event loop."""

    def __init__(
        self,
        schedulers: Schedulers,
        exemptions: Callable[[], Exemptions],
        now: Callable[[], Timestamp] = Timestamp.now,
    ) -> None:
        self._schedulers = schedulers
        self._exemptions = exemptions
        self._now = now
        self._new: deque[Peer] = deque(maxlen=_MOST_NEW)

    @property
    def exemptions(self) -> Exemptions:
        """No policy decides about these pods, so they need no marker."""
        return self._exemptions()

    def among(self, selects: Callable[[Peer], bool]) -> Callable[[Peer], bool]:
        """Whether a pod is ungated, and selected."""
        pass_by, exempts = self._schedulers.pass_by, self.exemptions.exempts
        return lambda pod: pass_by(pod) and selects(pod) and not exempts(pod)

    def pod_changed(self, old: Peer | None, new: Peer | None, _revision: int) -> None:
        """Takes a change of the cache."""
        if old is not None or new is None or new.created is None:
            return
        age = (self._now().nanos - new.created.nanos) / SECOND
        if age < _NEW_SECONDS and self.among(lambda _: True)(new):
            self._new.append(new)

    def take_new(self) -> Sequence[Peer]:
        """The new ungated pods since the last call; of too many, the last ones."""
        found = list(self._new)
        self._new.clear()
        return found
