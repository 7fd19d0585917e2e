"""The annotation by which a pod bypasses policies: for those only who have the right to use it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.manifests import node, pod
from tests.e2e.process import until
from tests.e2e.stage import GOVERNED, Stage

pytestmark = pytest.mark.e2e

BYPASS = "placet.dev/bypass"

GUARD = Path(__file__).parents[2] / "deploy" / "bypass" / "placet.yaml"
USER = "alice"
RULES = [
    {
        "apiGroups": [""],
        "resources": ["pods", "pods/status"],
        "verbs": ["create", "get", "patch", "update"],
    }
]
NOBODY = '  filter "nobody" { require node.name == "" message "nobody" }'
SECONDS = 30.0


@pytest.fixture
def guarded(cluster: Cluster) -> Iterator[Cluster]:
    """Return a cluster with the guard, and a user who may write pods in the test's namespace."""
    cluster.kubectl("apply", "-f", str(GUARD))
    cluster.apply(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": {"name": "pods", "namespace": cluster.namespace},
            "rules": RULES,
        },
        binding(cluster, "Role", "pods"),
    )
    asked = json.dumps(annotated(cluster, "tried", "x"))

    def is_in_force() -> bool:
        tried = cluster.try_kubectl(
            "create", "--dry-run=server", "-f", "-", f"--as={USER}", text=asked
        )
        return "may not bypass" in tried.stderr

    until(is_in_force, SECONDS, lambda: "the guard in force")
    try:
        yield cluster
    finally:
        cluster.kubectl("delete", "-f", str(GUARD))


def binding(cluster: Cluster, kind: str, name: str) -> dict[str, Any]:
    """Return what gives the user a role in the test's namespace."""
    group = "rbac.authorization.k8s.io"
    return {
        "apiVersion": f"{group}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": name, "namespace": cluster.namespace},
        "subjects": [{"kind": "User", "apiGroup": group, "name": USER}],
        "roleRef": {"apiGroup": group, "kind": kind, "name": name},
    }


def annotated(cluster: Cluster, name: str, reason: str) -> dict[str, Any]:
    """Return a pod with the annotation."""
    made = pod(name, cluster.namespace, GOVERNED)
    made["metadata"]["annotations"] = {BYPASS: reason}
    return made


def said(cluster: Cluster, *arguments: str, text: str | None = None) -> str:
    """Return what the API server has against what the user does, empty if nothing."""
    done = cluster.try_kubectl(
        *arguments, f"--namespace={cluster.namespace}", f"--as={USER}", text=text
    )
    return done.stderr if done.returncode else ""


def created(cluster: Cluster, value: dict[str, Any]) -> str:
    return said(cluster, "create", "-f", "-", text=json.dumps(value))


def wait_allowed(cluster: Cluster, note: str) -> None:
    """Return once the user has annotated the pod; authorizers hear of roles with a delay."""
    last = ""

    def has_annotated() -> bool:
        nonlocal last
        last = said(cluster, "annotate", "pod", "web", note)
        return not last

    until(has_annotated, SECONDS, lambda: f"the right to bypass: {last}")


def test_only_who_may_bypass_does(guarded: Cluster) -> None:
    """To write a pod in whatever way is not enough."""
    cluster = guarded
    cluster.create_pods([pod("web", cluster.namespace, GOVERNED)])
    refused = f"{USER} may not bypass placementpolicies in namespace {cluster.namespace}"
    note = f"{BYPASS}=the disk is full"
    patch = json.dumps({"metadata": {"annotations": {BYPASS: "x"}}})
    status = ("patch", "pod", "web", "--subresource=status", "--type=merge", "-p", patch)

    assert refused in created(cluster, annotated(cluster, "b", "x"))
    assert refused in said(cluster, "annotate", "pod", "web", note)
    assert refused in said(cluster, *status)
    assert said(cluster, "annotate", "pod", "web", "another=annotation") == ""
    assert created(cluster, annotated(cluster, "c", "")) == ""

    cluster.apply(binding(cluster, "ClusterRole", "placet-bypass"))
    wait_allowed(cluster, note)
    assert created(cluster, annotated(cluster, "b", "x")) == ""
    assert "must say why" in said(cluster, "annotate", "--overwrite", "pod", "web", f"{BYPASS}=  ")

    cluster.kubectl("delete", "rolebinding", "placet-bypass", f"--namespace={cluster.namespace}")
    other = ("annotate", "--overwrite", "pod", "web", f"{BYPASS}=another reason")
    until(lambda: refused in said(cluster, *other), SECONDS, lambda: "the right taken back")
    assert said(cluster, "annotate", "pod", "web", "third=annotation") == "", "it has it already"
    assert said(cluster, "annotate", "pod", "web", f"{BYPASS}-") == "", "it may be taken off"


def test_a_pod_that_waits_is_let_go(guarded: Cluster, served: Stage) -> None:
    """The annotation wakes it up, and the log and a metric have it."""
    cluster = guarded
    cluster.create_nodes([node("n1")])
    cluster.apply(binding(cluster, "ClusterRole", "placet-bypass"))
    server = served.watch(NOBODY)
    server.wait_ready()
    served.schedule(server)
    cluster.create_pods([pod("web", cluster.namespace, GOVERNED)])
    cluster.wait_refused("web")

    note = f"{BYPASS}=the disk is full"
    wait_allowed(cluster, note)

    assert cluster.wait_placed(["web"]) == {"web": "n1"}
    log = server.process.log.read_text()
    assert (
        f'pod bypasses all policies pod="{cluster.namespace}/web" reason="the disk is full"' in log
    )
    assert "placet_bypasses_total 1.0" in server.get("/metrics")[1]
