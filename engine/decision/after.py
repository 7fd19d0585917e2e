"""After a decision: what a decision leaves behind, and how earlier ones may change the answer.

An answer of filter is recorded in the journal, and kept for the requeuer and the binder. A pod that
is rejected again and again is damped. An AfterDecision is made with its parts and passed to
the engine, and lives as long as that.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter

import numpy as np
from cachetools import TTLCache

from engine.decision.journal import Journal
from engine.decision.preemption import Victims
from engine.decision.recent_answers import Damper, LastAnswers, RejectedPods
from engine.decision.verb_call import Observer, VerbCall
from engine.decision.verdict import (
    FEASIBLE,
    MOST_REPEATED,
    Decision,
    Feasible,
    HeldBack,
    Rejected,
    Scores,
    Verdict,
    attributed,
)
from engine.errors import EngineError, WaitingError
from engine.objects.request_pod import RequestPod
from grammar.messages.texts import MOST_ERROR, cut, shown

# kube-scheduler asks again about a pod that waits at least every five minutes.
_UNMET_SECONDS = 6 * 60.0
# Those of further pods have the same reasons.
_MOST_UNMET = 1000
# A caller can send any text; a uid of the API server has 36 characters.
_LONGEST_UID = 64

# The policy of a share, and its name.
Clause = tuple[str, str]
# Runs work that no answer has to wait for, in order.
Later = Callable[[Callable[[], None]], object]


def at_once(work: Callable[[], None]) -> None:
    """The `Later` of callers without an event loop."""
    work()


class UnmetShares:
    """The strict shares with a lower bound for which pods wait, as no node meets them.

    What `placet check` knows of constants is an error there. The rest shows when kube-scheduler
    asks: the nodes of the share are full, gone, or not offered, and the nodes off the share have
    all the pods that are left for them. `known` has the policy and the share by uid.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.known: TTLCache[str, Clause] = TTLCache(_MOST_UNMET, _UNMET_SECONDS, clock)

    def refused(self, uid: str, decided: Decision, floors: Collection[Clause]) -> None:
        """Takes a pod that no node takes; `floors` are the strict shares with a lower bound."""
        self.known.pop(uid, None)
        for verdict, count in zip(decided.verdicts, decided.counts(), strict=True):
            if not count or not isinstance(verdict, Rejected):
                continue
            clause = verdict.policy, verdict.clause
            if clause in floors and len(uid) <= _LONGEST_UID:
                self.known[uid] = clause
                return

    def offered(self, uid: str) -> None:
        """Takes a pod that has a node, or is answered without the clauses."""
        self.known.pop(uid, None)

    def forget(self) -> None:
        """Forgets all: other policies are enforced."""
        self.known.clear()

    @property
    def by_policy(self) -> Mapping[str, str]:
        """The first of the shares of each policy, by the address of the policy."""
        return dict(sorted(set(self.known.values()), key=itemgetter(1), reverse=True))


