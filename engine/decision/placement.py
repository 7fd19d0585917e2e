"""Placement: the feasible nodes that a pod is offered, so that every bound holds.

Strict counts hold because a pod is offered only nodes with headroom, and counts on all of them
until kube-scheduler has bound it, and because only one of several replicas decides by them. So each
offer takes a place in each group of nodes. The rule, for limits, sums, spreads, shares and rooms:

    A pod is offered every node with headroom as long as, whatever kube-scheduler chooses, one more
    pod like it still fits on some node afterwards, or nobody waits. If none would, nodes are held
    back in as many groups as other pods wait, so that each of them finds a place; the pod keeps one
    group at least. Several floors can hold only if the pod ends in one group: then it is offered
    one, whoever waits, and whether another pod fits or not.

Headroom itself is of the worst case, so no offer can pass a bound, whether it is wide or narrow.
Placement belongs to the engine and lives as long as it does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol
from zlib import crc32

import numpy as np
import numpy.typing as npt

from engine.cache.cache import Cache
from engine.cache.node_table import UNKNOWN_ROW, NodeRows, NodeTable, NodeWithPods, Snapshot
from engine.cache.pods_excluding import KnownPods, PodsExcluding
from engine.counting.bounds import Mask
from engine.counting.count_clauses import CountClauses
from engine.counting.groups import CountContext, CountHeadroom, Headroom
from engine.counting.in_flight_pods import DEFAULT_SCHEDULERS, AskedPod, InFlightPods, Schedulers
from engine.counting.pod_counter import PodCounter
from engine.decision.filtering import UNKNOWN_NODE
from engine.decision.plan import Question
from engine.decision.plugin_filters import PluginFilters
from engine.decision.verb_call import CallOpener, ClusterState, VerbCall
from engine.decision.verdict import Decision, HeldBack, Rejected, Verdict
from engine.errors import BriefWaitError, HandoverError, WaitingError
from engine.objects.peer import Peer
from engine.objects.request_pod import RequestPod, RequestPodReader
from engine.program.columns import Freshness, grown
from engine.program.frame import Evaluation, Floats
from engine.program.program import BindingProgram
from grammar.values.time import SECOND, Timestamp

# kube-scheduler does not say why it did not bind a pod to a node that it was offered.
NOT_BOUND = "the pod was not bound to the offered node; retrying"
# The ReplicaSet of an older pod is known, or there is none any more.
_NEW_SECONDS = 30


class CountGate(Protocol):
    """The gate of counts: why this replica may not decide by counts now, or empty.

    One of several replicas may. `asked` says that a client waits for the answer.
    """

    def __call__(self, *, asked: bool = True) -> str: ...


def open_gate(*, asked: bool = True) -> str:  # noqa: ARG001 - a CountGate
    """The gate of the only replica."""
    return ""


@dataclass(frozen=True, slots=True)
class ReplicaRole:
    """What this replica may decide: by counts, as its `gate` says.

    `binds` says that pods are bound here: so they get annotations here, and wait for others. With
    `watches`, what a new pod belongs to may still come; a cluster that stands still is whole.
    `hold` raises BriefWaitError for a pod that is not decided about yet; None where there is none.
    `schedulers` are those that ask.
    """

    gate: CountGate = open_gate
    binds: bool = True
    watches: bool = False
    hold: Callable[[RequestPod], None] | None = None
    schedulers: Schedulers = DEFAULT_SCHEDULERS


ONLY_REPLICA = ReplicaRole()


# ---- which nodes are offered

# The resources by which kube-scheduler's own NodeResourcesFit tells how full a node is.
_RESOURCES = ("cpu", "memory")
# Odd, without a pattern.
_FACTOR = np.uint32(0x9E3779B1)
# The steps of a score, of how full a node is, and of chance, in one number of 63 bits.
_SCORE_STEPS, _FULL_BITS, _CHANCE_BITS = 1 << 18, 14, 24
_WORST = np.iinfo(np.int64).max

# The rank of each node, the best one with the smallest number.
Ranks = npt.NDArray[np.int64]
# A clause whose offers take places for which others wait, and the nodes with room for a second pod.
_Taking = tuple[Headroom, Mask]


def narrowed(
    headrooms: Sequence[Headroom], opened: Mask, ranks: Callable[[], Ranks]
) -> Sequence[tuple[Headroom, Mask]]:
    """The clauses that hold nodes back, and the nodes that are left to offer after each of them.

    There are none where every node that is `opened`, by all clauses, is offered. One node is open.
    First come the clauses that hold only if what is offered is in one group.
    """
    taking = [(each, each.roomy) for each in headrooms if each.roomy is not None]

    def order(each: _Taking) -> tuple[int, int]:
        """The fewest nodes with room for another pod first, then the fewest groups."""
        headroom, roomy = each
        return int(np.count_nonzero(opened & roomy)), len(np.unique(headroom.groups[opened]))

    taking.sort(key=order)
    found, kept = list[tuple[Headroom, Mask]](), opened
    for headroom, _ in taking:
        if headroom.in_one_group and len(np.unique(headroom.groups[kept])) > 1:
            kept = _in_best_groups(headroom, kept, ranks())
            found.append((headroom, kept))
    needed = found.copy()
    for headroom, _ in taking:
        if _another_fits(taking, opened, kept):
            return found
        if not headroom.in_one_group:
            kept = _in_best_groups(headroom, kept, ranks())
            found.append((headroom, kept))
    # Where no other pod would fit all the same, holding nodes back for it helps nobody.
    return found if _another_fits(taking, opened, kept) else needed


def _another_fits(taking: Sequence[_Taking], opened: Mask, kept: Mask) -> bool:
    """Whether a second pod like the asked pod fits on an open node, wherever the first one goes."""
    left = opened
    for headroom, roomy in taking:
        groups = headroom.groups
        # The last entry is that of OUTSIDE, -1.
        may_be_taken = np.zeros(int(groups.max()) + 2, np.bool_)
        may_be_taken[groups[kept]] = True
        left = left & (roomy | ~may_be_taken[groups])
    return bool(np.count_nonzero(left))


def _in_best_groups(headroom: Headroom, kept: Mask, ranks: Ranks) -> Mask:
    """The nodes in the best groups of a clause; it leaves a group to each pod that waits."""
    groups = headroom.groups
    best = np.full(int(groups.max()) + 2, _WORST)
    np.minimum.at(best, groups[kept], ranks[kept])
    number = max(1, int(np.count_nonzero(best < _WORST)) - headroom.wait)
    is_kept = np.zeros(len(best), np.bool_)
    is_kept[np.argpartition(best, number - 1)[:number]] = True
    return kept & is_kept[groups]


class NodeRanking:
    """The order in which nodes are kept for a pod.

    The best by our own scores comes first, then the emptiest by requests, then chance. Chance is of
    the uid of the pod and the name of the node, so that every replica and `simulate` choose alike.
    A node is read again where its version has changed. It belongs to Placement.
    """

    def __init__(self) -> None:
        self._fresh = Freshness()
        self._full = np.empty(0, np.float64)
        self._names = np.empty(0, np.uint32)

    def ranks(self, table: NodeTable, rows: NodeRows, suits: Floats, uid: str, last: Mask) -> Ranks:
        """The ranks of rows; `suits` has our own scores. Rows that are `last` follow all others."""
        self._update(table, rows)
        # The multiplication spreads the differences of names over all bits.
        mixed = (self._names[rows] ^ np.uint32(crc32(uid.encode()))) * _FACTOR
        ranks = ((32 * last - suits + 16) * _SCORE_STEPS).astype(np.int64)
        full = (self._full[rows] * ((1 << _FULL_BITS) - 1)).astype(np.int64)
        chance = (mixed >> np.uint32(32 - _CHANCE_BITS)).astype(np.int64)
        return (ranks << (_FULL_BITS + _CHANCE_BITS)) | (full << _CHANCE_BITS) | chance

    def _update(self, table: NodeTable, rows: NodeRows) -> None:
        size = len(table.nodes)
        self._full, self._names = grown(self._full, size, 0), grown(self._names, size, 0)
        for portion in self._fresh.stale(table, lambda: 0, rows):
            for row in portion.tolist():
                if (node := table.nodes[row]) is not None:
                    self._full[row], self._names[row] = _fullness(node), crc32(node.name.encode())
            self._fresh.worked_out(table, portion)


def _fullness(node: NodeWithPods) -> float:
    """The mean of the parts of resources that the pods on a node request, 0 where none is known."""
    if node.requested is None:
        return 0.0
    parts = [node.requested[r].nanos / max(1, node.allocatable[r].nanos) for r in _RESOURCES]
    return sum(min(1.0, part) for part in parts) / len(parts)


def _not_narrowed() -> Floats:
    raise AssertionError("only an answer of filter is narrowed to the best node")


def _question(
    call: VerbCall, snapshot: Snapshot, rows: NodeRows, suits: Callable[[], Floats] = _not_narrowed
) -> Question:
    """The question that a call asks about these nodes of a snapshot."""
    context, rooms_of_pod = call.context(snapshot), [each for each in call.plan.rooms if each]
    return Question(context, snapshot.table, rows, call.evaluation, suits, rooms_of_pod)


class PlacingParts(NamedTuple):
    """The parts of an engine that place pods on paper: those that read pods, and that decide."""

    calls: CallOpener
    placement: Placement
    plugins: PluginFilters
    pods: RequestPodReader


@dataclass(eq=False, slots=True)
class Placement:
    """Placement decides by counts, as far as the replica's role lets it, and remembers offers."""

    _cluster: ClusterState
    in_flight: InFlightPods
    _role: ReplicaRole
    _now: Callable[[], Timestamp]
    _ranking: NodeRanking = field(default_factory=NodeRanking, init=False)

    def check(self, call: VerbCall, *, asked: bool = True) -> None:
        """Raises HandoverError where another replica decides by the counts of a call.

        Looks of our own are not `asked`: the Lease follows the calls of clients alone.
        """
        decides = call.plan.counts.strict or call.plan.rooms or call.plan.of_parts
        if decides and (reason := self._role.gate(asked=asked)):
            raise HandoverError(reason)

    def closed_gate(self) -> str:
        """The reason why this replica may not decide now, or empty; nobody is asking."""
        return self._role.gate(asked=False)

    def check_binds(self, call: VerbCall, clause: BindingProgram) -> None:
        """Raises WaitingError where nobody asks bind, which decides by a clause about the pod.

        Bind is asked of who answers filter, and only one replica decides: raises as `check`.
        """
        if not self._role.binds:
            work = f"policy {clause.policy} {clause.binding_work} at bind"
            text = f"{work}: serve with `--bind`, and set the extender's `bindVerb`"
            raise WaitingError(text, policy=clause.policy)
        self.check(call)

    def _check_workload(self, call: VerbCall) -> None:
        """Raises BriefWaitError where a pod would be counted without those of other revisions.

        The watch of ReplicaSets may be behind that of pods. A pod that is not new has none.
        """
        pod = call.pod
        if not (self._role.watches and call.plan.counts.need_workloads and pod.controller):
            return
        if pod.controller in call.snapshot.workloads:
            return
        # Not of the peer, which is decoded after the answer.
        owner, created = pod.owner, pod.created
        if owner is None or owner.kind != "ReplicaSet" or created is None:
            return
        if abs(self._now().nanos - created.nanos) < _NEW_SECONDS * SECOND:
            raise BriefWaitError(f"waiting until ReplicaSet {owner.name} of the pod is known")

    def counter(
        self, table: NodeTable, context: CountContext, pods: KnownPods | None = None
    ) -> PodCounter:
        """The counter for a pod, if these are the pods, or those of the cluster."""
        in_flight = self.in_flight.others(context.pod.uid, table)
        return PodCounter(pods or self._cluster.pods, in_flight, table, context)

    def allows(self, call: VerbCall, left: NodeWithPods, gone: Collection[Peer]) -> bool:
        """Whether every strict clause would allow the pod on a node with some pods gone.

        `left` is the node without them.
        """
        table = call.snapshot.table
        question = _question(call, call.snapshot, table.find([left.name]))
        context = question.context
        if call.plan.counts.strict:
            pods = PodsExcluding(self._cluster.pods, gone)
            if not all(each.open.all() for each in self.headrooms(call, question.rows, pods)):
                return False
        if not question.rooms:
            return True
        there = self.in_flight.holding(context.pod, table) or ()
        there = [pod for pod in there if (pod.rows == question.rows[0]).any()]
        return all(room.has_room(left, there, question.evaluation) for room in question.rooms)

    def headrooms(self, call: VerbCall, rows: NodeRows, pods: KnownPods) -> Sequence[CountHeadroom]:
        """The headroom of each strict clause on these nodes, if these were the pods."""
        table = call.snapshot.table
        counter = self.counter(table, call.context(call.snapshot), pods)
        return call.plan.counts.headrooms(counter, table, rows, call.evaluation)

    @property
    def pods(self) -> Cache:
        return self._cluster.pods

    def closed(
        self, counts: CountClauses, call: VerbCall, names: Sequence[str]
    ) -> list[tuple[str, Mask]]:
        """The strict ones of these clauses that reject some nodes, and which these are.

        `counts` need not be those of the call's plan.
        """
        snapshot = call.snapshot
        question = _question(call, snapshot, snapshot.table.find(names))
        closed = ((h.rule.name, ~h.hopeful) for h in self._of(counts, question))
        return [(name, mask) for name, mask in closed if mask.any()]

    def open(self, call: VerbCall, rows: NodeRows) -> Mask:
        """Which of these nodes have headroom under every strict clause, and room for the pod."""
        question = _question(call, call.snapshot, rows)
        headrooms, _ = self._whole(call.plan.counts, question)
        return _opened(headrooms, np.ones(len(rows), np.bool_))

    def reserve(self, call: VerbCall, row: int) -> None:
        """Counts a pod on a node that it is to be offered, as if it had been."""
        question = _question(call, call.snapshot, np.array([row], np.intp))
        self._offer(question, np.ones(1, np.bool_), is_narrow=False, predicts=False)

    def withdraw(self, call: VerbCall) -> None:
        """Takes back what `reserve` has counted."""
        self.in_flight.refuse(call.pod.uid)

    def take(self, call: VerbCall, node: str) -> int | None:
        """Takes the node that the pod is about to be bound to. Returns its deletion cost.

        Bound pods alone count: another pod that may end there has its own look before it does.
        Raises WaitingError where a strict clause has none: another pod was bound first, and
        kube-scheduler has to ask again. Raises BriefWaitError as `answer`.
        """
        self._check_workload(call)
        counts, snapshot = call.plan.counts, call.snapshot
        question = _question(call, snapshot, snapshot.table.find([node]))
        counter = PodCounter(self._cluster.pods, (), question.table, question.context)
        headrooms = counts.headrooms(counter, question.table, question.rows, question.evaluation)
        if full := [headroom for headroom in headrooms if not headroom.open.all()]:
            raise WaitingError(_joined(full, question.evaluation), of_clause=True)
        return counts.deletion_cost(counter, int(question.rows[0]))

    def answer(
        self,
        call: VerbCall,
        snapshot: Snapshot,
        rows: NodeRows,
        suits: Callable[[], Floats],
        decided: Decision,
        *,
        predicts: bool,
    ) -> Decision:
        """The decision with the nodes held back that strict clauses do not allow.

        It is about these rows of a snapshot, for which `suits` gives our scores. The nodes that are
        left are offered to the pod. `predicts` says that some policy counts in-flight pods where
        they probably end.

        Raises BriefWaitError where only in-flight pods are in the way, or where the pod's
        ReplicaSet is not known yet; WaitingError once after a narrow offer that did not end in a
        binding; HandoverError as `check`; DeadlineExceededError and ExpensivePolicyError.
        """
        self.check(call)
        self._check_workload(call)
        counts, question = call.plan.counts, _question(call, snapshot, rows, suits)
        feasible: Mask = decided.codes == 0
        before = self.in_flight.narrow_offer(call.pod.uid)
        headrooms, own = self._whole(counts, question)
        if not headrooms:
            self._offer(question, feasible, is_narrow=False, predicts=predicts)
            return decided
        opened, asked = _opened(headrooms, feasible), question.context.pod
        if not np.count_nonzero(opened):
            # An error about a placement would end the whole cycle of a group.
            if not asked.own_group:
                self.in_flight.forget(asked.uid)
                _check_hopeful(headrooms, feasible, question.evaluation)
            return _rejected(decided, headrooms, own, feasible, opened, question)
        # A group is asked about again for its next placement.
        if before is not None and not (before.excused or asked.own_group):
            before.excused = True
            raise WaitingError(NOT_BOUND)
        narrow: Sequence[tuple[Headroom, Mask]] = ()
        if any(headroom.roomy is not None for headroom in headrooms):
            narrow = self.narrowed(
                asked.uid, question.table, question.rows, headrooms, opened, question.suits
            )
        kept = narrow[-1][1] if narrow else opened
        # It may run out of time, so it comes before the offer.
        left = _rejected(decided, headrooms, own, feasible, opened, question, narrow)
        self._offer(question, kept, is_narrow=bool(narrow), predicts=predicts)
        return left

    def judged(self, call: VerbCall, rows: NodeRows, decided: Decision) -> Decision:
        """The decision as `answer` makes it, about a pod that nobody places: nothing is offered.

        Raises as `answer`.
        """
        self.check(call, asked=False)
        counts, question = call.plan.counts, _question(call, call.snapshot, rows)
        feasible: Mask = decided.codes == 0
        headrooms, own = self._whole(counts, question)
        opened = _opened(headrooms, feasible)
        if not np.count_nonzero(opened):
            _check_hopeful(headrooms, feasible, question.evaluation)
        return _rejected(decided, headrooms, own, feasible, opened, question)

    def narrowed(
        self,
        uid: str,
        table: NodeTable,
        rows: NodeRows,
        headrooms: Sequence[Headroom],
        opened: Mask,
        suits: Callable[[], Floats],
    ) -> Sequence[tuple[Headroom, Mask]]:
        """The clauses that hold open nodes back from a pod, as `offers.narrowed`."""

        def ranks() -> Ranks:
            before = self.in_flight.narrow_offer(uid)
            last = np.isin(rows, () if before is None else before.tried)
            return self._ranking.ranks(table, rows, suits(), uid, last)

        return narrowed(headrooms, opened, ranks)

    def _of_rooms(self, question: Question) -> list[Headroom]:
        """The headrooms of rooms; none where one pod is bound before the next is asked about."""
        pod, table = question.context.pod, question.table
        if not question.rooms or (others := self.in_flight.holding(pod, table)) is None:
            return []
        return [each for room in question.rooms for each in room.headrooms(others, question)]

    def _whole(
        self, counts: CountClauses, question: Question
    ) -> tuple[Sequence[Headroom], Sequence[CountHeadroom]]:
        """The headrooms of all that may keep the pod out, and those of its strict clauses."""
        if not counts.strict and not question.rooms:
            return (), ()
        counted = self._of(counts, question)
        return [*counted, *self._of_rooms(question)], counted[: counts.own]

    def _of(self, counts: CountClauses, question: Question) -> list[CountHeadroom]:
        counter = self.counter(question.table, question.context)
        return counts.headrooms(counter, question.table, question.rows, question.evaluation)

    def _offer(self, question: Question, kept: Mask, *, is_narrow: bool, predicts: bool) -> None:
        rows = question.rows[kept]
        best = int(rows[0]) if len(rows) else 0
        if predicts and len(rows) > 1:
            best = int(rows[int(np.argmax(question.suits()[kept]))])
        context = question.context
        pod = context.pod
        self.in_flight.offer(
            AskedPod(pod.uid, context.peer, pod.revision, pod),
            question.table,
            rows,
            best,
            is_narrow=is_narrow,
            holds={key: its for room in question.rooms for key, its in room.held.items()},
        )


