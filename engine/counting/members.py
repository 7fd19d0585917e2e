"""Members: the pods that a clause or a named count counts, and the pod in question.

A PodCounter makes them. They live as long as one call, and their functions as long as a tally.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Literal, NamedTuple, Protocol

import msgspec

from engine.cache.tallies import Adds, MayCount, Scope
from engine.counting.groups import KeptCounts
from engine.counting.in_flight_pods import GroupIds
from engine.objects.peer import Peer, Workload
from engine.objects.request_pod import RequestPod
from engine.program.frame import Frame, Report
from engine.program.policy_time import CallTime
from grammar.tree.clause_parts import PodState

# Both have labels, a namespace and a deletion timestamp.
CountedPod = Peer | RequestPod


def _exempts_none(_: Peer) -> bool:
    return False


class PodChange(NamedTuple):
    """A pod that counts otherwise than the cache has it on a node.

    In each of the groups it adds `high` to the pods that may be there, `low` to those that are.
    """

    pod: Peer
    groups: GroupIds
    high: int
    low: int


# How a pod is in a group: on a node of it for certain, or it may end there. A pod that is `guessed`
# is on the node, but nobody knows on which of its cards.
Presence = Literal["bound", "guessed", "in flight", "nominated"]
PRESENCES: tuple[Presence, ...] = ("bound", "guessed", "in flight", "nominated")


class Counted(Protocol):
    """A thing that is counted, a clause or a named count, with what is kept between calls.

    `pod_values` are the values that are read of a known pod, and `kept` what tallies had in its
    groups.
    """

    @property
    def pod_values(self) -> Hashable | None: ...
    @property
    def kept(self) -> KeptCounts: ...


class PodInGroup(NamedTuple):
    """A pod that a clause counts, by `namespace/name`, and how it is in its group."""

    key: str
    presence: Presence


class CountContext(msgspec.Struct, frozen=True, eq=False):
    """The context of a count: the pod in question, and what rules about peers read of it.

    `peer` decodes the pod as other pods see it (BadObjectError). `root` is its root controller,
    None if not known. `shape` identifies all that rules read of the pod; `frame` may be of another
    pod of that shape, and nothing but counting uses it. `report` is told of pods without an amount,
    also later, by tallies. `exempts` says which pods no policy governs.
    """

    pod: RequestPod
    peer: Callable[[], Peer]
    frame: Frame
    time: CallTime
    root: Workload | None
    shape: Hashable
    report: Report
    exempts: Callable[[Peer], bool] = _exempts_none


class Membership(NamedTuple):
    """A membership: the pods that a clause counts.

    `counts` tests a pod, or gives its part of a sum. `scope` is where the pods can be (None: only
    the pod in question), and `name` identifies the function for tallies (None: do not keep).
    `by_labels` is the same function where labels are enough to tell, else None. `may_count` tells
    the same of all pods of a workload with the same labels; None where that cannot be told.
    `of_pod` is the part of the name that the pod in question has.
    """

    counts: Adds
    scope: Scope | None
    name: Hashable
    by_labels: Callable[[CountedPod], bool] | None
    may_count: MayCount | None = None
    of_pod: Hashable = None

    def inside(self, pod: Peer) -> int:
        """What a pod adds, wherever it is."""
        return self.counts(pod) if self.scope is not None and self.scope.holds(pod) else 0


def is_in(pod: CountedPod, state: PodState) -> bool:
    """Whether a pod is in a state."""
    if state == "ended" or not isinstance(pod, Peer):
        return state == "ended"
    if pod.deletionTimestamp is not None:
        return False
    return pod.ready if state == "ready" else not pod.nodeName and not pod.is_gated
