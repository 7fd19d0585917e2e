"""The shop that is served: its nodes, its pods, those that are asked about, and its policies."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tests.e2e.manifests import large_node, large_pod, pod
from tests.support import builders

SHAPES = 20
# Pods of a shape that are on their way at one time.
PODS_OF_A_SHAPE = 2
NAMESPACE, TEAM = "shop", "web"
# Of the nodes one in ten takes no pods of the shop.
_DEDICATED_EVERY = 10
_ZONES = ("eu-1a", "eu-1b", "eu-1c")
_PODS_OF_AN_APP = 50

# Three filters, three scores, and a strict share, as one team of a cluster may have them.
_POLICY = """\
policy {team} in namespace "{namespace}" {{
  for pods where pod.labels["team"] == "{team}"

  filter "dedicated" when "dedicated" in node.labels {{
    require node.labels["dedicated"] == pod.labels["dedicated"]
    message "the node is dedicated to others"
  }}
  filter "headroom" {{
    require node.free["cpu"] - pod.requests["cpu"] >= "200m"
    require node.free["memory"] - pod.requests["memory"] >= "256Mi"
    message "no room to spare"
  }}
  filter "usable" {{
    require node.labels["kubernetes.io/arch"] == "amd64" && node.ready
    require !node.spec.unschedulable
    message "not for our images"
  }}

  score "pack cpu" weight 40 {{ value node.usage["cpu"] range 0 .. 1 }}
  score "zone" weight 20 {{ value node.zone == pod.labels["zone"] missing 50 }}
  score "few pods" weight 10 {{ value size(node.pods) range 110 .. 0 }}

  share "web pool" {{
    all pods where peer.labels["app"] == pod.labels["app"]
    on nodes where node.labels["pool"] == "web"
    at most 80%
    strict
    message "enough in the web pool"
  }}
}}
"""


def policies(folder: Path, teams: int = 1, namespace: str = NAMESPACE) -> Path:
    """Write the policies of so many teams of one namespace into a folder; return it."""
    folder.mkdir(exist_ok=True, parents=True)
    names = [TEAM, *(f"{TEAM}-{number}" for number in range(1, teams))]
    for name in names:
        text = _POLICY.format(team=name, namespace=namespace)
        (folder / f"{name}.policy").write_text(text)
    return folder


def is_dedicated(number: int) -> bool:
    """Whether the node of this number is for others."""
    return number % _DEDICATED_EVERY == 0


def node_labels(number: int) -> dict[str, str]:
    """Return what the labels of a node say beside what a kubelet reports."""
    labels = {"pool": "web" if number % 2 else "batch"}
    return labels | ({"dedicated": "training"} if is_dedicated(number) else {})


def snapshot(file: Path, nodes: int, pods: int) -> Path:
    """Write a cluster of so many nodes, and of pods spread over them; some are of the shop's."""
    made = [_node(number) for number in range(nodes)]
    shop = SHAPES * _PODS_OF_AN_APP
    for number in range(pods):
        on = f"n{number % nodes}"
        # By twos: one of them on an odd node, which is of the web pool, and one on an even one.
        name, app = f"pod-{number}", _app(number // 2 % SHAPES)
        space, labels = NAMESPACE, {"app": app}
        if number >= shop:
            space, labels = f"team-{number % 200}", {"app": f"other-{number // 50}"}
        made.append(builders.pod(name, space, cpu="100m", memory="256Mi", on=on, labels=labels))
    file.write_bytes(builders.raw(builders.kubectl_list(made)))
    return file


def _app(shape: int) -> str:
    """The label of an app; `cluster_server` has fifty pods of each."""
    return f"web-{shape:x}"


def _node(number: int) -> builders.Object:
    arch = {"kubernetes.io/arch": "amd64"}
    zone = _ZONES[number % len(_ZONES)]
    return builders.node(f"n{number}", zone, labels=arch | node_labels(number))


@cache
def asked_pods(namespace: str = NAMESPACE, team: str = TEAM) -> Sequence[bytes]:
    """Return pods to ask about, as kube-scheduler sends them: every shape, twice."""
    found = []
    for number in range(SHAPES * PODS_OF_A_SHAPE):
        shape = number % SHAPES
        labels = {"app": _app(shape), "team": team, "zone": _ZONES[shape % len(_ZONES)]}
        made = large_pod(f"web-{number}", namespace, labels)
        main = made["spec"]["containers"][0]
        main["resources"] = {"requests": {"cpu": f"{100 + 10 * shape}m", "memory": "64Mi"}}
        made["metadata"] |= {"uid": f"{number:036x}", "resourceVersion": str(1000 + number)}
        made["metadata"]["creationTimestamp"] = builders.CREATED
        made["status"] = {"phase": "Pending", "qosClass": "Burstable"}
        del made["apiVersion"], made["kind"]
        found.append(json.dumps(made, separators=(",", ":")).encode())
    return found


def small_pods(count: int, namespace: str, prefix: str) -> Iterable[dict[str, Any]]:
    """Pods of the shop for an API server to take, of all shapes in turn."""
    for number in range(count):
        shape = number % SHAPES
        labels = {"app": _app(shape), "team": TEAM, "zone": _ZONES[shape % len(_ZONES)]}
        yield pod(f"{prefix}-{number}", namespace, labels, cpu=f"{10 + shape}m")


def whole_nodes(count: int) -> Sequence[bytes]:
    """Return nodes as kube-scheduler sends them, of 11 kB each."""
    found = []
    for number in range(count):
        made = large_node(number, node_labels(number))
        images = made["status"]["images"]
        made["status"]["images"] = (images * 3)[:52]
        found.append(json.dumps(made, separators=(",", ":")).encode())
    return found
