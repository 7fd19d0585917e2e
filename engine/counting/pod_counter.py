"""PodCounter: the pods that a count clause counts, group by group, for one request.

A pod counts in a group if it is on a node of the group, or may end there: it is in flight, assumed,
or nominated. The counter lives as long as one call. Tallies, which the cache keeps up to date, live
longer, and so do the functions that say which pods they count.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from typing import NamedTuple, TypeAlias

import msgspec
import numpy as np

from engine.cache.cache import Cache
from engine.cache.node_table import UNKNOWN_ROW, NodeTable
from engine.cache.tallies import Census, Scope, Tally
from engine.counting.groups import OFF, CountGroups, Counts, GroupCounts, has_lower_bound
from engine.counting.in_flight_pods import GroupIds, InFlightPod
from engine.counting.used_nodes import nodes_in_use
from engine.objects.codec import Namespace
from engine.objects.peer import Peer, key_of
from engine.objects.request_pod import RequestPod
from engine.program.frame import MEMO_BYTES, Evaluate, Frame, unlimited
from engine.program.policy_time import BRIEF_SECONDS, CallTime
from engine.program.program import (
    CountClause,
    CountProgram,
    LimitProgram,
    ShareProgram,
    SpreadProgram,
)
from grammar.errors import EvaluationError, MissingError
from grammar.values.sizes import STEPS

TEMPLATE_HASH = "pod-template-hash"
_MOST_LABELS = 4096
_NO_DOMAINS = np.zeros(0, np.bool_)

# Both have labels, a namespace and a deletion timestamp.
CountedPod = Peer | RequestPod
# The pods of the cluster, as far as they are known.
KnownPods: TypeAlias = "Cache | PodsExcluding"


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


class CountContext(msgspec.Struct, frozen=True, eq=False):
    """The pod in question, and what rules about other pods read of it.

    `peer` decodes the pod as other pods see it (BadObjectError). `replicas` is the number of pods
    that its root controller wants, None if not known. `shape` identifies all that rules read of the
    pod; `frame` may be of another pod of that shape. `exempts` says which pods no policy governs.
    """

    pod: RequestPod
    peer: Callable[[], Peer]
    frame: Frame
    time: CallTime
    replicas: int | None
    shape: Hashable
    exempts: Callable[[Peer], bool] = _exempts_none


class _Membership(NamedTuple):
    """The pods that a clause counts.

    `counts` tests a pod, `scope` is where such pods can be (None: only the pod in question),
    and `name` identifies the function for tallies (None: do not keep). `by_labels` is the same
    function where labels are enough to tell, else None.
    """

    counts: Callable[[Peer], bool]
    scope: Scope | None
    name: Hashable
    by_labels: Callable[[CountedPod], bool] | None


class PodCounter:
    """Counts for one request."""

    def __init__(
        self,
        pods: KnownPods,
        in_flight: Sequence[InFlightPod],
        table: NodeTable,
        context: CountContext,
    ) -> None:
        """`in_flight` are the other pods that may end on nodes of the table."""
        self.pods = self._pods = pods
        self._table = table
        self.context = self._context = context
        self._frame = copy(context.frame)
        self._key = f"{context.pod.namespace}/{context.pod.name}"
        self._in_flight = in_flight
        self._nominated = self._ahead(pods.nominated) if pods.nominated else ()

    def count(self, clause: CountClause, groups: CountGroups, *, predicted: bool) -> GroupCounts:
        """The counts of a clause. Raises DeadlineExceededError and ExpensivePolicyError.

        An in-flight pod counts in every group that it was offered; with `predicted` only in the one
        where it probably ends.
        """
        # The frame outlives this request in tallies, and its deadline must not.
        time, policy = self._context.time, clause.count.policy
        # Mostly no pod has to be evaluated but the one in question.
        if time.times is not None and policy in time.times.used:
            time.charge(policy)
        began = time.times.work() if time.times is not None else 0.0
        self._frame.check = time.check_within
        try:
            return self._counts(clause, groups, predicted=predicted)
        finally:
            self._frame.check = unlimited
            if time.policy:
                time.rest()
            elif time.times is not None and (used := time.times.work() - began) > BRIEF_SECONDS:
                time.times.use(policy, used)

    def changes(self, ids: GroupIds) -> list[PodChange]:
        """The pods that count otherwise than the cache has them; `ids` has the group of each row.

        The pod in question counts nowhere, an assumed one may be on its node, an in-flight one on
        each that it was offered, and a nominated one on its own.
        """
        uid, found = self._context.pod.uid, []

        def on(node: str) -> GroupIds:
            groups = ids[[self._table.rows.get(node, UNKNOWN_ROW)]]
            return groups[groups >= 0]

        known = self._pods.pod(self._key)
        if known is not None and known.uid == uid and known.nodeName:
            found.append(PodChange(known, on(known.nodeName), -1, -1))
        assumed = (pod for pod in self._pods.assumed() if pod.uid != uid)
        found += [PodChange(pod, on(pod.nodeName), 0, -1) for pod in assumed]
        for each in self._in_flight:
            if (pod := each.pod) is not None:
                found.append(PodChange(pod, each.groups(ids), 1, 0))
        found += [PodChange(p, on(p.nominatedNodeName), 1, 0) for p in self._nominated]
        return found

    def _ahead(self, nominated: Mapping[str, Peer]) -> Sequence[Peer]:
        """The nominated pods for which the pod in question must leave room."""
        own = self._context.peer()
        # An in-flight pod counts where it was offered, and its nominated node is among these.
        elsewhere = {own.uid, *(each.uid for each in self._in_flight)}
        every = nominated.values()
        return [p for p in every if p.priority >= own.priority and p.uid not in elsewhere]

    def _counts(self, clause: CountClause, groups: CountGroups, *, predicted: bool) -> GroupCounts:
        count = clause.count
        counts, scope, name, by_labels = self._membership(clause, groups)
        context = self._context
        uid = context.pod.uid

        def inside(pod: Peer) -> bool:
            return scope is not None and scope.holds(pod) and counts(pod)

        tally = self._tally(name, scope, counts, kept=not count.peers.time_dependent)
        high = groups.count_of(tally, self._table)
        known = self._pods.pod(self._key)
        there = known is not None and known.uid == uid and counts(known)
        if there and known is not None and known.nodeName:
            self._add(high, groups, known.nodeName, -1)
        low = high.copy()
        for pod in self._pods.assumed():
            if pod.uid != uid and inside(pod):
                self._add(low, groups, pod.nodeName, -1)
        if name is None or count.peers.time_dependent:
            in_flight = [each for each in self._in_flight if each.is_such(inside)]
        else:
            in_flight = [each for each in self._in_flight if each.counts(tally, inside)]
        if predicted:
            places = [groups.counted[[each.predicted]] for each in in_flight]
        else:
            places = [each.groups(groups.counted) for each in in_flight]
        nominated = [pod.nominatedNodeName for pod in self._nominated if inside(pod)]
        of_nodes = isinstance(clause, LimitProgram) and clause.nodes is not None
        if of_nodes:
            places += [groups.counted[[self._table.rows.get(n, UNKNOWN_ROW)]] for n in nominated]
        else:
            _add_all(high, places)
            for node in nominated:
                self._add(high, groups, node, 1)
        own = int(by_labels(context.pod) if by_labels is not None else counts(context.peer()))
        others = tally.placed + len(tally.waiting) - int(there)
        total = self._total(count, tally, others, own)
        if of_nodes:
            high, low = nodes_in_use(high, low, places) if own else (high * 0, low * 0)
            total = int(np.count_nonzero(groups.ids > OFF))
        return GroupCounts(
            high=high,
            low=low,
            own=own,
            total=total,
            # As for InterPodAffinity: a pod that waits, or is on a node without the domain, is not.
            anywhere=has_lower_bound(clause) and bool(np.logical_or.reduce(high)),
            domains=groups.domains() if isinstance(clause, SpreadProgram) else _NO_DOMAINS,
            bounds=groups.bounds(),
            min_domains=groups.min_domains,
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
        """The pods that the clause counts."""
        count, context = clause.count, self._context
        if count.peers.where is None:
            return self._workload(clause)
        scope = Scope(None if count.peers.everywhere else context.pod.namespace)
        where, frame, time = count.peers.where, self._frame, context.time
        times = time.times
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
            # Peers with equal labels share one mapping.
            known = alike.get(id(pod.labels))
            if known is None:
                if len(alike) > _MOST_LABELS:
                    alike.clear()
                known = alike[id(pod.labels)] = (pod.labels, evaluated(pod))
            return known[1]

        def evaluated(pod: CountedPod) -> bool:
            if times is None or pod is context.pod:
                return holds(pod)
            if frame.check is not unlimited:
                time.charge(count.policy)
                return holds(pod)
            # No call is charged: a tally follows the events of pods.
            with times.using(count.policy):
                return holds(pod)

        def holds(pod: CountedPod) -> bool:
            # Each pod takes a step, so that many of them look at the clock.
            frame.peer, frame.reserve = pod, STEPS
            frame.fuel -= 1
            if frame.fuel < 0:
                frame.refuel()
            try:
                return where(frame) is True
            except MissingError:
                return False
            except EvaluationError:
                return False

        # A change of the namespaces makes another tally; such changes are rare.
        name = (count, context.shape if count.peers.by_pod else None, inside)
        return _Membership(counts, scope, name, counts if count.peers.by_labels else None)

    def _inside(self, wanted: Evaluate | None) -> frozenset[str] | None:
        """The names of the namespaces for which an expression is true; None for all of them."""
        if wanted is None:
            return None
        frame = copy(self._frame)
        found = set()
        for namespace in self._pods.namespaces():
            frame.namespaceObject, frame.memo, frame.room = namespace, {}, MEMO_BYTES
            try:
                if wanted(frame) is True:
                    found.add(namespace.name)
            except EvaluationError:
                continue
        return frozenset(found)

    def _workload(self, clause: CountClause) -> _Membership:
        """The pods of the same root controller. A pod without one is counted alone."""
        peer, terminating = self._context.peer(), clause.count.terminating
        if peer.workload is None:
            return _Membership(lambda pod: pod.uid == peer.uid, None, None, None)
        uid = peer.workload.uid
        # In a rolling update, each revision has its own share.
        exactly = isinstance(clause, ShareProgram) and clause.bound.kind == "exactly"
        template = peer.labels.get(TEMPLATE_HASH) if exactly else None

        def counts(pod: Peer) -> bool:
            if pod.deletionTimestamp is not None and not terminating:
                return False
            if template is not None and pod.labels.get(TEMPLATE_HASH) != template:
                return False
            return pod.workload is not None and pod.workload.uid == uid

        scope = Scope(peer.namespace, uid)
        return _Membership(counts, scope, ("workload", terminating, template), None)

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
        if (group := groups.counted[row]) >= 0:
            found[group] += amount


def _add_all(counts: Counts, groups: Sequence[GroupIds]) -> None:
    """Adds one to each of the groups, as often as it is listed."""
    if groups:
        named = np.concatenate(groups)
        counts += np.bincount(named[named >= 0], minlength=len(counts))


class PodsExcluding:
    """The pods of the cluster without some of them, as a PodCounter needs them."""

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

    def census(self, name: Hashable, scope: Scope, key_of: Callable[[Peer], Hashable]) -> Census:
        whole = self._pods.census(name, scope, key_of)
        return whole.without(pod for pod in self._gone.values() if scope.holds(pod))

    def within(self, scope: Scope) -> Iterator[tuple[str, Peer]]:
        return ((key, pod) for key, pod in self._pods.within(scope) if key not in self._gone)

    def pod(self, key: str) -> Peer | None:
        return None if key in self._gone else self._pods.pod(key)

    def namespaces(self) -> Iterable[Namespace]:
        return self._pods.namespaces()

    def assumed(self) -> Sequence[Peer]:
        return [pod for pod in self._pods.assumed() if key_of(pod) not in self._gone]

    @property
    def nominated(self) -> Mapping[str, Peer]:
        every = self._pods.nominated
        return {key: pod for key, pod in every.items() if key not in self._gone}
