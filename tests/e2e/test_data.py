"""Tables of data from a real API server, with the rights that they need."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.api import Api
from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import ControlPlane
from tests.e2e.kubelets import Volume
from tests.e2e.manifests import node, pod
from tests.e2e.placet import Placet, placet
from tests.e2e.process import until
from tests.e2e.service_account import GROUP, USER
from tests.e2e.stage import GOVERNED, Stage

pytestmark = pytest.mark.e2e

SECONDS = 60.0
RACKS = """\
cluster policy racks {{
  for pods where pod.metadata.namespace == "{namespace}"
  data "racks" {{
    from configmap "{namespace}/racks" file "racks.csv" by "rack" columns {{ watts: double }}
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


# ---- A table of a file in the folder of a server that watches a real API server


NODES = ["n1", "n2"]
POLICY = """\
cluster policy prices {{
  for pods where pod.metadata.namespace == "{namespace}"
  data "prices" {{ from file "now/prices.csv" by "node" columns {{ hour: double }} }}
  filter "cheap" {{ require data.prices[node.name].hour < 1.0 message "dear" missing fail }}
}}
"""


class Mounted:
    """A folder as kubelet mounts a ConfigMap: a link to the last version, which is replaced."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._versions = 0
        folder.mkdir()

    def write(self, text: bytes | None) -> None:
        """Another version, with the file or without."""
        self._versions += 1
        version = self.folder / f"v{self._versions}"
        version.mkdir()
        if text is not None:
            (version / "prices.csv").write_bytes(text)
        link = self.folder / "new"
        link.symlink_to(version.name)
        link.rename(self.folder / "now")


@contextmanager
def served(plane: ControlPlane, cluster: Cluster, mounted: Mounted) -> Iterator[Placet]:
    folder = mounted.folder.parent
    (folder / "prices.policy").write_text(POLICY.format(namespace=cluster.namespace))
    flags = (f"--kubeconfig={plane.placet_kubeconfig}", f"--data-folder={mounted.folder}")
    with placet(folder, folder / "prices.policy", *flags) as server:
        server.wait_ready()
        yield server


def test_a_file(plane: ControlPlane, cluster: Cluster, tmp_path: Path) -> None:
    cluster.create_nodes(map(node, NODES))
    mounted, asked = Mounted(tmp_path / "data"), pod("web", cluster.namespace)
    with served(plane, cluster, mounted) as server:

        def becomes(*wanted: str) -> None:
            until(
                lambda: (server.filter(asked, NODES)["NodeNames"] or []) == [*wanted],
                SECONDS,
                lambda: server.get("/readyz?verbose")[1],
            )

        def says(text: str) -> None:
            until(
                lambda: text in server.get("/readyz?verbose")[1],
                SECONDS,
                lambda: server.get("/readyz?verbose")[1],
            )

        says("prices.csv` cannot be read: no such file or directory; no rows are read")
        becomes()
        mounted.write(b"node,hour\nn1,0.5\nn2,2\n")
        becomes("n1")
        mounted.write(b"node,hour\nn1,2\nn2,0.5\n")
        becomes("n2")
        mounted.write(b"node,hour\nn1,0.5\nn2,\xff\n")
        says("line 3 is not UTF-8; the last 2 rows are read")
        becomes("n2")
        mounted.write(None)
        says("no such file or directory; the last 2 rows are read")
        becomes("n2")
        mounted.write(b"node,hour\nn1,0.5\nn2,0.5\n")
        becomes("n1", "n2")
        assert "[+]data/prices ok" in server.get("/readyz?verbose")[1]


# ---- pods that a table holds back: why, in one command, and how soon they run when its rows change


PROMISED_SECONDS = 2.0
# What the tests beside this one add to it.
BUSY_SECONDS = 1.0
CONDITION = "placement-policy.scheduling.x-k8s.io/Evaluate"
MOVING_RACKS = """
  data "racks" {{
    from configmap "{namespace}/racks" file "racks.csv" by "rack" columns {{ watts: double }}
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
    server = served.watch(MOVING_RACKS.format(namespace=cluster.namespace))
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