class AfterDecision:
    """What decisions leave behind.

    The `journal` records what filter and prioritize answer. `rejected` takes the pods that filter
    rejects, and `answers` keeps the nodes that it offers. `later` runs work after an answer. The
    `clock`, in seconds, is that of the engine: pods are damped by it.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        *,
        journal: Journal | None = None,
        rejected: RejectedPods | None = None,
        answers: LastAnswers | None = None,
        later: Later = at_once,
    ) -> None:
        self.later = later
        self._journal = journal
        self._rejected = rejected
        self._answers = answers
        self._damper = Damper(clock)
        self.unmet = UnmetShares(clock)

    def adopted(self) -> None:
        """Other policies are enforced from now on."""
        self.unmet.forget()
        if self._journal is not None:
            self._journal.adopted()

    # ---- answers of filter

    def answered(
        self, pod: RequestPod, names: Sequence[str], decided: Decision | None, culprit: str = ""
    ) -> bool:
        """Takes an answer before it is sent; None is an error. Returns whether any node is offered.

        `culprit` is the policy that is the reason of an error, or empty. Called once for each call
        of filter.
        """
        codes = decided.codes if decided is not None else ()
        offered = bool(np.count_nonzero(codes) < len(codes))
        if offered and self.unmet.known:
            self.unmet.offered(pod.uid)
        if offered and self._damper.known.peek(pod.uid) is not None:
            self._damper.passed(pod.uid)
        if self._rejected is not None:
            policy = culprit if offered or decided is None else _rejecting(decided)
            self._rejected.answered(pod, offered=offered, policy=policy)
        if self._answers is not None:
            self._answers.answered(pod, names, decided)
        return offered

    def refused(
        self, pod: RequestPod, decided: Decision, floors: Collection[Clause] = ()
    ) -> Decision:
        """The answer about a pod without a node, in the form that kube-scheduler settles with.

        `floors` are the strict shares with a lower bound that apply to the pod. Raises EngineError
        if kube-scheduler should retry the pod itself.
        """
        counts = decided.counts()
        for verdict, count in zip(decided.verdicts, counts, strict=True):
            if count and isinstance(verdict, Rejected) and verdict.waits:
                raise WaitingError(verdict.reason, of_clause=True)
        self.unmet.refused(pod.uid, decided, floors)
        verdicts, rows, headrooms = _attributed(decided), decided.known_rows, decided.headrooms
        decided = Decision(decided.codes, verdicts, rows, headrooms)
        pairs = zip(verdicts, counts, strict=True)
        refusals = [v for v, n in pairs if n and not isinstance(v, Feasible)]
        is_requeued = self._rejected is not None and self._rejected.is_requeued(pod.uid)
        reasons = {v.reason for v in refusals}
        damped = self._damper.rejected(pod.uid, reasons, pod.revision, is_requeued=is_requeued)
        if damped is None:
            return decided
        if damped.is_error:
            raise EngineError(damped.text, policy=_rejecting(decided), of_clause=True)
        text = cut(damped.text, max(1, MOST_REPEATED // len(decided)))
        first = refusals[0]
        is_resolvable = all(v.resolvable for v in refusals)
        one = Rejected(text, first.policy, first.clause, is_resolvable)
        return Decision(np.ones(len(decided), np.int32), (FEASIBLE, one), rows, headrooms)

    # ---- the journal

    def filtered(
        self, call: VerbCall, names: Sequence[str], decided: Decision, seconds: float
    ) -> None:
        """Records a decision of filter, which took so many seconds, now."""
        if self._journal is not None:
            self._journal.filtered(call, names, decided, seconds)

    def failed(self, pod: RequestPod, nodes: int, error: EngineError) -> None:
        """Records later that filter had no decision about so many nodes."""
        if (journal := self._journal) is not None:
            text = shown(str(error), MOST_ERROR)
            self.later(lambda: journal.failed(pod, nodes, text))

    def scored(self, call: VerbCall, names: Sequence[str], scores: Scores, seconds: float) -> None:
        """Records later what prioritize has answered, which took so many seconds."""
        if (journal := self._journal) is not None:
            self.later(lambda: journal.scored(call.pod, names, scores, seconds))

    def preempted(
        self, call: VerbCall, proposed: Mapping[str, Victims], kept: Mapping[str, Victims]
    ) -> None:
        """Records later what preempt has answered."""
        if (journal := self._journal) is not None:
            self.later(lambda: journal.preempted(call, proposed, kept))


def report(decided: Decision, observer: Observer) -> None:
    """Tells the observer which clauses rejected nodes or held them back, and which ones failed."""
    for verdict, count in zip(decided.verdicts, decided.counts(), strict=True):
        if not count or isinstance(verdict, Feasible):
            continue
        if isinstance(verdict, HeldBack):
            observer.held_back(verdict.policy, verdict.clause, count)
            continue
        if verdict.error:
            observer.failed(verdict.policy, verdict.clause, verdict.error)
        observer.rejected(verdict.policy, verdict.clause, count)


def _rejecting(decided: Decision) -> str:
    """The policy that rejects the most nodes; of several the first by name."""
    nodes: Counter[str] = Counter()
    for verdict, count in zip(decided.verdicts, decided.counts(), strict=True):
        if not isinstance(verdict, Feasible):
            nodes[verdict.policy] += count
    return min(nodes, key=lambda name: (-nodes[name], name), default="")


def _attributed(decided: Decision) -> list[Verdict]:
    """The verdicts with reasons that name their policy; equal reasons are one text."""
    texts: dict[tuple[str, str], str] = {}
    found: list[Verdict] = []
    for verdict in decided.verdicts:
        if isinstance(verdict, Feasible | HeldBack):
            found.append(verdict)
            continue
        key = verdict.policy, verdict.reason
        if (text := texts.get(key)) is None:
            text = texts[key] = attributed(*key)
        found.append(verdict if text is verdict.reason else replace(verdict, reason=text))
    return found
