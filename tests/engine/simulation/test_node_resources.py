"""Node resources: the pods that fit on a node, and the scores of least-allocated nodes."""

from __future__ import annotations

import numpy as np
import pytest

from engine.objects.resources import amount
from engine.simulation.node_resources import NodeResources, ResourceDemand, demand, resources_of
from engine.work import finished
from grammar.values.quantity import Quantity
from tests.support.builders import Object, node, pod, raw
from tests.support.engines import CODEC, snapshot_of


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
