"""Repairs: which drifted pods may be evicted now, and what became of those that were.

    drifted --evicted--> gone --a pod of the workload comes--> replaced --and has a node--> placed
       ^                                                                                    |
       +---- it breaks the rule again, or is on the same node: a return --------------------+

What holds, for each policy: at most so many evictions in any minute, and so many pods between
`evicted` and `placed`, as its `repair` says. After two returns a clause is not repaired any more,
until its policy is another one. So policies that contradict each other do not move pods to and fro.

Workloads that others disturb are left alone: a rollout, a scaling, evictions by a descheduler or an
autoscaler, a node that is drained. The first pod of a workload that was not there at an eviction
has come for the evicted one, with or without a node.

Repairs belong to a replica that may lead. A term begins with a minute without evictions: nobody
knows what the leader before has done in it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from engine.cache.cache import Cache
from engine.cache.node_table import NodeWithPods, Snapshot
from engine.cache.tallies import Scope
from engine.drift.drift_document import DriftedPod, PolicyRepair, RepairMode, RepairState
from engine.objects.disruption_budget import violating
from engine.objects.peer import Peer, key_of, template_of
from engine.objects.remembered import Remembered
from engine.program.program import Program
from grammar.tree.clause_parts import MINUTES_OF_DAY, Repair
from grammar.values.time import SECOND, Timestamp

_MINUTE = 60.0
# For so long a workload is left alone after others have deleted a pod of it.
QUIET_SECONDS = 300.0
# A pod that was moved, and breaks a rule within this time, has returned; two returns are too many.
_RETURN_SECONDS, _MOST_RETURNS = 3600.0, 2
# The longest way to a node.
_LATE_SECONDS = 600.0
# After a refusal by a budget, the pause doubles from the first to the longest.
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 5.0, 300.0
# Taints of autoscalers on nodes whose pods they evict.
_LEAVING = frozenset(
    {
        "karpenter.sh/disrupted",
        "karpenter.sh/disruption",
        "ToBeDeletedByClusterAutoscaler",
        "node.cloudprovider.kubernetes.io/shutdown",
    }
)
DRAINED = "its node is being drained"
NO_BUDGET = "a disruption budget does not allow it"


@dataclass(slots=True)
class Move:
    """Move of a pod that was evicted at a time of the clock, until the replacement has a node.

    `clauses` are those of the policy that it broke. `beside` has the uids of the pods that its
    workload had then. `replacement` is the key and the uid of the pod that came for it, empty
    before that.
    """

    pod: Peer
    policy: str
    clauses: tuple[str, ...]
    at: float
    beside: frozenset[str]
    replacement: tuple[str, str] = ("", "")

    @property
    def workload(self) -> str:
        return _root(self.pod)


@dataclass(slots=True)
class _OfPolicy:
    """Policy version that holds since a time of the clock, with what is known of its repairs."""

    digest: str
    since: float
    evicted: int = 0
    refused: int = 0
    failed: int = 0
    returned: int = 0
    at: deque[float] = field(default_factory=deque)
    returns: Counter[str] = field(default_factory=Counter)
    stopped: dict[str, str] = field(default_factory=dict)
    state: RepairState = "idle"
    text: str = ""


class Repairs:
    """The repairs of all policies. On one event loop."""

    def __init__(self, cache: Cache, mode: RepairMode, clock: Callable[[], float]) -> None:
        self.mode = mode
        self.moves: list[Move] = []
        self._cache = cache
        self._clock = clock
        self._policies: dict[str, _OfPolicy] = {}
        self._begins_at = 0.0
        # By uid of the pod that was evicted: such a deletion disturbs nobody.
        self._own: Remembered[str, bool] = Remembered()
        # By uid of a workload: the time of the last deletion by others; and until when it is left
        # alone after a refusal, for how long that is, and why.
        self._disturbed: Remembered[str, float] = Remembered()
        self._pauses: Remembered[str, tuple[float, float, str]] = Remembered()
        # By uid of a workload: what others do with it, since the last look.
        self._disturbances: dict[str, str] = {}
        # By uid of the pod that has come for another one.
        self._placed: Remembered[str, Move] = Remembered()

    # ---- what happens

    def begin(self) -> None:
        """Begins a term.

        The pods that an earlier leader evicted are not known, so deletions before the term say
        nothing.
        """
        self.moves.clear()
        self._disturbed.clear()
        self._begins_at = self._clock() + _MINUTE

    def adopt(self, programs: Iterable[Program]) -> None:
        """Takes the policies in force; what was known of other versions is forgotten."""
        known, self._policies = self._policies, {}
        for each in programs:
            if each.repair is not None:
                of_policy = known.get(each.address)
                if of_policy is None:
                    of_policy = _OfPolicy(each.digest, self._clock())
                elif of_policy.digest != each.digest:
                    # The rate holds over an edit, too.
                    of_policy = _OfPolicy(each.digest, self._clock(), at=of_policy.at)
                self._policies[each.address] = of_policy

    def pod_changed(self, old: Peer | None, new: Peer | None, _revision: int) -> None:
        """Takes a change of a pod from the cache."""
        if old is not None and old.deletionTimestamp is None and old.nodeName:
            ends = new is None or new.uid != old.uid or new.deletionTimestamp is not None
            if ends and self._own.get(old.uid) is None and _root(old):
                self._disturbed.put(_root(old), self._clock())

    def evicting(self, pod: Peer, program: Program, clauses: Iterable[str]) -> Move:
        """A pod is about to be evicted. If the answer is lost, it may be gone or stay."""
        known, now = self._policies[program.address], self._clock()
        known.evicted += 1
        known.at.append(now)
        self._own.put(pod.uid, value=True)
        beside = frozenset(each.uid for each in self._workload(pod))
        move = Move(pod, program.address, tuple(clauses), now, beside | {pod.uid})
        self.moves.append(move)
        self._disturbances.pop(_root(pod), None)
        return move

    def withdraw(self, move: Move, reason: str = "", *, wait: float = 0.0) -> None:
        """The API server has not evicted a pod.

        With a reason, its workload is left alone: for so many seconds, or for longer.
        """
        self.moves.remove(move)
        known = self._policies.get(move.policy)
        if known is not None:
            known.evicted -= 1
            known.at.pop()
            known.refused += reason == NO_BUDGET
            known.failed += reason != NO_BUDGET
        if reason:
            _, last, _ = self._pauses.get(move.workload) or (0.0, _FIRST_PAUSE_SECONDS / 2, "")
            pause = min(max(2 * last, wait), _LONGEST_PAUSE_SECONDS)
            self._pauses.put(move.workload, (self._clock() + pause, pause, reason))

    def tick(self) -> list[Move]:
        """Looks at the moves. Returns those whose replacement has its node now."""
        self._disturbances.clear()
        placed, left = [], []
        assumed = {pod.uid for pod in self._cache.assumed()}
        for move in self.moves:
            state = self._state_of(move, assumed)
            if state == "placed":
                placed.append(move)
                self._pauses.pop(move.workload)
                replacement = self._cache.pod(move.replacement[0])
                if replacement is not None and replacement.nodeName == move.pod.nodeName:
                    text = f"`{key_of(move.pod)}` came back to {move.pod.nodeName}"
                    self._count_returns(move.policy, move.clauses, text)
                else:
                    self._placed.put(move.replacement[1], move)
            elif state == "late":
                text = f"what replaces `{key_of(move.pod)}` has found no node in ten minutes"
                if (known := self._policies.get(move.policy)) is not None:
                    known.stopped.update(dict.fromkeys(move.clauses, text))
            elif state == "on its way":
                left.append(move)
        self.moves = left
        return placed

    def _state_of(self, move: Move, assumed: set[str]) -> str:
        pod, age = move.pod, self._clock() - move.at
        replacement = self._replacement(move)
        now = self._cache.pod(key_of(pod))
        if now is not None and now.uid == pod.uid:
            # Nobody knows whether it was evicted, where the answer was lost.
            was = now.deletionTimestamp is not None or age < _MINUTE
            return "on its way" if was else "not evicted"
        if replacement is not None and replacement.nodeName and replacement.uid not in assumed:
            return "placed"
        if replacement is None and age > _MINUTE:
            workload = self._cache.workload(move.workload)
            wanted = workload.replicas if workload is not None else None
            there = sum(each.deletionTimestamp is None for each in self._workload(pod))
            # Of a workload of unknown size nobody knows how long it takes to make a pod.
            if age > _LATE_SECONDS if wanted is None else there >= wanted:
                return "not wanted"
        return "late" if age > _LATE_SECONDS else "on its way"

    def _replacement(self, move: Move) -> Peer | None:
        """The pod that has come for another one, with or without a node; None before that."""
        key, uid = move.replacement
        found = self._cache.pod(key)
        if found is None or found.uid != uid:
            others = {each.replacement[1] for each in self.moves if each is not move}
            new = (p for p in self._workload(move.pod) if p.uid not in move.beside | others)
            found = next(new, None)
            move.replacement = ("", "") if found is None else (key_of(found), found.uid)
        return found

    def _workload(self, pod: Peer) -> Iterator[Peer]:
        """The pods of the workload of a pod."""
        return (each for _, each in self._cache.within(Scope(pod.namespace, _root(pod))))

    # ---- what may be done

    def blocks(self, program: Program, repair: Repair, told: str) -> str:
        """Why nothing is evicted for a policy now; empty if something may be.

        `told` says that its repair was switched off, and by whom; empty where it is on.
        """
        known, now = self._policies[program.address], self._clock()
        if self.mode == "off":
            return self._is(known, "off", "this server repairs nothing: see `--repair`")
        if told:
            return self._is(known, "off", told)
        minute = Timestamp.now().nanos // SECOND // 60 % MINUTES_OF_DAY
        if not repair.allows(minute):
            return self._is(known, "waiting", "it is not the time of the day for it")
        if now < self._begins_at:
            return self._is(known, "waiting", "this replica leads since less than a minute")
        moving = sum(move.policy == program.address for move in self.moves)
        if moving >= repair.at_once:
            return self._is(known, "moving", "pods are on their way to another node")
        while known.at and known.at[0] <= now - _MINUTE:
            known.at.popleft()
        if len(known.at) >= repair.per_minute:
            return self._is(known, "moving", "as many pods as a minute allows were evicted")
        return ""

    def keeps(self, drifted: DriftedPod, program: Program, snapshot: Snapshot) -> str:
        """Why a drifted pod is left where it is now; empty if it may be evicted."""
        known = self._policies[program.address]
        clauses = [each.clause for each in drifted.clauses if each.policy == program.address]
        if stopped := [known.stopped[each] for each in clauses if each in known.stopped]:
            return stopped[0]
        pod = self._cache.pod(drifted.pod)
        if pod is None or pod.uid != drifted.uid or pod.deletionTimestamp is not None:
            return "it is gone"
        moved = self._placed.get(pod.uid)
        # Under another version it may break other rules.
        since = max(known.since, self._clock() - _RETURN_SECONDS)
        if moved is not None and moved.at >= since:
            self._placed.pop(pod.uid)
            text = f"pods that it moved break it again, such as `{drifted.pod}`"
            self._count_returns(program.address, clauses, text)
            return text
        node = snapshot.node(pod.nodeName)
        if node is None or _is_drained(node):
            return DRAINED
        if snapshot.budgets is not None and violating([pod], snapshot.budgets):
            return NO_BUDGET
        root = _root(pod)
        until, _, reason = self._pauses.get(root) or (0.0, 0.0, "")
        if self._clock() < until:
            return reason
        if root not in self._disturbances:
            self._disturbances[root] = self._disturbance(pod)
        return self._disturbances[root]

    def _disturbance(self, pod: Peer) -> str:
        """What others do with the workload of a pod; empty if nothing."""
        root, now = _root(pod), self._clock()
        since = self._disturbed.get(root)
        if since is not None and now - since < QUIET_SECONDS:
            return "others have deleted pods of its workload lately"
        pods = list(self._workload(pod))
        there = [each for each in pods if each.deletionTimestamp is None]
        own = [move for move in self.moves if move.workload == root]
        replacements = {move.replacement[1] for move in own}
        evicted = {move.pod.uid for move in own}
        if len({template_of(each.labels, each.controller) for each in there}) > 1:
            return "its workload is being rolled out"
        if any(not each.nodeName and each.uid not in replacements for each in there):
            return "pods of its workload wait for nodes"
        if any(e.deletionTimestamp is not None and e.uid not in evicted for e in pods):
            return "pods of its workload are being deleted"
        workload = self._cache.workload(root)
        if workload is not None and workload.replicas is not None:
            missing = sum(not move.replacement[1] for move in own)
            still = sum(each.uid in evicted for each in there)
            if len(there) - still + missing != workload.replicas:
                return "its workload is being scaled"
        return ""

    # ---- pods that break a rule again

    def _count_returns(self, policy: str, clauses: Iterable[str], text: str) -> None:
        if (known := self._policies.get(policy)) is None:
            return
        for clause in clauses:
            known.returned += 1
            known.returns[clause] += 1
            if known.returns[clause] >= _MOST_RETURNS:
                known.stopped[clause] = text

    # ---- what is said

    def _is(self, known: _OfPolicy, state: RepairState, text: str) -> str:
        known.state, known.text = state, text
        return text

    def say(self, policy: str, state: RepairState, text: str = "") -> None:
        """Takes what there is to say of the repairs of a policy."""
        self._is(self._policies[policy], state, text)

    def states(self) -> Iterator[PolicyRepair]:
        """The repairs of each policy that has some."""
        for policy, known in sorted(self._policies.items()):
            stopped = [f"{clause}: {text}" for clause, text in sorted(known.stopped.items())]
            moving = [key_of(m.pod) for m in self.moves if m.policy == policy]
            yield PolicyRepair(
                policy,
                "stopped" if stopped else known.state,
                "; ".join(stopped) or known.text,
                known.evicted,
                known.refused,
                known.failed,
                known.returned,
                moving,
                sorted(known.stopped),
            )


def _root(pod: Peer) -> str:
    return pod.workload.uid if pod.workload is not None else ""


def _is_drained(node: NodeWithPods) -> bool:
    spec = node.spec
    if spec is None:
        return False
    return bool(spec.unschedulable) or any(t.key in _LEAVING for t in spec.taints or ())
