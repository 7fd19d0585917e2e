"""Tables of data from a real API server, with the rights that they need."""

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.api import Api
from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import ControlPlane
from tests.e2e.manifests import node, pod
from tests.e2e.permissions import GROUP, USER
from tests.e2e.placet import Placet, placet
from tests.e2e.waiting import until

pytestmark = pytest.mark.e2e

SECONDS = 60.0
RACKS = """\
cluster policy racks {{
  for pods where pod.metadata.namespace == "{namespace}"
  data "racks" {{
    from configmap "{namespace}/racks" key "racks.csv" by "rack" columns {{ watts: double }}
  }}
  data "claims" {{
    from objects "v1/PersistentVolumeClaim"
    by object.metadata.namespace + "/" + object.metadata.name
    columns {{ zone = string(object.metadata.labels["zone"]) }}
  }}
  filter "power" {{ require data.racks[node.labels["rack"]].watts < 100.0 missing fail }}
  filter "claim" {{
    require data.claims[pod.metadata.namespace + "/data"].zone == node.labels["zone"] missing pass
  }}
}}
"""


def offered(server: Placet, namespace: str, nodes: list[str]) -> list[str]:
    answer = server.filter(pod("web", namespace), nodes)
    return list(answer["NodeNames"] or [])


def allow(plane: ControlPlane, name: str, rules: list[dict[str, Any]]) -> None:
    """Let Placet do what these rules say, in all namespaces."""
    api, metadata = Api(plane), {"name": name}
    api.request("POST", f"/apis/{GROUP}/v1/clusterroles", {"metadata": metadata, "rules": rules})
    role = {"kind": "ClusterRole", "apiGroup": GROUP, "name": name}
    binding = {"metadata": metadata, "subjects": [USER], "roleRef": role}
    api.request("POST", f"/apis/{GROUP}/v1/clusterrolebindings", binding)


def racks(cluster: Cluster, **watts: float) -> None:
    rows = "".join(f"{rack},{value}\n" for rack, value in watts.items())
    metadata = {"name": "racks", "namespace": cluster.namespace}
    data = {"racks.csv": f"rack,watts\n{rows}"}
    cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})


def claim(cluster: Cluster, zone: str) -> None:
    metadata = {"name": "data", "namespace": cluster.namespace, "labels": {"zone": zone}}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    document = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata}
    cluster.apply({**document, "spec": spec})


def test_a_configmap_and_claims_as_soon_as_placet_may_read_them(
    plane: ControlPlane, cluster: Cluster, tmp_path: Path
) -> None:
    """With a right for one name, and with one for a kind."""
    namespace, names = cluster.namespace, ["n1", "n2"]
    cluster.create_nodes(
        node(name, {"rack": f"r{name[1]}", "zone": f"z{name[1]}"}) for name in names
    )
    racks(cluster, r1=50, r2=60)
    policies = tmp_path / "racks.policy"
    policies.write_text(RACKS.format(namespace=namespace))
    with placet(tmp_path, policies, f"--kubeconfig={plane.placet_kubeconfig}") as server:
        server.wait_ready()

        def says(text: str) -> bool:
            return text in server.get("/readyz?verbose")[1]

        until(lambda: says("may not watch configmaps"), SECONDS, server.process.tail)
        assert offered(server, namespace, names) == [], "nothing is known of the racks"
        allow(
            plane,
            f"{namespace}-data",
            [
                {
                    "apiGroups": [""],
                    "resources": ["configmaps"],
                    "resourceNames": ["racks"],
                    "verbs": ["list", "watch"],
                },
                {
                    "apiGroups": [""],
                    "resources": ["persistentvolumeclaims"],
                    "verbs": ["list", "watch"],
                },
            ],
        )

        def become(*wanted: str) -> None:
            until(
                lambda: offered(server, namespace, names) == [*wanted],
                SECONDS,
                lambda: server.get("/readyz?verbose")[1] + server.process.tail(),
            )

        become("n1", "n2")
        until(lambda: says("[+]data/claims ok"), SECONDS, server.process.tail)
        claim(cluster, "z2")
        become("n2")
        racks(cluster, r1=50, r2=160)
        become()
        claim(cluster, "z1")
        become("n1")
        cluster.kubectl("delete", "configmap", "racks", "-n", namespace)
        until(lambda: says("there is no ConfigMap"), SECONDS, server.process.tail)
        assert offered(server, namespace, names) == ["n1"], "the last rows hold for a while"
