"""PodGroups of Kubernetes and of coscheduling on a real API server: its pods are a gang.

Kubernetes serves its own behind a feature gate. That of coscheduling is a definition, here with the
fields of scheduler-plugins that are read.
"""

import json
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.api import Api
from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import control_plane
from tests.e2e.gangs import COSCHEDULING_GROUPS, NO_CLAIM, GangServer, gang_server, wait_whole
from tests.e2e.kube_scheduler import extender, kube_scheduler
from tests.e2e.manifests import node, pod, priority_class
from tests.e2e.placet import placet
from tests.e2e.process import MINOR, POD_GROUPS, needs_pod_groups, until
from tests.e2e.service_account import create_role

pytestmark = [pytest.mark.e2e, needs_pod_groups]

KUBERNETES, COSCHEDULING = "scheduling.k8s.io", "scheduling.x-k8s.io"
LABEL = "scheduling.x-k8s.io/pod-group"
GATE = "--feature-gates=GenericWorkload=true"
SERVED = f"--runtime-config=scheduling.k8s.io/{POD_GROUPS}=true"
POLICY = """policy groups {
  for pods where pod.name != "free"
  gang "group" { within node.name message "waits" }
  filter "small" when has(pod.group.minCount) {
    require pod.group.minCount <= 4
    message "is too large"
  }
}"""


@dataclass(frozen=True, slots=True)
class Groups:
    """A cluster that serves both kinds, and a Placet that reads them."""

    cluster: Cluster
    gangs: GangServer

    def create(self, api: str, name: str, number: int) -> None:
        own = api == KUBERNETES
        version = POD_GROUPS if own else "v1alpha1"
        gang = {"schedulingPolicy": {"gang": {"minCount": number}}}
        group = {
            "apiVersion": f"{api}/{version}",
            "kind": "PodGroup",
            "metadata": {"name": name},
            "spec": gang if own else {"minMember": number},
        }
        where = ("-n", self.cluster.namespace)
        self.cluster.kubectl(*where, "create", "-f", "-", text=json.dumps(group))

    def member(self, api: str, name: str, group: str) -> dict[str, Any]:
        labels = {} if api == KUBERNETES else {LABEL: group}
        made = pod(name, self.cluster.namespace, labels, cpu="1")
        if api == KUBERNETES:
            made["spec"]["schedulingGroup"] = {"podGroupName": group}
        return made


@pytest.fixture(scope="module")
def groups(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Groups]:
    folder = tmp_path_factory.mktemp("groups")
    with control_plane(programs, folder, GATE, SERVED) as plane:
        create_role(Api(plane))
        cluster = Cluster(plane, f"e2e-{secrets.token_hex(4)}")
        cluster.apply(COSCHEDULING_GROUPS)
        cluster.kubectl("wait", "--for=condition=Established", f"crd/podgroups.{COSCHEDULING}")
        cluster.create_nodes(node(f"n{number}", cpu="4") for number in range(2))
        with gang_server(plane, folder, POLICY) as running:
            yield Groups(cluster, running)
        cluster.clear()


@pytest.mark.parametrize("api", [KUBERNETES, COSCHEDULING])
def test_pods_of_a_group_are_bound_together(groups: Groups, api: str) -> None:
    """They wait for their group, then for as many members as it says, on one node."""
    cluster, name = groups.cluster, "own" if api == KUBERNETES else "other"
    members = [groups.member(api, f"{name}-{number}", name) for number in range(4)]
    cluster.create_pods(members[:2])
    cluster.wait_refused(f"{name}-0", text=f"PodGroup {name} is not known")
    groups.create(api, name, 4)
    cluster.create_pods(members[2:3])
    cluster.wait_refused(f"{name}-2", text="3 of 4 members exist")
    time.sleep(1)
    assert not any(cluster.pod(f"{name}-{n}")["spec"].get("nodeName") for n in range(3))
    cluster.create_pods(members[3:])
    wait_whole(cluster, groups.gangs, name, size=4, seconds=30)
    where = {cluster.pod(f"{name}-{n}")["spec"]["nodeName"] for n in range(4)}
    assert len(where) == 1
    cluster.delete_pods()


