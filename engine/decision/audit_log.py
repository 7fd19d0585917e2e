"""AuditLog: the pods that policies in audit mode would have rejected, for people who ask later.

A pod is in the log if a policy in audit mode leaves it none of the offered nodes, or if it went to
a node that the policy rejects. The log belongs to the Audits of an engine and lives as long as
these. It is bounded: the oldest pods are forgotten, and only counted. A policy that changes begins
anew.

Audits find what such policies would reject, which changes no answer. They work after the answer, in
portions of a few milliseconds, so that no other call waits for them.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import compress

import msgspec
import numpy as np
import numpy.typing as npt

from engine.cache.node_table import NodeRows, NodeTable
from engine.counting.bounds import Mask
from engine.decision.filtering import FilterMemo
from engine.decision.placement import Placement
from engine.decision.recent_answers import Later
from engine.decision.verb_call import CallOpener, Observer, VerbCall
from engine.decision.verdict import Decision, Feasible, HeldBack
from engine.errors import DeadlineExceededError, EngineError
from engine.facts import ExplainedPart
from engine.objects.peer import Peer
from engine.program.policy_time import MOST_PORTIONS
from engine.program.program import Program
from grammar.messages.texts import counted, cut
from grammar.values.time import Timestamp

# The pods of one policy, and of all together; and the workloads of one that are told apart.
MOST_OF_POLICY, MOST_PODS, MOST_WORKLOADS = 500, 5000, 1000
# Pods that are not on a node yet. Of the nodes that were rejected each takes 8 bytes.
_MOST_OPEN = 200
_MOST_CLAUSES = 5
# A caller can send any text; names of the API server are not longer.
_LONGEST_UID, _LONGEST_NAME = 64, 253
# The clauses that reject some of the nodes, and which.
_Rejecting = list[tuple[str, Mask]]
_Work = Callable[[VerbCall], _Rejecting]


class AuditedClause(msgspec.Struct, frozen=True):
    """A clause of an audited policy, and how many of the nodes it rejects."""

    clause: str
    nodes: int


class PolicyAudit(msgspec.Struct, frozen=True):
    """A policy in audit mode, and the number of nodes that it would reject.

    `clauses` are those that do. `passing` is how many of the nodes that pass would be left. `since`
    is the first call in which it left none, null if there was none or nobody knows.
    """

    policy: str
    nodes: int
    clauses: Sequence[AuditedClause] = ()
    passing: int = 0
    since: str | None = None

    @property
    def part(self) -> ExplainedPart:
        """What the policy would do, for people."""
        by = ", ".join(f"`{each.clause}` {each.nodes}" for each in self.clauses)
        left = "" if self.passing else ", and leave none that passes"
        since = f", as since {self.since}" if self.since else ""
        would = f"would reject {counted(self.nodes, 'node')}{f' ({by})' if by else ''}{left}{since}"
        return ExplainedPart(texts=[f"{self.policy}, in audit, {would}"], afterNodes=True)


class AuditedPod(msgspec.Struct):
    """A pod that a policy in audit mode would have rejected.

    `workload` is like `Deployment/web`. `clauses` are those that reject nodes, the one with most
    first. Of the nodes that were `offered`, so many are `rejected`: if these are all, the pod
    `wouldWait`, else it would have gone to another node than its own. `since` is the first such
    call, and `at` the last one. `workload` and `node` are null where they are not known.
    """

    pod: str
    uid: str
    workload: str | None
    clauses: Sequence[AuditedClause]
    wouldWait: bool
    since: str
    at: str
    offered: int
    rejected: int
    node: str | None = None

    @property
    def owner(self) -> tuple[str, str]:
        return self.pod.partition("/")[0], self.workload or self.pod


class PolicyAudits(msgspec.Struct):
    """The audits of one version of a policy, `since` it is in audit mode.

    `waiting` pods of so many `workloads` would have waited, and those `elsewhere` would have gone
    to another node; also pods that another replica has counted, or an earlier start. `pods` are
    the last ones, the newest first.
    """

    policy: str
    digest: str
    since: str
    waiting: int = 0
    workloads: int = 0
    elsewhere: int = 0
    pods: list[AuditedPod] = []

    def pod(self, uid: str) -> AuditedPod | None:
        return next((each for each in self.pods if each.uid == uid), None)

    def go_on_from(self, since: Timestamp, waiting: int, elsewhere: int, workloads: int) -> None:
        """Adds what was counted elsewhere: numbers only grow."""
        own = Timestamp.parse(self.since)
        self.since = min(own, since, key=lambda at: at.nanos).to_second()
        self.waiting, self.elsewhere = max(self.waiting, waiting), max(self.elsewhere, elsewhere)
        self.workloads = max(self.workloads, workloads)


@dataclass(frozen=True, slots=True)
class _Open:
    """An open audit: a pod on its way to a node, and the hashes of the names of rejected nodes."""

    policy: PolicyAudits
    pod: AuditedPod
    rejected: npt.NDArray[np.int64]


class AuditLog:
    """A log of audits: the pods of each policy in audit mode, by the clock `now`."""

    def __init__(self, now: Callable[[], Timestamp]) -> None:
        self.now = now
        self._policies: dict[str, PolicyAudits] = {}
        # The workloads of pods that would have waited, by policy.
        self._owners: dict[str, set[tuple[str, str]]] = {}
        # By the uid of a pod and the address of a policy.
        self._open: OrderedDict[str, dict[str, _Open]] = OrderedDict()

    def adopted(self, programs: Iterable[Program]) -> None:
        """Other policies are enforced and audited from now on."""
        before, now = self._policies, self.now().to_second()
        self._policies = {}
        for program in programs:
            if program.audit:
                address, digest = program.address, program.digest
                known = before.get(address)
                if known is None or known.digest != digest:
                    known = PolicyAudits(address, digest, now)
                self._policies[address] = known
        same = {a for a, known in self._policies.items() if known is before.get(a)}
        self._owners = {a: owners for a, owners in self._owners.items() if a in same}
        self._open.clear()

    @property
    def policies(self) -> Mapping[str, PolicyAudits]:
        """By the address of a policy in audit mode."""
        return self._policies

    def of(self, uid: str) -> Iterator[tuple[str, AuditedPod]]:
        """The policies that would have rejected a pod, and how."""
        for address, audits in self._policies.items():
            if (pod := audits.pod(uid)) is not None:
                yield address, pod

    def asked(
        self,
        program: Program,
        call: VerbCall,
        names: Sequence[str],
        passing: Mask,
        rejecting: Sequence[tuple[str, Mask]],
    ) -> None:
        """Takes what a policy says of a call: the clauses that reject nodes, and which.

        `passing` are the nodes that the call has offered, or holds back. Where it has none, other
        policies keep the pod waiting.
        """
        audits, pod = self._policies.get(program.address), call.pod
        if audits is None or audits.digest != program.digest or len(pod.uid) > _LONGEST_UID:
            return
        self._open.get(pod.uid, {}).pop(program.address, None)
        refused = np.zeros(len(names), np.bool_)
        for _, mask in rejecting:
            refused |= mask
        refused &= passing
        rejected = int(refused.sum())
        if not rejected:
            return
        now, offered = self.now().to_second(), int(passing.sum())
        found = AuditedPod(
            f"{cut(pod.namespace, _LONGEST_NAME)}/{cut(pod.name, _LONGEST_NAME)}",
            pod.uid,
            _workload(call),
            _most(rejecting, passing),
            offered == rejected,
            now,
            now,
            offered,
            rejected,
        )
        if found.wouldWait:
            self._take(audits, found)
        hashes = np.fromiter(map(hash, compress(names, refused.tolist())), np.int64, rejected)
        self._open.setdefault(pod.uid, {})[program.address] = _Open(audits, found, hashes)
        self._open.move_to_end(pod.uid)
        while len(self._open) > _MOST_OPEN:
            self._open.popitem(last=False)

    def pod_changed(self, _old: Peer | None, new: Peer | None, _revision: int) -> None:
        """Takes a change of the cache: a pod may have gone to its node."""
        if new is None or not new.nodeName:
            return
        for each in self._open.pop(new.uid, {}).values():
            if each.pod.wouldWait or hash(new.nodeName) in each.rejected:
                each.pod.node = new.nodeName
                self._take(each.policy, each.pod)

    def _take(self, audits: PolicyAudits, pod: AuditedPod) -> None:
        """Counts a pod, once."""
        known = audits.pod(pod.uid)
        if known is not None:
            pod.since = known.since
            audits.pods.remove(known)
        if pod.wouldWait and not (known is not None and known.wouldWait):
            audits.waiting += 1
            owners = self._owners.setdefault(audits.policy, set())
            if pod.owner not in owners and len(owners) < MOST_WORKLOADS:
                owners.add(pod.owner)
                audits.workloads += 1
            if known is not None:
                audits.elsewhere -= 1
        elif known is None:
            audits.elsewhere += 1
        audits.pods.insert(0, pod)
        del audits.pods[MOST_OF_POLICY:]
        every = self._policies.values()
        if sum(len(each.pods) for each in every) > MOST_PODS:
            max(every, key=lambda each: len(each.pods)).pods.pop()


def _most(rejecting: Sequence[tuple[str, Mask]], passing: Mask) -> Sequence[AuditedClause]:
    """The clauses and how many of the offered nodes they reject, the most first."""
    found = Counter[str]()
    for clause, mask in rejecting:
        found[clause] += int((mask & passing).sum())
    return [AuditedClause(*each) for each in found.most_common(_MOST_CLAUSES) if each[1]]


def _workload(call: VerbCall) -> str | None:
    """The workload of a pod: the root of its controllers, as far as that is known."""
    known, pod = call.known, call.pod
    root = known.workloads.get(pod.controller) if known is not None else None
    owner = root or pod.owner
    return cut(owner.title, _LONGEST_NAME) if owner is not None else None


class Audits:
    """Audits of the calls of filter, and the `log` of what they have found."""

    def __init__(
        self, calls: CallOpener, placement: Placement, observer: Observer, later: Later
    ) -> None:
        self.log = AuditLog(calls.now)
        self.log.adopted(calls.registry.programs)
        self._calls = calls
        self._placement = placement
        self._observer = observer
        self._later = later

    def follow(
        self,
        call: VerbCall,
        names: Sequence[str],
        table: NodeTable,
        rows: NodeRows,
        decided: Decision,
    ) -> None:
        """Audits a call about these nodes, later. `decided` is its answer.

        A node that is held back passes: another one may be, once the policy is enforced.
        """
        passes = [isinstance(verdict, Feasible | HeldBack) for verdict in decided.verdicts]
        work = self._audit(call, names, table, rows, np.array(passes)[decided.codes])
        self._later(lambda: self._continue(work))

    def _continue(self, work: Iterator[None]) -> None:
        """Does a portion of some work now, and the next one after what else there is to do."""
        for _ in work:
            self._later(lambda: self._continue(work))
            return

    def _audit(
        self, call: VerbCall, names: Sequence[str], table: NodeTable, rows: NodeRows, passing: Mask
    ) -> Iterator[None]:
        """Reports what policies in audit mode would reject; stops at the end of each portion."""
        parts: dict[str, tuple[Program, list[_Work]]] = {}
        for program, memo in call.plan.audits:
            work: _Work = partial(_rejecting, memo, table, rows)
            parts.setdefault(program.address, (program, []))[1].append(work)
        for program, counts in call.plan.audited_counts:
            work = partial(self._placement.closed, counts, names=names)
            parts.setdefault(program.address, (program, []))[1].append(work)
        for program, works in parts.values():
            rejecting: _Rejecting = []
            for work in works:
                rejecting += yield from self._in_portions(program, call, work)
            for clause, mask in rejecting:
                self._observer.would_reject(program.address, clause, int(mask.sum()))
            self.log.asked(program, call, names, passing, rejecting)

    def _in_portions(
        self, program: Program, call: VerbCall, work: _Work
    ) -> Generator[None, None, _Rejecting]:
        """What the work finds, in portions of time; nothing if it takes too many."""
        for _ in range(MOST_PORTIONS):
            portion = self._calls.portion(call.evaluation.frame())
            try:
                return work(msgspec.structs.replace(call, evaluation=portion))
            except DeadlineExceededError:
                yield
            except EngineError:
                return []
        self._observer.gave_up("audit", program.address)
        return []


def _rejecting(memo: FilterMemo, table: NodeTable, rows: NodeRows, call: VerbCall) -> _Rejecting:
    would = memo.decide(table, rows, call.evaluation)
    found = enumerate(zip(would.verdicts, would.counts(), strict=True))
    return [
        (v.clause, would.codes == code)
        for code, (v, count) in found
        if count and not isinstance(v, Feasible | HeldBack)
    ]
