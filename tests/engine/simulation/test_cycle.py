"""The cycle: eligibility, resources and scores, gangs, and the result of a simulation."""

from __future__ import annotations

import numpy as np
import pytest

from engine.objects.resources import amount
from engine.simulation.cycle import (
    GATED,
    NodeResources,
    PodOutcome,
    ResourceDemand,
    demand,
    resources_of,
)
from engine.simulation.result import (
    PendingBecause,
    SimulatedPolicy,
    SimulationAnswer,
    changes,
    result,
)
from engine.work import finished
from grammar.values.quantity import Quantity
from tests.support.builders import Object, node, pod, raw
from tests.support.engines import CODEC, snapshot_of
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


def test_devices_that_no_node_shows_are_not_known() -> None:
    """A DeviceClass may stand for them by its `extendedResourceName`."""
    amounts = {"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}}
    item, there = web("p"), pod("old", on="n-1")
    for each in (item, there):
        each["spec"]["containers"][0]["resources"] = amounts
    done = simulation([node("n-1"), node("n-2")], [item])
    assert where(list(done.run())) == {"p": "n-1"}
    assert done.notes == ["nobody here looks at devices `example.com/gpu`"]
    some = node("n-2", resources={"example.com/gpu": "0"})
    assert reasons(item, [node("n-1"), some]) == {"Insufficient example.com/gpu": 2}
    done = simulation([node("n-1"), some], [item], there=[there])
    assert where(list(done.run())) == {"p": "n-2"}, "old has one on a node without"


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
    pods where peer.labels["app"] == "web" on nodes where node.labels["cap"] == "spot"
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


# ---- results of simulations: reasons, allocation, and changes under other policies


RESULT_NODES = [node("a", cpu="3"), node("b", cpu="2")]
PODS = [pod("p-0", cpu="1"), pod("p-1", cpu="1"), pod("p-2", cpu="3"), pod("p-3", cpu="9")]
PACK = 'cluster policy pack { score "b" weight 1 { value node.name == "b" } }'
KEEP = 'policy keep { for pods where pod.name != "p-3" filter "a" { require node.name == "a" } }'


def ran(policies: str = "") -> SimulationAnswer:
    return result(simulation(RESULT_NODES, PODS, policies))


def test_a_result_has_counts_and_sums() -> None:
    done = ran(KEEP)
    assert (done.nodes, done.placed, done.pending) == (2, 2, 2)
    assert done.policies == [SimulatedPolicy("keep", 2, 1), SimulatedPolicy(None, 0, 1)]
    assert done.because == [PendingBecause("Insufficient cpu", pods=2, fewestNodes=2, mostNodes=2)]
    cpu = done.allocation["cpu"]
    assert (cpu.allocatable, cpu.requested, cpu.part) == (5000, 2000, 0.4)
    assert done.allocation["pods"].requested == 2


def test_reasons_are_ordered_by_their_pods() -> None:
    never = 'cluster policy x { filter "y" { require pod.name == "p-0" } }'
    assert ran(never).because == [
        PendingBecause("Insufficient cpu", pods=2, fewestNodes=2, mostNodes=2),
        PendingBecause("x: y", pods=1, fewestNodes=2, mostNodes=2),
    ]


def test_changes_are_pods_with_another_outcome() -> None:
    old, new = ran(), ran(PACK)
    kinds = {c.new.pod.partition("/")[2]: c.kind for c in changes(old, new)}
    assert kinds == {"p-0": "moved", "p-2": "now placed"}
    assert {c.kind for c in changes(new, old)} == {"moved", "now pending"}
    assert changes(old, old) == []


# ---- gangs in a simulation: whole, or not at all


MEMBERS = "example.com/members"
POLICY = f"""
policy gangs {{
  for pods where "job" in pod.labels
  gang "together" {{
    of pods by peer.labels["job"]
    at least int(pod.annotations["{MEMBERS}"])
    within node.labels["rack"]
  }}
}}
"""
LIMITED = """
cluster policy few {
  for pods where "job" in pod.labels
  limit "two" { per cluster pods where "job" in peer.labels at most 2 strict }
}
"""
GANGS_NODES = [node(f"n{i}", cpu="2", labels={"rack": f"r{i // 2}"}) for i in range(4)]


def gang(job: str, size: int, *, exist: int | None = None, cpu: str = "1") -> list[Object]:
    numbers = range(size if exist is None else exist)
    annotations = {MEMBERS: str(size)}
    return [
        pod(f"{job}-{n}", cpu=cpu, labels={"job": job}, annotations=annotations) for n in numbers
    ]


def test_a_gang_is_placed_whole_before_the_pods_between_its_members() -> None:
    """Otherwise single pods would take the last room of its rack."""
    a, single = gang("a", 4), [pod(f"s-{n}", cpu="2") for n in range(3)]
    mixed = [a[0], single[0], a[1], single[1], a[2], single[2], a[3]]
    found = where(list(simulation(GANGS_NODES, mixed, POLICY).run()))
    assert {found[f"a-{n}"] for n in range(4)} == {"n0", "n1"}
    assert [found[f"s-{n}"] for n in range(3)] == ["n2", "n3", ""]


def test_of_two_gangs_with_room_for_one_only_one_is_placed() -> None:
    pods = [
        each for pair in zip(gang("a", 4), gang("b", 4), gang("c", 4), strict=True) for each in pair
    ]
    found = where(list(simulation(GANGS_NODES, pods, POLICY).run()))
    placed = {job: [found[f"{job}-{n}"] for n in range(4)] for job in "abc"}
    assert all(placed["a"])
    assert all(placed["b"])
    assert placed["c"] == [""] * 4


def test_members_beyond_the_quorum_come_as_single_pods() -> None:
    pods = gang("a", 3, exist=5)
    for each in pods:
        each["metadata"]["annotations"] = {MEMBERS: "3"}
    found = where(list(simulation(GANGS_NODES, pods, POLICY).run()))
    assert sorted(found.values()) == ["", "n0", "n0", "n1", "n1"]


def test_strict_counts_hold_for_a_gang() -> None:
    outcomes = list(simulation(GANGS_NODES, gang("a", 3), POLICY + LIMITED).run())
    reasons = {reason for each in outcomes if each.node is None for reason in each.reasons}
    assert len(outcomes) == 3
    assert reasons == {"gangs: together: 2 of 3 members fit, in r0"}


# ---- node resources: the pods that fit on a node, and the scores of least-allocated nodes


def room(nodes: list[Object], pods: list[Object]) -> NodeResources:
    return finished(resources_of(list(snapshot_of(nodes, pods).nodes.values())))


def asked(item: Object) -> ResourceDemand:
    return demand(CODEC.peer(raw(item)))


@pytest.mark.parametrize(
    ("resource", "text", "counted"),
    [
        ("cpu", "1500m", 1500),
        ("cpu", "100u", 1),
        ("memory", "1Ki", 1024),
        ("memory", "1m", 1),
        ("nvidia.com/gpu", "2", 2),
        ("memory", "16Ei", 2**56),
        ("memory", "-1", 0),
    ],
)
def test_amounts_are_whole_numbers_rounded_up(resource: str, text: str, counted: int) -> None:
    assert amount(resource, Quantity.parse(text)) == counted


def test_a_pod_fits_where_there_is_enough_of_all_that_it_asks_for() -> None:
    nodes = [
        node("full", cpu="2", pods="1"),
        node("small", cpu="1"),
        node("none left", cpu="2"),
        node("gpu", cpu="2", resources={"nvidia.com/gpu": "1"}),
    ]
    here = room(nodes, [pod("a", on="full"), pod("b", cpu="1500m", on="none left")])
    assert here.fits(asked(pod("p"))).tolist() == [False, True, True, True]
    assert here.fits(asked(pod("p", cpu="1"))).tolist() == [False, True, False, True]
    resources = {"requests": {"nvidia.com/gpu": "1"}}
    with_card = pod("p", spec={"containers": [{"name": "main", "resources": resources}]})
    assert here.fits(asked(with_card)).tolist() == [False, False, False, True]


def test_a_resource_of_no_node_fits_nowhere_and_nothing_of_it_everywhere() -> None:
    here = room([node("n")], [])
    for wanted, fits in (("1", False), ("0", True)):
        resources = {"requests": {"example.com/fpga": wanted}}
        item = pod("p", spec={"containers": [{"name": "main", "resources": resources}]})
        assert here.fits(asked(item)).tolist() == [fits]


def test_a_pod_that_is_taken_is_in_the_way_of_the_next() -> None:
    here = room([node("n", cpu="2", memory="1Gi")], [])
    one = asked(pod("p", cpu="1500m", memory="512Mi"))
    assert here.fits(one).all()
    here.add(0, one)
    lacking = {resource: bool(lacks[0]) for resource, lacks in here.lacking(one)}
    assert lacking == {"cpu": True, "memory": False, "pods": False}
    assert here.requested("cpu") == 1500
    assert here.allocatable("cpu") == 2000
    assert here.requested("nvidia.com/gpu") == 0


def test_least_allocated_is_that_of_kube_scheduler() -> None:
    """Its own test case: "nothing scheduled, resources requested, differently sized machines"."""
    nodes = [node("a", cpu="4", memory="10000"), node("b", cpu="6", memory="10000")]
    scores = room(nodes, []).least_allocated(asked(pod("p", cpu="3", memory="5000")))
    assert scores.tolist() == [37, 50]


def test_pods_that_name_nothing_count_a_little() -> None:
    """A tenth of a cpu and 200 MiB for each container."""
    here = room([node("n", cpu="1", memory="2000Mi")], [pod("there", on="n")])
    assert here.least_allocated(asked(pod("p"))).tolist() == [(80 + 80) // 2]


def test_a_request_of_nothing_is_one() -> None:
    """kube-scheduler assumes amounts only for containers that do not name the resource."""
    here = room([node("n", cpu="1", memory="2000Mi")], [pod("there", cpu="0", memory="0", on="n")])
    assert here.least_allocated(asked(pod("p", cpu="0", memory="0"))).tolist() == [100]


def test_what_a_node_does_not_have_is_not_scored() -> None:
    nodes = [node("n", cpu="0", memory="10000"), node("none", cpu="0", memory="0")]
    scores = room(nodes, []).least_allocated(asked(pod("p", memory="5000")))
    assert scores.tolist() == [50, 0]


def test_a_node_that_has_more_on_it_than_it_holds_scores_nothing() -> None:
    here = room([node("n", cpu="1", memory="1Gi")], [pod("a", cpu="3", memory="3Gi", on="n")])
    assert here.least_allocated(asked(pod("p", cpu="1", memory="1Gi"))).tolist() == [0]
    assert np.array_equal(here.fits(asked(pod("p"))), [True])


def test_resources_are_in_the_order_of_a_table() -> None:
    resources = {"nvidia.com/gpu": "2", "ephemeral-storage": "1Gi", "hugepages-2Mi": "0"}
    here = room([node("n", resources=resources)], [])
    assert here.resources == ["cpu", "memory", "ephemeral-storage", "nvidia.com/gpu", "pods"]
