"""Preemption: the nodes on which kube-scheduler may evict pods to make room for another (C35-C42).

kube-scheduler's dry run does not ask extenders: without this verb it would evict pods on a node
that the policies keep the pod off.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from engine.cache.node_table import NodeRows, NodeTable, without
from engine.decision import filtering
from engine.objects.peer import Peer
from engine.program.frame import Evaluate, Evaluation
from engine.program.operations import magnitude
from engine.program.program import PreemptProgram, Program
from grammar.values.errors import EvaluationError, MissingError

# Whether every strict count has headroom in these rows, with some pods gone.
HasHeadroom = Callable[[NodeRows, Collection[Peer]], bool]


@dataclass(frozen=True, slots=True)
class Victims:
    """UIDs of the pods to evict from a node, highest priority first (C41)."""

    uids: Sequence[str]
    pdb_violations: int


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A node that all policies accept, and the pods that would be evicted."""

    name: str
    victims: Victims
    peers: Sequence[Peer]


class Preemption:
    """One preempt call."""

    def __init__(
        self,
        programs: Sequence[Program],
        table: NodeTable,
        evaluation: Evaluation,
        has_headroom: HasHeadroom,
    ) -> None:
        """`programs` are the policies that apply to the pod."""
        self._filters = [clause for program in programs for clause in program.filters]
        self._table = table
        self._frame = evaluation.frame()
        self._evaluation = evaluation
        self._report = evaluation.report
        self._has_headroom = has_headroom
        preempts = (clause for program in programs for clause in program.preempts)
        # A `when` reads the pod. A clause whose `when` cannot be evaluated applies.
        self._preempts = [
            clause
            for clause in preempts
            if clause.when is None
            or self._is(clause, clause.when.evaluate, otherwise=True, missing=False)
        ]

    def kept(self, proposed: Mapping[str, Victims]) -> dict[str, Victims]:
        """The nodes that are kept, each with its victims.

        Raises DeadlineExceededError and ExpensivePolicyError.

        A node is dropped if it or one of its victims is not known, if a victim is protected, or if
        a filter or a strict count rejects the pod there with the victims gone. None is added.
        """
        agreed = []
        for name, victims in proposed.items():
            self._evaluation.time.check()
            candidate = self._candidate(name, victims)
            if candidate is not None and self._agree(candidate):
                agreed.append(candidate)
        candidates: Sequence[_Candidate] = agreed
        for clause in self._preempts:
            candidates = self._best(clause, candidates)
        self._evaluation.time.rest()
        return {candidate.name: candidate.victims for candidate in candidates}

    def _candidate(self, name: str, victims: Victims) -> _Candidate | None:
        """None where the node or a victim is not known, or nothing is to be evicted (C40)."""
        view = self._table.node(name)
        if view is None or view.pods is None or not victims.uids:
            return None
        there = {pod.uid: pod for pod in view.pods}
        if not there.keys() >= set(victims.uids):
            return None
        peers = sorted((there[uid] for uid in victims.uids), key=lambda p: -p.priority)
        ordered = replace(victims, uids=[pod.uid for pod in peers])
        return _Candidate(name, ordered, peers)

    def _agree(self, candidate: _Candidate) -> bool:
        view = self._table.node(candidate.name)
        assert view is not None, "it is a candidate"
        frame = self._frame
        left = without(view, candidate.peers)
        (finding,) = filtering.rejections(self._filters, self._evaluation, [left])
        if finding is not None:
            return False
        frame.node = left
        if not all(self._allowed(clause, candidate) for clause in self._preempts):
            return False
        return self._has_headroom(self._table.find([candidate.name]), candidate.peers)

    def _allowed(self, clause: PreemptProgram, candidate: _Candidate) -> bool:
        frame = self._frame
        for victim in candidate.peers:
            frame.victim = victim
            # If a condition cannot be evaluated, the pod is protected.
            missing = not clause.passes_missing
            if any(self._is(clause, p, otherwise=True, missing=missing) for p in clause.protects):
                return False
        frame.victims = candidate.peers
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
        frame.node, frame.victims = self._table.node(candidate.name), candidate.peers
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
