"""PodCounter: the pods that a count clause counts, group by group, for one request.

A pod counts in a group if it is on a node of the group, or may end there: it is in flight, assumed,
or nominated. The counter lives as long as one call. Tallies, which the cache keeps up to date, live
longer, and so do the functions that say which pods they count.
"""

from __future__ import annotations

from collections.abc import (
    Callable,
    Collection,
    Generator,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from functools import partial
from typing import Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np

from engine.cache.cache import Cache
from engine.cache.node_table import UNKNOWN_ROW, NodeTable
from engine.cache.tallies import FULL, Adds, AddsUntil, Census, MayCount, Scope, Tally
from engine.counting.groups import OFF, CountGroups, Counts, GroupCounts
from engine.counting.in_flight_pods import GroupIds, InFlightPod, by_amount
from engine.objects.codec import Namespace
from engine.objects.peer import Peer, Workload, key_of
from engine.objects.request_pod import RequestPod
from engine.program.frame import Evaluate, Frame, Report, unlimited
from engine.program.policy_time import BRIEF_SECONDS, CallTime
from engine.program.program import (
    CountClause,
    CountProgram,
    LimitProgram,
    ShareProgram,
    SpreadProgram,
)
from engine.program.sums import added
from grammar.values.errors import EvaluationError, MissingError
from grammar.values.sizes import STEPS
from grammar.values.time import NEVER

TEMPLATE_HASH = "pod-template-hash"
_MOST_LABELS = 4096
_NO_DOMAINS = np.zeros(0, np.bool_)

# Both have labels, a namespace and a deletion timestamp.
CountedPod = Peer | RequestPod
# The pods of the cluster, as far as they are known.
KnownPods: TypeAlias = "Cache | PodsExcluding"


def _exempts_none(_: Peer) -> bool:
    return False


def _may_count(_: Peer) -> bool:
    """The pods of a workload may count: they are those of the scope."""
    return True


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


# The pods between two turns of a search for people.
_TURN = 256


class PodInGroup(NamedTuple):
    """A pod that a clause counts, by `namespace/name`, and how it is in its group."""

    key: str
    presence: Presence


class CountContext(msgspec.Struct, frozen=True, eq=False):
    """The pod in question, and what rules about other pods read of it.

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


class _Membership(NamedTuple):
    """The pods that a clause counts.

    `counts` tests a pod, or gives what it adds to a sum, `scope` is where such pods can be (None:
    only the pod in question), and `name` identifies the function for tallies (None: do not keep).
    `by_labels` is the same function where labels are enough to tell, else None. `may_count` tells
    the same of all pods of a workload with the same labels; None where that cannot be told.
    """

    counts: Adds
    scope: Scope | None
    name: Hashable
    by_labels: Callable[[CountedPod], bool] | None
    may_count: MayCount | None = None


class PodCounter:
    """Counts for one request: of `pods`, for the pod of the `context`."""

    def __init__(
        self,
        pods: KnownPods,
        in_flight: Sequence[InFlightPod],
        table: NodeTable,
        context: CountContext,
    ) -> None:
        """`in_flight` are the other pods that may end on nodes of the table."""
        self.pods = pods
        self._table = table
        self.context = context
        self._frame = context.frame
        self._key = f"{context.pod.namespace}/{context.pod.name}"
        self._in_flight = in_flight
        self._nominated = self._ahead(pods.nominated) if pods.nominated else ()

    def count(
        self,
        clause: CountClause,
        groups: CountGroups,
        *,
        predicted: bool,
        of_revision: bool = False,
    ) -> GroupCounts:
        """The counts of a clause. Raises DeadlineExceededError and ExpensivePolicyError.

        An in-flight pod counts in every group that it was offered; with `predicted` only in the one
        where it probably ends. With `of_revision` only pods of the same template count.
        """
        # Tallies keep the frame, and its deadline must not outlive this request.
        time, policy = self.context.time, clause.count.policy
        # Mostly no pod has to be evaluated but the one in question.
        if time.times is not None and policy in time.times.used:
            time.charge(policy)
        began = time.times.work() if time.times is not None else 0.0
        self._frame.check = time.check_within
        try:
            return self._counts(clause, groups, predicted=predicted, of_revision=of_revision)
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
        uid, found = self.context.pod.uid, []

        def on(node: str) -> GroupIds:
            groups = ids[[self._table.rows.get(node, UNKNOWN_ROW)]]
            return groups[groups >= 0]

        known = self.pods.pod(self._key)
        if known is not None and known.uid == uid and known.nodeName:
            found.append(PodChange(known, on(known.nodeName), -1, -1))
        assumed = (pod for pod in self.pods.assumed() if pod.uid != uid)
        found += [PodChange(pod, on(pod.nodeName), 0, -1) for pod in assumed]
        for each in self._in_flight:
            if (pod := each.pod) is not None:
                found.append(PodChange(pod, each.groups(ids), 1, 0))
        found += [PodChange(p, on(p.nominatedNodeName), 1, 0) for p in self._nominated]
        return found

    def counted_pods(
        self, clause: CountClause, groups: CountGroups, wanted: Collection[int], *, predicted: bool
    ) -> Generator[None, None, list[PodInGroup]]:
        """The pods that `count` adds up in these groups, by name.

        It is for people: it looks at every pod, and yields after some of them.
        """
        members, amount = self._membership(clause, groups), clause.count.peers.amount
        counts, scope = members.counts, members.scope
        if amount is not None:
            counts = self._adding(members, clause.count, amount).counts
        if scope is None:
            return []  # only the pod in question
        ids, uid = groups.counted, self.context.pod.uid
        found = []
        # By row: there may be many pods, so this is not asked of each.
        wanted_rows: list[bool] = np.isin(ids, list(wanted)).tolist()

        def is_counted(pod: Peer) -> bool:
            return scope.holds(pod) and counts(pod) > 0

        def is_on(node: str) -> bool:
            return wanted_rows[self._table.rows.get(node, UNKNOWN_ROW)]

        assumed = {pod.uid for pod in self.pods.assumed()}
        for number, (key, pod) in enumerate(self.pods.within(scope)):
            if number % _TURN == _TURN - 1:
                yield
            if pod.nodeName and is_on(pod.nodeName) and pod.uid != uid and is_counted(pod):
                found.append(PodInGroup(key, "in flight" if pod.uid in assumed else "bound"))
        for each in self._in_flight:
            ends = ids[[each.predicted]] if predicted else each.groups(ids)
            is_there = bool(np.isin(ends, list(wanted)).any())
            if is_there and (flying := each.pod) is not None and is_counted(flying):
                found.append(PodInGroup(key_of(flying), "in flight"))
        ahead = (p for p in self._nominated if is_on(p.nominatedNodeName) and is_counted(p))
        found += [PodInGroup(key_of(pod), "nominated") for pod in ahead]
        return sorted(found)

    def _ahead(self, nominated: Mapping[str, Peer]) -> Sequence[Peer]:
        """The nominated pods for which the pod in question must leave room."""
        own = self.context.peer()
        # An in-flight pod counts where it was offered, and its nominated node is among these.
        elsewhere = {own.uid, *(each.uid for each in self._in_flight)}
        every = nominated.values()
        return [p for p in every if p.priority >= own.priority and p.uid not in elsewhere]

    def _counts(
        self, clause: CountClause, groups: CountGroups, *, predicted: bool, of_revision: bool
    ) -> GroupCounts:
        count = clause.count
        members = self._membership(clause, groups)
        if of_revision:
            members = self._of_revision(members)
        counts, scope, name, by_labels, may_count = members
        if (amount := count.peers.amount) is not None:
            counts, scope, name, by_labels, may_count = self._adding(members, count, amount)
        context = self.context
        uid = context.pod.uid

        def inside(pod: Peer) -> int:
            return counts(pod) if scope is not None and scope.holds(pod) else 0

        timed = count.peers.time_dependent
        tally = self._tally(name, scope, counts, may_count, timed=timed)
        high = groups.count_of(tally, self._table)
        known = self.pods.pod(self._key)
        there = 0
        if known is not None and known.uid == uid:
            there = tally.added(self._key, known, counts)
        if there and known is not None and known.nodeName:
            self._add(high, groups, known.nodeName, -there)
        low = high.copy()
        for pod in self.pods.assumed():
            if pod.uid != uid and scope is not None and scope.holds(pod):
                self._add(low, groups, pod.nodeName, -tally.added(key_of(pod), pod, counts))
        kept = tally if name is not None and not timed else None
        tell = by_labels and partial(_by_labels, by_labels, scope)
        in_flight = by_amount(self._in_flight, inside, kept, tell) if self._in_flight else {}
        ids = groups.counted
        places = {
            adds: [ids[[each.predicted]] if predicted else each.groups(ids) for each in such]
            for adds, such in in_flight.items()
        }
        ahead = [(pod.nominatedNodeName, adds) for pod in self._nominated if (adds := inside(pod))]
        if amount is not None:
            own = self._own(members.counts, count, amount)
        else:
            own = int(by_labels(context.pod) if by_labels is not None else counts(context.peer()))
        waits = bool(there) and known is not None and not known.nodeName
        queued = len(tally.waiting) - waits
        others = tally.placed - (0 if waits else there) + queued
        total, pods = others + own, others + own
        if isinstance(clause, ShareProgram):
            total, pods = self._totals(clause, tally, own, known if there else None)
        if isinstance(clause, LimitProgram) and clause.nodes is not None:
            rows = self._table.rows
            ends = places.get(1, []) + [ids[[rows.get(node, UNKNOWN_ROW)]] for node, _ in ahead]
            high, low = nodes_in_use(high, low, ends) if own else (high * 0, low * 0)
            total = int(np.count_nonzero(ids > OFF))
        else:
            for adds, named in places.items():
                _add_all(high, named, adds)
            for node, adds in ahead:
                self._add(high, groups, node, adds)
        return GroupCounts(
            high=high,
            low=low,
            own=own,
            total=total,
            pods=pods,
            # As for InterPodAffinity: a pod that waits, or is on a node without the domain, is not.
            anywhere=groups.has_lower_bound and bool(np.count_nonzero(high)),
            domains=groups.domains() if isinstance(clause, SpreadProgram) else _NO_DOMAINS,
            bounds=groups.bounds,
            min_domains=groups.min_domains,
            queued=queued > 0,
        )

    def _totals(
        self, share: ShareProgram, tally: Tally, own: int, there: Peer | None
    ) -> tuple[int, int]:
        """The pods that are wanted, and all there are to place, for a share.

        `there` is the pod in question if the tally has it. A rollout, or a controller that is
        scaled down, has more pods than its workload wants. Those that it has beyond its surge, too,
        go soon, so an exact share takes no place for them: it might end among the others.
        """
        peers, root = share.count.peers, self.context.root
        adds = own
        if there is not None and (there.nodeName or not peers.placed):
            adds -= 1
        pods = tally.placed + (0 if peers.placed else len(tally.waiting)) + adds
        exact = share.bound.kind == "exactly"
        if peers.replicas:
            if root is None or root.replicas is None:
                return pods, pods
            if exact:
                pods = min(pods, root.replicas + root.surge)
            return root.replicas, max(root.replicas, pods)
        if not share.bound.percent and not exact:
            return pods, pods
        numbers = by_workload(tally, placed=peers.placed)
        if root is not None:
            numbers[root.uid] = numbers.get(root.uid, 0) + adds
        unwanted, ending = surplus(self.pods, numbers)
        return pods - unwanted, pods - ending if exact else pods

    def _of_revision(self, found: _Membership) -> _Membership:
        """Those of the pods that have the template of the pod in question."""
        template = self.context.pod.labels.get(TEMPLATE_HASH)
        if template is None:
            return found

        def counts(pod: Peer) -> int:
            return found.counts(pod) if pod.labels.get(TEMPLATE_HASH) == template else 0

        name = None if found.name is None else (found.name, template)
        return found._replace(counts=counts, name=name)

    def _membership(self, clause: CountClause, groups: CountGroups) -> _Membership:
        """The pods that the clause counts."""
        count, context = clause.count, self.context
        if count.peers.where is None:
            return self._workload(clause)
        scope = Scope(None if count.peers.everywhere else context.pod.namespace)
        where, frame, time = count.peers.where, self._frame, context.time
        times = time.times
        inside = self._inside(count.peers.namespaces)
        alike, tells = groups.by_labels, count.peers.by_labels and not count.peers.time_dependent

        def counts(pod: CountedPod) -> bool:
            if inside is not None and pod.namespace not in inside:
                return False
            if pod.deletionTimestamp is not None and not count.terminating:
                return False
            if not tells:
                return evaluated(pod)
            known = alike.get(id(pod.labels))
            return known[1] if known is not None else with_its_labels(pod)

        def with_its_labels(pod: CountedPod) -> bool:
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
            _begin(frame, pod)
            try:
                return where(frame) is True
            except MissingError:
                return False
            except EvaluationError:
                return False

        # A change of the namespaces makes another tally; such changes are rare. Clauses of a policy
        # that count the same pods have one closure for that.
        of_pod = groups.pod_values
        if of_pod is None and count.peers.by_pod:
            of_pod = context.shape
        name = (count.policy, where, count.terminating, of_pod, inside)
        return _Membership(
            counts,
            scope,
            name,
            counts if count.peers.by_labels else None,
            with_its_labels if tells else None,
        )

    def _adding(
        self, membership: _Membership, count: CountProgram, amount: Evaluate
    ) -> _Membership:
        """The membership with what each pod adds: 0 where it has no amount, which is reported."""
        counts, scope, name, _, may_count = membership
        context, frame = self.context, self._frame
        times, charge, report = context.time.times, context.time.charge, context.report

        def adds(pod: Peer) -> int:
            if not counts(pod):
                return 0
            if times is None:
                return reported(pod)
            if frame.check is not unlimited:
                charge(count.policy)
                return reported(pod)
            with times.using(count.policy):
                return reported(pod)

        def reported(pod: Peer) -> int:
            try:
                return _amount(frame, pod, amount)
            except EvaluationError as error:
                report(count.policy, count.name, error)
                return 0

        # A name may stand for the pods of a workload, for whatever clause.
        adding = None if name is None else (name, count)
        return _Membership(adds, scope, adding, None, may_count)

    def _own(self, counts: Adds, count: CountProgram, amount: Evaluate) -> int:
        """What the pod in question adds to a sum. It fits nowhere if it has no amount."""
        peer = self.context.peer()
        if not counts(peer):
            return 0
        try:
            return _amount(self._frame, peer, amount)
        except EvaluationError as error:
            self.context.report(count.policy, count.name, error)
            passes = isinstance(error, MissingError) and count.missing == "pass"
            return 0 if passes else FULL

    def _inside(self, wanted: Evaluate | None) -> frozenset[str] | None:
        """The names of the namespaces for which an expression is true; None for all of them."""
        if wanted is None:
            return None
        found = set()
        for namespace in self.pods.namespaces():
            frame = self._frame.anew()
            frame.namespaceObject = namespace
            try:
                if wanted(frame) is True:
                    found.add(namespace.name)
            except EvaluationError:
                continue
        return frozenset(found)

    def _workload(self, clause: CountClause) -> _Membership:
        """The pods of the same root controller. A pod without one is counted alone."""
        peer, terminating = self.context.peer(), clause.count.terminating
        if peer.workload is None:
            return _Membership(lambda pod: pod.uid == peer.uid, None, None, None)
        uid = peer.workload.uid

        def counts(pod: Peer) -> bool:
            if pod.deletionTimestamp is not None and not terminating:
                return False
            return pod.workload is not None and pod.workload.uid == uid

        scope, name = Scope(peer.namespace, uid), ("workload", terminating)
        return _Membership(counts, scope, name, None, _may_count)

    def _tally(
        self,
        name: Hashable,
        scope: Scope | None,
        counts: Adds,
        may_count: MayCount | None,
        *,
        timed: bool,
    ) -> Tally:
        if scope is None:
            return Tally(counts)
        if not timed:
            return self.pods.tally(name, scope, counts, may_count)
        frame = self._frame

        def adds(pod: Peer) -> tuple[int, int]:
            frame.until = NEVER
            return counts(pod), frame.until

        return self.pods.timed_tally(name, scope, adds, frame.now.nanos)

    def _add(self, found: Counts, groups: CountGroups, node: str, amount: int) -> None:
        row = self._table.rows.get(node, UNKNOWN_ROW)
        # What is full stays full: what is beyond it was not added.
        if (group := groups.counted[row]) >= 0 and found[group] < FULL:
            found[group] = min(found.item(group) + amount, FULL)


def by_workload(tally: Tally, *, placed: bool) -> dict[str, int]:
    """The pods of a tally by the uid of their workload: those with a node, or all."""
    found = tally.placed_of.copy()
    if not placed:
        for uid, number in tally.waiting_of.items():
            found[uid] = found.get(uid, 0) + number
    return found


def surplus(pods: KnownPods, numbers: Mapping[str, int]) -> tuple[int, int]:
    """The pods beyond those that their workloads want, and those of them beyond the surges, too.

    `numbers` has the pods of each workload, by uid.
    """
    unwanted, ending = 0, 0
    for uid, number in numbers.items():
        workload = pods.workload(uid)
        if workload is not None and workload.replicas is not None:
            more = max(0, number - workload.replicas)
            unwanted += more
            ending += max(0, more - workload.surge)
    return unwanted, ending


def _by_labels(counts: Callable[[CountedPod], bool], scope: Scope | None, pod: RequestPod) -> bool:
    """Whether a pod in flight counts, where labels are enough to tell."""
    if scope is None or scope.workload is not None:
        return False
    return scope.namespace in (None, pod.namespace) and counts(pod)


def _begin(frame: Frame, pod: CountedPod) -> None:
    """Prepares a frame for a pod. Each takes a step, so that many of them look at the clock."""
    frame.peer, frame.reserve = pod, STEPS
    frame.fuel -= 1
    if frame.fuel < 0:
        frame.refuel()


def _amount(frame: Frame, pod: Peer, amount: Evaluate) -> int:
    """What a pod adds to a sum. Raises EvaluationError if it has no amount."""
    _begin(frame, pod)
    return added(amount(frame))


def _add_all(counts: Counts, groups: Sequence[GroupIds], amount: int) -> None:
    """Adds an amount to each of the groups, as often as it is listed."""
    if not groups or not amount:
        return
    named = np.concatenate(groups)
    times = np.bincount(named[named >= 0], minlength=len(counts))
    if amount == 1:
        counts += times
    else:
        more = np.where(times > FULL // amount, FULL, times * amount)
        np.minimum(counts + more, FULL, out=counts)


def nodes_in_use(
    placed: Counts, certain: Counts, in_flight: Sequence[GroupIds]
) -> tuple[Counts, Counts]:
    """The most and the fewest nodes in use once one more pod is on each node.

    An in-flight pod may end on any node that it was offered, but only on one of them. So several of
    them can take as many nodes as there are pods, and never more than the nodes that they were
    offered.

    It is 0 on a node where the pod takes no further node. `placed` and `certain` are the pods on
    each node, with and without those that are only assumed there. `in_flight` are the nodes where
    each other pod may end.
    """
    used = placed > 0
    used[OFF] = True
    # Nodes where some in-flight pod ends if it takes a further node at all, and those where one of
    # several `wide` pods may end.
    single, several = np.zeros((2, len(placed)), np.bool_)
    wide = 0
    for groups in in_flight:
        fresh = groups[(groups >= 0) & ~used[groups]]
        if len(fresh) == 1:
            single[fresh] = True
        elif len(fresh):
            several[fresh] = True
            wide += 1
    several &= ~single
    in_use = int(used.sum()) - 1
    # Each wide pod takes one more of the nodes that are left, as long as there are some.
    left = int(several.sum()) - several
    most = in_use + int(single.sum()) + ~single + np.minimum(wide, left)
    most[used] = 0
    certainly = certain > 0
    certainly[OFF] = False
    # The certain ones, and the one that the pod takes.
    fewest = np.full(len(placed), int(certainly.sum()) + 1, np.int64)
    fewest[used | single | several] = 0
    return most.astype(np.int64), fewest


class PodsExcluding:
    """The pods of the cluster without some of them, as a PodCounter needs them."""

    def __init__(self, pods: KnownPods, gone: Collection[Peer]) -> None:
        self._pods = pods
        self._gone = {key_of(pod): pod for pod in gone}

    def tally(
        self, name: Hashable, scope: Scope, counts: Adds, may_count: MayCount | None = None
    ) -> Tally:
        whole = self._pods.tally(name, scope, counts, may_count)
        return whole.without(self._gone_of(scope), counts)

    def timed_tally(self, name: Hashable, scope: Scope, adds: AddsUntil, now: int) -> Tally:
        whole = self._pods.timed_tally(name, scope, adds, now)
        return whole.without(self._gone_of(scope), lambda pod: adds(pod)[0])

    def _gone_of(self, scope: Scope) -> Iterator[tuple[str, Peer]]:
        return ((key, pod) for key, pod in self._gone.items() if scope.holds(pod))

    def census(self, name: Hashable, scope: Scope, key_of: Callable[[Peer], Hashable]) -> Census:
        whole = self._pods.census(name, scope, key_of)
        return whole.without(pod for pod in self._gone.values() if scope.holds(pod))

    def within(self, scope: Scope) -> Iterator[tuple[str, Peer]]:
        return ((key, pod) for key, pod in self._pods.within(scope) if key not in self._gone)

    def pod(self, key: str) -> Peer | None:
        return None if key in self._gone else self._pods.pod(key)

    def namespaces(self) -> Iterable[Namespace]:
        return self._pods.namespaces()

    def workload(self, uid: str) -> Workload | None:
        return self._pods.workload(uid)

    def assumed(self) -> Sequence[Peer]:
        return [pod for pod in self._pods.assumed() if key_of(pod) not in self._gone]

    @property
    def nominated(self) -> Mapping[str, Peer]:
        every = self._pods.nominated
        return {key: pod for key, pod in every.items() if key not in self._gone}
