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
from dataclasses import dataclass, field
from functools import partial
from itertools import compress

import msgspec
import numpy as np
import numpy.typing as npt

from engine.cache.node_table import NodeRows, NodeTable
from engine.counting.bounds import Mask
from engine.counting.count_clauses import CountClauses
from engine.decision.after import Later
from engine.decision.filtering import FilterMemo
from engine.decision.placement import Placement
from engine.decision.verb_call import CallOpener, Observer, VerbCall
from engine.decision.verdict import Decision, Feasible, HeldBack
from engine.errors import DeadlineExceededError, EngineError
from engine.objects.peer import Peer
from engine.program.policy_time import MOST_PORTIONS
from engine.program.program import Program
from grammar.messages.texts import cut
from grammar.values.time import Timestamp

# The pods of one policy, and of all together.
MOST_OF_POLICY, MOST_PODS = 500, 5000
_MOST_WORKLOADS = 1000
# Pods that are not on a node yet. Of the nodes that were rejected each takes 8 bytes.
_MOST_OPEN = 200
_MOST_CLAUSES = 5
# A caller can send any text; names of the API server are not longer.
_LONGEST_UID, _LONGEST_NAME = 64, 253
# The clauses that reject some of the nodes, and which.
_Rejecting = list[tuple[str, Mask]]
_Work = Callable[[VerbCall], _Rejecting]


@dataclass(slots=True)
class AuditedPod:
    """A pod that a policy in audit mode would have rejected.

    `workload` is like `Deployment/web`. `clauses` are those that reject nodes, the one with most
    first. Of the nodes that were `offered`, so many are `rejected`. `since` is the first such
    call, and `at` the last one. `node` is where the pod went, empty until it is known.
    """

    namespace: str
    name: str
    uid: str
    workload: str
    clauses: Sequence[tuple[str, int]]
    since: Timestamp
    at: Timestamp
    offered: int
    rejected: int
    node: str = ""

    @property
    def would_wait(self) -> bool:
        """Whether the policy leaves the pod no node."""
        return self.offered == self.rejected

    @property
    def owner(self) -> tuple[str, str]:
        return self.namespace, self.workload or f"Pod/{self.name}"


@dataclass(slots=True)
class PolicyAudits:
    """The audits of one version of a policy: the last pods, and numbers of all.

    `waiting` pods would have waited, and those `elsewhere` would have gone to another node.
    """

    digest: str
    since: Timestamp
    pods: OrderedDict[str, AuditedPod] = field(default_factory=OrderedDict)
    waiting: int = 0
    elsewhere: int = 0
    workloads: Counter[tuple[str, str]] = field(default_factory=Counter)
    # Those that another replica, or an earlier start, has counted.
    others: int = 0

    @property
    def owners(self) -> int:
        """The workloads of the pods that would have waited."""
        return len(self.workloads) + self.others

    def take(self, pod: AuditedPod) -> None:
        """Counts a pod, once."""
        known = self.pods.pop(pod.uid, None)
        if known is not None:
            pod.since = known.since
        if pod.would_wait and not (known is not None and known.would_wait):
            self.waiting += 1
            if len(self.workloads) < _MOST_WORKLOADS:
                self.workloads[pod.owner] += 1
            if known is not None:
                self.elsewhere -= 1
        elif known is None:
            self.elsewhere += 1
        self.pods[pod.uid] = pod

    def go_on_from(self, since: Timestamp, waiting: int, elsewhere: int, workloads: int) -> None:
        """Adds what was counted elsewhere: numbers only grow."""
        self.since = min(self.since, since, key=lambda at: at.nanos)
        self.waiting, self.elsewhere = max(self.waiting, waiting), max(self.elsewhere, elsewhere)
        self.others += max(0, workloads - self.owners)


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
        # By the uid of a pod and the address of a policy.
        self._open: OrderedDict[str, dict[str, _Open]] = OrderedDict()

    def adopted(self, programs: Iterable[Program]) -> None:
        """Other policies are enforced and audited from now on."""
        before, now = self._policies, self.now()
        self._policies = {}
        for program in programs:
            if program.audit:
                known = before.get(program.address)
                is_same = known is not None and known.digest == program.digest
                audits = known if known is not None and is_same else None
                self._policies[program.address] = audits or PolicyAudits(program.digest, now)
        self._open.clear()

    @property
    def policies(self) -> Mapping[str, PolicyAudits]:
        """By the address of a policy in audit mode."""
        return self._policies

    def of(self, uid: str) -> Iterator[tuple[str, AuditedPod]]:
        """The policies that would have rejected a pod, and how."""
        for address, audits in self._policies.items():
            if (pod := audits.pods.get(uid)) is not None:
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
        now = self.now()
        found = AuditedPod(
            cut(pod.namespace, _LONGEST_NAME),
            cut(pod.name, _LONGEST_NAME),
            pod.uid,
            _workload(call),
            _most(rejecting, passing),
            now,
            now,
            int(passing.sum()),
            rejected,
        )
        if found.would_wait:
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
            if each.pod.would_wait or hash(new.nodeName) in each.rejected:
                each.pod.node = new.nodeName
                self._take(each.policy, each.pod)

    def _take(self, audits: PolicyAudits, pod: AuditedPod) -> None:
        audits.take(pod)
        if len(audits.pods) > MOST_OF_POLICY:
            audits.pods.popitem(last=False)
        every = self._policies.values()
        if sum(len(each.pods) for each in every) > MOST_PODS:
            max(every, key=lambda each: len(each.pods)).pods.popitem(last=False)


def _most(rejecting: Sequence[tuple[str, Mask]], passing: Mask) -> Sequence[tuple[str, int]]:
    """The clauses and how many of the offered nodes they reject, the most first."""
    found = Counter[str]()
    for clause, mask in rejecting:
        found[clause] += int((mask & passing).sum())
    return tuple((clause, nodes) for clause, nodes in found.most_common(_MOST_CLAUSES) if nodes)


def _workload(call: VerbCall) -> str:
    """The workload of a pod: the root of its controllers, as far as that is known."""
    known, pod = call.known, call.pod
    root = known.workloads.get(pod.controller) if known is not None else None
    owner = root or pod.owner
    return cut(owner.title, _LONGEST_NAME) if owner is not None else ""


class Audits:
    """Audits of the calls of filter, and the `log` of what they have found."""

    def __init__(
        self,
        calls: CallOpener,
        placement: Placement,
        observer: Observer,
        later: Later,
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
        self,
        call: VerbCall,
        names: Sequence[str],
        table: NodeTable,
        rows: NodeRows,
        passing: Mask,
    ) -> Iterator[None]:
        """Reports what policies in audit mode would reject; stops at the end of each portion."""
        parts: dict[str, tuple[Program, list[_Work]]] = {}
        for program, memo in call.plan.audits:
            work: _Work = partial(_rejecting, memo, table, rows)
            parts.setdefault(program.address, (program, []))[1].append(work)
        for program, counts in call.plan.audited_counts:
            work = partial(self._closed, counts, names)
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

    def _closed(self, counts: CountClauses, names: Sequence[str], call: VerbCall) -> _Rejecting:
        return self._placement.closed(counts, call, names)


def _rejecting(memo: FilterMemo, table: NodeTable, rows: NodeRows, call: VerbCall) -> _Rejecting:
    would = memo.decide(table, rows, call.evaluation)
    found = enumerate(zip(would.verdicts, would.counts(), strict=True))
    return [
        (v.clause, would.codes == code)
        for code, (v, count) in found
        if count and not isinstance(v, Feasible | HeldBack)
    ]
