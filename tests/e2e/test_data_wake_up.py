"""Pods that a table holds back: why, in one command, and how soon they run when its rows change."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import ControlPlane
from tests.e2e.manifests import node, pod
from tests.e2e.placet import placet
from tests.e2e.stage import GOVERNED, Stage
from tests.e2e.test_data import allow, racks
from tests.e2e.volumes import Volume
from tests.e2e.waiting import until

pytestmark = pytest.mark.e2e

SECONDS = 60.0
PROMISED_SECONDS = 2.0
# What the tests beside this one add to it.
BUSY_SECONDS = 1.0
CONDITION = "placement-policy.scheduling.x-k8s.io/Evaluate"
RACKS = """
  data "racks" {{
    from configmap "{namespace}/racks" key "racks.csv" by "rack" columns {{ watts: double }}
  }}
  let rack = node.labels["rack"]
  filter "power" {{
    require data.racks[rack].watts < 100.0
    message "the rack has no power"
    detail "it takes {{data.racks[rack].watts}} W"
  }}
"""


def woken(cluster: Cluster, change: Callable[[], object]) -> float:
    """The seconds from a change until the pod `web` is to be asked about again."""
    before = conditions(cluster)
    change()
    began = time.monotonic()
    until(lambda: conditions(cluster) != before, SECONDS, lambda: str(cluster.pod("web")))
    return time.monotonic() - began


def conditions(cluster: Cluster) -> list[str]:
    found: list[dict[str, Any]] = cluster.pod("web")["status"].get("conditions", [])
    return [each["reason"] for each in found if each["type"] == CONDITION]


def explained(plane: ControlPlane, cluster: Cluster, *more: str) -> str:
    words = ["explain", "web", "-n", cluster.namespace, "--kubeconfig", str(plane.admin_kubeconfig)]
    command = [sys.executable, "-m", "cli", *words, *more]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_a_pod_without_power(
    plane: ControlPlane, cluster: Cluster, served: Stage, tmp_path: Path
) -> None:
    """Its rack gets power by an edit of a ConfigMap, of which kube-scheduler knows nothing."""
    rights = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"]}
    allow(plane, f"{cluster.namespace}-racks", [rights])
    racks(cluster, r1=150)
    cluster.create_nodes([node("n1", {"rack": "r1"})])
    server = served.watch(RACKS.format(namespace=cluster.namespace))
    server.wait_ready()
    server.wait_leading()
    served.schedule(server)
    cluster.create_pods([pod("web", cluster.namespace, GOVERNED)])
    cluster.wait_refused("web", text="the rack has no power")
    told = explained(plane, cluster, "--policies", str(tmp_path / "web.policy"))
    assert "it takes" in told
    assert "150 W" in told
    time.sleep(5)

    seconds = woken(cluster, lambda: racks(cluster, r1=50))

    assert seconds < PROMISED_SECONDS + BUSY_SECONDS
    assert cluster.wait_placed(["web"], 10 * PROMISED_SECONDS) == {"web": "n1"}


NEAR = """
cluster policy near {{
  for pods where pod.metadata.namespace == "{namespace}"
  data "claims" {{
    from objects "v1/PersistentVolumeClaim"
    by object.metadata.namespace + "/" + object.metadata.name
    columns {{ volume = string(object.spec.volumeName) }}
  }}
  data "volumes" {{
    from objects "v1/PersistentVolume" by string(object.metadata.name)
    columns {{ zone = string(object.metadata.labels["near"]) }}
  }}
  def zone(v: dyn): string = data.volumes[data.claims[
    pod.namespace + "/" + string(v.persistentVolumeClaim.claimName)].volume].zone
  filter "near" {{
    require pod.spec.volumes.all(v, !has(v.persistentVolumeClaim) || zone(v) == node.zone)
    message "its volume is in another zone"
  }}
}}
"""


def test_a_pod_whose_volume_is_elsewhere(
    plane: ControlPlane, cluster: Cluster, served: Stage, tmp_path: Path
) -> None:
    """Both are tables of objects, of which one leads to the other."""
    kinds = ["persistentvolumeclaims", "persistentvolumes"]
    allow(
        plane,
        f"{cluster.namespace}-volumes",
        [{"apiGroups": [""], "resources": kinds, "verbs": ["list", "watch"]}],
    )
    name, namespace = cluster.namespace, cluster.namespace
    cluster.create_nodes([node("n1", {"topology.kubernetes.io/zone": "a"})])
    volume = Volume(plane, name)
    volume.bind()
    cluster.kubectl("label", "pv", name, "near=b")
    policies = tmp_path / "near.policy"
    policies.write_text(NEAR.format(namespace=namespace))
    with placet(tmp_path, policies, f"--kubeconfig={plane.placet_kubeconfig}") as server:
        server.wait_ready()
        server.wait_leading()
        served.schedule(server)
        cluster.create_pods([pod("web", namespace, volumes=[volume.claimed()])])
        cluster.wait_refused("web", text="its volume is in another zone")
        assert "near: near" in explained(plane, cluster, "--policies", str(policies))
        time.sleep(5)

        seconds = woken(
            cluster, lambda: cluster.kubectl("label", "pv", name, "near=a", "--overwrite")
        )

        assert seconds < PROMISED_SECONDS + BUSY_SECONDS
        cluster.wait_placed(["web"], 10 * PROMISED_SECONDS)
    volume.delete()
