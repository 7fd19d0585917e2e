"""Placement: which feasible nodes a pod is offered, so that every bound holds wherever it goes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from engine.cache.cache import Cache
from engine.decision.placement import NOT_BOUND, ReplicaRole
from engine.decision.verdict import Feasible, Rejected
from engine.engine import Engine
from engine.errors import BriefWaitError, WaitingError
from engine.objects.peer import decode_controller
from engine.program.policy_time import DecisionTime
from grammar.values.time import SECOND, Timestamp
from tests.support.builders import Object, controller, node, pod, raw
from tests.support.engines import NOW, Silent, cache_of, engine_over, peer_of

IS_WEB = 'peer.labels["app"] == "web"'
NODES = [
    node("a", labels={"cap": "spot", "zone": "x"}),
    node("b", labels={"cap": "spot", "zone": "y"}),
    node("c", labels={"cap": "od", "zone": "x"}),
    node("d", labels={"cap": "od", "zone": "y"}),
]
ALL = "abcd"


def share(bound: str) -> str:
    return (
        f'share "s" {{ of pods where {IS_WEB} on nodes where node.labels["cap"] == "spot"'
        f" {bound} strict }}"
    )


SPREAD = f'spread "z" {{ pods where {IS_WEB} over node.labels["zone"] skew at most 1 strict }}'
LIMIT = f'limit "l" {{ pods where {IS_WEB} per node at most 1 strict }}'


def web(name: str, on: str | None = None) -> Object:
    return pod(name, labels={"app": "web"}, on=on)


class Scheduler:
    """The part of kube-scheduler that asks filter about pods."""

    def __init__(self, clauses: str, pods: Sequence[Object] = ()) -> None:
        self.cache: Cache = cache_of(NODES, pods)
        self.engine: Engine = engine_over(f"cluster policy p {{ {clauses} }}", self.cache)
        self.cache.add_event_handler(self.engine.in_flight.pod_changed)

    def ask(self, asked: Object | str, nodes: str = ALL) -> str:
        """The nodes that the pod is offered."""
        made = web(asked) if isinstance(asked, str) else asked
        self.verdicts = list(self.engine.filter(raw(made), list(nodes), None, math.inf))
        return "".join(
            name
            for name, verdict in zip(nodes, self.verdicts, strict=True)
            if isinstance(verdict, Feasible)
        )

    def bind(self, name: str, to: str) -> None:
        self.cache.put_pod(peer_of(web(name, on=to)))


# ---- the first answer


@pytest.mark.parametrize(
    ("clauses", "pods", "wanted"),
    [
        pytest.param(share("at most 40%"), [], "cd", id="at most 40% of one pod is none on"),
        pytest.param(share("at most 4"), [], "abcd", id="a share at most offers both sides"),
        pytest.param(share("at least 1"), [], "ab", id="at least: on comes first"),
        pytest.param(
            share("at least 1"), [web("p", "a")], "abcd", id="at least: both sides after that"
        ),
        pytest.param(
            share("exactly 50%"),
            [web("p", "a"), web("q", "c"), web("r")],
            "ab",
            id="exactly: one side alone, though both have room",
        ),
        pytest.param(SPREAD, [], "ac", id="a spread: one domain alone, though all have room"),
        pytest.param(SPREAD, [web("p", "a")], "bd", id="a spread: the domain that has fewer"),
        pytest.param(LIMIT, [], "a", id="a limit: one node alone, though all have room"),
        pytest.param(LIMIT, [web("p", "a")], "b", id="a limit: the first node with room"),
        pytest.param(
            f'{SPREAD} filter "f" {{ require node.name != "a" }}',
            [],
            "bd",
            id="of the nodes that every filter passes",
        ),
        pytest.param(
            f'{SPREAD} score "s" weight 1 {{ value node.name == "d" }}',
            [],
            "bd",
            id="the group of the node that scores best",
        ),
        pytest.param(
            f"{SPREAD} {share('exactly 100%')}", [], "a", id="one group of each narrow clause"
        ),
        pytest.param(
            f"{LIMIT} {share('at most 4')}", [], "a", id="beside a clause that is not narrow"
        ),
        pytest.param(
            SPREAD.replace("strict", "best effort weight 1"), [], "abcd", id="best effort: all"
        ),
    ],
)
def test_nodes_that_are_offered(clauses: str, pods: Sequence[Object], wanted: str) -> None:
    assert Scheduler(clauses, pods).ask("asked") == wanted


def test_nodes_that_are_held_back_are_rejected_by_their_clause() -> None:
    """Preemption may help: a pod that is counted may be evicted."""
    scheduler = Scheduler(f'{SPREAD} filter "f" {{ require node.name != "d" }}')
    assert scheduler.ask("asked") == "ac"
    spread = Rejected("policy p: z", "p", "z", resolvable=True)
    assert scheduler.verdicts[1::2] == [spread, Rejected("policy p: f", "p", "f")]


def test_a_full_group_is_rejected_by_the_first_clause_without_room() -> None:
    scheduler = Scheduler(f"{share('at most 0')} {LIMIT}", [web("p", "a"), web("q", "c")])
    assert scheduler.ask("asked") == "d"
    clauses = [v.clause if isinstance(v, Rejected) else "" for v in scheduler.verdicts]
    assert clauses == ["s", "s", "l", ""]


# ---- pods in flight


def test_a_pod_waits_where_only_pods_in_flight_stand_in_its_way() -> None:
    scheduler = Scheduler(share("at most 1") + 'filter "f" { require node.name < "c" }')
    assert scheduler.ask("p") == "ab"
    with pytest.raises(WaitingError, match=r"^waiting for .*: policy p: s$"):
        scheduler.ask("q")


def test_a_pod_waits_for_the_clauses_that_pods_in_flight_have_filled() -> None:
    """A clause that is closed without them is not named."""
    scheduler = Scheduler(f'{share("at most 0")} {LIMIT} filter "f" {{ require node.name != "d" }}')
    assert scheduler.ask("p") == "c"
    with pytest.raises(WaitingError, match=r"^waiting for .*: policy p: l$"):
        scheduler.ask("q")


def test_a_pod_is_rejected_where_pods_that_are_there_stand_in_its_way() -> None:
    scheduler = Scheduler(share("at most 1") + 'filter "f" { require node.name < "c" }')
    assert scheduler.ask("p") == "ab"
    scheduler.bind("p", "a")
    assert scheduler.ask("q") == ""


def test_a_pod_that_is_rejected_is_not_in_flight() -> None:
    scheduler = Scheduler(LIMIT, [web(name, on) for name, on in zip("pqr", "abc", strict=True)])
    assert scheduler.ask("asked") == "d"
    scheduler.bind("s", "d")
    assert scheduler.ask("asked") == ""
    assert len(scheduler.engine.in_flight) == 0


def test_a_pod_without_counts_is_in_flight_on_every_node_it_was_offered() -> None:
    scheduler = Scheduler(f'for pods where pod.name == "asked" {share("at most 1")}')
    assert scheduler.ask("other") == ALL
    assert scheduler.ask("asked") == "cd"


# ---- a narrow answer that the pod did not follow


def test_a_pod_that_was_not_bound_is_sent_back_once_and_then_tries_another_group() -> None:
    scheduler = Scheduler(LIMIT)
    assert scheduler.ask("asked") == "a"
    tried = []
    for _ in range(4):
        with pytest.raises(WaitingError, match=NOT_BOUND):
            scheduler.ask("asked")
        tried.append(scheduler.ask("asked"))
    assert tried == ["b", "c", "d", "a"], "after all of them the first again"


def test_a_wide_answer_sends_nobody_back() -> None:
    scheduler = Scheduler(share("at most 4"))
    assert [scheduler.ask("asked") for _ in range(3)] == [ALL] * 3


def test_the_next_pod_takes_what_is_left() -> None:
    scheduler = Scheduler(LIMIT)
    assert [scheduler.ask(name) for name in "pqrs"] == ["a", "b", "c", "d"]
    with pytest.raises(WaitingError):
        scheduler.ask("t")


def test_a_bound_that_the_burst_must_not_pass() -> None:
    """Ten pods before any watch event: of 40% four, on one side at a time."""
    pods = [web(f"p{number}") for number in range(10)]
    scheduler = Scheduler(share("exactly 40%"), pods)
    sides = [scheduler.ask(each)[0] for each in pods]
    assert sum(side in "ab" for side in sides) == 4


def test_pods_of_a_scheduler_that_no_flag_names_are_reported() -> None:
    seen = Silent()
    rule = 'cluster policy p { limit "l" { pods where true per node at most 9 strict } }'
    engine = engine_over(rule, cache_of([node("n1")]), seen)
    for name, spec in (("a", {}), ("b", {"schedulerName": "batch"})):
        engine.filter(raw(pod(name, spec=spec)), ["n1"], None, math.inf)
    assert seen.heard == [("unnamed scheduler", "batch")]


# ---- pods of a ReplicaSet that is not known yet

ONE = 'limit "one" { per node at most 1 strict }'
SHARE = 'share "s" { of pods where true on nodes where true exactly 9 strict }'


@pytest.mark.parametrize(
    ("clause", "kind", "age", "waits"),
    [
        (ONE, "ReplicaSet", 0, True),
        (ONE, "ReplicaSet", 29, True),
        (ONE, "ReplicaSet", 30, False),
        (ONE, "StatefulSet", 0, False),
        ('limit "all" { pods where true per node at most 9 strict }', "ReplicaSet", 0, False),
        ('limit "soft" { per node at most 1 best effort weight 5 }', "ReplicaSet", 0, False),
        (SHARE, "ReplicaSet", 0, True),
    ],
)
def test_a_new_pod_waits_for_its_replica_set(
    clause: str, kind: str, age: int, *, waits: bool
) -> None:
    """Without it, the pods of other revisions would not count."""
    deployment = controller("Deployment", "web", replicas=3)
    owner = controller(kind, "web-2", owner=deployment)
    old = controller("ReplicaSet", "web-1", owner=deployment)
    cache = cache_of([node("n0"), node("n1")])
    for each in (deployment, old):
        cache.put_controller(decode_controller(each["kind"], raw(each)))
    cache.put_pod(peer_of(pod("web-1-a", on="n0", owner=old)))
    now = Timestamp(NOW.nanos + age * SECOND)
    engine = engine_over(
        f"policy p {{ for pods where true {clause} }}",
        cache,
        time=DecisionTime(now=lambda: now),
        role=ReplicaRole(watches=True),
    )
    asked = raw(pod("web-2-a", owner=owner))
    if not waits:
        engine.filter(asked, ["n0", "n1"], None, math.inf)
        return
    with pytest.raises(
        BriefWaitError, match=r"^waiting until ReplicaSet web-2 of the pod is known$"
    ):
        engine.filter(asked, ["n0", "n1"], None, math.inf)
    cache.put_controller(decode_controller(kind, raw(owner)))
    found = engine.filter(asked, ["n0", "n1"], None, math.inf)
    passing = [isinstance(verdict, Feasible) for verdict in found]
    assert passing == ([False, True] if clause == ONE else [True, True])