def test_a_policy_reads_what_the_group_says(groups: Groups) -> None:
    cluster = groups.cluster
    groups.create(KUBERNETES, "large", 5)
    cluster.create_pods([groups.member(KUBERNETES, "large-0", "large")])
    cluster.wait_refused("large-0", text="is too large")
    cluster.delete_pods()


GONE = (KUBERNETES, COSCHEDULING, "its definition")


@pytest.mark.parametrize("gone", GONE)
def test_what_ends_a_group_while_members_are_held(groups: Groups, gone: str) -> None:
    """Nobody is held or shows a node five seconds later: the room of the node is free."""
    cluster, gangs = groups.cluster, groups.gangs
    api, name = KUBERNETES if gone == KUBERNETES else COSCHEDULING, f"held-{GONE.index(gone)}"
    groups.create(api, name, 4)
    members = [groups.member(api, f"{name}-{number}", name) for number in range(4)]
    members[-1]["spec"]["volumes"] = NO_CLAIM
    cluster.create_pods(members)
    gangs.wait_held(3)

    def shown() -> list[str]:
        found = (cluster.pod(f"{name}-{n}")["status"] for n in range(3))
        return [status.get("nominatedNodeName", "") for status in found]

    until(lambda: all(shown()), 10.0, lambda: str(shown()))
    assert len({*shown()}) == 1
    if gone == "its definition":
        cluster.kubectl("delete", "crd", f"podgroups.{COSCHEDULING}", "--wait=false")
    else:
        kind = f"podgroups.{POD_GROUPS if api == KUBERNETES else 'v1alpha1'}.{api}"
        cluster.kubectl("-n", cluster.namespace, "delete", kind, name, "--wait=false")
    began = time.monotonic()
    gangs.wait_held(0, 5.0)
    until(lambda: not any(shown()), 5.0, lambda: str(shown()))
    assert time.monotonic() - began < 5.0
    cluster.create_pods([pod("free", cluster.namespace, cpu="4")])
    cluster.wait_placed(["free"])
    if gone == "its definition":
        cluster.apply(COSCHEDULING_GROUPS)
        cluster.kubectl("wait", "--for=condition=Established", f"crd/podgroups.{COSCHEDULING}")
    cluster.delete_pods()


@pytest.mark.parametrize("api", [KUBERNETES, COSCHEDULING])
def test_a_group_that_comes_after_its_pods(groups: Groups, api: str) -> None:
    """All members wait for it, and nothing else happens."""
    cluster, name = groups.cluster, "late-own" if api == KUBERNETES else "late-other"
    cluster.create_pods(groups.member(api, f"{name}-{number}", name) for number in range(4))
    for number in range(4):
        cluster.wait_refused(f"{name}-{number}", text=f"PodGroup {name} is not known")
    # kube-scheduler asks no more by itself.
    time.sleep(5)
    groups.create(api, name, 4)
    wait_whole(cluster, groups.gangs, name, size=4, seconds=30)
    cluster.delete_pods()


# kube-scheduler's own gangs; from 1.37 on they need no gate of their own.
OWN_GANGS = f"{GATE},TopologyAwareWorkloadScheduling=true" + (
    ",GangScheduling=true" if MINOR < 37 else ""
)
TWO = """policy two {
  for pods where "group" in pod.labels
  limit "two" { pods where "group" in peer.labels per node at most 2 strict }
}"""


