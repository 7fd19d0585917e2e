"""What Placet may do in the cluster: what `deploy/rbac` says, and nothing else."""

from pathlib import Path
from typing import Any

import yaml

from tests.e2e.api import Api

SHIPPED = Path(__file__).parents[2] / "deploy" / "rbac" / "placet.yaml"
ROLE = "placet"
GROUP = "rbac.authorization.k8s.io"
USER = {"kind": "User", "apiGroup": GROUP, "name": "placet"}


def create_role(api: Api) -> None:
    """Create the role, and let the user that Placet's kubeconfig names have it.

    What is meant for one namespace holds in all of them here.
    """
    documents = yaml.safe_load_all(SHIPPED.read_text())
    roles = [each for each in documents if each["metadata"]["name"] == ROLE and "rules" in each]
    rules = [rule for role in roles for rule in role["rules"]]
    role = {"kind": "ClusterRole", "metadata": {"name": ROLE}, "rules": rules}
    api.request("POST", f"/apis/{GROUP}/v1/clusterroles", role)
    bind_role(api, ROLE, USER)


def bind_role(api: Api, name: str, subject: dict[str, Any]) -> None:
    """Let a user or a service account read the cluster; the binding gets this name."""
    binding = {
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "subjects": [subject],
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": ROLE},
    }
    api.request("POST", f"/apis/{GROUP}/v1/clusterrolebindings", binding)
