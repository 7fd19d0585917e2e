"""Policy time: the time that the clauses of each policy use, and how much of it they may use.

PolicyTimes and DecisionTime belong to the engine and live as long as it does; a CallTime lives as
long as one call. Clocks are passed in; all times are in seconds. Everything is on one event loop,
where decisions are made one at a time. What a policy uses is processor time of this thread, so a
moment without a processor makes no policy expensive; deadlines and budgets go by the clock.

A namespaced policy has a budget of 0.1 s, which a tenth of the time that passes fills again. All
policies of a namespace together have twice as much. So pods of other namespaces do not notice what
they cost. Time costs more of a budget while many namespaces use theirs up, and on a machine that is
slow for others' sake: all together have a quarter of the time that passes. In a cluster of more
than 500 nodes, where every decision takes longer, budgets are larger: 0.2 ms for each node up to
5,000, and 0.04 ms for each one beyond, up to 65,000. A policy without a namespace belongs to the
operators of the cluster, and has the limit of one call only.
"""

from __future__ import annotations

import gc
import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import msgspec
from cachetools import TTLCache

from engine.errors import DeadlineExceededError, ExpensivePolicyError
from grammar.values.time import Timestamp

# The most that the clauses of one policy may take of one call.
CALL_SECONDS = 0.1
# What the budget of a namespaced policy holds, and the part of the time that fills it.
POLICY_SECONDS, POLICY_SHARE = 0.1, 0.1
# What the budget of all policies of a namespace holds, and the part of the time that fills it.
NAMESPACE_SECONDS, NAMESPACE_SHARE = 0.2, 0.2
# The part of the time that fills the budgets of all namespaces that have used half of theirs.
ALL_SHARE = 0.25
# How much more than processor time the clock counts, at most, and the seconds that this is an
# average of.
_SLOWEST, _PACE_SECONDS = 20.0, 0.2
# Budgets are for 500 nodes, and grow with their number. Above 5,000 nodes they grow by a fifth of
# that, because kube-scheduler offers only a part of them; above 65,000 they stay the same.
_NODES, _MANY_NODES, _MOST_NODES, _PART = 500, 5_000, 65_000, 0.2
# Less than this is not counted. Work that usually takes less is charged afterwards, if at all.
BRIEF_SECONDS = 0.0001
# With less than this in its budget a policy is not evaluated: it would not get far. The least in a
# larger cluster is this part of what is more there.
_LEAST_SECONDS, _LEAST_PART = 0.01, 0.05
# A policy is expensive for so long after a call that it had no time for.
_EXPENSIVE_SECONDS = 60.0
_MOST_POLICIES = 10_000
# The time of one portion of work for which nobody waits, and the most portions of one piece of it.
PORTION_SECONDS = 0.005
MOST_PORTIONS = 40


class WorkClock:
    """The clock of work: processor time of this thread without that of the garbage collector.

    A collection can take longer than a budget holds, and comes in whatever runs at that moment.
    """

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._began = self._collected = 0.0
        gc.callbacks.append(self._collecting)

    def __call__(self) -> float:
        return time.thread_time() - self._collected

    def close(self) -> None:
        """Follows collections no longer."""
        gc.callbacks.remove(self._collecting)

    def _collecting(self, phase: str, _: object) -> None:
        if threading.get_ident() != self._thread:
            return
        if phase == "start":
            self._began = time.thread_time()
        else:
            self._collected += time.thread_time() - self._began


class _Budgets:
    """Budgets by name: each holds some seconds, and a share of the time that passes fills it.

    `used` has the time at which each budget that is not full will be full again.
    """

    def __init__(self, seconds: float, share: float, clock: Callable[[], float]) -> None:
        self.used: dict[str, float] = {}
        self._seconds = seconds
        self._share = share
        self._clock = clock

    def left(self, name: str, larger: float) -> float:
        """The seconds in a budget so many times as large; below 0 if too much was used."""
        full_at = self.used.get(name)
        if full_at is None:
            return self._seconds * larger
        missing = full_at - self._clock()
        if missing <= 0:
            del self.used[name]
            return self._seconds * larger
        return self._seconds * larger - self._share * missing

    def used_up(self, larger: float) -> int:
        """How many names have less than half of a budget so many times as large."""
        half = self._clock() + self._seconds * larger / self._share / 2
        return sum(full_at > half for full_at in self.used.values())

    def use(self, name: str, seconds: float) -> None:
        now = self._clock()
        self.used[name] = max(now, self.used.get(name, now)) + seconds / self._share
        if len(self.used) > _MOST_POLICIES:
            for full in [other for other, full_at in self.used.items() if full_at <= now]:
                del self.used[full]


