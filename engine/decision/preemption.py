"""Preemption: the nodes on which kube-scheduler may evict pods to make room for another (C35-C42).

kube-scheduler's dry run does not ask extenders: without this verb it would evict pods on a node
that the policies keep the pod off. Where the policies need further victims, these are added as its
dry run would choose them: the fewest, the least important ones, and those without a budget first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from cachetools import TTLCache

from engine.cache.node_table import NodeTable, NodeWithPods, without
from engine.decision import filtering
from engine.decision.verdict import ClauseName
from engine.objects.disruption_budget import Budgets, violating
from engine.objects.peer import Peer, importance, key_of
from engine.program.frame import Evaluate, Evaluation
from engine.program.operations import magnitude
from engine.program.program import FilterProgram, PreemptProgram, Program
from grammar.values.errors import EvaluationError, MissingError

# The strict count that would keep the pod off a node, with some pods gone, which are not on it any
# more.
Closed = Callable[[NodeWithPods, Collection[Peer]], ClauseName | None]
# The most evaluations of all policies on a node, for victims of one call that are added. A node
# takes two, and for each added victim some seven more at 110 pods.
MOST_TRIALS = 1000
# The pods whose victims are remembered, and for how long.
_MOST_RECENT, _RECENT_SECONDS = 100, 10.0


@dataclass(frozen=True, slots=True)
class AddedVictim:
    """A victim that kube-scheduler did not propose, as `namespace/name`, and the clause for it."""

    pod: str
    uid: str
    because: ClauseName


@dataclass(frozen=True, slots=True)
class Victims:
    """The victims on a node by uid, most important first (C41); some may be `added`."""

    uids: Sequence[str]
    pdb_violations: int
    added: Sequence[AddedVictim] = ()


@dataclass(frozen=True, slots=True)
class Preemptor:
    """The preemptor: what is known of the pod that needs room, beside its policies.

    `nominated` is the node on which it expects to run, or empty, and `going` are the uids of pods
    there that were added as its victims just now. Pods that are exempt from policies are not
    evicted for them. `budgets` are None if they are not known.
    """

    priority: int
    nominated: str
    going: Collection[str]
    exempts: Callable[[Peer], bool]
    budgets: Budgets | None


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A candidate: a node, and the pods that would be evicted."""

    node: NodeWithPods
    victims: Victims
    peers: Sequence[Peer]

    @property
    def name(self) -> str:
        return self.node.name


@dataclass(frozen=True, slots=True)
class _Rejected:
    """Why a node is rejected with some pods gone, and whether it may pass without others."""

    because: ClauseName
    resolvable: bool


