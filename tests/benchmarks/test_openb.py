"""The openb trace as Kubernetes objects."""

import json
from pathlib import Path
from typing import Any

from tests.support.openb import (
    NODES,
    PODS,
    TRACE,
    trace_nodes,
    trace_pods,
    with_trace,
    write_small,
)


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
