"""Tables of objects of a real API server: volumes, storage, and two kinds of definitions."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.api import Api
from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import ControlPlane
from tests.e2e.manifests import node, pod
from tests.e2e.placet import Placet, placet
from tests.e2e.process import until
from tests.e2e.service_account import USER

pytestmark = pytest.mark.e2e

SECONDS = 60.0
ZONE = "topology.kubernetes.io/zone"
NODES = ["n1", "n2"]


@contextmanager
def served(plane: ControlPlane, cluster: Cluster, folder: Path, rules: str) -> Iterator[Placet]:
    """Placet with these rules for the pods of a namespace, and the rights that they need."""
    file = folder / "rules.policy"
    where = f'pod.metadata.namespace == "{cluster.namespace}"'
    file.write_text(f"cluster policy rules {{ for pods where {where} {rules} }}")
    cluster.apply(*rights(file, f"placet-{cluster.namespace}"))
    with placet(folder, file, f"--kubeconfig={plane.placet_kubeconfig}") as server:
        server.wait_ready()
        yield server


def rights(policies: Path, name: str) -> list[dict[str, Any]]:
    """The rights that `placet manifests` prints for policies, for the user of the tests."""
    command = [sys.executable, "-m", "cli", "manifests", "--policies", str(policies)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found: list[dict[str, Any]] = [
        each for each in yaml.safe_load_all(printed) if each["metadata"]["name"] == "placet-data"
    ]
    for each in found:
        each["metadata"]["name"] = name
        if "subjects" in each:
            each["subjects"], each["roleRef"]["name"] = [USER], name
    return found


def becomes(server: Placet, asked: dict[str, Any], *wanted: str) -> None:
    """Returns once these nodes are offered."""
    until(
        lambda: (server.filter(asked, NODES)["NodeNames"] or []) == [*wanted],
        SECONDS,
        lambda: f"{server.filter(asked, NODES)} {server.get('/readyz?verbose')[1]}",
    )


def claim(name: str, namespace: str, **spec: Any) -> dict[str, Any]:
    size = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10Gi"}}}
    metadata = {"name": name, "namespace": namespace}
    kind = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
    return {**kind, "metadata": metadata, "spec": {**size, **spec}}


def claiming(cluster: Cluster, name: str) -> dict[str, Any]:
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": name}}
    return pod("web", cluster.namespace, volumes=[volume])


def defined(cluster: Cluster, group: str, version: str, kind: str, plural: str) -> None:
    """A kind of our own, with any fields."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served_as = {"name": version, "served": True, "storage": True}
    names = {"kind": kind, "plural": plural, "singular": kind.lower()}
    metadata: dict[str, Any] = {"name": f"{plural}.{group}"}
    if group.endswith(".k8s.io"):
        annotation = "https://github.com/kubernetes-sigs/noderesourcetopology-api"
        metadata["annotations"] = {"api-approved.kubernetes.io": annotation}
    cluster.apply(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": metadata,
            "spec": {
                "group": group,
                "names": names,
                "scope": "Cluster",
                "versions": [{**served_as, "schema": {"openAPIV3Schema": schema}}],
            },
        }
    )
    cluster.kubectl("wait", "--for=condition=Established", f"crd/{plural}.{group}")


def topology(name: str, *available: str) -> dict[str, Any]:
    zones = [
        {
            "name": f"node-{number}",
            "type": "Node",
            "resources": [{"name": "cpu", "capacity": "8", "allocatable": "8", "available": cpu}],
        }
        for number, cpu in enumerate(available)
    ]
    kind = {"apiVersion": "topology.node.k8s.io/v1alpha2", "kind": "NodeResourceTopology"}
    return {**kind, "metadata": {"name": name}, "zones": zones}


def test_numa_zones(plane: ControlPlane, cluster: Cluster, tmp_path: Path) -> None:
    """The definition comes after the policy, as when the exporter is installed later."""
    cluster.create_nodes(map(node, NODES))
    with served(plane, cluster, tmp_path, 'use "library/numa-fits"') as server:
        asked = pod("web", cluster.namespace, cpu="3")
        becomes(server, asked)
        group, version = "topology.node.k8s.io", "v1alpha2"
        defined(cluster, group, version, "NodeResourceTopology", "noderesourcetopologies")
        cluster.apply(topology("n1", "2", "2"), topology("n2", "1", "4"))
        becomes(server, asked, "n2")
        cluster.apply(topology("n1", "3500m", "0"), topology("n2", "0", "2"))
        becomes(server, asked, "n1")
        cluster.kubectl("delete", "noderesourcetopologies", "n1", "n2")
        becomes(server, asked)


