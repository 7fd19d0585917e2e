"""Nodes, pods and priority classes as the API takes them, with defaults a test can leave alone."""

import json
from typing import Any


def node(name: str, labels: dict[str, str] | None = None, *, cpu: str = "8") -> dict[str, Any]:
    """Return a Ready node; the API server keeps the status a node is created with."""
    capacity = {"cpu": cpu, "memory": "32Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "status": {
            "capacity": capacity,
            "allocatable": capacity,
            "conditions": [
                {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
            ],
        },
    }


def huge_node(name: str, size: int) -> dict[str, Any]:
    """Return a node of so many bytes of JSON; of protobuf, etcd gets 2 MiB at most."""
    made = node(name)
    image = {"names": ["registry.example/0:1"], "sizeBytes": 1}
    made["status"]["images"] = [image] * (size // len(json.dumps(image)))
    return made


def pod(
    name: str,
    namespace: str,
    labels: dict[str, str] | None = None,
    *,
    cpu: str = "100m",
    **spec: object,
) -> dict[str, Any]:
    """Return a pod of one container; `spec` takes fields by their API names, as `nodeName="n1"`."""
    container = {
        "name": "main",
        "image": "registry.example/main:1",
        "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": labels or {}},
        "spec": {
            "containers": [container],
            # Without kubelets nobody confirms a graceful deletion: an evicted pod goes at once.
            "terminationGracePeriodSeconds": 0,
            **spec,
        },
    }


def controller(kind: str, name: str, namespace: str) -> dict[str, Any]:
    """Return a Deployment, say, of pods like those of `pod`; nobody acts on it here."""
    labels = {"app": name}
    template = pod(name, namespace, labels)
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }


def owned_by(owner: dict[str, Any], child: dict[str, Any]) -> dict[str, Any]:
    """Return an object with a controller, which the API server has given its uid."""
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    return {**child, "metadata": {**child["metadata"], "ownerReferences": [reference]}}


def priority_class(name: str, value: int) -> dict[str, Any]:
    """Return a priority class; pods may not carry a priority that no class gives them."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }


def namespace(name: str) -> dict[str, Any]:
    """Return a namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
