"""The published ways of arriving: a random order, clones, drawn names and ties; and the chart."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any
from xml.etree import ElementTree as ET

import msgspec
import pytest

from engine.simulation.cycle import Waiting, waiting
from tests.benchmarks.arrivals import course, grown, renamed, shuffled
from tests.benchmarks.fgd import line_chart
from tests.support.builders import node, pod, raw
from tests.support.engines import CODEC
from tests.support.openb import (
    NODES,
    PODS,
    TRACE,
    trace_nodes,
    trace_pods,
    with_trace,
    write_small,
)
from tests.support.simulated import simulation, where


def queue(*cpus: str) -> list[Waiting]:
    return [waiting(raw(pod(f"p-{i}", cpu=cpu)), CODEC) for i, cpu in enumerate(cpus)]


def keys(pods: Sequence[Waiting]) -> list[str]:
    return [each.key for each in pods]


def test_a_shuffle_has_every_pod_once_and_depends_on_the_seed_alone() -> None:
    pods = queue(*["1"] * 20)
    orders = [keys(shuffled(pods, Random(seed))) for seed in (1, 1, 2)]
    assert sorted(orders[0]) == sorted(keys(pods))
    assert orders[0] == orders[1]
    assert orders[0] != orders[2]
    assert orders[0] != keys(pods)


@pytest.mark.parametrize("seed", range(5))
def test_clones_follow_until_the_next_would_be_too_much(seed: int) -> None:
    pods = queue("1", "2", "500m")
    found = grown(pods, Random(seed), CODEC, "cpu", 20_000)
    total = sum(int(each.peer.requests["cpu"].nanos // 10**6) for each in found)
    assert found[:3] == pods
    # The largest pod is of 2,000.
    assert 18_000 < total <= 20_000
    assert len(set(keys(found))) == len(found)
    assert len({each.peer.uid for each in found}) == len(found)


def test_a_clone_is_its_pod_under_another_name() -> None:
    (one,) = queue("1")
    _, clone = grown([one], Random(1), CODEC, "cpu", 2_000)
    assert clone.key == "default/p-0-clone-1"
    document, original = msgspec.json.decode(clone.body), msgspec.json.decode(one.body)
    assert document["spec"] == original["spec"]
    assert document["metadata"].get("labels") == original["metadata"].get("labels")


def test_pods_that_are_enough_already_have_no_clones() -> None:
    pods = queue("4", "4")
    assert grown(pods, Random(1), CODEC, "cpu", 3_000) == pods


def test_a_resource_that_no_pod_requests_cannot_grow() -> None:
    with pytest.raises(AssertionError, match=r"^no pod requests `example\.com/foo`"):
        grown(queue("1"), Random(1), CODEC, "example.com/foo", 1)


EIGHT = [node(f"n-{i}", cpu="8") for i in range(8)]


def test_of_equal_nodes_one_is_drawn_or_the_first_by_name_is_taken() -> None:
    pods = [pod(f"p-{i}", cpu="1") for i in range(8)]
    cards = 'cluster policy equal { score "all" weight 1 { value 1 } }'
    first = where(list(simulation(EIGHT, pods, cards, plugins=False).run()))
    assert set(first.values()) == {"n-0"}
    drawn = [
        where(list(simulation(EIGHT, pods, cards, plugins=False, ties=Random(seed)).run()))
        for seed in (1, 1, 2)
    ]
    assert drawn[0] == drawn[1]
    assert drawn[0] != drawn[2]
    assert len(set(drawn[0].values())) > 2


def test_a_draw_never_takes_a_worse_node() -> None:
    best = 'cluster policy best { score "b" weight 1 { value node.name in ["n-3", "n-5"] } }'
    pods = [pod(f"p-{i}", cpu="500m") for i in range(16)]
    there = where(list(simulation(EIGHT, pods, best, plugins=False, ties=Random(3)).run()))
    assert set(there.values()) == {"n-3", "n-5"}


def test_the_allocation_at_each_percent_of_arrivals() -> None:
    """10 cpus: pods of 1, 1, 3 (too large for any node), 2 arrive at 10, 20, 50 and 70 percent."""
    nodes = [node(f"n-{i}", cpu="2") for i in range(5)]
    pods = [pod(f"p-{i}", cpu=cpu) for i, cpu in enumerate(("1", "1", "3", "2"))]
    parts = [each["cpu"] for each in course(simulation(nodes, pods), "cpu")]
    assert len(parts) == 71
    assert (parts[9], parts[10], parts[19], parts[20]) == (0.0, 0.1, 0.1, 0.2)
    assert (parts[49], parts[50], parts[69], parts[70]) == (0.2, 0.2, 0.2, 0.4)


def test_the_drawn_names_of_nodes_decide_between_equal_ones() -> None:
    nodes = [node(f"n-{i}", cpu="8") for i in range(3)]
    pods = [pod(f"p-{i}", cpu="0", memory="0") for i in range(4)]
    firsts = set()
    for seed in range(9):
        drawn = renamed(nodes, Random(seed))
        there = where(list(simulation(drawn, pods, plugins=False).run()))
        assert set(there.values()) == {"n-00000"}
        (first,) = (n["metadata"]["uid"] for n in drawn if n["metadata"]["name"] == "n-00000")
        firsts.add(first)
    assert firsts == {each["metadata"]["uid"] for each in nodes}


def test_a_chart_has_a_panel_per_resource_and_a_line_per_name() -> None:
    lines = {"cpu": [[0.0, 0.5], [0.0, 1.5]], "memory": [[0.0, 0.1], [0.0, 0.2]]}
    root = ET.fromstring(line_chart(["old", "new"], lines, "5 pods"))  # noqa: S314 - our own
    texts = [e.text for e in root.iter("{http://www.w3.org/2000/svg}text")]
    for title in ("cpu", "memory", "5 pods", "old", "new"):
        assert title in texts
    assert len(list(root.iter("{http://www.w3.org/2000/svg}polyline"))) == 2 * 2


# ---- the openb trace as Kubernetes objects


def items(file: Path) -> list[Any]:
    found: list[Any] = json.loads(file.read_bytes())["items"]
    return found


def test_a_node_has_its_cards_and_their_model(tmp_path: Path) -> None:
    write_small(tmp_path)
    plain, cards, _ = items(tmp_path / "nodes.json")
    assert plain["status"]["allocatable"] == {"cpu": "8000m", "memory": "16384Mi", "pods": "110"}
    assert plain["metadata"]["labels"] == {"kubernetes.io/hostname": "n-0"}
    assert cards["status"]["allocatable"]["nvidia.com/gpu"] == "2"
    assert cards["metadata"]["labels"]["nvidia.com/gpu.product"] == "T4"


def test_a_pod_takes_whole_cards_and_says_how_much_it_wanted(tmp_path: Path) -> None:
    write_small(tmp_path)
    plain, _, part, *_ = items(tmp_path / "pods.json")
    (container,) = plain["spec"]["containers"]
    assert container["resources"] == {"requests": {"cpu": "6000m", "memory": "2048Mi"}}
    assert plain["status"] == {"phase": "Pending"}
    (container,) = part["spec"]["containers"]
    assert container["resources"]["requests"]["nvidia.com/gpu"] == "1"
    metadata = part["metadata"]
    assert metadata["annotations"] == {"openb/gpu-milli": "460"}
    assert (metadata["namespace"], metadata["labels"]) == ("openb", {"qos": "BE"})
    assert metadata["creationTimestamp"] == "2023-01-01T00:00:20Z"


def test_the_models_that_a_pod_may_run_on_are_required(tmp_path: Path) -> None:
    write_small(tmp_path)
    part = items(tmp_path / "pods.json")[2]
    required = part["spec"]["affinity"]["nodeAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    assert required["nodeSelectorTerms"] == [
        {
            "matchExpressions": [
                {
                    "key": "nvidia.com/gpu.product",
                    "operator": "In",
                    "values": ["V100M16", "V100M32"],
                }
            ]
        }
    ]


def test_a_list_without_the_models_of_cards_is_read(tmp_path: Path) -> None:
    """Some lists of the trace have five columns."""
    head = "name,cpu_milli,memory_mib,num_gpu,gpu_milli"
    (tmp_path / "pods.csv").write_text(f"{head}\np-0,1000,1024,2,1000\n", encoding="utf-8")
    (pod,) = trace_pods(tmp_path / "pods.csv")
    assert pod["metadata"]["annotations"] == {"openb/gpu-milli": "1000"}
    assert "labels" not in pod["metadata"]
    assert "affinity" not in pod["spec"]


@with_trace
def test_the_whole_trace_can_be_read() -> None:
    assert len(trace_nodes(TRACE / NODES)) == 1523
    assert len(trace_pods(TRACE / PODS)) == 8152
