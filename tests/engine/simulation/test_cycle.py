"""The cycle: eligibility, sums of scores, and the effect of placed pods on later ones."""

from __future__ import annotations

import pytest

from engine.simulation.cycle import GATED, PodOutcome
from tests.support.builders import Object, node, pod
from tests.support.simulated import simulation, where

SPOT = """\
policy web {
  for pods where pod.labels["app"] == "web"
  filter "spot" { require node.labels["cap"] == "spot" }
  score "zone" weight 1 { value node.zone == "b" }
}
"""
NODES = [
    node("n-1", "a", cpu="4", labels={"cap": "spot"}),
    node("n-2", "b", cpu="4", labels={"cap": "spot"}),
    node("n-3", "b", cpu="8"),
]


def reasons(item: Object, nodes: list[Object], policies: str = "") -> dict[str, int]:
    (outcome,) = simulation(nodes, [item], policies).run()
    assert outcome.node is None, outcome
    return dict(outcome.reasons)


def web(name: str, cpu: str = "1") -> Object:
    return pod(name, cpu=cpu, memory="1Gi", labels={"app": "web"})


def test_without_policies_the_emptiest_node_wins_and_among_equals_the_first_by_name() -> None:
    nodes = [node("n-2", cpu="8"), node("n-1", cpu="8"), node("n-3", cpu="2")]
    pods = [pod(f"p-{i}", cpu="1", memory="1Gi") for i in range(4)]
    there = where(list(simulation(nodes, pods).run()))
    assert there == {"p-0": "n-1", "p-1": "n-2", "p-2": "n-1", "p-3": "n-2"}


def test_a_policy_filters_and_its_score_counts_tenfold_beside_the_default_one() -> None:
    outcomes = list(simulation(NODES, [web("a"), web("b"), pod("c", cpu="1")], SPOT).run())
    assert outcomes == [
        PodOutcome("default/a", "web", "n-2"),
        PodOutcome("default/b", "web", "n-2"),
        PodOutcome("default/c", None, "n-3"),
    ]


@pytest.mark.parametrize(("weight", "node_name"), [(1, "small"), (8, "old")])
def test_the_extenders_weight_says_how_much_a_score_counts(weight: int, node_name: str) -> None:
    """The small node is better by 48 points, the old one by 1 of the 10."""
    nodes = [
        node("small", cpu="4", memory="4Gi", labels={"age": "0"}),
        node("old", cpu="4", memory="4Gi", labels={"age": "1"}),
    ]
    there = [pod("there", cpu="2", memory="2Gi", on="old")]
    text = 'cluster policy age { score "a" weight 1 { value 10 * int(node.labels["age"]) } }'
    done = simulation(nodes, [web("p")], text, there=there, weight=weight)
    assert where(list(done.run())) == {"p": node_name}


def test_the_reasons_are_those_of_each_stage() -> None:
    taint = {"key": "team", "value": "a", "effect": "NoSchedule"}
    nodes = [
        node("cordoned", unschedulable=True),
        node("tainted") | {"spec": {"taints": [taint]}},
        node("other", labels={"cap": "od"}),
        node("full", cpu="1", pods="0", labels={"cap": "spot"}),
        node("fits", labels={"cap": "spot"}),
        node("fits too", labels={"cap": "spot"}),
    ]
    item = web("p", cpu="2")
    item["spec"]["nodeSelector"] = {"cap": "spot"}
    text = 'cluster policy never { filter "none" { require node.name == "x" message "no" } }'
    assert reasons(item, nodes, text) == {
        "never: none: no": 2,
        "Insufficient cpu": 1,
        "Too many pods": 1,
        "node(s) didn't match Pod's node affinity/selector": 1,
        "node(s) had untolerated taint {team: a}": 1,
        "node(s) were unschedulable": 1,
    }


def test_a_pod_that_tolerates_a_cordon_and_a_taint_is_eligible() -> None:
    taints = [{"key": "team", "value": "a", "effect": "NoExecute"}]
    nodes = [node("n") | {"spec": {"unschedulable": True, "taints": taints}}]
    daemon = pod("daemon", spec={"tolerations": [{"operator": "Exists"}]})
    assert where(list(simulation(nodes, [daemon, pod("p")]).run())) == {"daemon": "n", "p": ""}


def test_a_gated_pod_is_not_scheduled() -> None:
    gated = pod("p", spec={"schedulingGates": [{"name": "example.com/wait"}]})
    assert reasons(gated, NODES) == {GATED: 0}


def test_without_nodes_there_is_no_reason() -> None:
    assert reasons(pod("p"), []) == {}


def test_the_next_pod_sees_the_former_one_placed() -> None:
    text = """\
policy web {
  for pods where pod.labels["app"] == "web"
  limit "apart" {
    pods where peer.labels["app"] == "web" per node at most 1 strict message "one is there"
  }
}
policy db {
  for pods where pod.labels["app"] == "db"
  filter "beside web" { require node.pods.exists(p, p.labels["app"] == "web") }
}
"""
    nodes = [node("n-1"), node("n-2")]
    pods = [web("a"), web("b"), web("c"), pod("d", labels={"app": "db"})]
    outcomes = list(simulation(nodes, pods, text).run())
    placed = where(outcomes)
    assert sorted([placed["a"], placed["b"]]) == ["n-1", "n-2"]
    assert (placed["c"], placed["d"]) == ("", "n-1")
    assert (outcomes[2].pod, outcomes[2].policy) == ("default/c", "web")
    assert outcomes[2].reasons == {"web: apart: one is there": 2}


def test_counts_include_waiting_pods() -> None:
    text = """\
policy web {
  for pods where pod.labels["app"] == "web"
  share "spot" {
    of pods where peer.labels["app"] == "web" on nodes where node.labels["cap"] == "spot"
    at most 50% strict
  }
}
"""
    nodes = [node("spot", labels={"cap": "spot"}, cpu="64"), node("plain", cpu="8")]
    done = where(list(simulation(nodes, [web(f"p-{i}") for i in range(4)], text).run()))
    assert sorted(done.values()) == ["plain", "plain", "spot", "spot"]
    assert done["p-0"] == "spot"


def test_a_waiting_pod_leaves_the_node_that_it_has() -> None:
    nodes = [node("n-1", cpu="2"), node("n-2", cpu="2")]
    item = pod("p", cpu="2", on="n-2")
    assert where(list(simulation(nodes, [item], there=[item]).run())) == {"p": "n-1"}


def test_a_policy_that_cannot_be_evaluated_is_a_reason() -> None:
    text = 'policy odd { for pods where 1 / pod.priority == 1 filter "a" { require node.ready } }'
    assert reasons(pod("p"), NODES, text) == {"odd: for: its `for` cannot be evaluated": 3}
