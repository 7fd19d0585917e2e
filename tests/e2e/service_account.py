"""A service account whose tokens can be taken back, and that may read the cluster as Placet may."""

import http.client
import ssl
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from tests.e2e.api import Api
from tests.e2e.control_plane import ControlPlane

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


TIMEOUT_SECONDS = 10.0


class ServiceAccount:
    """Each token holds as long as the secret that it is bound to."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        """Create the account."""
        self._plane = plane
        self._api = Api(plane)
        self._path = f"/api/v1/namespaces/{namespace}"
        account = {"metadata": {"name": "placet"}}
        self._api.request("POST", f"{self._path}/serviceaccounts", account)
        subject = {"kind": "ServiceAccount", "namespace": namespace, "name": "placet"}
        bind_role(self._api, f"placet-{namespace}", subject)

    def token(self, secret: str) -> str:
        """Return a token that is bound to a new secret."""
        self._api.request("POST", f"{self._path}/secrets", {"metadata": {"name": secret}})
        bound = {"apiVersion": "v1", "kind": "Secret", "name": secret}
        review = self._api.request(
            "POST",
            f"{self._path}/serviceaccounts/placet/token",
            {"spec": {"boundObjectRef": bound}},
        )
        token: str = review["status"]["token"]
        return token

    def revoke(self, secret: str) -> None:
        """Delete the secret; the API server believes its own memory for ten seconds more."""
        self._api.request("DELETE", f"{self._path}/secrets/{secret}")

    def is_refused(self, token: str) -> bool:
        """Whether the API server does not take the token."""
        address = urlsplit(self._plane.url).netloc
        context = ssl.create_default_context(cafile=str(self._plane.authority))
        connection = http.client.HTTPSConnection(address, timeout=TIMEOUT_SECONDS, context=context)
        with closing(connection):
            connection.request(
                "GET", "/api/v1/nodes?limit=1", headers={"Authorization": f"Bearer {token}"}
            )
            return connection.getresponse().status == http.client.UNAUTHORIZED