def test_groups_that_kube_scheduler_places_itself_beside_a_strict_limit(
    programs: Path, tmp_path: Path
) -> None:
    """It asks about a member once for each rack, in one cycle: both groups fit, each in a rack."""
    with control_plane(programs, tmp_path, OWN_GANGS, SERVED) as plane, ExitStack() as running:
        create_role(Api(plane))
        cluster = Cluster(plane, f"e2e-{secrets.token_hex(4)}")
        cluster.create_nodes(node(f"{rack}{n}", {"rack": rack}) for rack in "ab" for n in range(2))
        policies = tmp_path / "two.policy"
        policies.write_text(TWO)
        flags = f"--kubeconfig={plane.placet_kubeconfig}", "--lease=none", "--bind"
        server = running.enter_context(placet(tmp_path, policies, *flags))
        server.wait_ready()
        address = f"http://127.0.0.1:{server.port}"
        entry = extender(address, node_cache_capable=True, binds=True)
        running.enter_context(kube_scheduler(plane, tmp_path, [entry], flags=[OWN_GANGS]))
        members = []
        for name in ("one", "two"):
            group = {
                "apiVersion": f"{KUBERNETES}/{POD_GROUPS}",
                "kind": "PodGroup",
                "metadata": {"name": name, "namespace": cluster.namespace},
                "spec": {
                    "schedulingPolicy": {"gang": {"minCount": 4}},
                    "schedulingConstraints": {"topology": [{"key": "rack"}]},
                },
            }
            cluster.kubectl("create", "-f", "-", text=json.dumps(group))
            spec: dict[str, Any] = {"schedulingGroup": {"podGroupName": name}}
            members += [
                pod(f"{name}-{n}", cluster.namespace, {"group": name}, **spec) for n in range(4)
            ]
        cluster.create_pods(members)
        placed = cluster.wait_placed([each["metadata"]["name"] for each in members], 60)
        assert sorted(placed.values()) == sorted(["a0", "a1", "b0", "b1"] * 2)
        assert {len({placed[f"{name}-{n}"][0] for n in range(4)}) for name in ("one", "two")} == {1}
        # Not about all four nodes at a time.
        assert re.search(r'verb="filter".* offered=2 ', (tmp_path / "placet.log").read_text())


@pytest.mark.skipif(MINOR < 37, reason="before 1.37 kube-scheduler evicts pods one by one")
def test_a_group_that_goes_whole_stays_and_others_are_evicted(
    programs: Path, tmp_path: Path
) -> None:
    """C38: kube-scheduler proposes both members for each of their nodes, and takes neither back."""
    with control_plane(programs, tmp_path, GATE, SERVED) as plane, ExitStack() as running:
        create_role(Api(plane))
        cluster = Cluster(plane, f"e2e-{secrets.token_hex(4)}")
        cluster.apply(priority_class("high", 1000))
        cluster.create_nodes(node(f"n{number}", cpu="2") for number in range(3))
        whole = {"schedulingPolicy": {"gang": {"minCount": 2}}, "disruptionMode": {"all": {}}}
        group = {
            "apiVersion": f"{KUBERNETES}/{POD_GROUPS}",
            "kind": "PodGroup",
            "metadata": {"name": "whole", "namespace": cluster.namespace},
            "spec": whole,
        }
        cluster.kubectl("create", "-f", "-", text=json.dumps(group))
        member = {"schedulingGroup": {"podGroupName": "whole"}}
        for name, spec in (("n0", member), ("n1", member), ("n2", {})):
            cluster.create_pods([pod(name, cluster.namespace, cpu="2", nodeName=name, **spec)])
        policies = tmp_path / "none.policy"
        policies.write_text(POLICY)
        flags = f"--kubeconfig={plane.placet_kubeconfig}", "--lease=none"
        server = running.enter_context(placet(tmp_path, policies, *flags))
        server.wait_ready()
        entry = extender(f"http://127.0.0.1:{server.port}", node_cache_capable=True)
        running.enter_context(kube_scheduler(plane, tmp_path, [entry], flags=[GATE]))
        # The policy is not about this pod.
        cluster.create_pods([pod("free", cluster.namespace, cpu="2", priorityClassName="high")])
        assert cluster.wait_placed(["free"]) == {"free": "n2"}
        assert cluster.placements() == {"free": "n2", "n0": "n0", "n1": "n1"}