def _opened(headrooms: Sequence[Headroom], feasible: Mask) -> Mask:
    """The feasible nodes that every clause leaves open."""
    opened = feasible.copy()
    for headroom in headrooms:
        opened &= headroom.open
    return opened


def _check_hopeful(headrooms: Sequence[Headroom], feasible: Mask, evaluation: Evaluation) -> None:
    """Raises BriefWaitError where only in-flight pods are in the way of some node."""
    hopeful = feasible.copy()
    for headroom in headrooms:
        hopeful &= headroom.hopeful
    if hopeful.any():
        waiting = [h for h in headrooms if (feasible & ~h.open & h.hopeful).any()]
        text = f"waiting for in-flight pods: {_joined(waiting, evaluation)}"
        raise BriefWaitError(text)


def _rejected(
    decided: Decision,
    headrooms: Sequence[Headroom],
    own: Sequence[CountHeadroom],
    feasible: Mask,
    opened: Mask,
    question: Question,
    narrow: Sequence[tuple[Headroom, Mask]] = (),
) -> Decision:
    """The decision with `own` headrooms, and a verdict for each feasible node that is not offered.

    The first clause without headroom rejects it, and holds it back where only pods in flight are in
    the way. `narrow` has the clauses that hold open ones back. No clause speaks of a node that is
    gone or not known yet.
    """
    left, evaluation = feasible & ~opened, question.evaluation
    if not narrow and not np.count_nonzero(left):
        return Decision(decided.codes, decided.verdicts, decided.known_rows, own)
    codes = decided.codes.copy()
    verdicts: list[Verdict] = list(decided.verdicts)

    def end(nodes: Mask, verdict: Verdict) -> None:
        verdicts.append(verdict)
        codes[nodes] = len(verdicts) - 1

    if (unknown := left & (question.rows == UNKNOWN_ROW)).any():
        rule = headrooms[0].rule
        end(unknown, Rejected(UNKNOWN_NODE, rule.policy, rule.name, waits=True))
        left &= ~unknown
    for headroom in headrooms:
        full, rule = left & ~headroom.hopeful, headroom.rule
        if full.any():
            # An eviction can help: the pods that are counted can be evicted.
            end(full, Rejected(rule.message(evaluation), rule.policy, rule.name, resolvable=True))
            left &= ~full
    for headroom in headrooms:
        if (full := left & ~headroom.open).any():
            end(full, HeldBack(headroom.rule.policy, headroom.rule.name))
            left &= ~full
    for headroom, kept in narrow:
        end(opened & ~kept, HeldBack(headroom.rule.policy, headroom.rule.name))
        opened = opened & kept
    return Decision(codes, verdicts, decided.known_rows, own)


def _joined(headrooms: Sequence[Headroom], evaluation: Evaluation) -> str:
    """The texts of some clauses, each once."""
    return "; ".join(dict.fromkeys(h.rule.message(evaluation) for h in headrooms))
