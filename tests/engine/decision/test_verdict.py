"""Verdicts: codes and texts, nodes that are not known, and shares that are not met."""

from __future__ import annotations

import math

import numpy as np
import pytest

from engine.decision.recent_answers import AfterDecision
from engine.decision.registry import Registry
from engine.decision.verdict import (
    FEASIBLE,
    Decision,
    Feasible,
    Rejected,
    Scores,
    Verdict,
    attributed,
    decision,
    feasible,
    full_reason,
)
from engine.engine import Engine
from engine.errors import WaitingError
from tests.support.builders import node, pod, raw
from tests.support.engines import (
    CODEC,
    Known,
    Silent,
    cache_of,
    engine_of,
    engine_over,
    peer_of,
    programs_of,
)
from tests.support.rows import rows

A = Rejected("no", "p", "a")
B = Rejected("no", "p", "b")
BROKEN = Rejected("no", "p", "a", error="division by zero")


@rows(
    ("verdicts", "codes", "different"),
    {
        "no node": ([], [], [FEASIBLE]),
        "feasible is code 0": ([FEASIBLE, FEASIBLE], [0, 0], [FEASIBLE]),
        "equal verdicts have one code": ([A, FEASIBLE, A], [1, 0, 1], [FEASIBLE, A]),
        "codes in the order of the nodes": ([B, A, B], [1, 2, 1], [FEASIBLE, B, A]),
        "a failure is no rejection": ([A, BROKEN], [1, 2], [FEASIBLE, A, BROKEN]),
    },
)
def test_codes_of_verdicts(
    verdicts: list[Verdict], codes: list[int], different: list[Verdict]
) -> None:
    found = decision(verdicts)
    assert found.codes.tolist() == codes
    assert list(found.verdicts) == different
    assert list(found) == verdicts
    assert len(found) == len(verdicts)


def test_counts_have_a_number_for_each_verdict() -> None:
    found = Decision(np.array([0, 2, 2], np.int32), (FEASIBLE, A, B))
    assert found.counts() == [1, 0, 2]


def test_all_nodes_are_feasible() -> None:
    assert list(feasible(3)) == [FEASIBLE] * 3
    assert feasible(0).counts() == [0]


def test_scores_are_a_sequence_of_ints() -> None:
    found = Scores(np.array([3, 10, 0], np.int64))
    assert (list(found), len(found)) == ([3, 10, 0], 3)
    assert all(type(score) is int for score in found)


@pytest.mark.parametrize(
    ("policy", "reason", "wanted"),
    [
        ("shop/web", "no disk", "policy web: no disk"),
        ("web", "no disk", "policy web: no disk"),
        ("shop/web", "policy web: ssd", "policy web: ssd"),
        ("shop/web", "`web` needs a disk", "`web` needs a disk"),
        ("shop/web", "no website", "policy web: no website"),
        ("", "node not yet known", "node not yet known"),
        ("shop/web", "x" * 256, "policy web: " + "x" * 243 + "…"),
    ],
)
def test_the_text_of_an_event_names_the_policy(policy: str, reason: str, wanted: str) -> None:
    """Once, and always in the same way (C47)."""
    assert attributed(policy, reason) == wanted
    assert attributed(policy, wanted) == wanted


@rows(
    ("policy", "clause", "reason", "wanted"),
    {
        "with a message": ("shop/web", "ssd", "no disk", "shop/web: ssd: no disk"),
        "without one": ("shop/web", "ssd", "policy web: ssd", "shop/web: ssd"),
        "of no namespace": ("web", "ssd", "policy web: ssd", "web: ssd"),
        "in an event": ("shop/web", "ssd", "policy web: no", "shop/web: ssd: no"),
        "a message that names another policy": (
            "shop/web",
            "ssd",
            "policy api: ssd",
            "shop/web: ssd: policy api: ssd",
        ),
    },
)
def test_full_reason(policy: str, clause: str, reason: str, wanted: str) -> None:
    assert full_reason(policy, clause, reason) == wanted


# ---- nodes that kube-scheduler knows of and we do not yet: refused, or waited for if none is left


POD = raw(pod("web"))
POOL = 'cluster policy a { filter "pool" { require node.labels["pool"] == "web" } }'
NODES = [node("web", labels={"pool": "web"}), node("other", labels={"pool": "other"})]


LIMIT = 'cluster policy a { limit "one" { pods where true per node at most 1 strict } }'


