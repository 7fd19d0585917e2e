"""Pod counter: the pods that a clause or a named count counts, by group, for one request.

A pod counts in a group if it is on a node of the group, or may end there: it is in flight, assumed,
or nominated. The counter lives as long as one call. Tallies, which the cache keeps up to date, live
longer, and so do the functions that say which pods they count.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from engine.cache.ended_pods import for_an_hour
from engine.cache.node_table import UNKNOWN_ROW, NodeTable
from engine.cache.pods_excluding import KnownPods
from engine.cache.tallies import FULL, Adding, Scope, Tally
from engine.counting.bounds import NO_DOMAINS, OFF, Counts, GroupCounts, places_in_use
from engine.counting.groups import (
    CountContext,
    Counted,
    CountedPod,
    CountGroups,
    KeptCounts,
    Membership,
    PodChange,
    PodInGroup,
    is_in,
)
from engine.counting.in_flight_pods import GroupIds, InFlightPod, by_amount
from engine.counting.node_groups import OnTheWay
from engine.objects.peer import Peer, key_of, template_of
from engine.objects.pod_group import own_group
from engine.objects.remembered import bytes_of
from engine.objects.request_pod import RequestPod
from engine.program.frame import Evaluate, Frame, unlimited
from engine.program.operations import added
from engine.program.policy_time import BRIEF_SECONDS
from engine.program.program import CountClause, CountProgram, Peers
from grammar.values.errors import EvaluationError
from grammar.values.sizes import STEPS
from grammar.values.time import NEVER

# What a pod adds, with the time of its policy.
_OfPod = Callable[[CountedPod], int]
# The pods between two turns of a search for people.
_TURN = 256


class _There(NamedTuple):
    """What is there of the pod in question in the cache; `pod` is None if it adds nothing."""

    pod: Peer | None = None
    adds: int = 0

    @property
    def waits(self) -> bool:
        """Whether it is among the pods without a node."""
        return self.pod is not None and not self.pod.nodeName


_NOT_THERE = _There()


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
        with self._timed(clause.count.policy):
            return self._counts(clause, groups, predicted=predicted, of_revision=of_revision)

    @contextmanager
    def _timed(self, policy: str) -> Iterator[None]:
        """Has a policy use the time while pods are counted for it."""
        # Tallies keep the frame, and its deadline must not outlive this request.
        time = self.context.time
        before = time.policy
        # Mostly no pod has to be evaluated but the one in question.
        if time.times is not None and policy in time.times.used:
            time.charge(policy)
        began = time.times.work() if time.times is not None else 0.0
        self._frame.check = time.check_within
        try:
            yield
        finally:
            self._frame.check = unlimited
            if before:
                time.charge(before)
            elif time.policy:
                time.rest()
            elif time.times is not None and (used := time.times.work() - began) > BRIEF_SECONDS:
                time.times.use(policy, used)

    def numbers(
        self, count: CountProgram, of: Counted, ids: GroupIds, size: int, on_the_way: OnTheWay
    ) -> Counts:
        """What a named count has in each of so many groups, without the pod in question.

        `ids` has the group of each row. Pending pods are in one group.
        """
        with self._timed(count.policy):
            members = self._members(count, of)
            if count.peers.state == "pending":
                return np.array([self._pending(members, count.peers, on_the_way)])
            tally = self._tally(members, count.peers)
            found, there = of.kept.count(tally, self._table, ids, size), self._there(members, tally)
            if there.pod is not None and not there.waits:
                self._add(found, ids, there.pod.nodeName, -there.adds)
            if on_the_way == "certain":
                found = self._without_assumed(found, ids, members, tally)
            elif on_the_way != "bound" and not count.peers.state:
                is_predicted = on_the_way == "predicted"
                flying = self._flying(count, members, tally)
                ends = _ends(flying, ids, predicted=is_predicted)
                self._add_on_the_way(found, ids, ends, self._nominated_of(members))
            return found

    def _pending(self, members: Membership, peers: Peers, on_the_way: OnTheWay) -> int:
        """What the pods without a node add up to.

        A pod on its way may have a node that no watch has shown, and an assumed pod may lose its
        node.
        """
        tally = self._tally(members, peers)
        there, uid = self._there(members, tally), self.context.pod.uid
        found = tally.queued - (there.adds if there.waits else 0)
        for each in self._in_flight if on_the_way != "bound" else ():
            is_shown = each.name in tally.waiting
            if is_shown != (on_the_way == "worst") and each.pod is not None:
                adds = members.inside(each.pod)
                found += -adds if is_shown else adds if on_the_way == "worst" else 0
        if on_the_way == "worst":
            assumed = (replace(p, nodeName="") for p in self.pods.assumed() if p.uid != uid)
            found += sum(map(members.inside, assumed))
        return found

    def adds(self, count: CountProgram, of: Counted, pods: Iterable[Peer]) -> int:
        """What these pods add to a named count, wherever they are."""
        with self._timed(count.policy):
            members = self._members(count, of)
            return sum(map(members.inside, pods))

    def in_cells(
        self, groups: CountGroups, kept: KeptCounts, ids: GroupIds, size: int
    ) -> tuple[Counts, int]:
        """The pods that a share counts in each cell, and the number of those in flight elsewhere.

        `ids` has the cell of each row. A pod in flight that can end in one cell alone counts there:
        if it ends nowhere, it waits for a place again.
        """
        clause = groups.clause
        members = self._membership(clause.count, groups)
        tally = self._tally(members, clause.count.peers)
        found, afloat = kept.count(tally, self._table, ids, size), 0
        for change in self.changes(ids):
            if change.high and members.inside(change.pod):
                if len(change.groups) == 1:
                    found[change.groups[0]] += change.high
                else:
                    afloat += 1
        return found, afloat

    def changes(self, ids: GroupIds) -> list[PodChange]:
        """The pods that count otherwise than the cache has them; `ids` has the group of each row.

        The pod in question counts nowhere, an assumed pod may be on its node, a pod in flight on
        each offered node, and a nominated pod on its own node.
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
        self, clause: CountClause, groups: CountGroups, wanted: Collection[int]
    ) -> Generator[None, None, list[PodInGroup]]:
        """The pods that `count` adds up in these groups, by name.

        It is for people: it looks at every pod, and yields after some of them.
        """
        members = self._members(clause.count, groups)
        counts, scope = members.adding.of, members.scope
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
        known = self.pods.ended if clause.count.peers.state == "ended" else self.pods
        for number, (key, pod) in enumerate(known.within(scope)):
            if number % _TURN == _TURN - 1:
                yield
            if pod.nodeName and is_on(pod.nodeName) and pod.uid != uid and is_counted(pod):
                found.append(PodInGroup(key, "in flight" if pod.uid in assumed else "bound"))
        for each in self._in_flight:
            is_there = bool(np.isin(each.groups(ids), list(wanted)).any())
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

    # What a clause counts in a group of nodes, without the pod in question, is
    #
    #     low  = members - there - assumed               at least
    #     high = members - there + in flight + nominated at most
    #
    # where each of these is the sum of what its pods add: 1 each, or their amounts.
    #
    #     members    the pods that the clause counts, and that the cache has on nodes of the group
    #     there      the pod in question, if it is one of these already
    #     assumed    members that are bound, but no watch has shown it yet
    #     in flight  pods that may end in the group, because they were offered a node of it; with
    #                `predicted`, those that probably do
    #     nominated  pods for which kube-scheduler keeps room on a node of the group

    def _counts(
        self, clause: CountClause, groups: CountGroups, *, predicted: bool, of_revision: bool
    ) -> GroupCounts:
        count = clause.count
        plain = self._membership(count, groups)
        if of_revision:
            plain = self._of_revision(plain)
        amount = count.peers.amount
        members = plain if amount is None else self._adding(plain, count, amount)
        tally = self._tally(members, count.peers)
        there = self._there(members, tally)
        high = groups.count_of(tally, self._table)
        if there.pod is not None and not there.waits:
            self._add(high, groups.counted, there.pod.nodeName, -there.adds)
        low = self._without_assumed(high, groups.counted, members, tally)
        flying = self._flying(count, members, tally)
        in_flight = _ends(flying, groups.counted, predicted=predicted)
        nominated = self._nominated_of(members)
        own = self._own(plain, count)
        total = pods = 0
        if clause.kind == "share":
            total, pods = self._totals(clause, tally, own, there.pod)
        if clause.groups_are == "used places":
            ids, rows = groups.counted, self._table.rows
            ends = [ids[[rows.get(node, UNKNOWN_ROW)]] for node, _ in nominated]
            ends = in_flight.get(1, []) + ends
            adds = np.ones(len(high), np.int64)
            if clause.amount is not None:
                adds = groups.adds[: len(high)]
            high, low = places_in_use(high, low, ends, adds) if own else (high * 0, low * 0)
            total = min(sum(adds[np.unique(ids[ids > OFF])].tolist()), FULL)
        else:
            self._add_on_the_way(high, groups.counted, in_flight, nominated)
        return GroupCounts(
            high=high,
            low=low,
            own=own,
            total=total,
            pods=pods,
            # As for InterPodAffinity: a pod that waits, or is on a node without the domain, is not.
            anywhere=groups.has_lower_bound and bool(np.count_nonzero(high)),
            domains=groups.domains() if clause.kind == "spread" else NO_DOMAINS,
            bounds=groups.bounds,
            min_domains=groups.min_domains,
            # Nobody else asks who waits.
            waits=self._waits(tally, there, flying) if groups.bounds_every else 0,
            is_member=bool(self.context.pod.own_group),
            eased=groups.eased,
            sections=groups.sections,
        )

    def _there(self, members: Membership, tally: Tally) -> _There:
        """What the pod in question adds to the tally."""
        known, scope = self.pods.pod(self._key), members.scope
        if known is None or known.uid != self.context.pod.uid:
            return _NOT_THERE
        # A tally has the pods of its scope alone, and none without one.
        if scope is None or not scope.holds(known):
            return _NOT_THERE
        adds = tally.added(self._key, known, members.adding.of)
        return _There(known, adds) if adds else _NOT_THERE

    def _nominated_of(self, members: Membership) -> list[tuple[str, int]]:
        """The nodes of the nominated pods that count, and what they add."""
        ahead = ((pod.nominatedNodeName, members.inside(pod)) for pod in self._nominated)
        return [(node, adds) for node, adds in ahead if adds]

    def _add_on_the_way(
        self,
        high: Counts,
        ids: GroupIds,
        in_flight: Mapping[int, list[GroupIds]],
        nominated: Sequence[tuple[str, int]],
    ) -> None:
        """Adds the pods that may end in the groups."""
        for adds, ended in in_flight.items():
            _add_all(high, ended, adds)
        for node, adds in nominated:
            self._add(high, ids, node, adds)

    def _without_assumed(
        self, high: Counts, ids: GroupIds, members: Membership, tally: Tally
    ) -> Counts:
        """The counts without what other pods add that are only assumed to be on their nodes."""
        low, uid, scope = high.copy(), self.context.pod.uid, members.scope
        for pod in self.pods.assumed() if self.pods.assumptions else ():
            if pod.uid != uid and scope is not None and scope.holds(pod):
                adds = tally.added(key_of(pod), pod, members.adding.of)
                self._add(low, ids, pod.nodeName, -adds)
        return low

    def _flying(
        self, count: CountProgram, members: Membership, tally: Tally
    ) -> Mapping[int, Sequence[InFlightPod]]:
        """The pods in flight that count, by what they add."""
        if not self._in_flight:
            return {}
        is_kept = members.name is not None and not count.peers.time_dependent
        tell = members.by_labels and partial(_by_labels, members.by_labels, members.scope)
        return by_amount(self._in_flight, members.inside, tally if is_kept else None, tell)

    def _waits(
        self, tally: Tally, there: _There, flying: Mapping[int, Sequence[InFlightPod]]
    ) -> int:
        """The number of the other pods that have no node and no offer, and are not idle.

        The watch may be late: a pod on its way may not be there yet, or be idle there. Of a member
        of a PodGroup they are the other members: none of them is bound before the last has a place.
        """
        if group := self.context.pod.own_group:
            # The members that have an offer are asked about again in the next placement.
            others = (self.pods.pod(name) for name in tally.waiting if name != self._key)
            members = (pod for pod in others if pod is not None)
            return sum(own_group(pod.namespace, pod.group) == group for pod in members)
        idle = tally.idle - (there.waits and there.pod is not None and there.pod.is_idle)
        waiting = len(tally.waiting) - there.waits - idle
        if waiting <= 0:
            return 0
        shown = (each.name for such in flying.values() for each in such)
        shown = (name for name in shown if name in tally.waiting)
        if not tally.idle:
            return max(0, waiting - sum(1 for _ in shown))
        known = map(self.pods.pod, shown)
        return max(0, waiting - sum(1 for pod in known if pod is not None and not pod.is_idle))

    def _totals(
        self, share: CountClause, tally: Tally, own: int, there: Peer | None
    ) -> tuple[int, int]:
        """The pods that are wanted, and all there are to place, for a share.

        `there` is the pod in question if the tally has it. A rollout, or a controller that is
        scaled down, has more pods than its workload wants. The pods beyond the surge, too, go soon,
        so an exact share takes no place for them: it might end among the others.
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

    def _of_revision(self, found: Membership) -> Membership:
        """Those of the pods that have the template of the pod in question."""
        asked, those = self.context.pod, found.adding.takes
        template = template_of(asked.labels, asked.controller)

        def takes(pod: Peer) -> int:
            return those(pod) if template_of(pod.labels, pod.controller) == template else 0

        name = None if found.name is None else (found.name, template)
        return found._replace(adding=found.adding._replace(takes=takes), name=name)

    def _members(self, count: CountProgram, of: Counted) -> Membership:
        """The pods that count, with what each adds."""
        members, amount = self._membership(count, of), count.peers.amount
        return members if amount is None else self._adding(members, count, amount)

    def _membership(self, count: CountProgram, of: Counted) -> Membership:
        """The pods that count."""
        context = self.context
        if count.peers.where is None:
            found = self._workload(count)
            return self._of_revision(found) if count.peers.revision else found
        scope = Scope(None if count.peers.everywhere else context.pod.namespace)
        where, frame = count.peers.where, self._frame
        inside = self._inside(count.peers.namespaces)
        state = count.peers.state

        def takes(pod: CountedPod) -> bool:
            if inside is not None and pod.namespace not in inside:
                return False
            if pod.deletionTimestamp is not None and not count.terminating:
                return False
            return not state or is_in(pod, state)

        def holds(pod: CountedPod) -> int:
            _begin(frame, pod)
            try:
                return where(frame) is True
            except EvaluationError:
                return False

        evaluated = self._charging(count.policy, holds)
        # A change of the namespaces makes another tally; such changes are rare. Clauses of a policy
        # that count the same pods have one closure for that.
        of_pod = of.pod_values
        if of_pod is None and count.peers.by_pod:
            of_pod = context.shape
        name = (count.policy, where, count.terminating, state, of_pod, inside)
        told = (lambda pod: takes(pod) and evaluated(pod)) if count.peers.by_labels else None
        return Membership(Adding(evaluated, takes, count.peers.reads), scope, name, told, of_pod)

    def _charging(self, policy: str, function: _OfPod) -> _OfPod:
        """The function of pods, with its policy charged for the time that it takes."""
        asked, frame, time = self.context.pod, self._frame, self.context.time
        times = time.times

        def run(pod: CountedPod) -> int:
            if times is None or pod is asked:
                return function(pod)
            if frame.check is not unlimited:
                # Whoever goes over many pods looks at the clock.
                if time.policy != policy:
                    time.charge(policy)
                return function(pod)
            # No call is charged: a tally follows the events of pods.
            with times.using(policy):
                return function(pod)

        return run

    def _adding(self, membership: Membership, count: CountProgram, amount: Evaluate) -> Membership:
        """The membership with what each pod adds: 0 where it has no amount, which is reported."""
        (those, takes, _), scope, name, _, of_pod = membership
        frame, report = self._frame, self.context.report

        def adds(pod: Peer) -> int:
            return reported(pod) if those(pod) else 0

        def read(pod: CountedPod) -> int:
            try:
                return _amount(frame, pod, amount)
            except EvaluationError as error:
                report(count.policy, count.name, error)
                return 0

        reported = self._charging(count.policy, read)
        # A name may stand for the pods of a workload, for whatever clause.
        adding = None if name is None else (name, count)
        return Membership(Adding(adds, takes, count.peers.reads), scope, adding, None, of_pod)

    def _own(self, members: Membership, count: CountProgram) -> int:
        """What the pod in question adds; without an amount, so much that it fits nowhere.

        A pod that has just been placed does not wait, is not ready, and has not ended.
        """
        amount = count.peers.amount
        if count.peers.state:
            return 0
        if amount is None and members.by_labels is not None:
            return int(members.by_labels(self.context.pod))
        peer = self.context.peer()
        counts = int(members.adding.of(peer))
        if amount is None or not counts:
            return counts
        try:
            return _amount(self._frame, peer, amount)
        except EvaluationError as error:
            self.context.report(count.policy, count.name, error)
            return 0 if count.missing == "pass" else FULL

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

    def _workload(self, count: CountProgram) -> Membership:
        """The pods of the same root controller. A pod without one is counted alone."""
        peer, terminating = self.context.peer(), count.terminating
        if peer.workload is None:
            return Membership(Adding(lambda pod: pod.uid == peer.uid), None, None, None)

        def takes(pod: Peer) -> bool:
            return terminating or pod.deletionTimestamp is None

        scope, name = Scope(peer.namespace, peer.workload.uid), ("workload", terminating)
        return Membership(Adding(lambda _: 1, takes, frozenset()), scope, name, None)

    def _tally(self, members: Membership, peers: Peers) -> Tally:
        adding, scope, name, _, of_pod = members
        if scope is None:
            return Tally(adding)
        check = self.context.time.check

        def size() -> int:
            # The functions keep the pod in question, and the name what they read of it.
            return self.context.pod.decoded_bytes + bytes_of(of_pod)

        if not peers.time_dependent:
            return self.pods.tallies.get(name, scope, adding, check, size)
        frame = self._frame
        basis = tuple(frame.tables.get(digest) for digest in peers.tables)

        def adds(pod: Peer) -> tuple[int, int]:
            frame.until = NEVER
            return adding.of(pod), frame.until

        now, given = frame.now.nanos, (check, size, basis)
        if peers.state == "ended":
            ended = self.pods.ended.tallies
            return ended.timed(name, scope, for_an_hour(adds, now), now, *given)
        return self.pods.tallies.timed(name, scope, adds, now, *given)

    def _add(self, found: Counts, ids: GroupIds, node: str, amount: int) -> None:
        row = self._table.rows.get(node, UNKNOWN_ROW)
        # What is full stays full: what is beyond it was not added.
        if (group := ids[row]) >= 0 and found[group] < FULL:
            found[group] = min(found.item(group) + amount, FULL)


def _ends(
    flying: Mapping[int, Sequence[InFlightPod]], ids: GroupIds, *, predicted: bool
) -> Mapping[int, list[GroupIds]]:
    """The groups where pods in flight may end, of each such pod, by what they add."""
    return {
        adds: [ids[[each.predicted]] if predicted else each.groups(ids) for each in such]
        for adds, such in flying.items()
    }


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


def _by_labels(counts: _OfPod, scope: Scope | None, pod: RequestPod) -> int:
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


def _amount(frame: Frame, pod: CountedPod, amount: Evaluate) -> int:
    """What a pod adds to a sum. Raises EvaluationError if it has no amount."""
    _begin(frame, pod)
    return added(amount(frame))


def _add_all(counts: Counts, groups: Sequence[GroupIds], amount: int) -> None:
    """Adds an amount to each of the groups, as often as it is listed."""
    if not groups or not amount:
        return
    named = np.concatenate(groups)
    # There are as many as pods in flight times nodes, and mostly each has its group.
    if (named < 0).any():
        named = named[named >= 0]
    times = np.bincount(named, minlength=len(counts))
    if amount == 1:
        counts += times
    else:
        more = np.where(times > FULL // amount, FULL, times * amount)
        np.minimum(counts + more, FULL, out=counts)
