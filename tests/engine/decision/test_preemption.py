"""Preemption: a candidate stays only if the pod may go there once its victims are gone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.decision.placement import ReplicaRole
from engine.decision.preemption import Victims
from engine.engine import Engine
from engine.errors import WaitingError
from tests.support import builders
from tests.support.engines import engine_of
from tests.support.rows import rows

# n1 and n2 are full; n3 has a pod of a team that is protected.
PODS = {
    "db": {"on": "n1", "cpu": "4", "priority": 10, "labels": {"tier": "db"}},
    "web": {"on": "n1", "cpu": "4", "priority": 5, "labels": {"tier": "web"}},
    "batch-1": {"on": "n2", "cpu": "4", "priority": 1, "labels": {"tier": "batch"}},
    "batch-2": {"on": "n2", "cpu": "4", "priority": 2, "labels": {"tier": "batch"}},
    "api": {"on": "n3", "cpu": "2", "priority": 3, "labels": {"tier": "web"}},
}
PROPOSED = {
    "n1": Victims(["web", "db"], 0),
    "n2": Victims(["batch-2", "batch-1"], 1),
    "n3": Victims(["api"], 0),
}


def preempting(clauses: str, **options: Any) -> Engine:
    text = f"cluster policy p {{ for pods where pod.name == 'asked'\n{clauses}\n}}"
    pods = [builders.pod(name, **fields) for name, fields in PODS.items()]  # type: ignore[arg-type]
    for each in pods:
        each["metadata"]["uid"] = each["metadata"]["name"]
    nodes = [builders.node(name, zone=f"z{name[1]}", cpu="8") for name in ("n1", "n2", "n3")]
    return engine_of(text, nodes, pods, **options)


def kept(
    clauses: str, proposed: Mapping[str, Victims] = PROPOSED, name: str = "asked"
) -> Mapping[str, Victims]:
    pod = builders.pod(name, cpu="4", priority=100, labels={"tier": "web"})
    return preempting(clauses).preempt(builders.raw(pod), proposed, math.inf)


ROOM = 'filter "room" { require node.free["cpu"] >= pod.requests["cpu"] }'


@rows(
    ("clauses", "stay"),
    {
        "room-once-they-are-gone": (ROOM, "n1 n2 n3"),
        "a-filter-says-no": ('filter "z" { require node.zone == "z2" }', "n2"),
        "bind-is-a-filter-here-as-well": ('bind "z" { require node.zone == "z2" }', "n2"),
        "protected": (
            'preempt "db" { protect pods where victim.labels["tier"] == "db" }',
            "n2 n3",
        ),
        "missing-protects": (
            'preempt "x" { protect pods where victim.labels["none"] == "db" }',
            "",
        ),
        "an-error-protects": (
            'preempt "x" { protect pods where 1 / (victim.priority - 3) == 7 }',
            "n1 n2",
        ),
        "allowed-only-there": ('preempt "few" { require size(victims) == 1 }', "n3"),
        "not-known": ('preempt "few" { require victims[0].labels["none"] == "" }', ""),
        "when": ('preempt "x" when pod.priority < 50 { require size(victims) > 9 }', "n1 n2 n3"),
        "missing-fail-protects": (
            'preempt "x" { protect pods where victim.labels["absent"] == "1" missing fail }',
            "",
        ),
        "missing-pass-does-not": (
            'preempt "x" { protect pods where victim.labels["absent"] == "1" missing pass }',
            "n1 n2 n3",
        ),
        "missing-pass-allows": (
            'preempt "x" { require victims[0].labels["absent"] == "1" missing pass }',
            "n1 n2 n3",
        ),
        "keep-spares-budgets": ('preempt "k" { pick 2 least size(victims) }', "n1 n3"),
        "keep-spares-priority": ('preempt "k" { pick 1 least size(victims) }', "n3"),
        "keep-all": ('preempt "k" { pick 9 least size(victims) }', "n1 n2 n3"),
        "a-limit-holds-without-them": (
            'limit "one" { pods where peer.labels["tier"] == "web" per node at most 1 strict }',
            "n1 n2 n3",
        ),
        "a-limit-of-the-cluster": (
            'limit "l" { pods where peer.labels["tier"] == "web" per cluster at most 2 strict }',
            "n1 n3",
        ),
        "a-share": (
            (
                'share "s" { pods where peer.labels["tier"] == "web"'
                ' on nodes where node.zone == "z3" at most 1 strict }'
            ),
            "n1 n2 n3",
        ),
    },
)
def test_which_candidates_stay(clauses: str, stay: str) -> None:
    assert list(kept(clauses)) == stay.split()


def test_a_pod_that_no_policy_selects_gets_what_was_proposed() -> None:
    assert kept('preempt "x" { require size(victims) > 9 }', name="other") == PROPOSED


def test_nodes_for_which_pods_of_others_would_go_are_left_out() -> None:
    """C38: members of a PodGroup, which kube-scheduler 1.37 proposes for each of their nodes."""
    proposed = {
        "n1": Victims(["web", "batch-1"], 0),
        "n2": Victims(["web", "batch-1"], 0),
        "n3": Victims(["api", "just-bound"], 0),
        "unknown": Victims(["api-2"], 0),
    }
    found = kept('filter "none" { require true }', proposed, name="other")
    assert list(found) == ["n3", "unknown"]
    assert kept('filter "none" { require true }', {"n2": Victims(["api"], 0)}, name="other") == {}


def test_a_full_node_stays_full_for_those_that_are_not_victims() -> None:
    assert kept(ROOM, {"n1": Victims(["web"], 0)}) == {"n1": Victims(["web"], 0)}
    room_for_three = ROOM.replace('pod.requests["cpu"]', '"12"')
    assert kept(room_for_three, {"n1": Victims(["web"], 0)}) == {}


def test_what_is_not_known_is_not_evicted() -> None:
    proposed = {
        "n9": Victims(["api"], 0),
        "n3": Victims(["api", "nobody"], 0),
        "n2": Victims(["api"], 0),
    }
    assert kept(ROOM, proposed) == {}


def test_a_node_where_nobody_has_to_go_is_not_in_the_answer() -> None:
    """C40: kube-scheduler takes a node without victims for an error."""
    assert kept(ROOM, {"n3": Victims([], 0)}) == {}


def test_victims_keep_their_budgets_and_come_in_the_order_of_priority() -> None:
    assert kept(ROOM) == {
        "n1": Victims(["db", "web"], 0),
        "n2": Victims(["batch-2", "batch-1"], 1),
        "n3": Victims(["api"], 0),
    }


def test_counts_are_decided_by_the_holder_of_the_lease_alone() -> None:
    class Elsewhere:
        def waiting(self, *, asked: bool = True) -> str:
            assert asked
            return "counts are decided by `b`"

    engine = preempting(
        'limit "one" { per node at most 1 strict }', role=ReplicaRole(Elsewhere().waiting)
    )
    pod = builders.raw(builders.pod("asked"))
    with pytest.raises(WaitingError, match="counts are decided by `b`"):
        engine.preempt(pod, PROPOSED, math.inf)


_VICTIMS = st.builds(
    Victims, st.lists(st.sampled_from([*PODS, "nobody"]), unique=True), st.integers(0, 2)
)


@given(
    proposed=st.dictionaries(st.sampled_from(["n1", "n2", "n3", "n9"]), _VICTIMS),
    clauses=st.lists(
        st.sampled_from(
            [
                ROOM,
                'preempt "db" { protect pods where victim.labels["tier"] == "db" }',
                'preempt "k" { pick 1 least victims[0].priority }',
                'limit "l" { pods where peer.labels["tier"] == "web" per node at most 1 strict }',
            ]
        ),
        unique=True,
    ),
)
def test_who_is_proposed_stays(proposed: Mapping[str, Victims], clauses: list[str]) -> None:
    """Whatever is proposed: nodes go, and go whole."""
    answer = kept("\n".join(clauses), proposed)
    assert list(answer) == [name for name in proposed if name in answer]
    for name, victims in answer.items():
        # A pod that no policy concerns gets what was proposed.
        assert victims.uids or not clauses
        assert sorted(victims.uids) == sorted(proposed[name].uids)
        assert victims.pdb_violations == proposed[name].pdb_violations
