"""Gangs on a real control plane: policies for them, their pods, and what tests see of them."""

import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import ControlPlane
from tests.e2e.kube_scheduler import extender, kube_scheduler
from tests.e2e.manifests import pod
from tests.e2e.placet import Placet, placet
from tests.e2e.process import Process, until

SECONDS = 60.0
SIZE = 8
MEMBERS = "example.com/members"
RACK = "rack"
NO_CLAIM = [{"name": "data", "persistentVolumeClaim": {"claimName": "missing"}}]
# For how long members of the kind `short` are held.
SHORT_SECONDS = 4


def policy(kind: str, parts: str = "", more: str = "", for_pods: str = "") -> str:
    """A policy for the pods with the label `kind`, whose value names the gang."""
    of_pods = f'of pods by peer.labels["{kind}"] at least int(pod.annotations["{MEMBERS}"])'
    return f"""policy {kind} {{
  for pods where {for_pods or f'"{kind}" in pod.labels'}
  gang "together" {{ {parts if for_pods else f"{of_pods} {parts}"} message "waits" }}
  {more}
}}
"""


STRICT = """limit "two of a gang on a node" {
    pods where peer.labels["strict"] == pod.labels["strict"] per node at most 2 strict
  }"""
POLICIES = "\n".join(
    [
        policy("job"),
        policy("in-rack", f'within node.labels["{RACK}"]'),
        policy("in-node", "within node.name"),
        policy("short", f"for at most {SHORT_SECONDS}s"),
        policy("strict", more=STRICT),
        policy("whole", for_pods='pod.labels["app"] == "whole"'),
        """policy never {
  for pods where "never" in pod.labels
  filter "never" { require node.name == "" message "waits" }
}""",
    ]
)

# What coscheduling of scheduler-plugins calls a PodGroup, with the fields that are read.
COSCHEDULING_GROUPS: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "podgroups.scheduling.x-k8s.io"},
    "spec": {
        "group": "scheduling.x-k8s.io",
        "names": {"kind": "PodGroup", "plural": "podgroups", "singular": "podgroup"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "minMember": {"type": "integer", "format": "int32"},
                                    "scheduleTimeoutSeconds": {"type": "integer"},
                                },
                            }
                        },
                    }
                },
            }
        ],
    },
}


def group(
    cluster: Cluster,
    name: str,
    size: int = SIZE,
    kind: str = "job",
    cpu: str = "1",
    quorum: int | None = None,
    **more: Any,
) -> list[dict[str, Any]]:
    """The pods of a gang, which needs `quorum` of them, or all."""
    made = []
    for number in range(size):
        member = pod(f"{name}-{number}", cluster.namespace, {kind: name}, cpu=cpu, **more)
        member["metadata"]["annotations"] = {MEMBERS: str(quorum or size)}
        made.append(member)
    return made


def entries(address: str, *, node_cache_capable: bool = True) -> list[dict[str, Any]]:
    """The two entries of Placet: bind has one of its own, with a time above every wait."""
    binds = {
        "urlPrefix": f"{address}/api/scheduler",
        "bindVerb": "bind",
        "nodeCacheCapable": True,
        "httpTimeout": "10m",
    }
    return [extender(address, node_cache_capable=node_cache_capable), binds]


def by_group(placed: Mapping[str, str]) -> Mapping[str, Counter[str]]:
    """The nodes of each gang, with the number of its members there."""
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for name, on in placed.items():
        found[name.rpartition("-")[0]][on] += 1
    return found


@dataclass(frozen=True, slots=True)
class GangServer:
    """A Placet that holds gangs, asked by a kube-scheduler."""

    server: Placet
    scheduler: Process
    file: Path

    def value(self, metric: str, **labels: str) -> float:
        """The sum of the samples of a metric that have these labels."""
        _, text = self.server.get("/metrics")
        found = re.findall(rf"^{metric}(?:{{(.*)}})? (\S+)$", text, re.MULTILINE)
        wanted = [f'{name}="{value}"' for name, value in labels.items()]
        return sum(float(number) for names, number in found if all(w in names for w in wanted))

    def held(self) -> int:
        """How many calls of bind are open."""
        return int(self.value("placet_requests_in_flight", verb="bind"))

    def wait_held(self, number: int, seconds: float = 20.0) -> None:
        until(
            lambda: self.held() == number,
            seconds,
            lambda: f"{number} held, not {self.held()}; {self.server.process.tail()}",
            0.05,
        )

    def given_up(self, reason: str = "") -> int:
        labels = {"reason": reason} if reason else {}
        return int(self.value("placet_gangs_total", state="given_up", **labels))

    def held_seconds(self, **labels: str) -> float:
        """How long calls were held, of gangs of one `state` or of all."""
        return self.value("placet_gang_held_seconds_total", **labels)


def hold(cluster: Cluster, gangs: GangServer, name: str = "g", kind: str = "job") -> None:
    """Creates a gang whose last member kube-scheduler never asks about; the others are held."""
    members = group(cluster, name, 4, kind)
    members[-1]["spec"]["volumes"] = NO_CLAIM
    cluster.create_pods(members)
    gangs.wait_held(3)


def wait_whole(
    cluster: Cluster, gangs: GangServer, *names: str, size: int = SIZE, seconds: float = SECONDS
) -> float:
    """Waits until all members of these gangs are on nodes; returns how long that took."""
    began = time.monotonic()

    def missing() -> Mapping[str, int]:
        found = by_group(cluster.placements())
        return {n: size - sum(found[n].values()) for n in names if sum(found[n].values()) < size}

    until(
        lambda: not missing(),
        seconds,
        lambda: f"missing {missing()}; {gangs.server.process.tail()}",
        0.05,
    )
    return time.monotonic() - began


@contextmanager
def gang_server(
    plane: ControlPlane,
    folder: Path,
    policies: str = POLICIES,
    *flags: str,
    node_cache_capable: bool = True,
) -> Iterator[GangServer]:
    """Placet and kube-scheduler, with an entry for bind alone."""
    file = folder / "gangs.policy"
    file.write_text(policies)
    with ExitStack() as programs:
        own = (f"--kubeconfig={plane.placet_kubeconfig}", "--bind", "--lease=none", *flags)
        server = programs.enter_context(placet(folder, file, *own))
        server.wait_ready()
        address = f"http://127.0.0.1:{server.port}"
        both = entries(address, node_cache_capable=node_cache_capable)
        scheduler = programs.enter_context(kube_scheduler(plane, folder, both))
        yield GangServer(server, scheduler, file)
