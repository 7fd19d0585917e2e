"""How many of the pods that a clause counts are in each of its cells, for one request."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from copy import copy
from typing import Protocol

import msgspec
import numpy as np

from engine.cache.node_table import UNKNOWN_ROW, NodeTable
from engine.cache.tallies import Scope, Tally
from engine.counting.groups import CountGroups, Counts, GroupCounts
from engine.counting.in_flight_pods import GroupIds, InFlightPods
from engine.objects.codec import Namespace
from engine.objects.peer import Peer, key_of
from engine.objects.request_pod import RequestPod
from engine.program.frame import FUEL, CheckDeadline, Evaluate, Frame, unlimited
from engine.program.program import CountClause, CountProgram, ShareProgram, SpreadProgram
from grammar.errors import EvaluationError, MissingError

TEMPLATE_HASH = "pod-template-hash"
_MOST_LABELS = 4096
_NO_DOMAINS = np.zeros(0, np.bool_)

# They have their labels in common, their namespace, and whether they are being deleted.
CountedPod = Peer | RequestPod


class KnownPods(Protocol):
    """What is known of the cluster's pods."""

    def tally(self, name: Hashable, scope: Scope, counts: Callable[[Peer], bool]) -> Tally:
        """The pods of a scope for which a function is true, by node."""
        ...

    def within(self, scope: Scope) -> Iterable[tuple[str, Peer]]:
        """The pods of a scope, by key."""
        ...

    def pod(self, key: str) -> Peer | None: ...

    def assumed(self) -> Iterable[Peer]:
        """Those that count on a node which no watch has shown them on."""
        ...

    def nominated(self) -> Iterable[Peer]:
        """Those without a node that are nominated to one."""
        ...

    def namespaces(self) -> Iterable[Namespace]: ...


class CountContext(msgspec.Struct, frozen=True, eq=False):
    """The pod in question, and the frame that rules about it read.

    `peer` is how other pods see it, decoded when it is needed (BadObjectError). `replicas` is what
    its root controller wants, None where that is not known. `shape` stands for all that rules read
    of the pod; the frame may be of another pod of that shape.
    """

    pod: RequestPod
    peer: Callable[[], Peer]
    frame: Frame
    check: CheckDeadline
    replicas: int | None
    shape: Hashable


_Membership = tuple[
    Callable[[Peer], bool], Scope | None, Hashable, Callable[[CountedPod], bool] | None
]


