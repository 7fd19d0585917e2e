"""Known words: what Kubernetes 1.36 writes into fields and labels, and the names of resources.

A table has the words by record and field of `schema.txt`, and another those of labels, by key. A
closed field takes no other word. An open one may.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Words:
    """The words of a field; `open` says that others are possible.

    If a beginning is `reserved` for them, all that begin otherwise are possible.
    """

    values: tuple[str, ...]
    open: bool = False
    reserved: str = ""


def _closed(words: str) -> Words:
    return Words(tuple(words.split()))


def _open(words: str) -> Words:
    return Words(tuple(words.split()), open=True)


_STATUS = _closed("True False Unknown")
_EFFECTS = _closed("NoSchedule PreferNoSchedule NoExecute")
_PHASES = _closed("Pending Running Succeeded Failed Unknown")
_RESTART = _closed("Always OnFailure Never")
_PULL = _closed("Always IfNotPresent Never")
_PROTOCOLS = _closed("TCP UDP SCTP")
_HONOR = _closed("Honor Ignore")
_SELECTS = _closed("In NotIn Exists DoesNotExist")
_READ_ONLY = _closed("Disabled IfPossible Enabled")
_PROFILES = _closed("Unconfined RuntimeDefault Localhost")
CONTROLLERS = _open("Deployment ReplicaSet StatefulSet DaemonSet Job CronJob Node")
_TERMINATION = _closed("File FallbackToLogsOnError")
FIELDS: Mapping[tuple[str, str], Words] = {
    ("AppArmorProfile", "type"): _PROFILES,
    ("AzureDiskVolumeSource", "cachingMode"): _closed("None ReadOnly ReadWrite"),
    ("AzureDiskVolumeSource", "kind"): _closed("Shared Dedicated Managed"),
    ("Container", "imagePullPolicy"): _PULL,
    ("Container", "restartPolicy"): _RESTART,
    ("Container", "terminationMessagePolicy"): _TERMINATION,
    ("ContainerPort", "protocol"): _PROTOCOLS,
    ("ContainerResizePolicy", "resourceName"): _closed("cpu memory"),
    ("ContainerResizePolicy", "restartPolicy"): _closed("NotRequired RestartContainer"),
    ("ContainerRestartRule", "action"): _closed("Restart RestartAllContainers"),
    ("ContainerRestartRuleOnExitCodes", "operator"): _closed("In NotIn"),
    ("EphemeralContainer", "imagePullPolicy"): _PULL,
    ("EphemeralContainer", "terminationMessagePolicy"): _TERMINATION,
    ("HTTPGetAction", "scheme"): _closed("HTTP HTTPS"),
    ("HostPathVolumeSource", "type"): _closed(
        "DirectoryOrCreate Directory FileOrCreate File Socket CharDevice BlockDevice"
    ),
    ("HostPort", "protocol"): _PROTOCOLS,
    ("ImageVolumeSource", "pullPolicy"): _PULL,
    ("LabelSelectorRequirement", "operator"): _SELECTS,
    ("Node", "kind"): _closed("Node"),
    ("NodeAddress", "type"): _open("Hostname InternalIP ExternalIP InternalDNS ExternalDNS"),
    ("NodeCondition", "status"): _STATUS,
    ("NodeCondition", "type"): _open(
        "Ready MemoryPressure DiskPressure PIDPressure NetworkUnavailable"
    ),
    ("NodeSelectorRequirement", "operator"): _closed("In NotIn Exists DoesNotExist Gt Lt"),
    ("NodeStatus", "phase"): _closed("Pending Running Terminated"),
    ("NodeSystemInfo", "architecture"): _open("amd64 arm64 arm 386 ppc64le riscv64 s390x"),
    ("NodeSystemInfo", "operatingSystem"): _closed("linux windows"),
    ("OwnerReference", "kind"): CONTROLLERS,
    ("Peer", "phase"): _PHASES,
    ("PeerWorkload", "kind"): CONTROLLERS,
    ("PersistentVolumeClaimSpec", "accessModes"): _closed(
        "ReadWriteOnce ReadOnlyMany ReadWriteMany ReadWriteOncePod"
    ),
    ("PersistentVolumeClaimSpec", "volumeMode"): _closed("Filesystem Block"),
    ("Pod", "kind"): _closed("Pod"),
    ("PodCondition", "status"): _STATUS,
    ("PodCondition", "type"): _open(
        "PodScheduled Initialized ContainersReady Ready PodReadyToStartContainers DisruptionTarget"
        " PodResizePending PodResizeInProgress"
    ),
    ("PodOS", "name"): _closed("linux windows"),
    ("PodSecurityContext", "fsGroupChangePolicy"): _closed("OnRootMismatch Always"),
    ("PodSecurityContext", "seLinuxChangePolicy"): _closed("MountOption Recursive"),
    ("PodSecurityContext", "supplementalGroupsPolicy"): _closed("Merge Strict"),
    ("PodSpec", "dnsPolicy"): _closed("ClusterFirst ClusterFirstWithHostNet Default None"),
    ("PodSpec", "preemptionPolicy"): _closed("PreemptLowerPriority Never"),
    ("PodSpec", "priorityClassName"): Words(
        ("system-cluster-critical", "system-node-critical"), reserved="system-"
    ),
    ("PodSpec", "restartPolicy"): _RESTART,
    ("PodStatus", "phase"): _PHASES,
    ("PodStatus", "qosClass"): _closed("Guaranteed Burstable BestEffort"),
    ("PodStatus", "resize"): _closed("Proposed InProgress Deferred Infeasible"),
    ("ResourceHealth", "health"): _closed("Healthy Unhealthy Unknown"),
    ("SeccompProfile", "type"): _PROFILES,
    ("SecurityContext", "procMount"): _closed("Default Unmasked"),
    ("Taint", "effect"): _EFFECTS,
    ("Toleration", "effect"): _EFFECTS,
    ("Toleration", "operator"): _closed("Exists Equal Lt Gt"),
    ("TopologySpreadConstraint", "nodeAffinityPolicy"): _HONOR,
    ("TopologySpreadConstraint", "nodeTaintsPolicy"): _HONOR,
    ("TopologySpreadConstraint", "whenUnsatisfiable"): _closed("DoNotSchedule ScheduleAnyway"),
    ("VolumeMount", "mountPropagation"): _closed("None HostToContainer Bidirectional"),
    ("VolumeMount", "recursiveReadOnly"): _READ_ONLY,
    ("VolumeMountStatus", "recursiveReadOnly"): _READ_ONLY,
    ("Workload", "kind"): CONTROLLERS,
}

LABELS: Mapping[str, Words] = {
    "kubernetes.io/arch": FIELDS["NodeSystemInfo", "architecture"],
    "kubernetes.io/os": FIELDS["NodeSystemInfo", "operatingSystem"],
}

# The resources without a domain, and the beginnings of the names of others.
RESOURCES = ("cpu", "memory", "ephemeral-storage", "pods")
OF_CLAIMS = "storage"
RESOURCE_PREFIXES = ("hugepages-", "attachable-volumes-")
# What people call them.
RESOURCE_HABITS: Mapping[str, str] = {
    "core": "cpu",
    "cores": "cpu",
    "disk": "ephemeral-storage",
    "mem": "memory",
    "pod": "pods",
    "ram": "memory",
    "storage": "ephemeral-storage",
    "vcpu": "cpu",
}
