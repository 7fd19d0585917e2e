"""Nodes, pods and priority classes as the API takes them, with defaults a test can leave alone."""

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