def test_a_kind_of_our_own(plane: ControlPlane, cluster: Cluster, tmp_path: Path) -> None:
    """An object without a key of its own, and one whose field has another type, have no row."""
    defined(cluster, "example.com", "v1", "Rack", "racks")
    labels = ({"rack": "r1"}, {"rack": "r2"})
    cluster.create_nodes(node(name, each) for name, each in zip(NODES, labels, strict=True))
    rules = """
      data "racks" {
        from objects "example.com/v1/Rack" by string(object.spec.label)
        columns { left = double(object.spec.wattsLeft) }
      }
      let rack = node.labels["rack"]
      filter "power" { require data.racks[rack].left >= 200.0 }
    """

    def rack(name: str, **spec: Any) -> dict[str, Any]:
        kind = {"apiVersion": "example.com/v1", "kind": "Rack"}
        return {**kind, "metadata": {"name": name}, "spec": spec}

    with served(plane, cluster, tmp_path, rules) as server:
        asked = pod("web", cluster.namespace)
        cluster.apply(rack("a", label="r1", wattsLeft=100), rack("b", label="r2", wattsLeft=300))
        becomes(server, asked, "n2")
        cluster.apply(rack("a", label="r1", wattsLeft=250), rack("b", wattsLeft=300))
        becomes(server, asked, "n1")
        cluster.apply(rack("b", label="r2", wattsLeft={"much": True}))
        becomes(server, asked, "n1")
        cluster.apply(rack("b", label="r1", wattsLeft=300))
        becomes(server, asked)
        cluster.kubectl("delete", "racks", "b")
        becomes(server, asked, "n1")
    cluster.kubectl("delete", "crd", "racks.example.com")


def test_claims_and_storage_capacities(
    plane: ControlPlane, cluster: Cluster, tmp_path: Path
) -> None:
    name, api = f"class-{cluster.namespace}", Api(plane)
    cluster.create_nodes(node(n, {ZONE: f"z{n[1]}"}) for n in NODES)

    def capacity(zone: str, most: str) -> dict[str, Any]:
        return {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIStorageCapacity",
            "metadata": {"name": f"c-{zone}", "namespace": cluster.namespace},
            "storageClassName": name,
            "nodeTopology": {"matchLabels": {ZONE: zone}},
            "capacity": "100Gi",
            "maximumVolumeSize": most,
        }

    cluster.apply(claim("data", cluster.namespace, storageClassName=name))
    cluster.apply(capacity("z1", "5Gi"), capacity("z2", "10Gi"))
    rules = f'use "library/zone-with-capacity" (class: "{name}")'
    with served(plane, cluster, tmp_path, rules) as server:
        asked = claiming(cluster, "data")
        becomes(server, asked, "n2")
        cluster.apply(capacity("z1", "50Gi"))
        becomes(server, asked, "n1", "n2")
        path = f"/apis/storage.k8s.io/v1/namespaces/{cluster.namespace}/csistoragecapacities"
        api.request("DELETE", f"{path}/c-z2")
        becomes(server, asked, "n1")


def test_volumes_and_claims(plane: ControlPlane, cluster: Cluster, tmp_path: Path) -> None:
    cluster.create_nodes(node(n, {ZONE: f"z{n[1]}"}) for n in NODES)
    name = f"pv-{cluster.namespace}"

    def volume(zone: str) -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name, "labels": {ZONE: zone}},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "capacity": {"storage": "10Gi"},
                "hostPath": {"path": "/data"},
            },
        }

    with served(plane, cluster, tmp_path, 'use "library/follow-the-volume"') as server:
        asked = claiming(cluster, "data")
        becomes(server, asked, "n1", "n2")
        cluster.apply(volume("z2"), claim("data", cluster.namespace, volumeName=name))
        becomes(server, asked, "n2")
        cluster.apply(volume("z1"))
        becomes(server, asked, "n1")
    cluster.kubectl("delete", "pv", name, "--wait=false")


def test_storage_classes(plane: ControlPlane, cluster: Cluster, tmp_path: Path) -> None:
    """What a class says of its volumes, which the claim names."""
    cluster.create_nodes(node(n, {"disk": n}) for n in NODES)
    name = f"class-{cluster.namespace}"
    rules = """
      data "claims" {
        from objects "v1/PersistentVolumeClaim"
        by object.metadata.namespace + "/" + object.metadata.name
        columns { class = string(object.spec.storageClassName) }
      }
      data "classes" {
        from objects "storage.k8s.io/v1/StorageClass" by string(object.metadata.name)
        columns { disk = string(object.parameters.disk) }
      }
      let class = data.claims[pod.namespace + "/data"].class
      filter "disk" { require data.classes[class].disk == node.labels["disk"] }
    """

    def storage(disk: str) -> dict[str, Any]:
        kind = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass"}
        more = {"provisioner": "example.com/disk", "parameters": {"disk": disk}}
        return {**kind, "metadata": {"name": name}, **more}

    cluster.apply(claim("data", cluster.namespace, storageClassName=name), storage("n1"))
    with served(plane, cluster, tmp_path, rules) as server:
        asked = claiming(cluster, "data")
        becomes(server, asked, "n1")
        cluster.kubectl("delete", "storageclass", name)
        becomes(server, asked)
        cluster.apply(storage("n2"))
        becomes(server, asked, "n2")
    cluster.kubectl("delete", "storageclass", name)
