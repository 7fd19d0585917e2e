"""Kubeconfigs as `kubectl config` would write them: one server, one user."""

import json
from pathlib import Path


def kubeconfig(path: Path, server: str, authority: Path, user: dict[str, str]) -> Path:
    """Write a file whose user has these fields, such as `token` or `tokenFile`."""
    # JSON is YAML.
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "e2e",
                "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": "e2e"}}],
                "clusters": [
                    {
                        "name": "e2e",
                        "cluster": {"server": server, "certificate-authority": str(authority)},
                    }
                ],
                "users": [{"name": "e2e", "user": user}],
            }
        )
    )
    return path