@pytest.fixture(params=[POOL, LIMIT], ids=["filter", "limit"])
def engine(request: pytest.FixtureRequest) -> Engine:
    """An engine that knows no longer of the node `new`."""
    known = cache_of([*NODES, node("new")], [pod("there", on="other")])
    known.snapshot()
    known.remove_node("new")
    return engine_over(request.param, known)


def test_refused_where_another_node_passes(engine: Engine) -> None:
    passing, unknown = engine.filter(POD, ["web", "new"], None, math.inf)
    assert isinstance(passing, Feasible)
    assert isinstance(unknown, Rejected)
    assert unknown.reason == "placet: node not yet known"


@pytest.mark.parametrize("names", [["new"], ["other", "new"]], ids=",".join)
def test_waited_for_where_none_passes(engine: Engine, names: list[str]) -> None:
    """A rejection would park the pod until something happens, and it may have happened already."""
    for _ in range(5):
        with pytest.raises(WaitingError, match="node not yet known"):
            engine.filter(POD, names, None, math.inf)


def test_passes_where_no_rule_asks_for_it() -> None:
    engine = engine_of('cluster policy a { filter "x" { require pod.name == "web" } }', NODES)
    (verdict,) = engine.filter(POD, ["new"], None, math.inf)
    assert isinstance(verdict, Feasible)


# ---- unmet shares: which ones pods wait for, and until when


WEB = 'pods where peer.labels["app"] == "web"'
ADDRESS = "guard"


class Asking:
    """An engine about four web pods in two zones, and its clock."""

    def __init__(self, clauses: str) -> None:
        self.seconds = 0.0
        zones = {"a1": "a", "a2": "a", "b1": "b"}
        nodes = [node(name, zone) for name, zone in zones.items()]
        self._pods = [pod(f"p{i}", labels={"app": "web"}) for i in range(4)]
        self.cache = cache_of(nodes, self._pods)
        registry = Registry(programs_of(f"cluster policy {ADDRESS} {{ {clauses} }}"))
        after = AfterDecision(lambda: self.seconds)
        self.engine = Engine(registry, Known(self.cache), CODEC, Silent(), after=after)
        self.cache.add_event_handler(self.engine.in_flight.pod_changed)

    def ask(self, number: int, *names: str) -> bool:
        """Whether a node is offered."""
        decided = self.engine.filter(raw(self._pods[number]), [*names], None, math.inf)
        return 0 in decided.codes

    def bind(self, number: int, on: str) -> None:
        self.cache.put_pod(peer_of(pod(f"p{number}", labels={"app": "web"}, on=on)))


def share(bound: str, name: str = "zone b") -> str:
    return f'share "{name}" {{ of {WEB} on nodes where node.zone == "b" {bound} strict }}'


@pytest.mark.parametrize(
    "clauses",
    [
        share("at least 2"),
        share("exactly 2"),
        share("at least 2") + share("at most 3", "ceiling"),
    ],
)
def test_a_share_is_unmet_while_a_pod_waits_for_its_nodes(clauses: str) -> None:
    asking = Asking(clauses)
    for number in (0, 1):
        assert asking.ask(number, "a1", "a2")
        asking.bind(number, "a1")
    assert asking.engine.unmet == {}
    # The node of zone b is full: kube-scheduler does not offer it.
    assert not asking.ask(2, "a1", "a2")
    assert asking.engine.unmet == {ADDRESS: "zone b"}
    assert asking.ask(2, "a1", "a2", "b1")
    assert asking.engine.unmet == {}


def test_a_pod_that_is_not_asked_about_again_is_forgotten() -> None:
    asking = Asking(share("at least 4"))
    assert not asking.ask(0, "a1")
    asking.seconds = 359.0
    assert asking.engine.unmet == {ADDRESS: "zone b"}
    asking.seconds = 361.0
    assert asking.engine.unmet == {}


@pytest.mark.parametrize(
    "clauses",
    [
        'share "a" { of ' + WEB + ' on nodes where node.zone == "a" at most 0 strict }',
        'filter "f" { require node.zone == "b" }',
        share("at least 4").replace(" strict", " weight 1"),
    ],
)
def test_what_is_no_lower_bound_is_never_unmet(clauses: str) -> None:
    asking = Asking(clauses)
    asking.ask(0, "a1", "a2")
    assert asking.engine.unmet == {}


def test_other_policies_begin_with_nothing() -> None:
    asking = Asking(share("at least 4"))
    assert not asking.ask(0, "a1")
    asking.engine.adopt(
        Registry(programs_of(f"cluster policy {ADDRESS} {{ {share('at least 3')} }}"))
    )
    assert asking.engine.unmet == {}
