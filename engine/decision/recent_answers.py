"""Recent answers: what a decision leaves behind, and how earlier ones may change the answer.

An answer of filter is recorded in the journal, and kept for the requeuer and the binder:
RejectedPods and LastAnswers are values that the engine writes and others read. A Damper damps a pod
that is rejected again and again. An AfterDecision is made with its parts and passed to the engine.
All live as long as the server, on its event loop.

A second look tells whether a rejected pod would pass now. Nobody waits for it, so it takes small
portions of time. It offers nothing, but a part of decisions may reserve places for a pod that
passes.
"""

from __future__ import annotations

import re
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter

import msgspec
import numpy as np
from cachetools import TTLCache

from engine.cache.node_table import KnownRows
from engine.decision import filtering
from engine.decision.journal import Journal
from engine.decision.part import DecisionPart
from engine.decision.placement import PlacingParts
from engine.decision.preemption import Victims
from engine.decision.verb_call import Observer, VerbCall
from engine.decision.verdict import (
    FEASIBLE,
    MOST_REPEATED,
    Codes,
    Decision,
    Feasible,
    HeldBack,
    Rejected,
    Scores,
    Verdict,
    attributed,
)
from engine.errors import EngineError, WaitingError, own_text
from engine.objects.peer import Peer
from engine.objects.remembered import Remembered
from engine.objects.request_pod import RequestPod
from engine.program.frame import Evaluation
from engine.program.program import CountProgram, FilterProgram, PartProgram
from grammar.messages.texts import MOST_ERROR, cut, shown

WINDOW_SECONDS = 10.0
# The number of rejections within the window before the next one is damped.
REJECTIONS = 3
# The first pause during which rejections are sent as errors, and the longest one, which is that
# after which kube-scheduler tries a rejected pod again without any event.
_FIRST_ERRORS_SECONDS, _MOST_ERRORS_SECONDS = 10.0, 300.0
# What a damped pod takes besides its texts.
_DAMPED_BYTES = 512
# The bytes of a name in an answer, and of an answer without nodes.
_NAME_BYTES, _ANSWER_BYTES = 64, 256


@dataclass(frozen=True, slots=True)
class Damped:
    """A damped rejection, which comes again and again: `text` for all nodes, or as an error."""

    text: str
    is_error: bool


@dataclass(slots=True)
class _Repeated:
    """Repeated rejections of one pod for the same reasons.

    `times` are the times of the last rejections that count, `revision` is the pod's at the last of
    them, and `shown` has the reasons since the time `since`. With `has_one_text` every node gets
    the text of all reasons. They are errors until `errors_until`, for the last time for as long as
    `pause`.
    """

    reasons: frozenset[str]
    since: float
    times: deque[float]
    shown: set[str]
    revision: int = 0
    has_one_text: bool = False
    pause: float = 0.0
    errors_until: float = float("-inf")

    @property
    def text(self) -> str:
        return cut("; ".join(sorted(self.reasons)), MOST_ERROR)

    @property
    def bytes(self) -> int:
        return _DAMPED_BYTES + sum(map(len, self.reasons))


