"""A pod group that shares cards: kube-scheduler asks about all of its pods before one is bound."""

import json
import secrets
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.api import Api
from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import control_plane
from tests.e2e.kube_scheduler import extender, kube_scheduler
from tests.e2e.manifests import node
from tests.e2e.placet import Replicas
from tests.e2e.process import POD_GROUPS, needs_pod_groups
from tests.e2e.service_account import create_role
from tests.e2e.test_cards import POLICY, TAKEN, gpu_pod

pytestmark = [pytest.mark.e2e, needs_pod_groups]

GATES = "--feature-gates=GenericWorkload=true,GangScheduling=true"
PODS, NODES, CARDS = 16, 4, 4


def group(name: str, pods: int) -> dict[str, Any]:
    return {
        "apiVersion": f"scheduling.k8s.io/{POD_GROUPS}",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"schedulingPolicy": {"gang": {"minCount": pods}}},
    }


def member(name: str, where: str, of: str) -> dict[str, Any]:
    made = gpu_pod(name, where)
    made["spec"]["schedulingGroup"] = {"podGroupName": of}
    return made


def test_a_group_is_placed_whole(programs: Path, tmp_path: Path) -> None:
    """Sixteen halves of cards on four idle nodes with four cards each, and then sixteen more."""
    folder = tmp_path / "plane"
    folder.mkdir()
    served = f"--runtime-config=scheduling.k8s.io/{POD_GROUPS}=true"
    with ExitStack() as running:
        plane = running.enter_context(control_plane(programs, folder, GATES, served))
        create_role(Api(plane))
        cluster = Cluster(plane, f"e2e-{secrets.token_hex(4)}")
        cluster.create_nodes(
            node(f"n{number}", {"gpu-count": str(CARDS)}) for number in range(NODES)
        )
        replicas = Replicas(plane, tmp_path, running, POLICY, "--bind")
        address = f"http://127.0.0.1:{replicas.switch.port}"
        entry = extender(address, node_cache_capable=True, binds=True)
        running.enter_context(kube_scheduler(plane, tmp_path, [entry], flags=[GATES]))
        where, names = cluster.namespace, list[str]()
        for training in ("first", "second"):
            cluster.kubectl(
                "-n", where, "create", "-f", "-", text=json.dumps(group(training, PODS))
            )
            here = [f"{training}-{number}" for number in range(PODS)]
            cluster.create_pods(member(name, where, training) for name in here)
            cluster.wait_placed(here, 120.0)
            names += here
        cards: Counter[tuple[str, int]] = Counter()
        for name in names:
            found = cluster.pod(name)
            (taken,) = json.loads(found["metadata"]["annotations"][TAKEN]).values()
            cards.update((found["spec"]["nodeName"], index) for index in taken["cards"])
        assert set(cards.values()) == {2}
        assert len(cards) == NODES * CARDS
        cluster.clear()
