"""The openb trace: a production cluster's nodes and pods, simulated, and asked about over the wire.

It is beside the project or nowhere; without it there are no such worlds.
"""

from __future__ import annotations

import asyncio
import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.recorder import answers
from tests.recorder.api_server import Object
from tests.recorder.dice import Dice
from tests.recorder.served import NotServedError, Served, environment, serving
from tests.support.openb import trace_nodes, trace_pods

_TRACE = Path(__file__).parents[3] / "shared" / "data" / "openb"
_NODES = _TRACE / "openb_node_list_all_node.csv"
_PODS = _TRACE / "openb_pod_list_default.csv"
_CARDS = "nvidia.com/gpu"
_ASKED = 40

_PACK = """
policy machines {
  weight 200
  for pods where pod.requests["nvidia.com/gpu"] >= "8"
  score "fullest" weight 1 { value node.usage["nvidia.com/gpu"] range 0 .. 1 }
}
policy cards {
  for pods where pod.requests["nvidia.com/gpu"] > "0"
  score "fullest" weight 2 { value node.usage["nvidia.com/gpu"] range 0 .. 1 }
  score "memory" weight 1 { value node.free["memory"] range minmax }
}
policy plain {
  for pods where pod.requests["nvidia.com/gpu"] == "0"
  filter "cards are for others" {
    require node.allocatable["nvidia.com/gpu"] == "0" || node.free["cpu"] >= "16"
    message "<<kept for pods with cards>>"
  }
  score "no cards" weight 1 { value node.allocatable["nvidia.com/gpu"] == "0" }
}
"""
_COUNTS = """
cluster policy few {
  for pods where pod.requests["nvidia.com/gpu"] > "0"
  limit "a node" {
    all pods where peer.requests["nvidia.com/gpu"] > "0" per node at most 2 strict message "<<2>>"
  }
  score "rank" weight 10 { value node.free["cpu"] range rank }
}
policy even {
  for pods where pod.priority <= 0
  share "large" {
    pods where peer.requests["cpu"] >= "4"
    on nodes where node.allocatable["cpu"] >= "96"
    at most 60%
    weight 50
  }
}
"""
POLICIES = {"pack": _PACK, "counts": _COUNTS}
# Pods of the trace that are simulated under each.
_SIMULATED = {"pack": 2500, "counts": 700}


def worlds() -> Sequence[str]:
    if not _NODES.exists():
        return []
    return [f"openb-{way}-{name}" for way in ("simulate", "serve") for name in POLICIES]


async def play(placet: Path, world: str) -> list[Any]:
    _, way, name = world.split("-")
    with TemporaryDirectory() as path:
        folder = Path(path)
        policy = folder / "world.policy"
        policy.write_text(POLICIES[name], "utf-8")
        if way == "simulate":
            return await _simulate(placet, folder, policy, _SIMULATED[name])
        snapshot = folder / "cluster.json"
        snapshot.write_text(json.dumps({"kind": "List", "items": [*_snapshot()]}), "utf-8")
        flags = ["--policies", str(policy), "--cluster", str(snapshot), "--lameduck", "0s"]
        async with serving(placet, folder, *flags) as served:
            return await _ask(served)


async def _simulate(placet: Path, folder: Path, policy: Path, count: int) -> list[Any]:
    """Where the first pods go, and on how many nodes each reason keeps the others off."""
    files = {"--cluster": folder / "nodes.json", "--policies": policy, "--pods": folder / "p.json"}
    files["--cluster"].write_text(json.dumps(_listed(trace_nodes(_NODES))), "utf-8")
    files["--pods"].write_text(json.dumps(_listed(trace_pods(_PODS)[:count])), "utf-8")
    command = [
        "simulate",
        "-o",
        "json",
        *(part for pair in files.items() for part in map(str, pair)),
    ]
    process = await asyncio.create_subprocess_exec(
        placet,
        *command,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment(),
    )
    output, errors = await process.communicate()
    if process.returncode != 0:
        raise NotServedError(errors.decode(errors="replace"))
    told = json.loads(output)
    steps: list[Any] = [
        [pod["pod"], pod["policy"], pod["node"], sorted((pod.get("reasons") or {}).values())]
        for pod in told["pods"]
    ]
    steps.append([told["placed"], told["pending"], told["allocation"]])
    return steps


async def _ask(served: Served) -> list[Any]:
    """The answers to filter and prioritize about pods that the snapshot does not have."""
    dice, steps = Dice("openb"), []
    names = [row["sn"] for row in _rows(_NODES)]
    pods = [_pod(row) for row in islice(_rows(_PODS), 2000, None)]
    for pod in dice.sample(pods, _ASKED):
        offered = dice.sample(names, len(names))
        body = {"Pod": pod, "Nodes": None, "NodeNames": offered}
        answer = answers.filtered(*await served.post("filter", body), None)
        steps.append([pod["metadata"]["name"], answer])
        body["NodeNames"] = answers.feasible(answer)
        answer = answers.prioritized(*await served.post("prioritize", body))
        steps.append([pod["metadata"]["name"], answer])
    return steps


def _listed(items: Sequence[Object]) -> Object:
    return {"apiVersion": "v1", "kind": "List", "items": items}


def _snapshot() -> Iterator[Object]:
    """The nodes, and pods of the trace in turn on nodes that have cards for them."""
    nodes = list(_rows(_NODES))
    for row in nodes:
        amounts = {
            "cpu": f"{row['cpu_milli']}m",
            "memory": f"{row['memory_mib']}Mi",
            "pods": "110",
            _CARDS: row["gpu"],
        }
        labels = {"model": row["model"]} if row["model"] else {}
        yield {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": row["sn"], "uid": row["sn"], "labels": labels},
            "spec": {},
            "status": {
                "allocatable": amounts,
                "capacity": amounts,
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }
    for place, row in enumerate(islice(_rows(_PODS), 2000)):
        node = nodes[(place * 7) % len(nodes)]
        if int(node["gpu"]) >= int(row["num_gpu"]):
            pod = _pod(row)
            pod["spec"]["nodeName"] = node["sn"]
            yield {**pod, "status": {"phase": "Running"}}


def _pod(row: Mapping[str, str]) -> Object:
    requests = {"cpu": f"{row['cpu_milli']}m", "memory": f"{row['memory_mib']}Mi"}
    if row["num_gpu"] != "0":
        requests[_CARDS] = row["num_gpu"]
    name = row["name"]
    metadata = {"name": name, "namespace": "openb", "uid": name, "labels": {"qos": row["qos"]}}
    container = {"name": "c", "image": "i", "resources": {"requests": requests}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [container]},
        "status": {"phase": "Pending"},
    }


def _rows(path: Path) -> Iterator[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as lines:
        yield from csv.DictReader(lines)
