"""Preemption: the nodes on which kube-scheduler may evict pods to make room for another (C35-C42).

kube-scheduler's dry run does not ask extenders: without this verb it would evict pods on a node
that the policies keep the pod off.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from engine.cache.node_table import NodeTable, NodeWithPods, without
from engine.decision import filtering
from engine.decision.placement import Placement
from engine.decision.verb_call import VerbCall
from engine.objects.peer import Peer
from engine.program.frame import Evaluate
from engine.program.operations import magnitude
from engine.program.program import FilterProgram, PreemptProgram
from grammar.values.errors import EvaluationError, MissingError


@dataclass(frozen=True, slots=True)
class Victims:
    """The victims on a node by uid, most important first (C41)."""

    uids: Sequence[str]
    pdb_violations: int


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A candidate: a node, and the pods that would be evicted."""

    node: NodeWithPods
    victims: Victims
    peers: Sequence[Peer]


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


class Preemption:
    """Preemption decides one preempt call."""

    def __init__(self, call: VerbCall, placement: Placement) -> None:
        programs, evaluation = call.plan.selection.enforced, call.evaluation
        self._filters = [clause for program in programs for clause in program.of(FilterProgram)]
        self._table = call.snapshot.table
        self._frame = evaluation.frame()
        self._evaluation = evaluation
        self._report = evaluation.report
        self._by_counts = partial(placement.allows, call)
        preempts = (clause for program in programs for clause in program.of(PreemptProgram))
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
        filter or a strict count rejects the pod there with the victims gone.
        """
        candidates: Sequence[_Candidate] = [
            candidate
            for name, victims in proposed.items()
            if (candidate := self._candidate(name, victims)) is not None
            # Where nothing is to be evicted, the answer must not have the node (C40).
            and candidate.peers
            and self._passes(candidate)
            and self._allowed(candidate)
        ]
        for clause in self._preempts:
            candidates = self._best(clause, candidates)
        self._evaluation.time.rest()
        return {candidate.node.name: candidate.victims for candidate in candidates}

    def stays(self, node: NodeWithPods, pod: Peer) -> bool:
        """Whether a clause protects a pod on this node."""
        self._frame.node = node
        return any(self._protects(clause, [pod]) for clause in self._preempts)

    def _candidate(self, name: str, victims: Victims) -> _Candidate | None:
        """None where the node or a victim is not known."""
        self._evaluation.time.check()
        view = self._table.node(name)
        if view is None or view.pods is None:
            return None
        there = {pod.uid: pod for pod in view.pods}
        if not there.keys() >= set(victims.uids):
            return None
        peers = sorted((there[uid] for uid in victims.uids), key=lambda p: -p.priority)
        ordered = replace(victims, uids=[pod.uid for pod in peers])
        return _Candidate(view, ordered, peers)

    def _passes(self, candidate: _Candidate) -> bool:
        """Whether nothing rejects the pod on a node with the victims gone."""
        gone = candidate.peers
        left, self._frame.gone = without(candidate.node, gone), tuple(gone)
        (finding,) = filtering.rejections(self._filters, self._evaluation, [left])
        self._frame.node = left
        return finding is None and self._by_counts(left, gone)

    # ---- `preempt` clauses

    def _allowed(self, candidate: _Candidate) -> bool:
        self._frame.node = without(candidate.node, candidate.peers)
        return all(self._allows(clause, candidate) for clause in self._preempts)

    def _protects(self, clause: PreemptProgram, victims: Sequence[Peer]) -> bool:
        """Whether a clause protects one of these pods."""
        frame = self._frame
        protected = not clause.passes_missing
        for victim in victims:
            frame.victim = victim
            if any(self._is(clause, p, otherwise=protected) for p in clause.protects):
                return True
        return False

    def _allows(self, clause: PreemptProgram, candidate: _Candidate) -> bool:
        if self._protects(clause, candidate.peers):
            return False
        self._frame.victims = candidate.peers
        return all(self._is(clause, e, otherwise=clause.passes_missing) for e in clause.requires)

    def _best(
        self, clause: PreemptProgram, candidates: Sequence[_Candidate]
    ) -> Sequence[_Candidate]:
        if clause.keep is None or len(candidates) <= clause.keep:
            return candidates
        chosen = sorted(candidates, key=lambda c: self._rank(clause, c))[: clause.keep]
        names = {candidate.node.name for candidate in chosen}
        return [candidate for candidate in candidates if candidate.node.name in names]

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
