"""PlacementPolicies for tests, and what has become of them."""

from pathlib import Path
from typing import Any

from tests.e2e.cluster import POLICIES, Cluster
from tests.e2e.process import until
from tests.e2e.stage import GOVERNED

DEFINITIONS = Path(__file__).parents[2] / "deploy" / "chart" / "files" / "crds"
API_VERSION = POLICIES
SELECTED = {"matchLabels": {"capacity": "spot"}}


def define(cluster: Cluster) -> None:
    """Define our resources, if they are not yet."""
    cluster.kubectl("apply", "-f", str(DEFINITIONS))
    cluster.kubectl("wait", "--for=condition=Established", "-f", str(DEFINITIONS), "--timeout=30s")


def policy(
    cluster: Cluster,
    size: str = "",
    *,
    name: str = "web",
    labels: dict[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """Return a policy of the test's namespace about the pods with these labels."""
    target = {"placementPolicy": {"targetSize": size}} if size else {}
    nodes = {} if "rules" in spec else {"nodeSelector": SELECTED}
    return {
        "apiVersion": API_VERSION,
        "kind": "PlacementPolicy",
        "metadata": {"name": name, "namespace": cluster.namespace},
        "spec": {"podSelector": {"matchLabels": labels or GOVERNED}, **nodes, **target, **spec},
    }


def cluster_policy(name: str, rules: str) -> dict[str, Any]:
    """Return a guardrail of these rules for the pods labelled GOVERNED anywhere."""
    return {
        "apiVersion": API_VERSION,
        "kind": "ClusterPlacementPolicy",
        "metadata": {"name": name},
        "spec": {"podSelector": {"matchLabels": GOVERNED}, "rules": rules},
    }


def wait_ready(cluster: Cluster, name: str, status: str, seconds: float = 30.0) -> None:
    """Return once a policy's condition Ready has this status."""

    def ready() -> str:
        conditions = cluster.get("placementpolicies", name).get("status", {}).get("conditions", [])
        return str(next((each["status"] for each in conditions if each["type"] == "Ready"), ""))

    until(lambda: ready() == status, seconds, lambda: f"Ready {status}, not {ready()!r}")