class PodCounter:
    """Counts for one request."""

    def __init__(
        self, pods: KnownPods, in_flight: InFlightPods, table: NodeTable, context: CountContext
    ) -> None:
        self._pods = pods
        self._table = table
        self._context = context
        self._frame = copy(context.frame)
        self._key = f"{context.pod.namespace}/{context.pod.name}"
        self._others = in_flight.others(context.pod.uid, table.owner)
        self._nominated = self._nominees()

    def _nominees(self) -> list[Peer]:
        """Those that the pod in question has to leave room for."""
        nominated = list(self._pods.nominated())
        if not nominated:
            return []
        context = self._context.peer()
        # A pod that is on its way is counted where it may go, which has its nominated node.
        elsewhere = {context.uid, *(in_flight_pod.uid for in_flight_pod in self._others)}
        return [p for p in nominated if p.priority >= context.priority and p.uid not in elsewhere]

    def take(self, clause: CountClause, groups: CountGroups, *, predicted: bool) -> GroupCounts:
        """The numbers of a clause; `predicted` counts who is on its way where it likely ends.

        Raises DeadlineExceededError.
        """
        # Tallies are kept for longer than this request's time.
        self._frame.check = self._context.check
        try:
            return self._group_counts(clause, groups, predicted=predicted)
        finally:
            self._frame.check = unlimited

    def _group_counts(
        self, clause: CountClause, groups: CountGroups, *, predicted: bool
    ) -> GroupCounts:
        count = clause.count
        counts, scope, name, of_labels = self._membership(clause, groups)
        uid = self._context.pod.uid

        def inside(pod: Peer) -> bool:
            return scope is not None and scope.holds(pod) and counts(pod)

        tally = self._tally(name, scope, counts, kept=not count.peers.time_dependent)
        bound = groups.count_of(tally, self._table)
        known = self._pods.pod(self._key)
        there = known is not None and known.uid == uid and counts(known)
        if there and known is not None and known.nodeName:
            self._add(bound, groups, known.nodeName, -1)
        low = bound.copy()
        for pod in self._pods.assumed():
            if pod.uid != uid and inside(pod):
                self._add(low, groups, pod.nodeName, -1)
        high = bound
        if name is None or count.peers.time_dependent:
            on_way = [each for each in self._others if each.is_such(inside)]
        else:
            on_way = [each for each in self._others if each.counts(tally, inside)]
        if predicted:
            _add_all(high, [groups.ids[[each.predicted]] for each in on_way])
        else:
            _add_all(high, [each.groups(groups.ids) for each in on_way])
        for pod in self._nominated:
            if inside(pod):
                self._add(high, groups, pod.nominatedNodeName, 1)
        asked = self._context
        own = int(of_labels(asked.pod) if of_labels is not None else counts(asked.peer()))
        others = tally.placed + len(tally.waiting) - int(there)
        return GroupCounts(
            high=high,
            low=low,
            own=own,
            total=self._total(count, tally, others, own),
            anywhere=bool(others) or bool(on_way),
            domains=groups.domains() if isinstance(clause, SpreadProgram) else _NO_DOMAINS,
        )

    def _total(self, count: CountProgram, tally: Tally, others: int, own: int) -> int:
        if count.peers.replicas and self._context.replicas is not None:
            return self._context.replicas
        if count.peers.placed:
            known = self._pods.pod(self._key)
            there = known is not None and bool(known.nodeName)
            return tally.placed - int(there) + own
        return others + own

    def _membership(self, clause: CountClause, groups: CountGroups) -> _Membership:
        """Which pods count, where they can be, and a name for that.

        And the same where labels are enough to tell.
        """
        count, context = clause.count, self._context
        if count.peers.where is None:
            return self._workload(clause)
        scope = Scope(None if count.peers.everywhere else context.pod.namespace)
        where, frame = count.peers.where, self._frame
        inside = self._inside(count.peers.namespaces)
        alike = (
            groups.by_labels if count.peers.by_labels and not count.peers.time_dependent else None
        )

        def counts(pod: CountedPod) -> bool:
            if inside is not None and pod.namespace not in inside:
                return False
            if pod.deletionTimestamp is not None and not count.terminating:
                return False
            if alike is None or pod is context.pod:
                return evaluated(pod)
            # Pods of the same labels share them.
            known = alike.get(id(pod.labels))
            if known is None:
                if len(alike) > _MOST_LABELS:
                    alike.clear()
                known = alike[id(pod.labels)] = (pod.labels, evaluated(pod))
            return known[1]

        def evaluated(pod: CountedPod) -> bool:
            # It may be asked about pods for as long as its tally is kept.
            frame.peer, frame.reserve = pod, FUEL
            frame.fuel -= 1
            if frame.fuel < 0:
                frame.refuel()
            try:
                return where(frame) is True
            except MissingError:
                return False
            except EvaluationError:
                return False

        # Of other namespaces another tally is made: that they change is rare.
        name = (count, context.shape if count.peers.by_pod else None, inside)
        return counts, scope, name, counts if count.peers.by_labels else None

    def _inside(self, wanted: Evaluate | None) -> frozenset[str] | None:
        """The names of the namespaces for which an expression is true; None for all of them."""
        if wanted is None:
            return None
        frame = copy(self._frame)
        found = set()
        for namespace in self._pods.namespaces():
            frame.namespaceObject, frame.memo = namespace, {}
            try:
                if wanted(frame) is True:
                    found.add(namespace.name)
            except EvaluationError:
                continue
        return frozenset(found)

    def _workload(self, clause: CountClause) -> _Membership:
        """The pods of the same root controller; a pod without one is alone."""
        peer, terminating = self._context.peer(), clause.count.terminating
        if peer.workload is None:
            return (lambda pod: pod.uid == peer.uid), None, None, None
        uid = peer.workload.uid
        # Of a rolling update, each revision has its own share.
        exactly = isinstance(clause, ShareProgram) and clause.bound.kind == "exactly"
        template = peer.labels.get(TEMPLATE_HASH) if exactly else None

        def counts(pod: Peer) -> bool:
            if pod.deletionTimestamp is not None and not terminating:
                return False
            if template is not None and pod.labels.get(TEMPLATE_HASH) != template:
                return False
            return pod.workload is not None and pod.workload.uid == uid

        return counts, Scope(peer.namespace, uid), ("workload", terminating, template), None

    def _tally(
        self, name: Hashable, scope: Scope | None, counts: Callable[[Peer], bool], *, kept: bool
    ) -> Tally:
        if scope is not None and kept:
            return self._pods.tally(name, scope, counts)
        tally = Tally(counts)
        if scope is not None:
            for key, pod in self._pods.within(scope):
                tally.arrives(key, pod)
        return tally

    def _add(self, found: Counts, groups: CountGroups, node: str, amount: int) -> None:
        row = self._table.rows.get(node, UNKNOWN_ROW)
        if (group := groups.ids[row]) >= 0:
            found[group] += amount


def _add_all(counts: Counts, groups: Sequence[GroupIds]) -> None:
    """One more in each of the cells, as often as they are named."""
    if groups:
        named = np.concatenate(groups)
        counts += np.bincount(named[named >= 0], minlength=len(counts))


# ---- The pods of the cluster as they would be without some of them.


class PodsExcluding:
    """What a census asks for, with some pods gone."""

    def __init__(self, pods: KnownPods, gone: Collection[Peer]) -> None:
        self._pods = pods
        self._gone = {key_of(pod): pod for pod in gone}

    def tally(self, name: Hashable, scope: Scope, counts: Callable[[Peer], bool]) -> Tally:
        whole = self._pods.tally(name, scope, counts)
        left = Tally(counts)
        left.nodes, left.placed = whole.nodes.copy(), whole.placed
        left.waiting = whole.waiting.copy()
        for key, pod in self._gone.items():
            if scope.holds(pod):
                left.leaves(key, pod)
        return left

    def within(self, scope: Scope) -> Iterator[tuple[str, Peer]]:
        return ((key, pod) for key, pod in self._pods.within(scope) if key not in self._gone)

    def pod(self, key: str) -> Peer | None:
        return None if key in self._gone else self._pods.pod(key)

    def namespaces(self) -> Iterable[Namespace]:
        return self._pods.namespaces()

    def assumed(self) -> Iterator[Peer]:
        return (pod for pod in self._pods.assumed() if key_of(pod) not in self._gone)

    def nominated(self) -> Iterator[Peer]:
        return (pod for pod in self._pods.nominated() if key_of(pod) not in self._gone)