class Damper:
    """The damper of each pod's rejections, to break kube-scheduler's hot loop.

    kube-scheduler writes the condition of a pod whenever its text changes, and retries the pod for
    that without backoff (C47). The counts beside our texts change with the nodes of each request,
    so the fourth rejection within ten seconds, and all after it, give every node the same text:
    there is one count, that of the nodes. If that does not help, because somebody else's texts
    change, rejections are sent as errors, which kube-scheduler retries after 1, 2, 4, 8 and then 10
    seconds whatever happens (C50). After a pause that doubles from 10 seconds to 5 minutes they are
    rejections again. `known` has the pods by uid.

    Autoscalers do not see a pod after an error (C30), so only a loop is ended like that: a pod that
    has not changed since its last rejection was retried for an event (C49), which does not count.

    INVARIANT: the text of a damped pod is the same at each call, as long as all its reasons are
    known. A new reason, and a node that passes, begin anew. Reasons that five minutes have not
    shown are dropped.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.known: Remembered[str, _Repeated] = Remembered(
            size=lambda uid, repeated: len(uid) + repeated.bytes
        )

    def rejected(
        self, uid: str, reasons: Collection[str], revision: int = 0, *, is_requeued: bool = False
    ) -> Damped | None:
        """Takes a rejection of the pod on every node; None if it is sent as it is.

        `revision` is the pod's, 0 if unknown. With `is_requeued` Placet itself has had
        kube-scheduler ask, which is no loop.
        """
        now, known = self._clock(), self.known.get(uid)
        if known is None or not known.reasons.issuperset(reasons):
            # Under sampling, each request shows some of the reasons.
            before = known.reasons if known is not None and _is_hot(known, now) else ()
            repeated = _Repeated(
                frozenset([*reasons, *before]), now, deque(maxlen=REJECTIONS), set()
            )
            known = self.known.put(uid, repeated)
        is_loop = not is_requeued and (revision == 0 or revision != known.revision)
        known.revision = revision
        known.shown.update(reasons)
        if now - known.since >= _MOST_ERRORS_SECONDS:
            known.reasons, known.since, known.shown = frozenset(known.shown), now, set()
        if now < known.errors_until:
            return Damped(known.text, is_error=True)
        if not is_loop:
            return Damped(known.text, is_error=False) if known.has_one_text else None
        if len(known.times) == REJECTIONS and _is_hot(known, now):
            known.times.clear()
            if known.has_one_text or len(known.reasons) == 1:
                known.pause = min(2 * known.pause, _MOST_ERRORS_SECONDS) or _FIRST_ERRORS_SECONDS
                known.errors_until = now + known.pause
                return Damped(known.text, is_error=True)
            known.has_one_text = True
        known.times.append(now)
        return Damped(known.text, is_error=False) if known.has_one_text else None

    def passed(self, uid: str) -> None:
        """Forgets a pod that some node accepts."""
        self.known.pop(uid)


def _is_hot(repeated: _Repeated, now: float) -> bool:
    """Whether all rejections that are remembered are of the last ten seconds."""
    times = repeated.times
    return bool(times) and now - times[0] < WINDOW_SECONDS


class GivenAnswer(msgspec.Struct, frozen=True, eq=False):
    """An answer as it was given: the verdicts of nodes, which are `names`, or are known by rows.

    Without `codes` no node is offered, and the pod does not matter. `earlier` is the answer before
    it in the same `cycle` of the pod's group, which may still choose of that.
    """

    pod: RequestPod | None = None
    names: Sequence[str] = ()
    codes: Codes | None = None
    known_rows: KnownRows | None = None
    cycle: int = 0
    earlier: GivenAnswer | None = None

    @property
    def body(self) -> bytes:
        return self.pod.body if self.pod is not None else b""

    @property
    def bytes(self) -> int:
        """About the bytes that it holds, without the names of all nodes, which answers share."""
        if self.pod is None:
            return _ANSWER_BYTES
        size = self.pod.decoded_bytes
        for each in self._of_cycle():
            rows = each.known_rows.rows.nbytes if each.known_rows is not None else 0
            rows += each.codes.nbytes if each.codes is not None else 0
            size += _NAME_BYTES * len(each.names) + rows
        return size

    def goes_on(self, pod: RequestPod) -> bool:
        """Whether the cycle that it is of may have asked about the pod again."""
        return self.pod is not None and (self.cycle, self.pod.revision) == (pod.cycle, pod.revision)

    def offers(self, node: str) -> bool:
        return any(_offers(each, node) for each in self._of_cycle())

    def _of_cycle(self) -> Iterator[GivenAnswer]:
        """This answer, and those before it in the same cycle."""
        answer: GivenAnswer | None = self
        while answer is not None:
            yield answer
            answer = answer.earlier


def _offers(answer: GivenAnswer, node: str) -> bool:
    if answer.codes is None:
        return False
    if (known := answer.known_rows) is not None:
        row = known.nodes.get(node)
        return row is not None and bool((answer.codes[known.rows == row] == 0).any())
    names = answer.names[:]
    # Of a repeated name the first counts.
    return node in names and not answer.codes[names.index(node)]


class LastAnswers:
    """The last answer of filter about each pod, by uid: the binder binds only what it offers.

    A binding follows its answer within milliseconds, mostly. Answers that are used least are
    forgotten, and so are answers about bound and deleted pods; the binder then asks again.
    """

    def __init__(self) -> None:
        self._known: Remembered[str, GivenAnswer] = Remembered(
            size=lambda uid, answer: len(uid) + answer.bytes,
            owner=lambda answer: answer.pod.namespace if answer.pod is not None else "",
        )

    def answered(self, pod: RequestPod, names: Sequence[str], decided: Decision | None) -> None:
        """Takes an answer about these nodes; None is an error, which offers none."""
        answer, earlier = GivenAnswer(), self._known.get(pod.uid) if pod.cycle else None
        if earlier is not None and not earlier.goes_on(pod):
            earlier = None
        if decided is not None and np.count_nonzero(decided.codes) < len(decided.codes):
            known = decided.known_rows
            there = names if known is None else ()
            answer = GivenAnswer(pod, there, decided.codes, known, pod.cycle, earlier)
        elif decided is not None and earlier is not None:
            return
        self._known.put(pod.uid, answer)

    def find(self, uid: str) -> GivenAnswer | None:
        return self._known.get(uid)

    def pod_changed(self, old: Peer | None, new: Peer | None, revision: int) -> None:
        """Takes a new state of a pod from the cache; it is a PodEventHandler.

        The binder puts a pod on a node without a revision, before the Binding is created.
        """
        if new is not None and new.nodeName and revision:
            self._known.pop(new.uid)
        if old is not None and (new is None or new.uid != old.uid):
            self._known.pop(old.uid)


@dataclass(slots=True)
class RejectedPod:
    """One rejected pod: when it was rejected, and when it is due again, in seconds of the clock.

    `policy` is the one that rejected most of them, empty if that is not known. `is_requeued` says
    that it was requeued since.
    """

    pod: RequestPod
    at: float
    due: float
    pause: float
    policy: str = ""
    is_requeued: bool = False

    @property
    def bytes(self) -> int:
        return self.pod.undecoded_bytes

    def was_told(self, since: float) -> bool:
        """Whether it was requeued since a time, and kube-scheduler has not asked about it yet."""
        return self.is_requeued and self.due - self.pause > since


# kube-scheduler writes the condition of a pod within this time after our answer.
_WRITTEN_SECONDS = 10.0


class RejectedStatus(msgspec.Struct, frozen=True):
    """The rejected pods in numbers: those that wait, and what became of requeues."""

    waiting: int
    waitingByPolicy: Mapping[str, int]
    requeues: int
    offered: int
    refusedAgain: int


class RejectedPods:
    """The pods that were rejected last, by uid. Bound and deleted pods are forgotten.

    So are those that kube-scheduler has rejected itself since, without asking.

    kube-scheduler asks again on an event of its own watch, and we answer from ours. A pod that was
    rejected because our cache was late, or by a rule that time makes true, would wait for minutes.

    `requeues` counts the requeued pods, `offered` and `refused_again` the answers about them.
    """

    def __init__(self, clock: Callable[[], float], first_pause: float, most_pause: float) -> None:
        self._clock = clock
        self._first = first_pause
        self._most = most_pause
        self._known: Remembered[str, RejectedPod] = Remembered(
            size=lambda _, rejected: rejected.bytes, owner=lambda rejected: rejected.pod.namespace
        )
        self.requeues = self.offered = self.refused_again = 0

    def __contains__(self, uid: str) -> bool:
        return uid in self._known

    def find(self, uid: str) -> RejectedPod | None:
        return self._known.get(uid)

    def answered(self, pod: RequestPod, *, offered: bool, policy: str = "") -> None:
        """Takes an answer; `policy` has rejected most of the nodes."""
        known = self._known.pop(pod.uid)
        if known is not None and known.is_requeued:
            self.offered += offered
            self.refused_again += not offered
        if not offered:
            self._add(pod, known, policy)

    def noticed(self, pod: RequestPod) -> None:
        """Takes a pod that another replica has rejected, or this one before a restart."""
        self._add(pod, self._known.pop(pod.uid), "")

    def is_requeued(self, uid: str) -> bool:
        """Whether the pod was requeued since the last answer about it."""
        known = self._known.get(uid)
        return known is not None and known.is_requeued

    def is_same(self, rejected: RejectedPod, due: float) -> bool:
        """Whether a pod that was due then was neither requeued nor asked about since."""
        return self._known.get(rejected.pod.uid) is rejected and rejected.due == due

    def _add(self, pod: RequestPod, known: RejectedPod | None, policy: str) -> None:
        now = self._clock()
        pause = self._first if known is None else known.pause
        rejected = RejectedPod(pod.undecoded(), now, now + pause, pause, policy)
        self._known.put(pod.uid, rejected)

    def pod_changed(self, old: Peer | None, new: Peer | None, _revision: int) -> None:
        """Takes a new state of a pod from the cache; it is a PodEventHandler."""
        if old is None or not self._known:
            return
        if new is None or new.uid != old.uid or new.nodeName:
            self._known.pop(old.uid)
        elif _reasons(new) != _reasons(old):
            known = self._known.get(new.uid)
            if known is not None and self._clock() - known.at > _WRITTEN_SECONDS:
                self._known.pop(new.uid)

    def requeued(self, rejected: RejectedPod) -> None:
        """Takes that a pod is requeued; doubles the pause before the next look at it."""
        self.requeues += 1
        rejected.is_requeued = True
        self.postpone(rejected)

    def not_requeued(self, rejected: RejectedPod) -> None:
        """Takes back that a pod is requeued: it is due as before."""
        self.requeues -= 1
        rejected.is_requeued = False
        rejected.pause /= 2
        rejected.due = self._clock()

    def postpone(self, rejected: RejectedPod) -> None:
        """Doubles the pause before the next look at a pod."""
        rejected.pause = min(2 * rejected.pause, self._most)
        rejected.due = self._clock() + rejected.pause

    def status(self) -> RejectedStatus:
        by_policy = dict(Counter(each.policy for each in self._known.values()))
        numbers = self.requeues, self.offered, self.refused_again
        return RejectedStatus(len(self._known), by_policy, *numbers)

    def due(self) -> Iterator[RejectedPod]:
        """The pods that may be requeued now."""
        now = self._clock()
        return (rejected for rejected in self._known.values() if rejected.due <= now)


def _reasons(pod: Peer) -> str | None:
    """The text with which kube-scheduler says why the pod is not scheduled."""
    return pod.unscheduled.message if pod.unscheduled is not None else None


class SecondLooks:
    """The looks of one engine, made of its parts."""

    def __init__(self, placing: PlacingParts, parts: Sequence[DecisionPart]) -> None:
        self._calls, self._placement, self._plugins, self._pods = placing
        self._parts = parts

    def read(self, pod: bytes) -> RequestPod:
        """A pod to ask about. Raises BadObjectError."""
        return self._pods.read(pod)

    def waits_unchanged(self, pod: RequestPod) -> bool:
        """Whether a look would say no: the pod waits for the same as before."""
        return any(part.waits_unchanged(pod) for part in self._parts)

    def has_refused(self, pod: RequestPod, reasons: str) -> bool:
        """Whether kube-scheduler's `reasons` have one that the policies give for this pod.

        Raises EngineError as `would_pass`.
        """
        call = self._calls.look(pod)
        texts = list[str]()
        for program in call.plan.selection.enforced:
            counts = (clause.count for clause in program.counts)
            strict = [count for count in counts if count.weight is None]
            texts += _event_texts((*program.of(FilterProgram), *strict), call.evaluation)
        mutual = (limit.clause.count for limit in call.plan.counts.mutual)
        texts += _event_texts(mutual, call.evaluation)
        # As in `2 Insufficient cpu, 1 policy web: zone.`; a damped text joins several by `; `.
        ours = [re.escape(text) for text in texts if text]
        # That of a part goes on with what the pod waits for; Placet's own may say anything.
        of_parts = (f"{text}: " for text in _event_texts(call.plan.of_parts, call.evaluation))
        ours += [f"{re.escape(text)}[^.;]*" for text in (*of_parts, own_text(""))]
        return re.search(rf"(?:\d|;) (?:{'|'.join(ours)})(?:[,.;]|$)", reasons) is not None

    def would_pass(self, pod: RequestPod) -> bool:
        """Whether filter would offer a node that kube-scheduler would ask about.

        Nobody waits for the answer, so a call is a portion of a few milliseconds. Raises
        DeadlineExceededError at its end: the next call continues. Raises other EngineErrors where
        there would be no decision.
        """
        call = self._calls.look(pod)
        counts, table = call.plan.counts, call.snapshot.table
        rows = np.fromiter(table.rows.values(), np.intp, len(table.rows))
        decided = call.plan.filters.decide(table, rows, call.evaluation)
        passing = rows[decided.codes == 0]
        if len(passing) and (counts.strict or call.plan.of_parts):
            self._placement.check(call, asked=False)
            passing = passing[self._placement.open(call, passing)]
        if not len(passing) or not all(part.would_pass(call) for part in self._parts):
            return False
        check = call.evaluation.time.check
        return bool(self._plugins.allowed(pod, table, passing, check).any())

    def waits_for(self, pod: bytes, node: str) -> Rejected | None:
        """The first `bind` clause that the binding of a pod to a node waits for.

        Raises EngineError where there is no decision.
        """
        call = self._calls.look(self._pods.other(pod))
        clauses = filtering.waits(call.plan.selection.of(FilterProgram))
        (rejection,) = filtering.rejections(clauses, call.evaluation, [call.snapshot.node(node)])
        return None if rejection is None else rejection.verdict(rejection.text(call.evaluation))


def _event_texts(
    clauses: Iterable[FilterProgram | CountProgram | PartProgram], evaluation: Evaluation
) -> Iterator[str]:
    """The texts of clauses as events have them, or had them without the names of policies."""
    for clause in clauses:
        text = clause.message(evaluation)
        yield from (text, attributed(clause.policy, text))


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


@dataclass(eq=False, slots=True)
class AfterDecision:
    """What decisions leave behind.

    The `journal` records what filter and prioritize answer. `rejected` takes the pods that filter
    rejects, and `answers` keeps the nodes that it offers. `later` runs work after an answer. The
    `clock`, in seconds, is that of the engine: pods are damped by it.
    """

    clock: Callable[[], float] = time.monotonic
    journal: Journal | None = None
    rejected: RejectedPods | None = None
    answers: LastAnswers | None = None
    later: Later = at_once
    _damper: Damper = field(init=False)
    unmet: UnmetShares = field(init=False)

    def __post_init__(self) -> None:
        self._damper, self.unmet = Damper(self.clock), UnmetShares(self.clock)

    def adopted(self) -> None:
        """Other policies are enforced from now on."""
        self.unmet.forget()
        if self.journal is not None:
            self.journal.adopted()

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
        if self.rejected is not None:
            policy = culprit if offered or decided is None else _rejecting(decided)
            self.rejected.answered(pod, offered=offered, policy=policy)
        if self.answers is not None:
            self.answers.answered(pod, names, decided)
        return offered

    def refused(
        self, pod: RequestPod, decided: Decision, floors: Collection[Clause] = ()
    ) -> Decision:
        """The answer about a pod without a node, in the form that kube-scheduler settles with.

        `floors` are the strict shares with a lower bound that apply to the pod. Raises EngineError
        if kube-scheduler should retry the pod itself.
        """
        decided = of_no_node(decided)
        self.unmet.refused(pod.uid, decided, floors)
        rows, headrooms = decided.known_rows, decided.headrooms
        pairs = zip(decided.verdicts, decided.counts(), strict=True)
        refusals = [v for v, n in pairs if n and not isinstance(v, Feasible)]
        is_requeued = self.rejected is not None and self.rejected.is_requeued(pod.uid)
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
        self,
        call: VerbCall,
        names: Sequence[str],
        decided: Decision,
        seconds: float,
        observer: Observer | None = None,
    ) -> None:
        """Reports and records a decision of filter, which took so many seconds, now."""
        if observer is not None:
            report(decided, observer)
        if self.journal is not None:
            self.journal.filtered(call, names, decided, seconds)

    def failed(self, pod: RequestPod, nodes: int, error: EngineError) -> None:
        """Records later that filter had no decision about so many nodes."""
        if (journal := self.journal) is not None:
            text = shown(str(error), MOST_ERROR)
            self.later(lambda: journal.failed(pod, nodes, text))

    def scored(self, call: VerbCall, names: Sequence[str], scores: Scores, seconds: float) -> None:
        """Records later what prioritize has answered, which took so many seconds."""
        if (journal := self.journal) is not None:
            self.later(lambda: journal.scored(call.pod, names, scores, seconds))

    def preempted(
        self, call: VerbCall, proposed: Mapping[str, Victims], kept: Mapping[str, Victims]
    ) -> None:
        """Records later what preempt has answered."""
        if (journal := self.journal) is not None:
            self.later(lambda: journal.preempted(call, proposed, kept))


def of_no_node(decided: Decision) -> Decision:
    """The decision about a pod without a node, with reasons that name their policies.

    Raises WaitingError where a node is not known yet.
    """
    for verdict, count in zip(decided.verdicts, decided.counts(), strict=True):
        if count and isinstance(verdict, Rejected) and verdict.waits:
            raise WaitingError(verdict.reason, of_clause=True)
    rows, headrooms = decided.known_rows, decided.headrooms
    return Decision(decided.codes, _attributed(decided), rows, headrooms)


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