class RecentVictims:
    """The victims that were added for the last pods, by pod and node, for some seconds.

    Belongs to the engine. kube-scheduler evicts those of one node within that time, or none.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._known: TTLCache[str, Mapping[str, Collection[str]]]
        self._known = TTLCache(_MOST_RECENT, _RECENT_SECONDS, clock)

    def note(self, uid: str, kept: Mapping[str, Victims]) -> None:
        """Takes an answer about a pod."""
        if added := {node: found.uids for node, found in kept.items() if found.added}:
            self._known[uid] = added

    def on(self, uid: str, node: str) -> Collection[str]:
        """The uids of the victims on a node of the last answer about a pod."""
        return self._known.get(uid, {}).get(node, ())


def on_their_nodes(proposed: Mapping[str, Victims], table: NodeTable) -> Mapping[str, Victims]:
    """The candidates without those for which pods of another node would have to go.

    kube-scheduler 1.37 can propose all members of a PodGroup for a node, and does not take them
    back: an answer with a pod of another node fails the whole call (C38).
    """
    missing = set[str]()
    for name, victims in proposed.items():
        view = table.node(name)
        if view is not None and view.pods is not None:
            missing |= set(victims.uids).difference(pod.uid for pod in view.pods)
    if not missing:
        return proposed
    # One that is on no node that is known may just have been bound.
    placed = (pod for view in table.nodes if view is not None for pod in view.pods or ())
    elsewhere = {pod.uid: pod.nodeName for pod in placed if pod.uid in missing}
    return {
        name: victims
        for name, victims in proposed.items()
        if all(elsewhere.get(uid, name) == name for uid in victims.uids)
    }


class _TrialsOverError(Exception):
    """There are no more trials, or too little time for them."""


class Preemption:
    """One preempt call. `is_cut_short` says that nodes were left out for lack of trials."""

    def __init__(
        self,
        programs: Sequence[Program],
        table: NodeTable,
        evaluation: Evaluation,
        closed: Closed,
        preemptor: Preemptor,
        most_trials: int = MOST_TRIALS,
    ) -> None:
        """`programs` are the policies that apply to the pod."""
        self.is_cut_short = False
        self._filters = [clause for program in programs for clause in program.filters]
        self._occupancy = [clause for clause in self._filters if clause.resolvable]
        self._table = table
        self._frame = evaluation.frame()
        self._evaluation = evaluation
        self._report = evaluation.report
        self._closed = closed
        self._preemptor = preemptor
        self._trials_left = most_trials
        self._began = evaluation.time.clock()
        preempts = (clause for program in programs for clause in program.preempts)
        # A `when` reads the pod. A clause whose `when` cannot be evaluated applies.
        self._preempts = [
            clause
            for clause in preempts
            if clause.when is None
            or self._is(clause, clause.when.evaluate, otherwise=True, missing=False)
        ]

    def kept(self, proposed: Mapping[str, Victims]) -> dict[str, Victims]:
        """The nodes that are kept, each with its victims, in the order of `proposed`.

        Raises DeadlineExceededError and ExpensivePolicyError.

        A node is dropped if the node or a victim is not known, if a victim is protected, or if a
        filter or a strict count rejects the pod there with the victims gone. Where that may end
        when further pods of lower priority go, some of these are added instead. No node is kept
        while the pod only has to wait for pods on its nominated node that are going already.
        """
        if self._waits():
            return {}
        agreed: dict[str, _Candidate] = {}
        short: list[tuple[_Candidate, ClauseName]] = []
        for name, victims in proposed.items():
            self._evaluation.time.check()
            candidate = self._candidate(name, victims)
            if candidate is None:
                continue
            rejected = self._rejected(self._filters, candidate.node, candidate.peers)
            if rejected is None:
                # Nothing is to be evicted, so the answer must not have the node (C40).
                if candidate.peers and self._allowed(candidate):
                    agreed[name] = candidate
            elif rejected.resolvable and not self._protects_any(candidate):
                short.append((candidate, rejected.because))
        agreed |= self._extended(short)
        candidates: Sequence[_Candidate] = [agreed[name] for name in proposed if name in agreed]
        for clause in self._preempts:
            candidates = self._best(clause, candidates)
        self._evaluation.time.rest()
        return {candidate.name: candidate.victims for candidate in candidates}

    def _candidate(self, name: str, victims: Victims) -> _Candidate | None:
        """None where the node or a victim is not known."""
        view = self._table.node(name)
        if view is None or view.pods is None:
            return None
        there = {pod.uid: pod for pod in view.pods}
        if not there.keys() >= set(victims.uids):
            return None
        peers = sorted((there[uid] for uid in victims.uids), key=lambda p: -p.priority)
        ordered = replace(victims, uids=[pod.uid for pod in peers])
        return _Candidate(view, ordered, peers)

    def _rejected(
        self, filters: Sequence[FilterProgram], node: NodeWithPods, gone: Collection[Peer]
    ) -> _Rejected | None:
        """The first clause that rejects the pod on a node with some pods gone, or None."""
        left = without(node, gone) if gone else node
        self._frame.gone = tuple(gone)
        (finding,) = filtering.rejections(filters, self._evaluation, [left])
        if finding is not None:
            clause = finding.clause
            # No eviction helps where a clause cannot be evaluated.
            resolvable = clause.resolvable and finding.error is None
            return _Rejected(ClauseName(clause.policy, clause.name), resolvable)
        self._frame.node = left
        closed = self._closed(left, gone)
        return None if closed is None else _Rejected(closed, resolvable=True)

    def _waits(self) -> bool:
        """Whether the pod passes on its nominated node as soon as pods there are gone that go now.

        kube-scheduler has the pod wait for its own victims. Once these are gone it does not see
        that others still keep the pod off, and would evict pods on a second node.
        """
        node = self._table.node(self._preemptor.nominated)
        if node is None:
            return False
        lower, chosen = filter(self._is_below, node.pods or ()), self._preemptor.going
        # The watch may be behind kube-scheduler's, which does not see a pod any more.
        going = [p for p in lower if p.deletionTimestamp is not None or p.uid in chosen]
        return (
            bool(going)
            and self._rejected(self._filters, node, ()) is not None
            and self._rejected(self._filters, node, going) is None
        )

    # ---- `preempt` clauses

    def _protects_any(self, candidate: _Candidate) -> bool:
        self._frame.node = without(candidate.node, candidate.peers)
        return any(self._protects(clause, candidate.peers) for clause in self._preempts)

    def _allowed(self, candidate: _Candidate) -> bool:
        self._frame.node = without(candidate.node, candidate.peers)
        return all(self._allows(clause, candidate) for clause in self._preempts)

    def _protects(self, clause: PreemptProgram, victims: Sequence[Peer]) -> bool:
        """Whether a clause protects one of these pods."""
        frame = self._frame
        # If a condition cannot be evaluated, the pod is protected.
        missing = not clause.passes_missing
        for victim in victims:
            frame.victim = victim
            if any(self._is(clause, p, otherwise=True, missing=missing) for p in clause.protects):
                return True
        return False

    def _allows(self, clause: PreemptProgram, candidate: _Candidate) -> bool:
        if self._protects(clause, candidate.peers):
            return False
        self._frame.victims = candidate.peers
        if clause.allows is None:
            return True
        return self._is(clause, clause.allows, otherwise=False, missing=clause.passes_missing)

    def _best(
        self, clause: PreemptProgram, candidates: Sequence[_Candidate]
    ) -> Sequence[_Candidate]:
        if clause.keep is None or len(candidates) <= clause.keep:
            return candidates
        chosen = sorted(candidates, key=lambda c: self._rank(clause, c))[: clause.keep]
        names = {candidate.name for candidate in chosen}
        return [candidate for candidate in candidates if candidate.name in names]

    def _rank(self, clause: PreemptProgram, candidate: _Candidate) -> tuple[int, int, float]:
        """Lower is better: PDB violations, the highest priority evicted, the clause's value."""
        assert clause.order is not None, "it is there with `keep`"
        frame = self._frame
        self._evaluation.time.charge(clause.policy)
        frame.node, frame.victims = candidate.node, candidate.peers
        try:
            value = magnitude(clause.order(frame))
        except EvaluationError as error:
            self._report(clause.policy, clause.name, error)
            value = float("inf")
        return candidate.victims.pdb_violations, candidate.peers[0].priority, value

    def _is(
        self,
        clause: PreemptProgram,
        evaluate: Evaluate,
        *,
        otherwise: bool,
        missing: bool | None = None,
    ) -> bool:
        """Whether a condition is true; `otherwise` if it fails, `missing` if a field is missing."""
        self._evaluation.time.charge(clause.policy)
        try:
            return evaluate(self._frame) is True
        except MissingError:
            return otherwise if missing is None else missing
        except EvaluationError as error:
            self._report(clause.policy, clause.name, error)
            return otherwise

    # ---- further victims

    def _extended(self, short: Sequence[tuple[_Candidate, ClauseName]]) -> Mapping[str, _Candidate]:
        """The candidates with the victims that the policies need besides, where that is possible.

        kube-scheduler chooses by budgets and priorities, so the nodes that it would prefer come
        first: at the end of the trials the others are left out.
        """
        found: dict[str, _Candidate] = {}
        for candidate, because in sorted(short, key=lambda pair: _preference(pair[0])):
            try:
                extended = self._with_further(candidate, because)
            except _TrialsOverError:
                self.is_cut_short = True
                break
            if extended is not None and self._allowed(extended):
                found[extended.name] = extended
        return found

    def _with_further(self, candidate: _Candidate, because: ClauseName) -> _Candidate | None:
        """The candidate with further victims; None if no others that may be evicted help.

        `because` is the clause that rejects the pod without them.
        """
        node, given = candidate.node, candidate.peers
        lower = sorted((p for p in node.pods or () if self._is_below(p)), key=importance)
        budgets = self._preemptor.budgets
        breaks = violating(lower, budgets) if budgets is not None else frozenset[str]()
        given_uids = set(candidate.victims.uids)
        further = [p for p in lower if p.uid not in given_uids and self._may_go(node, p)]
        # The first ones are spared first.
        further.sort(key=lambda pod: pod.uid not in breaks)
        added = self._fewest(node, given, further, because) if further else None
        if added is None:
            return None
        uids = {victim.uid for victim in added}
        peers = sorted([*given, *(p for p in further if p.uid in uids)], key=importance)
        violations = candidate.victims.pdb_violations + len(uids & breaks)
        victims = Victims([pod.uid for pod in peers], violations, added)
        return _Candidate(node, victims, peers)

    def _is_below(self, pod: Peer) -> bool:
        return pod.priority < self._preemptor.priority

    def _may_go(self, node: NodeWithPods, pod: Peer) -> bool:
        """Whether a pod of lower priority may be evicted for a policy."""
        if self._preemptor.exempts(pod):
            return False
        if self._preemptor.budgets is None and pod.labels:
            # Some budget may be for it. None is for a pod without labels.
            return False
        self._frame.node = node
        return not any(self._protects(clause, [pod]) for clause in self._preempts)

    def _fewest(
        self,
        node: NodeWithPods,
        given: Sequence[Peer],
        further: Sequence[Peer],
        because: ClauseName,
    ) -> Sequence[AddedVictim] | None:
        """The fewest of further victims with which the pod passes; None if all are too few.

        As in kube-scheduler's dry run all are gone at first, and then each may stay, the first ones
        first, with whom the pod still passes. Many stay at once: the first who may not is found by
        halves. Raises _TrialsOverError.
        """
        if self._trial(node, [*given, *further]) is not None:
            return None
        added: list[AddedVictim] = []
        gone, undecided = list(given), list(further)
        refusal: ClauseName | None = because
        while undecided:
            # The pod passes while so many of the undecided stay, and does not with so many.
            passing, failing = 0, len(undecided)
            while refusal is not None and failing - passing > 1:
                middle = (passing + failing) // 2
                found = self._trial(node, [*gone, *undecided[middle:]])
                if found is None:
                    passing = middle
                else:
                    failing, refusal = middle, found
            if refusal is None:
                break
            victim = undecided[passing]
            added.append(AddedVictim(key_of(victim), victim.uid, refusal))
            gone.append(victim)
            undecided = undecided[failing:]
            refusal = self._trial(node, gone) if undecided else None
        return added

    def _trial(self, node: NodeWithPods, gone: Sequence[Peer]) -> ClauseName | None:
        """The clause that rejects the pod with some pods gone; what no eviction changes holds.

        Raises _TrialsOverError.
        """
        if not self._trials_left or self._evaluation.time.is_scarce(self._began):
            raise _TrialsOverError
        self._trials_left -= 1
        rejected = self._rejected(self._occupancy, node, gone)
        return rejected.because if rejected is not None else None


def _preference(candidate: _Candidate) -> tuple[int, int]:
    """Lower is better to kube-scheduler: budgets violated, the highest priority evicted."""
    highest = max((pod.priority for pod in candidate.peers), default=-(2**31))
    return candidate.victims.pdb_violations, highest
