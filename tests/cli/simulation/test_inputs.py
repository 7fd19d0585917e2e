"""The openb trace as Kubernetes objects."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from cli.command import CommandError
from cli.simulation.inputs import trace_nodes, trace_pods
from tests.support.openb import NODES, PODS, TRACE, with_trace, write_small


def items(content: bytes) -> list[Any]:
    found: list[Any] = msgspec.json.decode(content)["items"]
    return found


def test_a_node_has_its_cards_and_their_model(tmp_path: Path) -> None:
    write_small(tmp_path)
    plain, cards, _ = items(trace_nodes(tmp_path / "nodes.csv"))
    assert plain["status"]["allocatable"] == {"cpu": "8000m", "memory": "16384Mi", "pods": "110"}
    assert plain["metadata"]["labels"] == {"kubernetes.io/hostname": "n-0"}
    assert cards["status"]["allocatable"]["nvidia.com/gpu"] == "2"
    assert cards["metadata"]["labels"]["nvidia.com/gpu.product"] == "T4"


def test_a_pod_takes_whole_cards_and_says_how_much_it_wanted(tmp_path: Path) -> None:
    write_small(tmp_path)
    plain, _, part, *_ = items(trace_pods(tmp_path / "pods.csv"))
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
    part = items(trace_pods(tmp_path / "pods.csv"))[2]
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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "`x.csv` has no column `sn`"),
        ("sn,cpu_milli\n", "`x.csv` has no column `memory_mib`"),
        ("sn,cpu_milli,memory_mib,gpu,model\n", "there are no nodes in `x.csv`"),
        (
            "sn,cpu_milli,memory_mib,gpu,model\na,1,2,3,T4\nb,1,two,3,T4\n",
            "`x.csv` line 3: `memory_mib` is `two`, not a whole number",
        ),
        (
            "sn,cpu_milli,memory_mib,gpu,model\na,1\n",
            "`x.csv` line 2: `gpu` is ``, not a whole number",
        ),
        ("sn,cpu_milli,memory_mib,gpu,model\n,1,2,3,T4\n", "`x.csv` line 2: `sn` is empty"),
        ("sn,cpu_milli,memory_mib,gpu,model\n\xff\n", "`x.csv` is not CSV text"),
    ],
    ids=["empty", "column", "rows", "number", "short", "name", "not UTF-8"],
)
def test_what_is_no_list_of_nodes_says_where(folder: Path, text: str, message: str) -> None:
    (folder / "x.csv").write_bytes(text.encode("latin-1"))
    with pytest.raises(CommandError) as raised:
        trace_nodes(Path("x.csv"))
    assert raised.value.message == message
    assert raised.value.hint == (
        "openb's nodes have the columns sn, cpu_milli, memory_mib, gpu, model"
    )


def test_a_time_past_all_calendars_is_a_mistake(folder: Path) -> None:
    write_small(folder)
    text = Path("pods.csv").read_text(encoding="utf-8").replace("Running,10,", f"Running,{10**13},")
    Path("pods.csv").write_text(text, encoding="utf-8")
    with pytest.raises(CommandError, match="seconds are too many"):
        trace_pods(Path("pods.csv"))


def test_a_list_without_the_models_of_cards_is_read(folder: Path) -> None:
    """Some lists of the trace have five columns."""
    head = "name,cpu_milli,memory_mib,num_gpu,gpu_milli"
    Path("pods.csv").write_text(f"{head}\np-0,1000,1024,2,1000\n", encoding="utf-8")
    (pod,) = items(trace_pods(Path("pods.csv")))
    assert pod["metadata"]["annotations"] == {"openb/gpu-milli": "1000"}
    assert "labels" not in pod["metadata"]
    assert "affinity" not in pod["spec"]


@with_trace
def test_the_whole_trace_can_be_read() -> None:
    assert len(items(trace_nodes(TRACE / NODES))) == 1523
    assert len(items(trace_pods(TRACE / PODS))) == 8152