class PolicyTimes:
    """The budgets of policies and of namespaces, and the policies without time lately.

    `work` is the clock of what is used, `clock` that of the budgets. `refused` is told the address
    of a policy each time that it has no time for a call, `charged` what a policy has used. `nodes`
    is the number of nodes in the cluster, 0 if not known. `used` has the policies whose budget is
    not full.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        work: Callable[[], float],
        refused: Callable[[str], None],
        charged: Callable[[str, float], None],
        nodes: Callable[[], int],
    ) -> None:
        self.work = work
        self._nodes = nodes
        self._refused = refused
        self._charged = charged
        self._policies = _Budgets(POLICY_SECONDS, POLICY_SHARE, clock)
        self.used: Mapping[str, float] = self._policies.used
        self._namespaces = _Budgets(NAMESPACE_SECONDS, NAMESPACE_SHARE, clock)
        self._expensive: TTLCache[str, None] = TTLCache(_MOST_POLICIES, _EXPENSIVE_SECONDS, clock)
        # What evaluations took lately, of the processor and by the clock.
        self._took = self._lasted = _PACE_SECONDS
        self._price, self._priced_at = 1.0, -math.inf
        self._clock = clock

    def _cost(self) -> float:
        """How many seconds of its budgets a second of a namespaced policy costs."""
        now = self._clock()
        # Not for each of many namespaces.
        if now >= self._priced_at + _PACE_SECONDS:
            shares = NAMESPACE_SHARE * self._namespaces.used_up(_larger(self._nodes()))
            slower = min(self._lasted / self._took, _SLOWEST)
            self._price, self._priced_at = max(1.0, shares / ALL_SHARE) * max(1.0, slower), now
        return self._price

    def lasted(self, took: float, seconds: float) -> None:
        """Notes that an evaluation took so much of the processor, and so long by the clock."""
        self._took, self._lasted = self._took + took, self._lasted + seconds
        if self._took > 2 * _PACE_SECONDS:
            self._took, self._lasted = self._took / 2, self._lasted / 2

    def left(self, policy: str) -> float:
        """The seconds that a policy may use now; infinite without a namespace."""
        namespace, slash, _ = policy.partition("/")
        if not slash:
            return math.inf
        larger = _larger(self._nodes())
        left = min(self._policies.left(policy, larger), self._namespaces.left(namespace, larger))
        # However much time costs, half of a budget is enough to get on.
        cost, half = self._cost(), POLICY_SECONDS * larger / 2
        least = min(max(_LEAST_SECONDS, _LEAST_PART * POLICY_SECONDS * larger) * cost, half)
        return left / cost if left >= least else 0.0

    def has_used(self, policy: str) -> bool:
        """Whether a policy's budgets are not full, or time costs more: else they do for a call."""
        namespace = policy.partition("/")[0]
        has_used = policy in self._policies.used or namespace in self._namespaces.used
        return has_used or self._cost() > 1.0

    def use(self, policy: str, seconds: float) -> None:
        """Takes time from the budgets of a policy and of its namespace."""
        self._charged(policy, seconds)
        namespace, slash, _ = policy.partition("/")
        if slash:
            self._policies.use(policy, seconds * self._cost())
            self._namespaces.use(namespace, seconds * self._cost())

    @contextmanager
    def using(self, policy: str) -> Iterator[None]:
        """Charges a policy for the block, which belongs to no call. Raises ExpensivePolicyError."""
        if self.left(policy) <= 0.0:
            raise self.refuse(policy)
        began = self.work()
        try:
            yield
        finally:
            self.use(policy, self.work() - began)

    def refuse(self, policy: str) -> ExpensivePolicyError:
        """Notes that a policy had no time for a call; the error of the call."""
        self._expensive[policy] = None
        self._refused(policy)
        return ExpensivePolicyError(policy)

    @property
    def expensive(self) -> frozenset[str]:
        """The addresses of the policies that had no time for a call of the last minute."""
        return frozenset(self._expensive)

    def changed(self, policies: Iterable[str]) -> None:
        """Notes changed policies: they count as expensive again when they have no time again.

        Their budgets stay as they are, so that edits do not buy time.
        """
        for policy in policies:
            self._expensive.pop(policy, None)


