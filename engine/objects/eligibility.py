"""Node eligibility as in kube-scheduler: what its own plugins have against a node.

Cordons, taints, the node selector, required node affinity, ports of the node and resources are
known from nodes and pods. Volumes, devices, pod affinity and topology spread are not looked at.
Pods and nodes are records of the schema, or any objects with the same attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec

from engine.objects.api_types import mapping, mappings
from engine.objects.peer import EVERY_ADDRESS, HostPort
from engine.objects.resources import PODS, amount
from grammar.values.nodes import matches_selector

Record = Any
# Taints with another effect are preferences.
_FORBIDDING = frozenset({"NoSchedule", "NoExecute"})

# ---- the reasons of kube-scheduler's own plugins

CORDONED = "node(s) were unschedulable"
AFFINITY = "node(s) didn't match Pod's node affinity/selector"
PORTS_TAKEN = "node(s) didn't have free ports for the requested pod ports"
TOO_MANY_PODS = "Too many pods"


def insufficient(resource: str) -> str:
    """The reason of a node that has too little of a resource."""
    return TOO_MANY_PODS if resource == PODS else f"Insufficient {resource}"


@dataclass(frozen=True, slots=True)
class _Taint:
    key: str
    value: str
    effect: str


# The taint that stands for a cordon.
_CORDON = _Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")


def unfit(pod: Record, node: Record) -> tuple[str, ...]:
    """The reasons of all plugins that have something against a node, in their order.

    `pod` has `requests` and `hostPorts`, `node` what its pods request and take. The texts are those
    of kube-scheduler, which names only the first plugin's; and a taint is named.
    """
    found = list(_unfit_by_spec(pod, node))
    if pod.hostPorts and clash(pod.hostPorts, [t for e in node.pods or () for t in e.hostPorts]):
        found.append(PORTS_TAKEN)
    return (*found, *map(insufficient, _lacking(pod, node)))


def ineligible(pod: Record, node: Record) -> str:
    """The first reason why the pod may not go to the node whatever runs there, or empty."""
    return next(_unfit_by_spec(pod, node), "")


def _unfit_by_spec(pod: Record, node: Record) -> Iterator[str]:
    spec = node.spec
    taints = (spec and spec.taints) or ()
    if spec is not None and spec.unschedulable:
        if untolerated(pod, [_CORDON]) is not None:
            yield CORDONED
        # A cluster gives a cordoned node the taint, too.
        taints = [t for t in taints if (t.key, t.effect) != (_CORDON.key, _CORDON.effect)]
    if (taint := untolerated(pod, taints)) is not None:
        yield f"node(s) had untolerated taint {{{taint.key}: {taint.value or ''}}}"
    if not matches_affinity(pod, node):
        yield AFFINITY


def clash(wanted: Iterable[HostPort], taken: Iterable[HostPort]) -> bool:
    """Whether one of these ports is taken, of the same address or of every one."""
    known = {(each.hostPort, each.protocol, each.hostIP) for each in taken}
    return any(
        (each.hostPort, each.protocol) == (port, protocol)
        and (EVERY_ADDRESS in (address, each.hostIP) or address == each.hostIP)
        for port, protocol, address in known
        for each in wanted
    )


def _requires(affinity: str) -> Callable[[Mapping[str, Any]], bool]:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    return lambda spec: bool(mapping(mapping(spec, "affinity"), affinity).get(required))


# What kube-scheduler looks at and nobody here, by its name: whether the spec of a pod has it.
NOT_LOOKED_AT: Mapping[str, Callable[[Mapping[str, Any]], bool]] = {
    "pod affinity": _requires("podAffinity"),
    "pod anti-affinity": _requires("podAntiAffinity"),
    "topology spread": lambda spec: any(
        each.get("whenUnsatisfiable") == "DoNotSchedule"
        for each in mappings(spec, "topologySpreadConstraints")
    ),
    "volume claims": lambda spec: any(
        each.get("persistentVolumeClaim") or each.get("ephemeral")
        for each in mappings(spec, "volumes")
    ),
    "resource claims": lambda spec: bool(spec.get("resourceClaims")),
}


def not_looked_at(pod: bytes) -> list[str]:
    """What the JSON of a pod has at which kube-scheduler looks and nobody here."""
    spec: object = None
    with suppress(msgspec.MsgspecError):
        spec = msgspec.json.decode(pod).get("spec")
    return [what for what, has in NOT_LOOKED_AT.items() if isinstance(spec, dict) and has(spec)]


def _lacking(pod: Record, node: Record) -> Iterator[str]:
    """The resources of which the node has too little; none while nothing is known of them."""
    has, requested = node.allocatable, node.requested
    if not has or requested is None:
        return
    if PODS in has and requested[PODS].nanos >= has[PODS].nanos:
        yield PODS
    for resource, wanted in pod.requests.items():
        left = amount(resource, has[resource]) - amount(resource, requested[resource])
        if wanted.nanos and amount(resource, wanted) > left:
            yield resource


# ---- whether the domain of a node counts


def is_eligible(pod: Record, node: Record) -> bool:
    """Whether the node's domain counts for the pod (PodTopologySpread, both policies Honor).

    A cordoned node never counts, whatever the pod tolerates.
    """
    spec = node.spec
    if spec is not None and spec.unschedulable:
        return False
    return matches_affinity(pod, node) and tolerates(pod, node)


# ---- taints and node affinity


def matches_affinity(pod: Record, node: Record) -> bool:
    """Whether the node matches `nodeSelector` and the required node affinity of the pod."""
    spec = pod.spec
    if spec is None:
        return True
    labels: Mapping[str, str] = node.labels
    wanted = spec.nodeSelector or {}
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    affinity = spec.affinity and spec.affinity.nodeAffinity
    required = affinity and affinity.requiredDuringSchedulingIgnoredDuringExecution
    if not required:
        return True
    return matches_selector(node, required)


def tolerates(pod: Record, node: Record) -> bool:
    """Whether the pod tolerates every NoSchedule and NoExecute taint of the node."""
    return untolerated(pod, (node.spec and node.spec.taints) or ()) is None


def untolerated(pod: Record, taints: Iterable[Record]) -> Record | None:
    """The first NoSchedule or NoExecute taint that the pod does not tolerate."""
    tolerations = (pod.spec and pod.spec.tolerations) or ()
    for taint in taints:
        if taint.effect not in _FORBIDDING:
            continue
        if not any(_tolerates(toleration, taint) for toleration in tolerations):
            return taint
    return None


def _tolerates(toleration: Record, taint: Record) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    operator = toleration.operator or "Equal"
    if operator == "Exists":
        return True
    # Gt and Lt have a feature gate, which is off by default: they tolerate nothing.
    if operator != "Equal":
        return False
    return bool(toleration.key) and (toleration.value or "") == (taint.value or "")
