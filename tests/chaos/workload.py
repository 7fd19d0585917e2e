"""Workload: the policies, nodes and pods of a nemesis, as objects of the API.

They are the same on a real control plane and in a simulated one. `observer.py` has the bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.chaos.gang_observer import IN_RACK
from tests.chaos.observer import (
    BUDGETS,
    CARD,
    CARDS_A_NODE,
    FLOOR_PERCENT,
    FLOOR_ZONES,
    HOSTILE,
    MOST_A_NODE,
    MOST_CROWD,
    MOST_SKEW,
    SHARE_PERCENT,
)
from tests.chaos.repair_observer import OF_SET, PER_MINUTE, SETS
from tests.chaos.schedule import CARDS, NODES, POLICIES, POOLS, REPAIRED, ZONES, Action
from tests.e2e.gangs import MEMBERS
from tests.e2e.manifests import node, pod
from tests.e2e.policies import API_VERSION

GPU_MILLI, GPU_INDEX, GPU_COUNT = "example.com/milli", "example.com/index", "example.com/cards"
# What a pod of the app `cards` takes of a card.
CARD_PART = 600
# What a pod of the app `summed` adds to the sum of its node. A part of a pod has no room.
UNITS, UNITS_OF_POD = "example.com/units", 4
_MOST_UNITS = MOST_A_NODE * UNITS_OF_POD + 2
_RULES = {
    "shared": f"""share "on spot" {{
      pods where peer.labels["app"] == "shared"
      on nodes where node.labels["capacity"] == "spot"
      exactly {SHARE_PERCENT}%
      strict
      message "MESSAGE"
    }}""",
    REPAIRED: f"""share "on spot" {{
      pods where peer.labels["app"] == "{REPAIRED}"
      on nodes where node.labels["capacity"] == "spot"
      at most {SHARE_PERCENT}%
      strict
      message "MESSAGE"
    }}""",
    "even": f"""spread "zones" {{
      pods where peer.labels["app"] == "even" over node.zone skew at most {MOST_SKEW}
      strict
      message "MESSAGE"
    }}""",
    "limited": f"""limit "a few a node" {{
      pods where peer.labels["app"] == "limited" per node at most {MOST_A_NODE}
      strict
      message "MESSAGE"
    }}""",
    "summed": f"""limit "units" {{
      sum int(peer.annotations["{UNITS}"])
      of pods where peer.labels["app"] == "summed"
      per node at most {_MOST_UNITS}
      strict
      message "MESSAGE"
    }}""",
    # As many as the cluster may have, which is another number in each minute.
    "budget": f"""count here = pods where peer.labels["app"] == "budget"
    let budget = now.getMinutes() % 2 == 0 ? {BUDGETS[0]} : {BUDGETS[1]}
    limit "budget" {{
      pods where peer.labels["app"] == "budget" per node at most here < budget ? 100 : 0
      strict
      message "MESSAGE"
    }}""",
    "floored": "\n".join(
        f"""share "zone {zone}" {{
      pods where peer.labels["app"] == "floored"
      on nodes where node.zone == "{zone}"
      at least {FLOOR_PERCENT}%
      strict
      message "MESSAGE"
    }}"""
        for zone in FLOOR_ZONES
    ),
    "guarded": f"""limit "crowd" {{
      pods where peer.labels["app"] == "crowd" per node at most {MOST_CROWD}
      strict mutual
      message "MESSAGE"
    }}""",
    "pooled": 'filter "pool" { require node.labels["pool"] == "POOL" message "MESSAGE" }',
    "cards": f"""cards "gpu" {{
      on node int(node.labels["{GPU_COUNT}"]) of {{"milli": {CARD}}}
      take {{"milli": int(pod.annotations["{GPU_MILLI}"])}}
      index "{GPU_INDEX}"
      pick least card.free["milli"]
      message "MESSAGE"
    }}""",
}


def rules(name: str, edits: int, pool: str, wording: str = "") -> str:
    """The rules of a policy after so many edits; `pool` is that of the app `pooled`.

    `wording` is a part of their messages.
    """
    text = _RULES[name].replace("MESSAGE", f"no room by {name}{wording}").replace("POOL", pool)
    return f"// edit {edits}\n{text}"


def policies(*, binds: bool) -> Sequence[str]:
    """The names of the policies."""
    return [*POLICIES, *([CARDS] if binds else [])]


def policy(name: str, namespace: str) -> dict[str, Any]:
    """A policy as it is in the beginning; cards are shared by pods of all namespaces."""
    metadata = {"name": name} if name == CARDS else {"name": name, "namespace": namespace}
    return {
        "apiVersion": API_VERSION,
        "kind": "ClusterPlacementPolicy" if name == CARDS else "PlacementPolicy",
        "metadata": metadata,
        "spec": {
            "podSelector": {"matchLabels": {"app": name}},
            "rules": rules(name, 0, POOLS[0]),
            "enforcementMode": "Strict",
            **({"repair": {"perMinute": PER_MINUTE}} if name == REPAIRED else {}),
        },
    }


def gang_policy(namespace: str) -> dict[str, Any]:
    """A policy for gangs, each in one zone."""
    rules = f"""gang "together" {{
      of pods by peer.labels["{IN_RACK}"]
      at least int(pod.annotations["{MEMBERS}"])
      within node.zone
      for at most 20s
      message "waits"
    }}"""
    return {
        "apiVersion": API_VERSION,
        "kind": "PlacementPolicy",
        "metadata": {"name": "gangs", "namespace": namespace},
        "spec": {
            "podSelector": {"matchExpressions": [{"key": IN_RACK, "operator": "Exists"}]},
            "rules": rules,
            "enforcementMode": "Strict",
        },
    }


def replica_sets(namespace: str) -> list[dict[str, Any]]:
    """The controllers of the pods of the policy that is repaired."""
    labels = {"app": REPAIRED}
    template = pod("", namespace, labels, cpu="10m")
    found = []
    for number in range(SETS):
        name = f"{REPAIRED}-{number}"
        own = {**labels, "set": name}
        spec = {
            "replicas": OF_SET,
            "selector": {"matchLabels": own},
            "template": {"metadata": {"labels": own}, "spec": template["spec"]},
        }
        metadata = {"name": name, "namespace": namespace}
        found.append(
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": spec}
        )
    return found


def node_named(name: str) -> dict[str, Any]:
    """A node as it is after a fault of it has ended."""
    number = NODES.index(name)
    labels = {
        "topology.kubernetes.io/zone": ZONES[number % len(ZONES)],
        "capacity": "spot" if number < len(NODES) // 2 else "steady",
        "pool": POOLS[number % len(POOLS)],
        GPU_COUNT: f"{CARDS_A_NODE}",
    }
    return node(name, labels, cpu="64")


def nodes_of(zone: str) -> list[str]:
    """The names of the nodes of a zone."""
    first = ZONES.index(zone)
    return list(NODES[first :: len(ZONES)])


def pods_of(action: Action, namespace: str) -> list[dict[str, Any]]:
    """The pods of a `create`, and those of a `negative`."""
    values = action.values
    kind = values.get("kind", "")
    more: dict[str, Any] = {}
    labels = {"app": values["app"]}
    annotations: dict[str, str] = {}
    if "hash" in values:
        labels["pod-template-hash"] = values["hash"]
    if values["app"] == "cards":
        annotations[GPU_MILLI] = f"{CARD_PART}"
    if values["app"] == "summed":
        annotations[UNITS] = f"{UNITS_OF_POD}"
    if kind == "gated":
        more["schedulingGates"] = [{"name": "chaos.example/gate"}]
    if kind == "foreign":
        more["schedulerName"] = "another"
    if kind == "oversized":
        labels["oversized"] = "true"
    if action.kind == "negative":
        # Somebody binds it past kube-scheduler, and says that it gives what it takes.
        more["nodeName"] = values["node"]
        more["schedulerName"] = "another"
        labels[HOSTILE] = "true"
        amount = values["amount"]
        annotations = {GPU_MILLI: amount, GPU_INDEX: values["index"], UNITS: amount}
    cpu = "500" if kind == "oversized" else "10m"
    made = [pod(n, namespace, labels, cpu=cpu, **more) for n in action.pods()]
    for each in made:
        each["metadata"]["annotations"] = dict(annotations)
    return made


def state_of_node(state: str) -> dict[str, Any]:
    """The patch by which a node becomes free, cordoned or tainted."""
    tainted = [{"key": "chaos.example/out", "effect": "NoSchedule"}]
    return {
        "spec": {
            "unschedulable": True if state == "cordoned" else None,
            "taints": tainted if state == "tainted" else None,
        }
    }


def namespaces(name: str, count: int) -> list[str]:
    """The names of the namespaces of a burst."""
    return [f"{name}-{number}" for number in range(count)]


def pods_of_namespace(namespace: str) -> list[dict[str, Any]]:
    """The pods of a namespace of a burst."""
    made = []
    for app in ("limited", "even", "shared"):
        values = {"name": f"{namespace}-{app}", "app": app, "count": "2"}
        made += pods_of(Action(0.0, "create", values), namespace)
    return made
