"""Permissions: the rights of Placet's service account, which are those of `deploy/rbac`."""

from pathlib import Path
from typing import Any

import yaml

from tests.e2e.api import Api

SHIPPED = Path(__file__).parents[2] / "deploy" / "rbac"
ROLE, BIND_ROLE, REPAIR_ROLE = "placet", "placet-bind", "placet-repair"
# The files that have these roles.
FILES = {
    ROLE: SHIPPED / "placet.yaml",
    BIND_ROLE: SHIPPED / "bind" / "placet.yaml",
    REPAIR_ROLE: SHIPPED / "repair" / "placet.yaml",
}
GROUP = "rbac.authorization.k8s.io"
USER = {"kind": "User", "apiGroup": GROUP, "name": "placet"}


def create_role(api: Api) -> None:
    """Create the roles, and let the user that Placet's kubeconfig names have them.

    What is meant for one namespace holds in all of them here.
    """
    for name, file in FILES.items():
        documents = yaml.safe_load_all(file.read_text())
        roles = [each for each in documents if each["metadata"]["name"] == name and "rules" in each]
        rules = [rule for role in roles for rule in role["rules"]]
        role = {"kind": "ClusterRole", "metadata": {"name": name}, "rules": rules}
        api.request("POST", f"/apis/{GROUP}/v1/clusterroles", role)
        bind_role(api, name, USER, name)


def bind_role(api: Api, name: str, subject: dict[str, Any], role: str = ROLE) -> None:
    """Let a user or a service account have a role; the binding gets this name."""
    binding = {
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "subjects": [subject],
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": role},
    }
    api.request("POST", f"/apis/{GROUP}/v1/clusterrolebindings", binding)
