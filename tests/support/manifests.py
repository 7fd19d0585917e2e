"""PlacementPolicy manifests for tests, with the fields that a test is not about filled in."""

from __future__ import annotations

from tests.support.builders import Object

GROUP = "placement-policy.scheduling.x-k8s.io"
WANT = {"matchLabels": {"node": "want"}}


def placement_policy(
    spec: Object, name: str = "web", namespace: str | None = "default", version: str = "v1"
) -> Object:
    """A PlacementPolicy with just these fields in its spec."""
    metadata = {"name": name} | ({"namespace": namespace} if namespace is not None else {})
    kind = "PlacementPolicy"
    return {"apiVersion": f"{GROUP}/{version}", "kind": kind, "metadata": metadata, "spec": spec}


def cluster_placement_policy(spec: Object, name: str = "web", version: str = "v1") -> Object:
    """A ClusterPlacementPolicy with just these fields in its spec."""
    made = placement_policy(spec, name, None, version)
    return made | {"kind": "ClusterPlacementPolicy"}


def on_wanted(size: int | str, mode: str = "Strict", **target: str) -> Object:
    """A spec that puts so many of the pods labelled app=web on the nodes labelled node=want."""
    return {
        "enforcementMode": mode,
        "podSelector": {"matchLabels": {"app": "web"}},
        "nodeSelector": WANT,
        "placementPolicy": {"targetSize": size, **target},
    }


def without(spec: Object, *fields: str) -> Object:
    return {field: value for field, value in spec.items() if field not in fields}
