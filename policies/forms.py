"""Which files have manifests, told by their names, and whose these are: known at little cost."""

from __future__ import annotations

from pathlib import PurePath

# Of any other name a file is a text of the language.
MANIFEST_SUFFIXES = frozenset({".yaml", ".yml", ".json"})
GROUP = "placement-policy.scheduling.x-k8s.io"


def is_manifest(name: str) -> bool:
    """Whether a file of this name is one of manifests."""
    return PurePath(name).suffix in MANIFEST_SUFFIXES
