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


# ---- placementPolicies for tests, and what has become of them


# ---- nodes and pods as large as those of clusters that people work with: about 8 and 6 kB of JSON


_ZONES = ("eu-1a", "eu-1b", "eu-1c")
_NODE_LABELS = {
    "beta.kubernetes.io/arch": "amd64",
    "beta.kubernetes.io/os": "linux",
    "kubernetes.io/arch": "amd64",
    "kubernetes.io/os": "linux",
    "node.kubernetes.io/instance-type": "m7i.2xlarge",
    "topology.kubernetes.io/region": "eu-1",
}
_CONDITIONS = [
    ("MemoryPressure", "False", "KubeletHasSufficientMemory"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID"),
    ("NetworkUnavailable", "False", "RouteCreated"),
    ("Ready", "True", "KubeletReady"),
]
_VARIABLES = [{"name": f"SETTING_{number}", "value": f"value of {number}"} for number in range(20)]
_OWNER = {
    "apiVersion": "apps/v1",
    "kind": "ReplicaSet",
    "metadata": {"name": "web-5d59d67564", "uid": "0b6ac1d5-7d39-4d20-8c6c-3a7f3f8f3a11"},
}
_PROBE = {"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 10}


def large_node(number: int, labels: dict[str, str], *, cpu: str = "8") -> dict[str, Any]:
    """Return node `n<number>` with the images and conditions that a kubelet reports."""
    name = f"n{number}"
    zone = {"topology.kubernetes.io/zone": _ZONES[number % len(_ZONES)]}
    made = node(name, {**_NODE_LABELS, **zone, **labels}, cpu=cpu)
    made["metadata"]["annotations"] = {
        "csi.volume.kubernetes.io/nodeid": f'{{"ebs.csi.example":"i-{number:017x}"}}',
        "node.alpha.kubernetes.io/ttl": "30",
        "volumes.kubernetes.io/controller-managed-attach-detach": "true",
    }
    made["spec"] = {
        "providerID": f"example:///{_ZONES[number % 3]}/i-{number:017x}",
        "podCIDR": f"10.{number // 256}.{number % 256}.0/24",
    }
    made["status"] |= {
        "addresses": [
            {"type": "InternalIP", "address": f"10.200.{number // 256}.{number % 256}"},
            {"type": "Hostname", "address": name},
        ],
        "conditions": [
            {"type": kind, "status": status, "reason": reason, "message": f"kubelet: {reason}"}
            for kind, status, reason in _CONDITIONS
        ],
        "images": [
            {
                "names": [
                    f"registry.example/team-{image}/service@sha256:{image:064x}",
                    f"registry.example/team-{image}/service:1.{image}.0",
                ],
                "sizeBytes": 100_000_000 + image,
            }
            for image in range(25)
        ],
        "nodeInfo": {
            "architecture": "amd64",
            "bootID": f"{number:032x}",
            "containerRuntimeVersion": "containerd://2.1.0",
            "kernelVersion": "6.12.0",
            "kubeProxyVersion": "v1.36.0",
            "kubeletVersion": "v1.36.0",
            "machineID": f"{number:032x}",
            "operatingSystem": "linux",
            "osImage": "Example Linux 12",
            "systemUUID": f"{number:032x}",
        },
    }
    return made


def large_pod(name: str, namespace: str, labels: dict[str, str], **spec: Any) -> dict[str, Any]:
    """Return a pod with a sidecar, variables, probes, volumes, tolerations and an owner."""
    made = pod(name, namespace, {**labels, "pod-template-hash": "5d59d67564"}, **spec)
    made["metadata"]["annotations"] = {
        "prometheus.io/scrape": "true",
        "prometheus.io/port": "8080",
        "checksum/config": "0" * 64,
    }
    mounts = [{"name": "settings", "mountPath": "/etc/settings"}]
    main = made["spec"]["containers"][0]
    main |= {
        "env": _VARIABLES,
        "livenessProbe": _PROBE,
        "readinessProbe": _PROBE,
        "volumeMounts": mounts,
    }
    logs = {"name": "logs", "image": "registry.example/logs:3", "volumeMounts": mounts}
    made["spec"]["containers"].append(logs)
    made["spec"]["volumes"] = [{"name": "settings", "emptyDir": {}}]
    made["spec"]["tolerations"] = [
        {"key": f"node.kubernetes.io/{what}", "operator": "Exists", "effect": "NoExecute"}
        for what in ("not-ready", "unreachable", "memory-pressure")
    ]
    return owned_by(_OWNER, made)
