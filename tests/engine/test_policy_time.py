"""The time that policies use: each has a budget, and what it costs others do not notice."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from engine.cache.cache import Cache
from engine.decision.recent_answers import AfterDecision
from engine.engine import Engine
from engine.errors import DeadlineExceededError, ExpensivePolicyError
from engine.program.policy_time import (
    BRIEF_SECONDS,
    CALL_SECONDS,
    MOST_PORTIONS,
    NAMESPACE_SECONDS,
    POLICY_SECONDS,
    POLICY_SHARE,
    PORTION_SECONDS,
    CallTime,
    DecisionTime,
    PolicyTimes,
    WorkClock,
)
from tests.support.builders import Object, node, pod, raw
from tests.support.engines import Silent, cache_of, engine_over, peer_of, registry_of
from tests.support.rows import rows

NODES = [f"n{number}" for number in range(64)]
# Between two looks at the clock, and for what is no evaluation.
GRACE = 0.3


@dataclass
class Clock:
    """A clock that a test moves, by a `step` with each look, or that the process's work `runs`."""

    time: float = 1000.0
    runs: bool = False
    step: float = 0.0

    def __call__(self) -> float:
        self.time += self.step
        return self.time + (time.process_time() if self.runs else 0.0)


@dataclass
class Times:
    """Budgets with a clock, and the policies that had no time."""

    runs: bool = False
    nodes: int = 0
    refused: list[str] = field(default_factory=list)
    charged: list[tuple[str, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.clock = Clock(runs=self.runs)
        self.times = PolicyTimes(
            self.clock,
            self.clock,
            self.refused.append,
            lambda policy, seconds: self.charged.append((policy, seconds)),
            lambda: self.nodes,
        )

    def call(self, seconds: float = 60.0) -> CallTime:
        return CallTime(self.clock, self.clock() + seconds, self.times)

    def use(self, policy: str, seconds: float) -> None:
        """One call in which the policy needs so much time, and looks at the end."""
        call = self.call()
        call.charge(policy)
        self.clock.time += seconds
        try:
            call.check()
        finally:
            call.rest()


# ---- budgets


def test_a_policy_may_use_its_budget_at_once() -> None:
    made = Times()
    made.use("a/p", POLICY_SECONDS)
    made.clock.time += 60
    with pytest.raises(ExpensivePolicyError, match=r"^policy a/p takes too much time"):
        made.use("a/p", POLICY_SECONDS + 0.001)
    assert made.refused == ["a/p"]


def test_a_policy_of_the_cluster_has_the_limit_of_a_call_only() -> None:
    made = Times()
    for _ in range(100):
        made.use("everyone", CALL_SECONDS)
    with pytest.raises(ExpensivePolicyError):
        made.use("everyone", CALL_SECONDS + 0.001)


def test_what_each_policy_uses_is_told_but_for_what_is_brief() -> None:
    made = Times()
    made.use("everyone", 0.05)
    made.use("a/p", BRIEF_SECONDS / 2)
    made.use("a/p", 0.02)
    assert [policy for policy, _ in made.charged] == ["everyone", "a/p"]
    assert [seconds for _, seconds in made.charged] == pytest.approx([0.05, 0.02])


def test_a_tenth_of_the_time_fills_a_budget() -> None:
    made = Times()
    made.use("a/p", POLICY_SECONDS)
    with pytest.raises(ExpensivePolicyError):
        made.use("a/p", 0)
    made.clock.time += 0.4
    assert made.times.left("a/p") == pytest.approx(0.4 * POLICY_SHARE)
    made.use("a/p", 0.04)
    made.clock.time += 3600
    assert made.times.left("a/p") == POLICY_SECONDS


@pytest.mark.parametrize(("others", "slower", "part"), [(0, 1, 0.2), (4, 1, 0.05), (0, 4, 0.05)])
def test_others_notice_no_more_of_many_namespaces_or_on_a_slow_machine(
    others: int, slower: int, part: float
) -> None:
    """Together these have a quarter of the time that passes by the clock."""
    made, used = Times(), 0.0
    for moment in range(2000):
        made.clock.time += 0.01
        for policy in (f"{number}/{name}" for number in range(others + 1) for name in "pqr"):
            if left := made.times.left(policy):
                made.times.lasted(left, left * slower)
                made.times.use(policy, left)
                used += left if moment >= 1000 else 0.0
    assert used / 10 == pytest.approx(part * (others + 1), rel=0.2)


@pytest.mark.parametrize(("nodes", "least"), [(0, 0.01), (500, 0.01), (5000, 0.05)])
def test_what_is_left_is_enough_to_get_further_in_a_cluster_of_this_size(
    nodes: int, least: float
) -> None:
    made = Times(nodes=nodes)
    made.times.use("a/p", made.times.left("a/p"))
    made.clock.time += 0.9 * least / POLICY_SHARE
    assert made.times.left("a/p") == 0.0
    made.clock.time += 0.2 * least / POLICY_SHARE
    assert made.times.left("a/p") == pytest.approx(1.1 * least)


def test_others_have_their_own_budgets() -> None:
    made = Times()
    made.use("a/p", POLICY_SECONDS)
    assert made.times.left("a/q") == pytest.approx(POLICY_SECONDS)
    assert made.times.left("b/p") == POLICY_SECONDS


def test_many_policies_of_a_namespace_share_one() -> None:
    made = Times()
    number = round(NAMESPACE_SECONDS / POLICY_SECONDS)
    for each in range(number):
        made.use(f"a/p{each}", POLICY_SECONDS)
    assert number > 1
    with pytest.raises(ExpensivePolicyError, match="policy a/another "):
        made.use("a/another", POLICY_SECONDS / 2)
    assert made.times.left("b/p") == POLICY_SECONDS


@pytest.mark.parametrize(
    ("nodes", "times"),
    [(0, 1), (500, 1), (1000, 2), (5000, 10), (7500, 11), (65_000, 34), (100_000, 34)],
)
def test_a_large_cluster_has_larger_budgets(nodes: int, times: int) -> None:
    made = Times(nodes=nodes)
    assert made.times.left("a/p") == pytest.approx(times * POLICY_SECONDS)
    made.times.use("a/p", times * POLICY_SECONDS)
    assert made.times.left("a/p") == 0.0
    assert made.times.left("a/q") == pytest.approx(times * POLICY_SECONDS)
    made.times.use("a/q", times * POLICY_SECONDS)
    assert made.times.left("a/r") == 0.0
    assert made.times.left("b/p") == pytest.approx(times * POLICY_SECONDS)


def test_the_deadline_of_the_call_holds_as_well() -> None:
    made = Times()
    call = made.call(0.05)
    call.charge("a/p")
    made.clock.time += 0.06
    with pytest.raises(DeadlineExceededError):
        call.check()
    assert made.refused == []


def test_time_between_policies_is_nobodys() -> None:
    made = Times()
    call = made.call()
    call.charge("a/p")
    made.clock.time += 0.04
    call.rest()
    made.clock.time += 10
    call.charge("b/q")
    made.clock.time += 0.02
    call.charge("a/p")
    assert made.times.left("b/q") == pytest.approx(POLICY_SECONDS - 0.02)
    # Of the time in this call, 0.04 s are used.
    made.clock.time += CALL_SECONDS - 0.04 - 0.001
    call.check()
    made.clock.time += 0.002
    with pytest.raises(ExpensivePolicyError, match="a/p"):
        call.check()


def test_time_of_one_call_adds_up() -> None:
    made = Times()
    call = made.call()
    for _ in range(3):
        call.charge("everyone")
        made.clock.time += CALL_SECONDS / 3 - 0.001
        call.rest()
        made.clock.time += 1.0
    call.charge("everyone")
    made.clock.time += 0.004
    with pytest.raises(ExpensivePolicyError, match="everyone"):
        call.check()


def test_collections_of_garbage_are_nobodys() -> None:
    """They come at any time, and take long in a large cluster."""
    clock = WorkClock()
    kept = [[number] for number in range(100_000)]
    before, thread = clock(), time.thread_time()
    gc.collect()
    work, all_of_it = clock() - before, time.thread_time() - thread
    clock.close()
    assert len(kept) == 100_000
    assert work < all_of_it / 2


def test_an_edit_buys_no_time() -> None:
    """Else a policy that is edited again and again would use all of it."""
    made = Times()
    with pytest.raises(ExpensivePolicyError):
        made.use("a/p", 2 * POLICY_SECONDS)
    assert made.times.expensive == {"a/p"}
    made.times.changed(["a/p"])
    assert made.times.expensive == set()
    with pytest.raises(ExpensivePolicyError):
        made.use("a/p", 0)


def test_a_policy_is_expensive_for_a_minute_after_a_call_without_time() -> None:
    made = Times()
    with pytest.raises(ExpensivePolicyError):
        made.use("a/p", 2 * POLICY_SECONDS)
    made.clock.time += 59
    assert made.times.expensive == {"a/p"}
    made.clock.time += 2
    assert made.times.expensive == set()


# ---- the engine


def repeated(test: str, hundreds: int = 100) -> str:
    """A test that is evaluated so many hundred times, 10,000 of which take some milliseconds."""
    outer, inner = (f"[{', '.join(['1'] * count)}]" for count in (hundreds, 100))
    return f"{outer}.all(x, {inner}.all(y, x + y > 0 && {test}))"


LONG = repeated('node.name != ""')
FILTER = f'policy p in namespace "a" {{ filter "f" {{ require {LONG} }} }}'


def served(text: str, cache: Cache, made: Times, **options: Any) -> tuple[Engine, Silent]:
    """An engine with budgets, as a server has it."""
    heard = Silent()
    engine = engine_over(
        text, cache, heard, time=DecisionTime(made.clock, policies=made.times), **options
    )
    return engine, heard


def cluster(*pods: Object) -> Cache:
    return cache_of([node(name) for name in NODES], pods)


def ask(engine: Engine, made: Times, namespace: str = "a", name: str = "asked") -> int:
    """How many nodes filter offers a pod of a namespace."""
    decided = engine.filter(raw(pod(name, namespace)), NODES, None, made.clock() + 60)
    return int((decided.codes == 0).sum())


def insist(engine: Engine, made: Times) -> int:
    """Ask until there is an answer, once a second."""
    for _ in range(400):
        began = made.clock()
        try:
            return ask(engine, made)
        except ExpensivePolicyError:
            assert made.clock() - began < CALL_SECONDS + GRACE
        made.clock.time += 1.0
    return pytest.fail("no progress")


def test_an_evaluation_continues_where_the_last_one_ended() -> None:
    made = Times(runs=True)
    engine, _ = served(FILTER, cluster(), made)
    assert insist(engine, made) == len(NODES)
    assert len(made.refused) > 1


def test_pods_of_other_namespaces_are_decided_at_once() -> None:
    made = Times(runs=True)
    other = 'policy q in namespace "b" { filter "f" { require node.name != "n0" } }'
    engine, _ = served(f"{FILTER}\n{other}", cluster(), made)
    with pytest.raises(ExpensivePolicyError):
        ask(engine, made)
    for number in range(20):
        began = made.clock()
        assert ask(engine, made, "b", f"b{number}") == len(NODES) - 1
        assert made.clock() - began < GRACE
        with pytest.raises(ExpensivePolicyError):
            ask(engine, made, "a", f"a{number}")
        assert made.clock() - began < 2 * GRACE


def prioritize(engine: Engine, made: Times, namespace: str, name: str) -> None:
    engine.prioritize(raw(pod(name, namespace)), NODES, None, made.clock() + 60)


Verb = Callable[[Engine, Times, str, str], object]
OF_POD, OF_PEER = repeated('pod.name != ""'), repeated('peer.name != ""')
MESSAGE = OF_POD.replace('"', "'")
VERBS: dict[str, tuple[str, Verb]] = {
    "a filter": (f'filter "f" {{ require {LONG} }}', ask),
    "a condition": (f'filter "f" when {LONG} {{ require node.ready }}', ask),
    "a condition about the pod": (f'filter "f" when {OF_POD} {{ require node.ready }}', ask),
    "a selector": (f'for pods where {OF_POD} filter "f" {{ require true }}', ask),
    "a message": (f'filter "f" {{ require node.name == "" message "{{{MESSAGE}}}" }}', ask),
    "a count": (f'limit "l" {{ pods where {OF_PEER} per cluster at most 99 strict }}', ask),
    "a domain": (f'spread "s" {{ over ({LONG}) ? "x" : "y" skew at most 9 strict }}', ask),
    "a score": (f'score "s" weight 1 {{ value ({LONG}) ? 1 : 0 }}', prioritize),
    "the condition of a score": (f'score "s" weight 1 when {OF_POD} {{ value 1 }}', prioritize),
}


@rows(("clause", "call"), VERBS)
def test_every_clause_is_charged(clause: str, call: Verb) -> None:
    made = Times(runs=True)
    pods = [pod(f"p{number}", "a", on="n0") for number in range(64)]
    engine, _ = served(f'policy p in namespace "a" {{ {clause} }}', cluster(*pods), made)
    for number in range(60):
        with suppress(ExpensivePolicyError):
            call(engine, made, "a", f"asked-{number}")
    assert set(made.refused) == {"a/p"}


# ---- tallies, which follow the events of pods

LIMIT = (
    f'policy p in namespace "a" {{ limit "l" {{ all pods where {OF_PEER} '
    "per cluster at most 10 strict } }"
)


def test_a_first_count_continues_at_the_next_call() -> None:
    """Whatever happens to the pods between two calls."""
    made = Times(runs=True)
    cache = cluster(*(pod(f"p{number}", "a", on="n0") for number in range(40)))
    engine, _ = served(LIMIT, cache, made)
    with pytest.raises(ExpensivePolicyError):
        ask(engine, made)
    made.clock.time += 1.0
    for number in range(31):
        cache.remove_pod(f"a/p{number}")
    cache.put_pod(peer_of(pod("p39", "a", on="n1")))
    assert insist(engine, made) == len(NODES), "there are 9 pods, and this one is the tenth"


def test_events_stop_when_their_policy_has_no_time() -> None:
    """Its count is dropped, and made again when it is needed; events cost nothing until then."""
    made = Times(runs=True)
    cache = cluster(pod("p0", "a", on="n0"))
    engine, _ = served(LIMIT, cache, made)
    assert insist(engine, made) == len(NODES)
    began = made.clock()
    for number in range(200):
        cache.put_pod(peer_of(pod(f"q{number}", "b", on="n0")))
    assert made.clock() - began < CALL_SECONDS + 2 * GRACE
    assert made.refused
    for number in range(180):
        cache.remove_pod(f"b/q{number}")
    assert insist(engine, made) == 0, "there are 21 pods"


# ---- work for which nobody waits


def test_a_look_at_a_rejected_pod_takes_a_portion_of_time() -> None:
    made = Times(runs=True)
    engine, _ = served(
        FILTER.replace('policy p in namespace "a"', "cluster policy p"), cluster(), made
    )
    asked = engine.looks.read(raw(pod("asked", "a")))
    for portions in range(2000):
        began = made.clock()
        try:
            assert engine.looks.would_pass(asked)
        except DeadlineExceededError:
            assert made.clock() - began < PORTION_SECONDS + 2 * GRACE
        else:
            assert portions > 1
            return
    pytest.fail("no progress")


def test_an_audit_comes_after_the_answer_in_portions() -> None:
    made, later = Times(runs=True), list[Callable[[], None]]()
    test = repeated('node.name != "n1"').replace("y > 0 &&", "y < 0 ||")
    text = f'cluster policy p {{ mode audit filter "f" {{ require {test} }} }}'
    cache = cache_of([node(name) for name in NODES[:8]])
    engine, heard = served(text, cache, made, after=AfterDecision(made.clock, later=later.append))
    began = made.clock()
    engine.filter(raw(pod("asked", "a")), NODES[:8], None, made.clock() + 60)
    assert made.clock() - began < GRACE
    done = 0
    while later:
        done += 1
        began = made.clock()
        later.pop(0)()
        assert made.clock() - began < PORTION_SECONDS + 2 * GRACE
    assert done > 3
    assert ("would reject", "p", "f", 1) in heard.heard


def test_an_audit_that_takes_too_long_is_given_up() -> None:
    made, later = Times(), list[Callable[[], None]]()
    # One node takes several portions, however fast the machine is.
    made.clock.step = PORTION_SECONDS / 2
    text = f'cluster policy p {{ mode audit filter "f" {{ require {LONG} }} }}'
    engine, heard = served(
        text, cluster(), made, after=AfterDecision(made.clock, later=later.append)
    )
    ask(engine, made)
    done = 0
    while later:
        done += 1
        later.pop(0)()
    assert MOST_PORTIONS <= done < MOST_PORTIONS + 5
    assert ("gave up", "audit", "p") in heard.heard


def test_a_changed_policy_is_not_expensive_any_more() -> None:
    made = Times(runs=True)
    engine, _ = served(FILTER, cluster(), made)
    with pytest.raises(ExpensivePolicyError):
        ask(engine, made)
    assert engine.expensive == {"a/p"}
    engine.adopt(registry_of('policy p in namespace "a" { filter "f" { require true } }'))
    assert engine.expensive == set()


def test_the_clock_of_work_is_read_only_where_time_may_be_over() -> None:
    """Each look at it is a call of the kernel."""
    made, work = Times(), Clock()
    read = list[float]()

    def working() -> float:
        read.append(work.time)
        return work.time

    made.times.work = working
    call = made.call()
    call.charge("a/p")
    read.clear()
    for _ in range(10):
        call.charge("a/p")
        call.check()
    assert not read
    # Nearly all of this time went by without work.
    made.clock.time += CALL_SECONDS + 0.01
    call.check()
    assert len(read) == 1
    work.time += CALL_SECONDS + 0.01
    with pytest.raises(ExpensivePolicyError):
        call.check()
