"""Added victims: the fewest pods beside those that kube-scheduler proposes, and never others."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.cache.cache import Cache
from engine.decision.preemption import MOST_TRIALS, AddedVictim, Preemption, Preemptor, Victims
from engine.decision.verdict import ClauseName
from engine.engine import Engine
from engine.objects.disruption_budget import decode_budget
from engine.objects.request_pod import SYSTEM_NAMESPACES, Exemptions
from engine.program.policy_time import DecisionTime
from tests.support import builders
from tests.support.builders import Object
from tests.support.engines import (
    NOW,
    cache_of,
    engine_over,
    evaluation_of,
    frame_of,
    peer_of,
    programs_of,
)
from tests.support.examples import examples

ONE = 'limit "one" { pods where peer.labels["app"] == "web" per node at most 1 strict }'
TWO = ONE.replace("at most 1", "at most 2")
FEW = (
    'filter "few" { require size(node.pods.filter(p, p.labels[?"app"].orValue("") == "web")) < 2 }'
)
ROOM = 'filter "room" { require node.free["cpu"] >= pod.requests["cpu"] }'
SPARE = 'preempt "spare" { protect victim where victim.labels[?"keep"].orValue("") == "1" }'
PREFIX = "cluster policy p { for pods where pod.labels[?'app'].orValue('') == 'web'\n"


def there(
    name: str, priority: int = 0, app: str = "web", *, started: int | None = None, **fields: Any
) -> Object:
    """A pod on node n1, unless it is `on` another one; `started` is the second of its start."""
    labels = {"app": app, **fields.pop("labels", {})} if app else fields.pop("labels", None)
    made = builders.pod(
        name, **{"on": "n1", "cpu": "1", "priority": priority, "labels": labels, **fields}
    )
    made["metadata"]["uid"] = name
    if started is not None:
        made["status"]["startTime"] = f"2026-11-21T10:00:{started:02}Z"
    return made


def budget(name: str, allowed: int, labels: Mapping[str, str], **status: Any) -> Object:
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": dict(labels)}},
        "status": {"disruptionsAllowed": allowed, **status},
    }


def cluster(pods: Iterable[Object], budgets: Iterable[Object] = (), cpu: str = "8") -> Cache:
    nodes = [builders.node(name, zone=f"z{name[1]}", cpu=cpu) for name in ("n1", "n2", "n3")]
    cache = cache_of(nodes, pods)
    for each in budgets:
        cache.put_budget(each["metadata"]["name"], decode_budget(msgspec.json.encode(each)))
    return cache


def engine(clauses: str, cache: Cache, **options: Any) -> Engine:
    return engine_over(f"{PREFIX}{clauses}\n}}", cache, **options)


def asked(priority: int = 100, **status: Any) -> bytes:
    pod = builders.pod("asked", cpu="1", priority=priority, labels={"app": "web"})
    pod["status"] |= status
    return builders.raw(pod)


def kept(
    clauses: str,
    pods: Iterable[Object],
    proposed: Mapping[str, Victims],
    budgets: Iterable[Object] = (),
    priority: int = 100,
) -> Mapping[str, Victims]:
    return engine(clauses, cluster(pods, budgets)).preempt(asked(priority), proposed, math.inf)


def uids(answer: Mapping[str, Victims]) -> dict[str, str]:
    return {name: " ".join(victims.uids) for name, victims in answer.items()}


# ---- tables

WEB = [there("w1", 1), there("w2", 2), there("w3", 3)]
OTHER = there("other", 5, app="db")


@pytest.mark.parametrize(
    ("clauses", "pods", "proposed", "victims"),
    [
        pytest.param(ONE, [WEB[0], OTHER], "other", "other w1", id="one-more"),
        pytest.param(ONE, WEB, "w3", "w3 w2 w1", id="all-of-them"),
        pytest.param(TWO, WEB, "w3", "w3 w1", id="the-least-important"),
        pytest.param(TWO, WEB, "", "w2 w1", id="without-any-proposed"),
        pytest.param(TWO, WEB, "w3 w2", "w3 w2", id="none-is-needed"),
        pytest.param(ONE, [WEB[0], there("high", 100)], "w1", None, id="not-of-equal-priority"),
        pytest.param(FEW, WEB, "w3", "w3 w1", id="a-filter-that-counts"),
        pytest.param(ROOM, [there("big", 1, cpu="8"), OTHER], "other", "other big", id="room"),
        pytest.param(
            'filter "z" { require node.zone == "z2" }', WEB, "w1", None, id="not-for-a-label"
        ),
        pytest.param(
            'filter "z" { require node.zone == "z2" }' + ONE, WEB, "w1", None, id="nor-for-both"
        ),
        pytest.param(
            'bind "one" { require size(node.pods) < 2 }', WEB, "w3", "w3 w1", id="a-bind-clause"
        ),
        pytest.param(
            ONE + SPARE,
            [there("w1", 1, labels={"keep": "1"}), OTHER],
            "other",
            None,
            id="never-a-protected-one",
        ),
        pytest.param(
            TWO + SPARE,
            [there("w1", 1, labels={"keep": "1"}), *WEB[1:]],
            "w3",
            "w3 w2",
            id="another-than-the-protected-one",
        ),
        pytest.param(
            TWO + 'preempt "a" { allow when size(victims) <= 2 }', WEB, "w3", "w3 w1", id="allowed"
        ),
        pytest.param(
            ONE + 'preempt "a" { allow when size(victims) <= 2 }', WEB, "w3", None, id="not-allowed"
        ),
        pytest.param(
            TWO,
            [there("late", 1, started=9), there("early", 1, started=1), there("w3", 3)],
            "w3",
            "w3 late",
            id="the-one-that-started-last",
        ),
        pytest.param(
            TWO,
            [there("new", 1), there("early", 1, started=1), there("w3", 3)],
            "w3",
            "w3 new",
            id="the-one-that-has-not-started",
        ),
        pytest.param(
            'share "s" { of pods where peer.labels["app"] == "web" on nodes where'
            ' node.zone == "z1" at most 2 strict }',
            WEB,
            "w3",
            "w3 w1",
            id="a-share",
        ),
        pytest.param(
            'limit "l" { pods where peer.labels["app"] == "web" per cluster at most 3 strict }',
            [*WEB, there("far", 0, on="n2")],
            "",
            "w2 w1",
            id="a-limit-of-the-cluster",
        ),
        pytest.param(
            'limit "l" { pods where peer.labels["app"] == "web" per cluster at most 1 strict }',
            [*WEB, there("far", 0, on="n2")],
            "w3",
            None,
            id="others-elsewhere-are-too-many",
        ),
        pytest.param(
            'spread "s" { pods where peer.labels["app"] == "web" over node.zone'
            " skew at most 2 strict }",
            WEB,
            "",
            "w2 w1",
            id="a-spread",
        ),
        pytest.param(
            'limit "l" { sum peer.requests["cpu"] of pods where peer.labels["app"] == "web"'
            " per node at most 3 strict }",
            [there("w1", 1, cpu="2"), *WEB[1:]],
            "",
            "w1",
            id="a-sum",
        ),
    ],
)
def test_who_is_added(
    clauses: str, pods: Sequence[Object], proposed: str, victims: str | None
) -> None:
    answer = kept(clauses, pods, {"n1": Victims(proposed.split(), 0)})
    assert uids(answer) == ({} if victims is None else {"n1": victims})
    if victims is not None:
        added = [each.uid for each in answer["n1"].added]
        assert sorted(added) == sorted(set(victims.split()) - set(proposed.split()))


def test_each_added_victim_has_the_clause_that_needs_it() -> None:
    """Two policies of two clauses: each is the reason for one of the pods."""
    blue = (
        'limit "blue" { pods where peer.labels[?"blue"].orValue("") == "1" per node at most 0'
        " strict }"
    )
    pods = [there("w1", 1), there("w2", 2), there("b", 3, app="db", labels={"blue": "1"})]
    answer = kept(TWO + blue, pods, {"n1": Victims([], 0)})
    assert list(answer["n1"].added) == [
        AddedVictim("default/b", "b", ClauseName("p", "blue")),
        AddedVictim("default/w1", "w1", ClauseName("p", "one")),
    ]


def test_each_node_is_extended_by_itself() -> None:
    pods = [*WEB, there("v1", 1, on="n2"), there("v2", 9, on="n2"), there("x", 1, on="n3")]
    proposed = {"n3": Victims(["x"], 0), "n1": Victims(["w3"], 1), "n2": Victims(["v1"], 0)}
    answer = kept(ONE, pods, proposed)
    assert uids(answer) == {"n3": "x", "n1": "w3 w2 w1", "n2": "v2 v1"}
    assert [each.pdb_violations for each in answer.values()] == [0, 1, 0]


def test_exempt_pods_are_not_evicted_for_policies() -> None:
    pods = [there("w1", 1, namespace="kube-system"), there("w2", 2)]
    everywhere = ONE.replace("pods where", "all pods where")
    options = {"exemptions": Exemptions(SYSTEM_NAMESPACES)}
    made = engine(everywhere, cluster(pods), **options)
    assert made.preempt(asked(), {"n1": Victims([], 0)}, math.inf) == {}
    made = engine(everywhere, cluster(pods))
    assert uids(made.preempt(asked(), {"n1": Victims([], 0)}, math.inf)) == {"n1": "w2 w1"}


# ---- disruption budgets


@pytest.mark.parametrize(
    ("budgets", "victims", "violations"),
    [
        pytest.param([], "w1", 0, id="none"),
        pytest.param([budget("b", 0, {"k": "1"})], "w2", 0, id="the-other-one"),
        pytest.param([budget("b", 1, {"k": "1"})], "w1", 0, id="one-is-allowed"),
        # Of two that are covered, the more important one is the first that it allows.
        pytest.param([budget("b", 1, {"app": "web"})], "w3", 0, id="the-first-is-allowed"),
        pytest.param([budget("b", 0, {"app": "web"})], "w1", 1, id="all-are-covered"),
        pytest.param([budget("b", 0, {})], "w1", 0, id="an-empty-selector"),
        pytest.param(
            [budget("b", 0, {"k": "1"}, disruptedPods={"w1": "2026-11-21T10:00:00Z"})],
            "w1",
            0,
            id="disrupted-already",
        ),
        pytest.param(
            [budget("b", 0, {"k": "1"}), budget("c", 0, {"app": "web"})], "w1", 1, id="two-budgets"
        ),
    ],
)
def test_disruption_budgets_are_spared(
    budgets: Sequence[Object], victims: str, violations: int
) -> None:
    pods = [there("w1", 1, labels={"k": "1"}), there("w2", 2), there("w3", 3)]
    three = ONE.replace("at most 1", "at most 3")
    answer = kept(three, pods, {"n1": Victims([], 0)}, budgets)
    assert (uids(answer), answer["n1"].pdb_violations) == ({"n1": victims}, violations)


def test_violations_are_added_to_those_that_kube_scheduler_counted() -> None:
    pods = [*WEB, there("o", 4, app="db")]
    answer = kept(ONE, pods, {"n1": Victims(["o"], 1)}, [budget("b", 1, {"app": "web"})])
    assert uids(answer) == {"n1": "o w3 w2 w1"}
    assert answer["n1"].pdb_violations == 1 + 2


def test_without_knowing_budgets_only_a_pod_without_labels_is_added() -> None:
    """No budget covers it."""
    cache = cluster([there("w1", 1), there("bare", 2, app=""), there("w3", 3)])
    clauses = 'filter "few" { require size(node.pods) < 3 }'
    proposed = {"n1": Victims([], 0)}
    assert uids(engine(clauses, cache).preempt(asked(), proposed, math.inf)) == {"n1": "w1"}
    cache.trust_budgets(known=False)
    assert uids(engine(clauses, cache).preempt(asked(), proposed, math.inf)) == {"n1": "bare"}
    assert engine(ONE, cache).preempt(asked(), proposed, math.inf) == {}
    cache.trust_budgets(known=True)
    assert uids(engine(ONE, cache).preempt(asked(), proposed, math.inf)) == {"n1": "w3 w1"}


# ---- pods in flight, and pods that are going


def test_pods_in_flight_count_and_cannot_be_evicted() -> None:
    made = engine(TWO, cluster(WEB[:2]))
    other = builders.pod("other", cpu="1", priority=100, labels={"app": "web"})
    assert made.filter(builders.raw(other), ["n1", "n2"], None, math.inf).counts()[0] == 1
    # It may end on n2 only: n1 is full. Then one of the two makes room here.
    assert uids(made.preempt(asked(), {"n1": Victims([], 0)}, math.inf)) == {"n1": "w1"}
    answer = made.preempt(asked(), {"n1": Victims(["w2"], 0)}, math.inf)
    assert uids(answer) == {"n1": "w2"}


def test_a_pod_in_flight_to_the_node_takes_the_place_of_a_victim() -> None:
    cache = cluster(WEB[:1])
    made = engine(TWO, cache)
    other = builders.pod("other", cpu="1", priority=100, labels={"app": "web"})
    assert made.filter(builders.raw(other), ["n1"], None, math.inf).counts()[0] == 1
    assert uids(made.preempt(asked(), {"n1": Victims([], 0)}, math.inf)) == {"n1": "w1"}
    second = builders.pod("second", cpu="1", priority=100, labels={"app": "web"})
    cache.remove_pod("default/w1")
    assert made.filter(builders.raw(second), ["n1"], None, math.inf).counts()[0] == 1
    cache.put_pod(peer_of(there("w1", 1)))
    assert made.preempt(asked(), {"n1": Victims([], 0)}, math.inf) == {}


GOING = "2026-11-21T10:00:00Z"


@pytest.mark.parametrize(
    ("pods", "answer"),
    [
        pytest.param([there("w1", 1, deleted=GOING)], {}, id="the-last-one-is-going"),
        pytest.param(
            [there("w1", 1, deleted=GOING), there("high", 100)],
            {"n2": "v1"},
            id="another-one-stays-in-the-way",
        ),
        pytest.param([there("w1", 1)], {"n2": "v1"}, id="it-is-not-going"),
        pytest.param([there("o", 1, app="db", deleted=GOING)], {"n2": "v1"}, id="not-in-the-way"),
    ],
)
def test_a_pod_waits_for_pods_that_go_on_its_nominated_node(
    pods: Sequence[Object], answer: Mapping[str, str]
) -> None:
    """Else kube-scheduler would evict pods on a second node while an added victim is going."""
    made = engine(ONE, cluster([*pods, there("v1", 1, on="n2")]))
    body = asked(nominatedNodeName="n1")
    assert uids(made.preempt(body, {"n2": Victims(["v1"], 0)}, math.inf)) == answer


def test_a_pod_waits_for_added_victims_of_which_no_watch_has_told() -> None:
    """kube-scheduler has evicted them, sees that, and asks at once; this watch is behind."""
    seconds = [100.0]
    pods = [*WEB, there("v1", 1, on="n2"), there("o", 1, app="db", on="n2")]
    time = DecisionTime(lambda: seconds[0], lambda: NOW)
    made = engine(TWO, cluster(pods), time=time)
    first = {"n1": Victims(["w3"], 0)}
    second = {"n2": Victims(["o"], 0)}
    assert uids(made.preempt(asked(), first, math.inf)) == {"n1": "w3 w1"}
    nominated = asked(nominatedNodeName="n1")
    assert made.preempt(nominated, second, math.inf) == {}
    elsewhere = asked(nominatedNodeName="n3")
    assert uids(made.preempt(elsewhere, second, math.inf)) == {"n2": "o"}
    seconds[0] += 11.0
    assert uids(made.preempt(nominated, second, math.inf)) == {"n2": "o"}


# ---- what it costs


def test_many_pods_take_few_trials_and_further_nodes_are_left_out_after_the_last() -> None:
    """110 pods on each node, of which one has to go: one trial without all, seven to find it."""
    names = [f"node-{number:02}" for number in range(30)]
    pods = [
        there(f"{name}-{number}", number + 1, app="web" if number == 40 else "db", on=name)
        for name in names
        for number in range(110)
    ]
    cache = cache_of([builders.node(name, cpu="200") for name in names], pods)
    (program,) = programs_of(f"{PREFIX}{ONE}\n}}")
    made = engine_over(f"{PREFIX}{ONE}\n}}", cache)
    proposed = {name: Victims([], 0) for name in names}

    answer = made.preempt(asked(1000), proposed, math.inf)
    assert uids(answer) == {name: f"{name}-40" for name in names}

    looks: list[str] = []

    def closed(left: Any, gone: Collection[Any]) -> ClauseName | None:
        looks.append(left.name)
        web = sum(pod.labels["app"] == "web" for pod in left.pods)
        return ClauseName("p", "one") if web >= 1 else None

    def preemption(most: int) -> Preemption:
        evaluation = evaluation_of(frame_of(builders.pod("asked", labels={"app": "web"})))
        preemptor = Preemptor(1000, "", (), lambda _: False, cache.snapshot().budgets)
        return Preemption(
            [program], cache.snapshot().table, evaluation, closed, preemptor, most_trials=most
        )

    whole = preemption(MOST_TRIALS)
    assert len(whole.kept(proposed)) == 30
    assert not whole.is_cut_short
    assert len(looks) <= 30 * (1 + 1 + 8)
    cut = preemption(25)
    few = cut.kept(proposed)
    assert cut.is_cut_short
    assert 2 <= len(few) <= 3
    assert set(few) < set(names)


# ---- a model: every set of pods is tried

Policies = Mapping[str, Callable[[Sequence["Small"], Sequence["Small"]], bool]]


@dataclass(frozen=True, slots=True)
class Small:
    """A pod of a small world."""

    name: str
    priority: int
    web: bool
    kept: bool
    cpu: int
    started: int
    budgeted: bool


def _web(pods: Sequence[Small]) -> int:
    return sum(pod.web for pod in pods)


# What each clause says of a node, by the pods that are left on it and on the others.
RULES: Policies = {
    TWO: lambda here, _: _web(here) <= 1,
    FEW: lambda here, _: _web(here) <= 1,
    'filter "all" { require size(node.pods) < 4 }': lambda here, _: len(here) <= 3,
    ROOM: lambda here, _: sum(pod.cpu for pod in here) + 1 <= 8,
    'limit "l" { pods where peer.labels["app"] == "web" per cluster at most 4 strict }': (
        lambda here, far: _web(here) + _web(far) <= 3
    ),
    'share "s" { of pods where peer.labels["app"] == "web" on nodes where node.zone == "z1"'
    " at most 3 strict }": lambda here, _: _web(here) <= 2,
}

SMALL = st.builds(
    Small,
    name=st.just(""),
    priority=st.integers(0, 4),
    web=st.booleans(),
    kept=st.booleans(),
    cpu=st.integers(1, 3),
    started=st.integers(0, 3),
    budgeted=st.booleans(),
)


def _important(pod: Small) -> tuple[int, int]:
    return -pod.priority, pod.started


def modelled(
    here: Sequence[Small],
    far: Sequence[Small],
    given: Collection[Small],
    rules: Collection[Callable[[Sequence[Small], Sequence[Small]], bool]],
    allowed: int,
    priority: int,
    *,
    spared: bool,
) -> tuple[set[str], int] | None:
    """The pods added and the violations, by trying every set of pods that may be added."""
    lower = sorted((pod for pod in here if pod.priority < priority), key=_important)
    covered = [pod for pod in lower if pod.budgeted]
    breaks = set(covered[allowed:])
    may = [pod for pod in lower if pod not in given and not (spared and pod.kept)]
    # Whom to spare first, of all that may be added.
    order = [pod for pod in may if pod in breaks] + [pod for pod in may if pod not in breaks]

    def passes(gone: Collection[Small]) -> bool:
        left = [pod for pod in here if pod not in gone]
        return all(rule(left, far) for rule in rules)

    every = chain.from_iterable(combinations(may, size) for size in range(len(may) + 1))
    enough = [set(added) for added in every if passes({*given, *added})]
    if not enough:
        return None
    best = min(enough, key=lambda added: [pod in added for pod in order])
    return {pod.name for pod in best}, len(breaks & best)


@settings(max_examples=examples(150))
@given(
    here=st.lists(SMALL, min_size=1, max_size=7),
    far=st.lists(SMALL, max_size=3),
    chosen=st.sets(st.integers(0, 6), max_size=2),
    clauses=st.sets(st.sampled_from(sorted(RULES)), min_size=1, max_size=3),
    allowed=st.integers(0, 3),
    priority=st.integers(1, 5),
    spared=st.booleans(),
)
def test_the_same_as_trying_every_set_of_pods(
    here: list[Small],
    far: list[Small],
    chosen: set[int],
    clauses: set[str],
    allowed: int,
    priority: int,
    spared: bool,
) -> None:
    def named(pods: Sequence[Small], prefix: str) -> list[Small]:
        # Pods that are alike have no order, so none starts at the same time as another one.
        return [
            Small(f"{prefix}{i}", p.priority, p.web, p.kept, p.cpu, 10 * p.started + i, p.budgeted)
            for i, p in enumerate(pods)
        ]

    def made(pod: Small, node: str) -> Object:
        labels = {"keep": str(int(pod.kept)), "budget": str(int(pod.budgeted))}
        fields: dict[str, Any] = {"on": node, "cpu": str(pod.cpu), "labels": labels}
        app = "web" if pod.web else "db"
        return there(pod.name, pod.priority, app, started=pod.started, **fields)

    here, far = named(here, "h"), named(far, "f")
    given_pods = [here[i] for i in sorted(chosen) if i < len(here) and here[i].priority < priority]
    text = "\n".join(sorted(clauses)) + (SPARE if spared else "")
    # Two clauses of one name would be an error.
    text = text.replace('filter "few"', 'filter "b"')
    pods = [made(pod, "n1") for pod in here] + [made(pod, "n2") for pod in far]
    budgets = [budget("b", allowed, {"budget": "1"})]
    proposed = {"n1": Victims([pod.name for pod in given_pods], 0)}
    answer = kept(text, pods, proposed, budgets, priority)

    rules = [RULES[clause] for clause in clauses]
    model = modelled(here, far, given_pods, rules, allowed, priority, spared=spared)
    if spared and any(pod.kept for pod in given_pods):
        model = None
    if model is None or not (given_pods or model[0]):
        assert answer == {}
        return
    added, violations = model
    assert {each.uid for each in answer["n1"].added} == added
    assert set(answer["n1"].uids) == added | {pod.name for pod in given_pods}
    assert answer["n1"].pdb_violations == violations
    priorities = {pod.name: pod.priority for pod in here}
    found = [priorities[uid] for uid in answer["n1"].uids]
    assert found == sorted(found, reverse=True)
