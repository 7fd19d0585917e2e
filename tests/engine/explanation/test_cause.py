"""The cause of a pending pod, from what kube-scheduler has said and what policies say now."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from engine.enforced import PolicyNotInForce
from engine.explanation.cause import cause_of, reasons_of
from engine.explanation.document import (
    ClauseSummary,
    NodeGroup,
    PodExplanation,
    RejectingClause,
    UnfitNodes,
)
from engine.facts import CauseKind
from tests.support.builders import pod

ZONE = ClauseSummary("shop/a", "zone", 3, 3, 0, "zone", counts=False)
ONE = ClauseSummary("shop/b", "one", 3, 3, 0, "one is there", counts=True)


def explained(
    *clauses: ClauseSummary, passing: int = 0, problem: str | None = None, text: str = ""
) -> PodExplanation:
    """What policies say of three nodes that pass, or that one clause rejects with a text."""
    against = [RejectingClause("p", "c", text)] if text else []
    return PodExplanation(
        pod="shop/web-1",
        at="2026-11-21T12:00:00Z",
        on=None,
        nodes=3,
        passing=passing,
        problem=problem,
        clauses=clauses,
        groups=[NodeGroup(against, 3, ["n1", "n2", "n3"])],
    )


PASSES = explained(ZONE, ONE, passing=3)
REFUSES = explained(ZONE, text="shop/a: zone")
FULL = explained(ONE, text="shop/b: one: one is there")
AVAILABLE = "0/3 nodes are available: "
PREEMPTION = " preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
DOWN = (
    'running Filter plugin: Post "http://127.0.0.1:12345/api/scheduler/filter":'
    " dial tcp 127.0.0.1:12345: connect: connection refused"
)
RIGHTS = (
    "placet: not synced: cannot list nodes: the service account `kube-system/placet` may not list"
    " nodes"
)
HELD_BACK = "placet: held back: another pod may be on its way there"
BROKEN = [PolicyNotInForce("shop/a", "", "rules:1:1 error[P0102]: Node has no field `nme`")]


def waiting(message: str = "", **spec: Any) -> dict[str, Any]:
    made = pod("web-1", "shop", spec=spec)
    condition = {"type": "PodScheduled", "status": "False", "message": message}
    made["status"]["conditions"] = [condition]
    return made


@pytest.mark.parametrize(
    ("asked", "found", "kind", "text"),
    [
        (
            waiting(f"{AVAILABLE}3 shop/a: zone.{PREEMPTION}"),
            REFUSES,
            "policy",
            "shop/a: zone (3 nodes)",
        ),
        (
            waiting(f"{AVAILABLE}3 one is there."),
            FULL,
            "count",
            "shop/b: one: one is there (3 nodes)",
        ),
        (waiting(), REFUSES, "policy", "no node passes the policies"),
        (waiting(f"{AVAILABLE}3 one is there."), PASSES, "held back", "another pod was on its way"),
        (waiting(f"{AVAILABLE}3 x: one is there."), PASSES, "held back", "3 of 3 nodes"),
        (waiting(f"{AVAILABLE}3 shop/a: zone."), PASSES, "policy", "at the last answer"),
        (
            waiting(f"{AVAILABLE}2 shop/a: zone, 1 Insufficient cpu."),
            explained(ZONE, passing=1),
            "kube-scheduler",
            "own plugins reject the nodes: Insufficient cpu (1 node)",
        ),
        (
            waiting("placet: policy shop/a is not enforced: no valid version loaded yet"),
            None,
            "policy not in force",
            "rules:1:1 error[P0102]",
        ),
        (
            waiting(),
            explained(problem="policy shop/a is not enforced: no valid version loaded yet"),
            "policy not in force",
            "`shop/a` has no valid version",
        ),
        (waiting(RIGHTS), PASSES, "missing rights", "may not list nodes"),
        (
            waiting(schedulerName="mine"),
            PASSES,
            "other scheduler",
            "`mine`, which has not answered",
        ),
        (waiting(), PASSES, "not asked yet", "has not tried"),
        (
            waiting(f"{AVAILABLE}1 Insufficient cpu, 2 node(s) had untolerated taint {{a: b}}."),
            PASSES,
            "kube-scheduler",
            "node(s) had untolerated taint {a: b} (2 nodes); Insufficient cpu (1 node)",
        ),
        (
            waiting(schedulingGates=[{"name": "example.com/quota"}]),
            PASSES,
            "gated",
            "`example.com/quota`",
        ),
        (waiting(f"{AVAILABLE}3 no licence left."), PASSES, "other extender", "no licence left"),
        (waiting(DOWN), PASSES, "unreachable extender", "connection refused"),
        (
            waiting("failed filter with extender at URL http://x/filter, code 500"),
            PASSES,
            "unreachable extender",
            "http://x",
        ),
        (
            waiting("placet: waiting for in-flight pods: one is there"),
            PASSES,
            "held back",
            "Placet holds it back, so that a strict bound holds: one is there",
        ),
        (
            waiting(f"{AVAILABLE}1 Insufficient cpu, 2 {HELD_BACK}."),
            PASSES,
            "held back",
            "another pod may be on its way there (2 nodes)",
        ),
        (
            waiting(f"{AVAILABLE}1 placet: node not yet known, 2 shop/a: zone."),
            PASSES,
            "placet",
            "Placet itself keeps it waiting: node not yet known (1 node)",
        ),
        (waiting(f"{AVAILABLE}3 {HELD_BACK}."), None, "held back", "may be on its way"),
        (waiting(f"{AVAILABLE}3 {HELD_BACK}."), REFUSES, "policy", "shop/a: zone (3 nodes)"),
        (
            waiting("binding rejected: placet: the pod is gone"),
            PASSES,
            "placet",
            "Placet itself keeps it waiting: the pod is gone",
        ),
        (waiting("the pod is gone"), explained(ZONE, passing=1), "extender error", "is gone"),
        (waiting(f"{AVAILABLE}3 shop/a: zone; b: full."), PASSES, "policy", "at the last answer"),
        (waiting("placet: policy a takes too much time"), PASSES, "placet", "policy a takes"),
        (waiting(nodeName="n-1"), PASSES, "placed", "`n-1`"),
        (waiting(f"{AVAILABLE}3 odd."), None, "unknown", "odd (3 nodes)"),
    ],
)
def test_each_kind_has_its_cause(
    asked: dict[str, Any], found: PodExplanation | None, kind: CauseKind, text: str
) -> None:
    known = cause_of(asked, [], found, BROKEN)
    assert known is not None
    assert known.kind == kind
    assert text in known.text


FULL_TEXT = "shop/b: one: one is there"
TAINT = "node(s) had untolerated taint {control-plane: }"


def beside(*unfit: str, refused: int = 3, passing: int = 1) -> PodExplanation:
    """Nodes that the limit refuses, and nodes that pass it, of which the plugins reject some."""
    names = [f"n{number}" for number in range(refused + passing)]
    groups = [NodeGroup([], passing, names[refused:])]
    if refused:
        groups.append(NodeGroup([RejectingClause("p", "c", FULL_TEXT)], refused, names[:refused]))
    return PodExplanation(
        pod="shop/web-1",
        at="2026-11-21T12:00:00Z",
        on=None,
        nodes=refused + passing,
        passing=passing,
        clauses=[ONE],
        groups=groups,
        unfit=[UnfitNodes(TAINT, len(unfit), unfit)] if unfit else [],
    )


TAINTED = f"{AVAILABLE}1 node(s) had untolerated taint(s), 3 one is there."
MIXED = (
    f"policies reject nodes: {FULL_TEXT} (3 nodes); kube-scheduler's own plugins reject the others"
)


@pytest.mark.parametrize(
    ("asked", "found", "kind", "text"),
    [
        (waiting(TAINTED), beside("n3"), "count", MIXED),
        (waiting("one is there"), beside("n3"), "count", f"{MIXED}: {TAINT} (1 node)"),
        (
            waiting(f"{AVAILABLE}2 node(s) had no available volume zone, 3 one is there."),
            beside(passing=2),
            "count",
            f"{MIXED}: node(s) had no available volume zone (2 nodes)",
        ),
        (
            waiting(f"{AVAILABLE}4 Insufficient cpu."),
            beside("n3"),
            "kube-scheduler",
            "reject the nodes: Insufficient cpu (4 nodes)",
        ),
        (
            waiting(f"{AVAILABLE}1 Insufficient cpu."),
            beside("n0", refused=0),
            "kube-scheduler",
            "1 of 1 node would pass the policies now",
        ),
        (waiting(f"{AVAILABLE}3 one is there."), beside(refused=0), "held back", "on its way"),
    ],
    ids=["said", "an-error", "a-volume", "not-asked", "full", "passes-now"],
)
def test_nodes_that_kube_scheduler_never_offers_are_no_false_cause(
    asked: dict[str, Any], found: PodExplanation, kind: CauseKind, text: str
) -> None:
    known = cause_of(asked, [], found, [])
    assert known is not None
    assert (known.kind, known.hint == "the policies do not keep it pending") == (
        kind,
        kind == "kube-scheduler",
    )
    assert text in known.text


def test_a_pod_in_a_file_of_which_nobody_has_spoken_has_a_cause_if_no_node_is_left() -> None:
    silent = pod("web-1", "shop")
    none = cause_of(silent, [], beside("n0", "n1", refused=0, passing=2), [], is_live=False)
    assert none is not None
    assert none.kind == "kube-scheduler"
    assert f"reject the nodes: {TAINT} (2 nodes)" in none.text
    mixed = cause_of(silent, [], beside("n3"), [], is_live=False)
    assert mixed is not None
    assert mixed.text == f"{MIXED}: {TAINT} (1 node)"
    assert cause_of(silent, [], beside("n3", passing=2), [], is_live=False) is None
    placed = pod("web-1", "shop", on="n3")
    assert cause_of(placed, [], beside("n3"), [], is_live=False) is None


def test_an_event_counts_where_the_condition_says_nothing() -> None:
    asked = pod("web-1", "shop")
    event = {"reason": "FailedScheduling", "message": DOWN}
    found = cause_of(asked, [event], PASSES, [])
    assert found is not None
    assert found.kind == "unreachable extender"


def test_a_pod_in_a_file_has_a_cause_only_if_a_scheduler_has_spoken() -> None:
    silent = cause_of(pod("web-1", "shop"), [], REFUSES, [], is_live=False)
    said = cause_of(waiting(f"{AVAILABLE}3 shop/a: zone."), [], REFUSES, [], is_live=False)
    assert silent is None
    assert said is not None
    assert said.kind == "policy"


@pytest.mark.parametrize(
    "after",
    [
        "",
        f".{PREEMPTION}",
        f". no new claims to deallocate,{PREEMPTION}",
        ". no new claims to deallocate.",
    ],
)
def test_what_other_plugins_add_is_no_reason(after: str) -> None:
    found = reasons_of(f"{AVAILABLE}1 zone 1.5, 2 Insufficient cpu{after}", {"zone 1.5"})
    assert found.ours == {"zone 1.5": 1}
    assert found.plugins == {"Insufficient cpu": 2}
    assert not found.others


def test_reasons_that_have_commas_stay_whole() -> None:
    said = f"{AVAILABLE}2 needs 1Gi, or more, 1 Too many pods."
    found = reasons_of(said, {"needs 1Gi, or more"})
    assert found.ours == {"needs 1Gi, or more": 2}
    assert found.plugins == {"Too many pods": 1}
    assert not found.others


def test_data_that_is_down_comes_first() -> None:
    against = [RejectingClause("p", "c", "shop/a: zone")]
    down = [RejectingClause("p", "d", "calm: calm: no rows in `data.load`")]
    groups = [NodeGroup(against, 2, ["n1", "n2"]), NodeGroup(down, 1, ["n3"])]
    found = msgspec.structs.replace(REFUSES, groups=groups)
    cause = cause_of(waiting(), [], found, [])
    assert cause is not None
    first, second = cause.text.split("; ")
    assert first.endswith("calm: calm: no rows in `data.load` (1 node)")
    assert second == "shop/a: zone (2 nodes)"
