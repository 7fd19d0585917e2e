"""API objects for tests, as the JSON that kubectl shows: `pod("a", cpu="2")`, `node("n1")`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import NAMESPACE_OID, uuid5

import msgspec

Object = dict[str, Any]

CREATED = "2026-11-21T10:00:00Z"


def pod(
    name: str,
    namespace: str = "default",
    *,
    cpu: str | None = None,
    memory: str | None = None,
    on: str | None = None,
    phase: str | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    owner: Object | None = None,
    priority: int | None = None,
    created: str = CREATED,
    deleted: str | None = None,
    spec: Mapping[str, Any] | None = None,
) -> Object:
    """A pod with one container; it runs if it is `on` a node. `owner` is its controller."""
    requests = {k: v for k, v in {"cpu": cpu, "memory": memory}.items() if v is not None}
    container = {"name": "main", "image": "registry.example/main:1"}
    more: Object = {"nodeName": on, "priority": priority}
    metadata = _metadata("Pod", name, namespace, labels, annotations, created)
    if owner is not None:
        metadata["ownerReferences"] = [_reference(owner)]
    if deleted is not None:
        metadata |= {"deletionTimestamp": deleted, "deletionGracePeriodSeconds": 30}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {
            "containers": [container | ({"resources": {"requests": requests}} if requests else {})],
            **{k: v for k, v in more.items() if v is not None},
            **(spec or {}),
        },
        "status": {"phase": phase or ("Running" if on else "Pending")},
    }


def web(name: str, on: str | None = None, namespace: str = "default", **fields: Any) -> Object:
    """A pod with the label `app: web`."""
    return pod(name, namespace, labels={"app": "web"}, on=on, **fields)


def node(
    name: str,
    zone: str | None = None,
    *,
    cpu: str = "8",
    memory: str = "32Gi",
    pods: str = "110",
    resources: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    unschedulable: bool = False,
    ready: bool = True,
    created: str = CREATED,
) -> Object:
    """A node; all that it has is allocatable."""
    zones = {} if zone is None else {"topology.kubernetes.io/zone": zone}
    amounts = {"cpu": cpu, "memory": memory, "pods": pods, **(resources or {})}
    named = {"kubernetes.io/hostname": name, **zones, **(labels or {})}
    condition = {
        "type": "Ready",
        "status": "True" if ready else "False",
        "lastHeartbeatTime": created,
        "lastTransitionTime": created,
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": _metadata("Node", name, None, named, annotations, created),
        "spec": {"unschedulable": True} if unschedulable else {},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": [condition]},
    }


def controller(
    kind: str,
    name: str,
    namespace: str = "default",
    *,
    replicas: int | None = None,
    strategy: Object | None = None,
    owner: Object | None = None,
) -> Object:
    """A Deployment, ReplicaSet, StatefulSet, DaemonSet, or Job, whose parallelism is `replicas`."""
    metadata = _metadata(kind, name, namespace, None, None, CREATED)
    if owner is not None:
        metadata["ownerReferences"] = [_reference(owner)]
    wanted = "parallelism" if kind == "Job" else "replicas"
    return {
        "apiVersion": "batch/v1" if kind == "Job" else "apps/v1",
        "kind": kind,
        "metadata": metadata,
        "spec": ({} if replicas is None else {wanted: replicas})
        | ({} if strategy is None else {"strategy": strategy}),
    }


def namespace(name: str, labels: Mapping[str, str] | None = None) -> Object:
    """A namespace."""
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": _metadata("Namespace", name, None, labels, None, CREATED),
    }


def kubectl_list(items: Iterable[Object]) -> Object:
    """What `kubectl get … -o json` prints of more than one object."""
    version = {"resourceVersion": ""}
    return {"apiVersion": "v1", "kind": "List", "metadata": version, "items": list(items)}


def raw(value: Object) -> bytes:
    """The object's JSON."""
    return msgspec.json.encode(value)


def _metadata(
    kind: str,
    name: str,
    namespace: str | None,
    labels: Mapping[str, str] | None,
    annotations: Mapping[str, str] | None,
    created: str,
) -> Object:
    found: Object = {"name": name} | ({} if namespace is None else {"namespace": namespace})
    found["uid"] = str(uuid5(NAMESPACE_OID, f"{kind}/{namespace}/{name}"))
    found["creationTimestamp"] = created
    found["labels"] = dict(labels or {})
    found["annotations"] = dict(annotations or {})
    return found


def _reference(owner: Object) -> Object:
    metadata = owner["metadata"]
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


# ---- placementPolicy manifests for tests, with the fields that a test is not about filled in


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
