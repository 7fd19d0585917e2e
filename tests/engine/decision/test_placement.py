"""Placement: which feasible nodes a pod is offered, so that every bound holds wherever it goes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from engine.cache.cache import Cache
from engine.decision.placement import NOT_BOUND, ReplicaRole
from engine.decision.verdict import FEASIBLE, Feasible, HeldBack, Rejected
from engine.engine import Engine
from engine.errors import BriefWaitError, WaitingError
from engine.objects.peer import decode_controller
from engine.program.policy_time import DecisionTime
from grammar.values.time import SECOND, Timestamp
from tests.support.builders import Object, controller, node, pod, raw, web
from tests.support.engines import NOW, Silent, cache_of, engine_over, peer_of
from tests.support.rows import rows

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
        f'share "s" {{ pods where {IS_WEB} on nodes where node.labels["cap"] == "spot"'
        f" {bound} strict }}"
    )


SPREAD = f'spread "z" {{ pods where {IS_WEB} over node.labels["zone"] skew at most 1 strict }}'
LIMIT = f'limit "l" {{ pods where {IS_WEB} per node at most 1 strict }}'


def gated(name: str) -> Object:
    return pod(name, labels={"app": "web"}, spec={"schedulingGates": [{"name": "quota"}]})


def waiting(number: int) -> list[Object]:
    return [web(f"w{each}") for each in range(number)]


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


@rows(
    ("clauses", "pods", "wanted"),
    {
        "at most 40% of one pod is none on": (share("at most 40%"), [], "cd"),
        "a share at most offers both sides": (share("at most 4"), [], "abcd"),
        "at least: on comes first": (share("at least 1"), [], "ab"),
        "at least: both sides after that": (share("at least 1"), [web("p", "a")], "abcd"),
        "exactly: one pod is none on the nodes": (share("exactly 50%"), [], "cd"),
        "exactly: one side is left to the pod that waits": (
            share("exactly 50%"),
            [web("p", "a"), web("q", "c"), web("r")],
            "ab",
        ),
        "a spread: every domain, as nobody waits": (SPREAD, [], "abcd"),
        "a spread: a domain is left to who waits": (SPREAD, waiting(1), "bd"),
        "a spread: the domain that has fewer": (SPREAD, [web("p", "a")], "bd"),
        "a spread: all domains, as each has room for one more": (
            SPREAD.replace("at most 1", "at most 2"),
            waiting(9),
            "abcd",
        ),
        "a limit: every node, as nobody waits": (LIMIT, [], "abcd"),
        "a limit: a node is left to who waits": (LIMIT, waiting(1), "bcd"),
        "a limit: two nodes are left to who waits": (LIMIT, waiting(2), "bd"),
        "a limit: one node where more wait than fit": (LIMIT, waiting(9), "b"),
        "a gated pod does not wait": (LIMIT, [gated("q")], "abcd"),
        "a limit: the nodes with room": (LIMIT, [web("p", "a")], "bcd"),
        "of the nodes that every filter passes": (
            f'{SPREAD} filter "f" {{ require node.name != "a" }}',
            waiting(1),
            "bd",
        ),
        "the group of the node that scores best": (
            f'{SPREAD} score "s" weight 1 {{ value node.name == "d" }}',
            waiting(1),
            "bd",
        ),
        "a domain is left, and its nodes with it": (f"{LIMIT} {SPREAD}", waiting(1), "bd"),
        "a clause with room for one more narrows nothing": (
            f"{LIMIT} {SPREAD.replace('at most 1', 'at most 2')}",
            waiting(1),
            "bcd",
        ),
        "beside a clause that never runs out of places": (
            f"{LIMIT} {share('at most 4')}",
            waiting(3),
            "b",
        ),
        "best effort: all": (SPREAD.replace("strict", "weight 1"), [], "abcd"),
    },
)
def test_nodes_that_are_offered(clauses: str, pods: Sequence[Object], wanted: str) -> None:
    assert Scheduler(clauses, pods).ask("asked") == wanted


def test_a_clause_whose_nodes_need_not_be_held_back_holds_none() -> None:
    """Whichever node chance would hold back for the limit: the domain that is left is enough."""
    zones = LIMIT.replace('"l"', '"z"').replace("per node", 'per node.labels["zone"]')
    offers = {Scheduler(f"{LIMIT} {zones}", waiting(1)).ask(f"asked-{n}") for n in range(20)}
    assert offers == {"ac", "bd"}


def test_the_emptiest_nodes_are_kept_then_chance_by_pod() -> None:
    """Never the first row."""
    full = [pod(f"on-{name}", cpu="1", memory="1Gi", on=name) for name in "abd"]
    assert Scheduler(LIMIT, [*full, *waiting(9)]).ask("asked") == "c"
    chosen = {Scheduler(LIMIT, waiting(9)).ask(f"asked-{number}") for number in range(30)}
    assert chosen == set(ALL)


FLOORS = "".join(
    f'share "{zone}" {{ pods where {IS_WEB} on nodes where node.labels["zone"] == "{zone}"'
    " at least 1 strict }"
    for zone in "xy"
)
CROSSING = (
    f'group cap by node.labels["cap"] limit "cap" {{ pods where {IS_WEB} per cap'
    ' at most (cap.value == "spot" ? 1 : 9) strict }'
    ' filter "f" { require node.name != "d" }'
    ' score "s" weight 1 { value node.name == "a" }'
)


def test_floors_narrow_also_where_no_other_pod_would_fit() -> None:
    """A pod in x may take the one place on spot that y needs; it must not be offered x and y."""
    scheduler = Scheduler(FLOORS + CROSSING, [web("p"), web("q")])
    assert scheduler.ask("p") == "ac"
    with pytest.raises(WaitingError):
        scheduler.ask("q")
    scheduler.bind("p", "c")
    assert scheduler.ask("q") == "b"


def test_nodes_that_are_held_back_are_not_rejected_by_their_clause() -> None:
    """No eviction helps there, and no author has said why."""
    rule = f'{SPREAD} filter "f" {{ require node.name != "d" }}'
    scheduler = Scheduler(rule, waiting(1))
    assert scheduler.ask("asked") == "b"
    held = HeldBack("p", "z")
    assert scheduler.verdicts == [held, FEASIBLE, held, Rejected("policy p: f", "p", "f")]


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
    scheduler = Scheduler(LIMIT, waiting(9))
    tried = [scheduler.ask("asked")]
    for _ in range(4):
        with pytest.raises(WaitingError, match=NOT_BOUND):
            scheduler.ask("asked")
        tried.append(scheduler.ask("asked"))
    assert set(tried[:4]) == set(ALL)
    assert tried[4] == tried[0], "after all of them the first again"


def test_a_wide_answer_sends_nobody_back() -> None:
    scheduler = Scheduler(share("at most 4"))
    assert [scheduler.ask("asked") for _ in range(3)] == [ALL] * 3


def test_the_next_pod_takes_what_is_left() -> None:
    """Each leaves a node to each of those that still wait."""
    scheduler = Scheduler(LIMIT, [web(name) for name in "pqrst"])
    assert sorted(map(scheduler.ask, "pqrs")) == list(ALL)
    with pytest.raises(WaitingError):
        scheduler.ask("t")


@pytest.mark.parametrize("known", [[], [gated("p")]], ids=["not shown", "still gated"])
def test_a_pod_on_its_way_waits_no_more_however_late_the_watch_is(known: Sequence[Object]) -> None:
    """It is none of the pods that wait, and no other pod waits less because of it."""
    scheduler = Scheduler(LIMIT, [*known, web("q"), web("r"), web("s")])
    assert sorted(map(scheduler.ask, "pqrs")) == list(ALL)


def test_a_pod_alone_is_waited_for() -> None:
    """It may go anywhere, and then it is bound at once."""
    scheduler = Scheduler(LIMIT)
    assert scheduler.ask("p") == ALL
    with pytest.raises(WaitingError):
        scheduler.ask("q")
    scheduler.bind("p", "b")
    assert scheduler.ask("q") == "acd"


def test_a_bound_that_the_burst_must_not_pass() -> None:
    """Ten pods; a watch shows the bindings only when no further pod fits beside those in flight."""
    names = [f"p{number}" for number in range(10)]
    scheduler = Scheduler(share("exactly 40%"), [web(each) for each in names])
    chosen, unseen = [], list[tuple[str, str]]()
    while names:
        try:
            to = scheduler.ask(names[0])[-1 if len(names) % 2 else 0]
        except WaitingError:
            for name, node_name in unseen:
                scheduler.bind(name, node_name)
            unseen.clear()
        else:
            unseen.append((names.pop(0), to))
            chosen.append(to)
    assert sum(to in "ab" for to in chosen) == 4


def test_pods_of_a_scheduler_that_no_flag_names_are_reported() -> None:
    seen = Silent()
    rule = 'cluster policy p { limit "l" { pods where true per node at most 9 strict } }'
    engine = engine_over(rule, cache_of([node("n1")]), seen)
    for name, spec in (("a", {}), ("b", {"schedulerName": "batch"})):
        engine.filter(raw(pod(name, spec=spec)), ["n1"], None, math.inf)
    assert seen.heard == [("unnamed scheduler", "batch")]


# ---- pods of a ReplicaSet that is not known yet

ONE = 'limit "one" { per node at most 1 strict }'
SHARE = 'share "s" { pods where true on nodes where true exactly 9 strict }'


@pytest.mark.parametrize(
    ("clause", "kind", "age", "waits"),
    [
        (ONE, "ReplicaSet", 0, True),
        (ONE, "ReplicaSet", 29, True),
        (ONE, "ReplicaSet", 30, False),
        (ONE, "StatefulSet", 0, False),
        ('limit "all" { pods where true per node at most 9 strict }', "ReplicaSet", 0, False),
        ('limit "soft" { per node at most 1 weight 5 }', "ReplicaSet", 0, False),
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
