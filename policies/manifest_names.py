"""Names of manifest files and of the API group, without the cost of importing YAML."""

from __future__ import annotations

from pathlib import PurePath

# Files with any other suffix are texts of the language.
MANIFEST_SUFFIXES = frozenset({".yaml", ".yml", ".json"})
GROUP = "placement-policy.scheduling.x-k8s.io"


def is_manifest(name: str) -> bool:
    """Whether a file of this name contains manifests."""
    return PurePath(name).suffix in MANIFEST_SUFFIXES
