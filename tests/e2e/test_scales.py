"""Controllers of kinds of others, whose `scale` a real API server answers."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import ControlPlane
from tests.e2e.manifests import node, owned_by, pod
from tests.e2e.process import until
from tests.e2e.stage import GOVERNED, Stage

pytestmark = pytest.mark.e2e

GROUP, VERSION = "example.com", "v1"
SECONDS = 60.0
NAMES = ("n1", "n2")
HALF = """
  share "half" {
    of replicas on nodes where node.name == "n1" at most 50% strict message "half of it is on n1"
  }
"""
UNKNOWN = "wants is not known, so those that are there count"


def define(cluster: Cluster, kind: str, *, scales: bool) -> None:
    """A kind of controllers with `spec.replicas`, and with or without the subresource."""
    count = {"type": "object", "properties": {"replicas": {"type": "integer"}}}
    schema = {"type": "object", "properties": {"spec": count, "status": count}}
    paths = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}, **({"scale": paths} if scales else {})},
    }
    plural = f"{kind.lower()}s"
    names = {"kind": kind, "plural": plural, "singular": kind.lower()}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {"group": GROUP, "names": names, "scope": "Namespaced", "versions": [version]},
    }
    cluster.apply(definition)
    cluster.kubectl("wait", "--for=condition=Established", f"crd/{plural}.{GROUP}")


def created(cluster: Cluster, kind: str, replicas: int) -> dict[str, Any]:
    """A controller as the API server stored it."""
    metadata = {"name": "web", "namespace": cluster.namespace}
    spec = {"replicas": replicas}
    made = {"apiVersion": f"{GROUP}/{VERSION}", "kind": kind, "metadata": metadata, "spec": spec}
    cluster.apply(made)
    where = ("-n", cluster.namespace, f"{kind.lower()}s.{GROUP}", "web")
    uid = cluster.kubectl("get", *where, "-o", "jsonpath={.metadata.uid}")
    return {**made, "metadata": {**metadata, "uid": uid}}


def placet(*arguments: str) -> str:
    """What a command prints."""
    command = [sys.executable, "-m", "cli", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
    return done.stdout + done.stderr


@pytest.mark.parametrize("scales", [True, False])
def test_half_of_what_a_controller_of_another_kind_wants(
    plane: ControlPlane, cluster: Cluster, served: Stage, tmp_path: Path, *, scales: bool
) -> None:
    """Of 4 wanted pods 2 may be on the node; where nobody says so, half of the 2 that are there."""
    kind = "Gadget" if scales else "Widget"
    define(cluster, kind, scales=scales)
    cluster.create_nodes(map(node, NAMES))
    owner = created(cluster, kind, 4)
    where = cluster.namespace
    cluster.create_pods(
        owned_by(owner, pod(name, where, GOVERNED, **placed))
        for name, placed in (("there", {"nodeName": "n1"}), ("new", {}))
    )
    server = served.watch(HALF)
    server.wait_ready()
    policies = tmp_path / "web.policy"
    asked = cluster.pod("new")
    wanted = [*NAMES] if scales else ["n2"]
    until(
        lambda: (server.filter(asked, NAMES)["NodeNames"] or []) == wanted,
        SECONDS,
        lambda: f"{server.filter(asked, NAMES)} {server.get('/readyz?verbose')[1]}",
    )
    # The commands say the same: explain of the running cluster, check of a snapshot without scales.
    reach = f"--kubeconfig={plane.placet_kubeconfig}"
    said = placet("explain", "new", "-n", where, f"--policies={policies}", reach)
    assert f"{len(wanted)} of 2 nodes pass" in said, said
    assert (UNKNOWN in said) == (not scales), said
    snapshot = cluster.write_snapshot(tmp_path / "cluster.json")
    checked = placet("check", f"--cluster={snapshot}", str(policies))
    assert f"how many pods `{kind}/web` {UNKNOWN}" in checked, checked
    if scales:
        # Of 2 wanted pods one may be there, but nobody asks again for the same number of pods.
        cluster.kubectl("-n", where, "scale", f"gadgets.{GROUP}/web", "--replicas=2")
        cluster.create_pods([owned_by(owner, pod("more", where, GOVERNED))])
        until(
            lambda: server.filter(asked, NAMES)["NodeNames"] == ["n2"],
            SECONDS,
            lambda: str(server.filter(asked, NAMES)),
        )
