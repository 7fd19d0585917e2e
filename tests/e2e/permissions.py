"""What Placet may do in the cluster: read what policies can read, hold its Lease, bind pods."""

from typing import Any

from tests.e2e.api import Api

ROLE = "placet"
GROUP = "rbac.authorization.k8s.io"
POLICIES = "placement-policy.scheduling.x-k8s.io"
READ = ["get", "list", "watch"]
RULES = [
    {"apiGroups": [""], "resources": ["nodes", "pods", "namespaces"], "verbs": READ},
    {
        "apiGroups": ["apps"],
        "resources": ["replicasets", "deployments", "statefulsets"],
        "verbs": READ,
    },
    {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": READ},
    {
        "apiGroups": [POLICIES],
        "resources": ["placementpolicies", "clusterplacementpolicies"],
        "verbs": READ,
    },
    {
        "apiGroups": [POLICIES],
        "resources": ["placementpolicies/status", "clusterplacementpolicies/status"],
        "verbs": ["patch"],
    },
    {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
    {"apiGroups": [""], "resources": ["pods/status"], "verbs": ["patch"]},
    {"apiGroups": [""], "resources": ["pods/binding"], "verbs": ["create"]},
    {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "verbs": ["get", "create", "update", "patch"],
    },
]
USER = {"kind": "User", "apiGroup": GROUP, "name": "placet"}


def create_role(api: Api) -> None:
    """Create the role, and let the user that Placet's kubeconfig names have it."""
    role = {"kind": "ClusterRole", "metadata": {"name": ROLE}, "rules": RULES}
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
