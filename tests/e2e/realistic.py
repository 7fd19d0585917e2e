"""Nodes and pods as large as those of clusters that people work with: about 8 and 6 kB of JSON."""

from typing import Any

from tests.e2e.manifests import node, owned_by, pod

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
