"""Recordings: calls of a real kube-scheduler, replayed under several policies and views.

Their cluster is known from a snapshot, from an API server, or from the calls themselves.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.recorder import answers
from tests.recorder.api_server import ApiServer, Object, api_server
from tests.recorder.served import Served, kubeconfig, serving

_CONTRACT = Path(__file__).parents[1] / "contract"
_CLUSTER = tuple(_CONTRACT / name for name in ("nodes.json", "pods.json"))

POLICIES = {
    "none": "",
    "zones": """
policy zones in namespace "shop" {
  filter "not the first" {
    require node.zone != "eu-west-1a" missing pass
    message "<<{pod.labels['app']} stays out of eu-west-1a>>"
  }
  filter "room" { require node.free["cpu"] >= "500m" message "<<no room>>" }
  score "free" weight 30 { value node.usage["cpu"] range 1 .. 0 }
  score "by name" weight 10 { value size(node.pods) range rank missing 20 }
}
cluster policy house {
  filter "ready" { require node.ready && !node.spec.unschedulable message "<<leaving>>" }
  score "many" weight -5 { value 10 * size(node.pods) }
}""",
    "counts": """
policy counts in namespace "shop" {
  spread "zones" { over node.zone skew at most 1 strict message "<<zones>>" }
  limit "few" { per node at most 2 strict message "<<few>>" }
  limit "near batch" {
    pods where peer.labels["tier"] == "batch" per node at least 1 weight 20
  }
  share "half" {
    all pods where "app" in peer.labels
    on nodes where node.zone == "eu-west-1b"
    at most 50%
    weight 40
  }
}""",
    "victims": """
policy victims {
  for pods where pod.namespace == "shop"
  preempt "cheap" {
    protect pods where victim.priority > 100 || victim.labels[?"app"].orValue("") == "db"
    require size(victims) <= 2
    pick 2 least victims.map(v, v.requests["cpu"]).sum()
  }
  bind "ready" { require node.ready }
  filter "odd" { require !node.name.matches("-0-[024]-") message "<<odd ones only>>" }
}""",
    "library": """
policy ready-made in namespace "shop" {
  use "library/leaving-nodes"
  use "library/headroom"
  use "library/protect-databases"
}""",
}
VIEWS: Mapping[str, Sequence[str]] = {
    "snapshot": ("none", "zones", "victims", "library"),
    "live": ("zones", "counts", "victims"),
    "unknown": ("zones", "library"),
}


def worlds() -> Sequence[str]:
    return [f"recordings-{view}-{name}" for view, names in VIEWS.items() for name in names]


async def play(placet: Path, world: str) -> list[Any]:
    """What all recorded calls are answered, one after the other."""
    _, view, name = world.split("-")
    with TemporaryDirectory() as path:
        folder = Path(path)
        (folder / "world.policy").write_text(POLICIES[name], "utf-8")
        flags = ["--policies", f"{folder / 'world.policy'}", "--lameduck", "0s", "--lease", "none"]
        if view == "live":
            async with api_server(_objects()) as api:
                flags += ["--kubeconfig", str(kubeconfig(folder, api.url)), "--bind"]
                async with serving(placet, folder, *flags) as served:
                    return await _replay(served, api)
        known = ["--cluster", *map(str, _CLUSTER)] if view == "snapshot" else ["--no-cluster"]
        async with serving(placet, folder, *flags, *known) as served:
            return await _replay(served, None)


async def _replay(served: Served, api: ApiServer | None) -> list[Any]:
    steps: list[Any] = []
    for path in sorted(_CONTRACT.joinpath("recordings").rglob("*.json")):
        recorded = json.loads(path.read_text("utf-8"))
        verb, request = recorded["path"].rpartition("/")[2], recorded["request"]
        for body in (request, {key.lower(): value for key, value in request.items()}):
            before = len(api.bindings) if api is not None else 0
            status, answer = await served.post(verb, body)
            made = api.bindings[before:] if api is not None else []
            steps.append([path.stem, _kept(verb, request, status, answer, made)])
            if api is not None:
                await served.knows(api)
    return steps


def _kept(
    verb: str, request: Object, status: int, answer: bytes, made: Sequence[Object]
) -> Mapping[str, Any]:
    match verb:
        case "filter":
            return answers.filtered(status, answer, (request["Nodes"] or {}).get("items"))
        case "prioritize":
            return answers.prioritized(status, answer)
        case "preempt":
            return answers.preempted(status, answer)
        case _:
            return answers.bound(status, answer, made)


def _objects() -> list[Object]:
    """The cluster of the recordings."""
    return [
        {**item, "kind": kind}
        for kind, path in zip(("Node", "Pod"), _CLUSTER, strict=True)
        for item in json.loads(path.read_text("utf-8"))["items"]
    ]