def _larger(nodes: int) -> float:
    """How many times larger the budgets are in a cluster of so many nodes."""
    many = min(max(nodes, _NODES), _MANY_NODES)
    beyond = max(0, min(nodes, _MOST_NODES) - _MANY_NODES)
    return (many + _PART * beyond) / _NODES


class CallTime(msgspec.Struct, eq=False):
    """The time of one call: its deadline, and the time that each policy has used.

    `deadline` is in seconds of the clock. A portion of work ends between two evaluations of a
    clause on a node, so that each portion gets on; any other call may end within one. Without
    `times` only the deadline holds. `policy` is the one that uses the time now, or empty.
    """

    clock: Callable[[], float]
    deadline: float
    times: PolicyTimes | None = None
    is_portion: bool = False
    policy: str = ""
    _policy_ends: float = math.inf
    # In seconds of the clock: until then the policy cannot have used its time.
    _look_from: float = math.inf
    _began: float = 0.0
    _began_at: float = 0.0
    _used: dict[str, float] = {}

    def charge(self, policy: str) -> None:
        """From now on a policy uses the time, until `rest` or the next `charge`.

        Raises ExpensivePolicyError if the policy may not use any more, and DeadlineExceededError.
        """
        if self.times is None or policy == self.policy:
            self.check()
            return
        self.rest()
        self.check()
        left = CALL_SECONDS - self._used.get(policy, 0.0)
        if self.times.has_used(policy):
            left = min(left, self.times.left(policy))
        if left <= 0.0:
            raise self.times.refuse(policy)
        self._began_at = self.clock()
        self._look_from = self._began_at + left
        self.policy, self._began = policy, self.times.work()
        self._policy_ends = self._began + left

    @contextmanager
    def charged(self, policy: str) -> Iterator[None]:
        """A time that a policy uses. Raises what `charge` does."""
        self.charge(policy)
        try:
            yield
        finally:
            self.rest()

    def rest(self) -> None:
        """From now on no policy uses the time."""
        if (policy := self.policy) and self.times is not None:
            used = self.times.work() - self._began
            self._used[policy] = self._used.get(policy, 0.0) + used
            if used > BRIEF_SECONDS:
                self.times.lasted(used, self.clock() - self._began_at)
                self.times.use(policy, used)
            self.policy, self._policy_ends = "", math.inf

    def check(self) -> None:
        """Raises DeadlineExceededError, or ExpensivePolicyError if a policy's time is over."""
        if self.clock() > self.deadline:
            self.rest()
            raise DeadlineExceededError("the decision took longer than the request may")
        self._check_policy()

    def check_within(self) -> None:
        """The check within an evaluation of one clause on one node."""
        if self.is_portion:
            self._check_policy()
        else:
            self.check()

    def _check_policy(self) -> None:
        # Processor time is no longer than that of the clock, which costs a tenth to read.
        if self.times is None or not self.policy or self.clock() <= self._look_from:
            return
        if self.times.work() > self._policy_ends:
            policy = self.policy
            self.rest()
            raise self.times.refuse(policy)


@dataclass(frozen=True, slots=True)
class DecisionTime:
    """How an engine measures time: by a clock in seconds, and by the time of day, `now`.

    `policies` bounds what policies use. Without it only deadlines hold, and nothing is done in
    portions.
    """

    clock: Callable[[], float] = time.monotonic
    now: Callable[[], Timestamp] = Timestamp.now
    policies: PolicyTimes | None = None

    def portion(self) -> CallTime:
        """The time of one portion of work for which nobody waits."""
        if self.policies is None:
            return CallTime(self.clock, math.inf)
        ends = self.clock() + PORTION_SECONDS
        return CallTime(self.clock, ends, self.policies, is_portion=True)

    @property
    def expensive(self) -> frozenset[str]:
        """The addresses of the policies that had no time for a call of the last minute."""
        return self.policies.expensive if self.policies is not None else frozenset()


# The clocks of this machine, without bounds for policies.
SYSTEM_TIME = DecisionTime()
