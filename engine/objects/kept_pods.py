"""Kept pods: the pods that a repair or a drain leaves where they are, and why.

The rules are those of cluster-autoscaler and of the descheduler: nobody makes a bare pod anew, a
mirror pod is the kubelet's, a pod of a DaemonSet belongs to its node, and local data would be lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

import msgspec

from engine.objects.peer import Peer
from engine.objects.request_pod import BYPASS, Exemptions
from grammar.messages.texts import cut

# Why nothing comes elsewhere for a pod that leaves its node.
Unmoved = Literal["it is of a DaemonSet", "it is a mirror pod", "no controller makes it anew"]
# The switch of a pod, of its namespace, and of a policy.
KEY, OFF = "placet.dev/repair", "off"
LOCAL_DATA = "it has local data"
SAFE = "cluster-autoscaler.kubernetes.io/safe-to-evict"
# The annotations of others that keep a pod where it is, each with the values that do. Karpenter's
# may say for how long; of the descheduler's the value says nothing.
_KEEPING: Mapping[str, Callable[[str], bool]] = {
    SAFE: "false".__eq__,
    "karpenter.sh/do-not-disrupt": "false".__ne__,
    "karpenter.sh/do-not-evict": "false".__ne__,
    "descheduler.alpha.kubernetes.io/prefer-no-eviction": lambda _: True,
}
# Pods of one template may differ in these annotations, and are looked at each by itself then.
SWITCHES = frozenset({BYPASS, KEY, *_KEEPING})
_LONGEST_VALUE = 60


class _SwitchesOfPod(msgspec.Struct, frozen=True, gc=False):
    annotations: dict[str, str] | None = None


class _VolumeWithData(msgspec.Struct, frozen=True, gc=False):
    emptyDir: dict[str, object] | None = None
    hostPath: dict[str, object] | None = None


class _SpecWithVolumes(msgspec.Struct, frozen=True, gc=False):
    volumes: tuple[_VolumeWithData, ...] | None = None


class _PodToEvict(msgspec.Struct, frozen=True, gc=False):
    metadata: _SwitchesOfPod
    spec: _SpecWithVolumes


def unmoved(pod: Peer) -> Unmoved | None:
    """The reason why nothing replaces an evicted pod; None if a controller does."""
    match pod.workload.kind if pod.workload is not None else None:
        case None:
            return "no controller makes it anew"
        case "DaemonSet":
            return "it is of a DaemonSet"
        case "Node":
            return "it is a mirror pod"
        case _:
            return None


def kept(pod: Peer, body: bytes, exemptions: Exemptions, *, evicts_local_data: bool = False) -> str:
    """Why a pod of this JSON stays; empty if it may be evicted.

    Raises msgspec.MsgspecError.
    """
    read = msgspec.json.decode(body, type=_PodToEvict)
    annotations: Mapping[str, str] = read.metadata.annotations or {}
    if exemptions.exempts(pod):
        return "it is exempt from policies"
    if pod.deletionTimestamp is not None:
        return "it is being deleted"
    if (why := unmoved(pod)) is not None:
        return why
    if annotations.get(KEY) == OFF:
        return f"its annotation `{KEY}` is `{OFF}`"
    for key, keeps in _KEEPING.items():
        if (value := annotations.get(key)) is not None and keeps(value):
            return f"`{key}` is {cut(value, _LONGEST_VALUE)}"
    if evicts_local_data or annotations.get(SAFE) == "true":
        return ""
    volumes = read.spec.volumes or ()
    if any(v.emptyDir is not None or v.hostPath is not None for v in volumes):
        return LOCAL_DATA
    return ""
