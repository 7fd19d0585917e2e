"""Plan: the clauses compiled for one pod shape, and what they gave on each node.

A plan is made for the first pod of a shape under one registry. Its memos remember verdicts and
scores by row and re-evaluate a node only when the node has changed. The CallOpener keeps plans,
bounded by their size.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from copy import copy
from functools import partial
from itertools import count
from typing import Protocol, TypeVar
from weakref import WeakValueDictionary

import msgspec

from engine.cache.node_table import NodeRows, NodeTable, NodeWithPods
from engine.counting.count_clauses import CountClauses
from engine.counting.groups import CountContext, CountGroups, Headroom
from engine.counting.in_flight_pods import InFlightPod
from engine.counting.named_counts import NamedCount
from engine.decision import scoring
from engine.decision.filtering import FilterMemo
from engine.decision.registry import Registry, Selection
from engine.decision.verdict import Rejected
from engine.objects.request_pod import Namespace
from engine.program.columns import KindedClause, NodeKinds
from engine.program.frame import MEMO_BYTES, NO_GROUPS, Evaluation, Floats, unlimited
from engine.program.pod_shape import pod_values
from engine.program.program import (
    BindingProgram,
    CountClause,
    FilterProgram,
    NamedCountProgram,
    PartProgram,
    ScoreProgram,
    applies,
)
from grammar.messages.texts import MOST_SHOWN, cut, shown
from grammar.values.time import NEVER

Clause = TypeVar("Clause", FilterProgram, ScoreProgram)
Memo = TypeVar("Memo", FilterMemo, scoring.Scorer, scoring.ScoreMemo)


class SharedMemos:
    """The memos of plans, for other plans of pods that are alike to the same clauses.

    Pods of different shapes may be alike to a clause: `pod.name != "zz"` is true for most of them.
    A memo lives as long as a plan has it.
    """

    def __init__(self) -> None:
        self._filters: WeakValueDictionary[Hashable, FilterMemo] = WeakValueDictionary()
        self._scorers: WeakValueDictionary[Hashable, scoring.Scorer] = WeakValueDictionary()
        self._spares: WeakValueDictionary[Hashable, scoring.ScoreMemo] = WeakValueDictionary()
        self._named: WeakValueDictionary[Hashable, NamedCount] = WeakValueDictionary()
        self._changes = count(1)
        self._kinds: WeakValueDictionary[KindedClause, NodeKinds] = WeakValueDictionary()
        self._leaders: WeakValueDictionary[CountClause, CountGroups] = WeakValueDictionary()

    def kinds(self, clause: KindedClause) -> NodeKinds | None:
        """The kinds of nodes to a clause; None where it reads more of them than single values."""
        if clause.of_node is None:
            return None
        found = self._kinds.get(clause)
        if found is None:
            found = self._kinds[clause] = NodeKinds(clause.of_node, clause.nodes_per_look)
        return found

    def filters(self, clauses: Sequence[FilterProgram], evaluation: Evaluation) -> FilterMemo:
        """The memo of some clauses, for the pod of the evaluation. Raises ExpensivePolicyError."""
        make = partial(FilterMemo, kinds=self.kinds)
        return _shared(self._filters, make, clauses, evaluation)

    def scorer(self, clauses: Sequence[ScoreProgram], evaluation: Evaluation) -> scoring.Scorer:
        """The same for scores."""
        make = partial(scoring.Scorer, kinds=self.kinds)
        return _shared(self._scorers, make, clauses, evaluation)

    def named(self, program: NamedCountProgram, evaluation: Evaluation) -> NamedCount:
        """The same for a named count."""
        evaluation.time.charge(program.count.policy)
        values = pod_values(program.of_pod, evaluation.frame())
        evaluation.time.rest()
        key = program.digest, values
        found = self._named.get(key) if values is not None else None
        if found is None:
            found = NamedCount(program, values, self._changes)
            if values is not None:
                self._named[key] = found
        return found

    def spare(self, clause: ScoreProgram, evaluation: Evaluation) -> scoring.ScoreMemo:
        """The same for what others may take of a node."""
        return _shared(self._spares, lambda _: scoring.ScoreMemo(clause), (clause,), evaluation)

    def leader(self, clause: CountClause) -> CountGroups | None:
        """The groups of nodes that plans share for a clause; None: each plan has its own."""
        # A spread counts the nodes that its pod may go to.
        if not clause.count.of_nodes or clause.kind == "spread":
            return None
        found = self._leaders.get(clause)
        if found is None:
            found = self._leaders[clause] = CountGroups(clause)
        return found


def _shared(
    known: WeakValueDictionary[Hashable, Memo],
    make: Callable[[Sequence[Clause]], Memo],
    clauses: Sequence[Clause],
    evaluation: Evaluation,
) -> Memo:
    """The memo of these clauses for alike pods, or a new one."""
    key = _values(clauses, evaluation)
    found = known.get(key)
    if found is None:
        found = make(clauses)
        if key is not None:
            known[key] = found
    return found


def _values(clauses: Sequence[Clause], evaluation: Evaluation) -> Hashable | None:
    """What each clause reads of the pod; None if that cannot be compared."""
    found = []
    for clause in clauses:
        values: Hashable | None = ()
        if clause.of_pod:
            evaluation.time.charge(clause.policy)
            values = pod_values(clause.of_pod, evaluation.frame())
        if values is None:
            break
        found.append((clause, values))
    evaluation.time.rest()
    return tuple(found) if len(found) == len(clauses) else None


class Question(msgspec.Struct, frozen=True, eq=False):
    """A question about a pod with rooms, and nodes of the cache; `suits` has our scores 0..10."""

    context: CountContext
    table: NodeTable
    rows: NodeRows
    evaluation: Evaluation
    suits: Callable[[], Floats]
    rooms: Sequence[Room]


class Room(Protocol):
    """A room of pods of one shape: what they take of nodes beside counts. A part makes it.

    Its `clauses` say so; it is False if none of them applies, else it has a length. A pod in flight
    has `held` so much, by clause. `headrooms` are beside pods in flight; `has_room` says the same
    of a node that is not as the cache has it. `annotations` are those of a pod that is bound to a
    node (EngineError).
    """

    @property
    def clauses(self) -> Sequence[BindingProgram]: ...
    @property
    def held(self) -> Mapping[str, object]: ...
    def __len__(self) -> int: ...
    def headrooms(
        self, in_flight: Sequence[InFlightPod], question: Question
    ) -> Sequence[Headroom]: ...
    def has_room(
        self, node: NodeWithPods, in_flight: Sequence[InFlightPod], evaluation: Evaluation
    ) -> bool: ...
    def annotations(self, evaluation: Evaluation, node: object) -> Mapping[str, str]: ...


# The rooms of pods of a shape, of the policies that concern them. Raises ExpensivePolicyError.
OfShape = tuple[Selection, Evaluation, SharedMemos]
RoomMaker = Callable[[*OfShape], Sequence[Room]]


class Plan:
    """A plan: the clauses that apply to pods of one shape; it grows with the nodes it has seen.

    `empty`: no policy concerns pods of the shape, and no limit of other pods may keep them out.
    `filters`, `scorer`, `counts` and `rooms` decide. `named` has the counts that rules read, by
    digest. `of_parts` has the clauses by which parts of decisions decide. `conditional` are the
    clauses whose `when` reads named counts. In a plan for all pods of the shape they do not apply,
    in others those that do now. `scored`: some score clause or count preference applies. `audits`
    and `audited_counts` belong to policies in audit mode. `frame` is for counting. From `until` on,
    in nanoseconds, or once it is `outdated`, other clauses may apply. `programs` are those of the
    policies that it knows of.
    """

    def __init__(
        self,
        registry: Registry,
        where: str,
        namespace: Namespace | None,
        evaluation: Evaluation,
        memos: SharedMemos,
        rooms: RoomMaker,
        *,
        nodes: int,
        pod: int,
        exempt: str,
    ) -> None:
        """`evaluation` is of the first pod of the shape, `where` is its namespace.

        `memos` are shared with other plans. `nodes` estimates the size of the cluster, and `pod`
        the bytes of the pod, which it holds. `exempt` is the reason why no policy decides, empty
        where policies do.
        """
        self.outdated, self.where, self.namespace = False, where, namespace
        frame = evaluation.frame()
        self._made, frame.until = evaluation.now(), NEVER
        selection = Selection(exempt=exempt) if exempt else registry.select(where, evaluation)
        self.selection = selection
        reaching = () if exempt else [m for m in registry.mutual if m.reaches(where)]
        self.programs = frozenset((*selection.programs, *(m.program for m in reaching)))
        self.empty = selection.empty and not reaching
        enforced = selection.enforced
        every = (*enforced, *selection.audited)
        self.conditional = [clause for program in every for clause in program.conditional]
        self.filters = _filters(selection, memos, evaluation)
        scores = [c for c in selection.of(ScoreProgram) if applies(c, evaluation)]
        self.scorer = memos.scorer(scores, evaluation)
        named = (each for p in every for each in p.named)
        self.named = {each.digest: memos.named(each, evaluation) for each in named}
        self.counts = CountClauses(
            [clause for program in enforced for clause in program.counts],
            evaluation,
            [m for m in reaching if not m.program.audit],
            memos.leader,
        )
        self.of_parts = tuple(c for c in selection.of(PartProgram) if applies(c, evaluation))
        self.rooms = tuple(rooms(selection, evaluation, memos))
        self.scored = self.scorer.applies or self.counts.soft
        self.audits = [
            (p, memos.filters(p.of(FilterProgram), evaluation)) for p in selection.audited
        ]
        # The strict counts of policies in audit mode, with their limits of pods that are there.
        self.audited_counts = [
            *(
                (program, CountClauses(program.counts, evaluation))
                for program in selection.audited
                if any(clause.count.weight is None for clause in program.counts)
            ),
            *((m.program, CountClauses((), evaluation, [m])) for m in reaching if m.program.audit),
        ]
        self.until = frame.until
        # Tallies keep it, and go on counting after a call. It has a deadline only within a call,
        # and no groups, which would keep the nodes of this one.
        self.frame = copy(frame)
        self.frame.check, self.frame.groups = unlimited, NO_GROUPS
        self.time_dependent_counts = any(
            c.count.peers.time_dependent
            for p in every
            for each in (p.counts, p.named)
            for c in each
        )
        audited = (clause for _, each in self.audited_counts for clause in each.clauses)
        counting = (*self.counts.clauses, *audited)
        self._clauses = (selection, *reaching, *self.scorer.clauses, *counting, *self.of_parts)
        # Few frames keep as much as they may.
        self.bytes = 4096 + MEMO_BYTES // 2 + pod + nodes * self._bytes_of_node()

    def _bytes_of_node(self) -> int:
        """The bytes for each node.

        They are a code and a version in a FilterMemo, two numbers in a ScoreMemo, in each whether
        the node is stale, and what a clause gives for its kind.
        """
        judging = (*self.selection.enforced, *self.selection.audited)
        judged = sum(len(program.of(FilterProgram)) for program in judging) + len(self.scorer)
        taken = sum(map(len, self.rooms))
        return 13 * (1 + len(self.audits)) + 17 * (len(self.scorer) + taken) + 8 * judged

    def tables_changed(self, digests: AbstractSet[str]) -> None:
        """Has evaluated again what reads these tables: there are other ones now."""
        self.scorer.tables_changed(digests)
        for counts in (self.counts, *(counts for _, counts in self.audited_counts)):
            counts.tables_changed(digests)
        for memo in (self.filters, *(memo for _, memo in self.audits)):
            memo.tables_changed(digests)

    def lasts(self, now: int) -> bool:
        """Whether the clauses that apply are certain to be the same at a moment."""
        return self._made <= now < self.until

    def follows(self, earlier: Plan) -> Plan:
        """The earlier plan, with what it keeps, if the same clauses apply; else this one."""
        if self._clauses != earlier._clauses:
            return self
        earlier._made, earlier.until, earlier.outdated = self._made, self.until, False
        return earlier


def _filters(selection: Selection, memos: SharedMemos, evaluation: Evaluation) -> FilterMemo:
    """The memo of the filters; one verdict for every node where a `for` cannot be evaluated."""
    for broken in selection.unselectable:
        reason = shown(f"policy {broken.program.name}: its `for` cannot be evaluated")
        text = cut(reason, MOST_SHOWN)
        failed = Rejected(text, broken.program.address, "for", error=broken.error)
        return FilterMemo((), failed)
    return memos.filters(selection.of(FilterProgram), evaluation)
