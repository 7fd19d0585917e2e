"""Node eligibility as in kube-scheduler: node selector, required node affinity, and taints.

Pods and nodes are records of the schema, or any objects with the same attributes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Record = Any
# Taints with another effect are preferences.
_FORBIDDING = frozenset({"NoSchedule", "NoExecute"})


def is_eligible(pod: Record, node: Record) -> bool:
    """Whether the node's domain counts for the pod (PodTopologySpread, both policies Honor).

    A cordoned node never counts, whatever the pod tolerates.
    """
    spec = node.spec
    if spec is not None and spec.unschedulable:
        return False
    return matches_affinity(pod, node) and tolerates(pod, node)


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
    return any(_matches_term(term, node) for term in required.nodeSelectorTerms or ())


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
    if (toleration.operator or "Equal") == "Exists":
        return True
    return bool(toleration.key) and (toleration.value or "") == (taint.value or "")


def _matches_term(term: Record, node: Record) -> bool:
    """Whether the node matches a term. A term without requirements matches no node."""
    expressions = term.matchExpressions or ()
    fields = term.matchFields or ()
    if not expressions and not fields:
        return False
    return _match_all(expressions, node.labels) and _match_all(fields, {"metadata.name": node.name})


def _match_all(requirements: Iterable[Record], values: Mapping[str, str]) -> bool:
    return all(_matches(requirement, values.get(requirement.key)) for requirement in requirements)


def _matches(requirement: Record, value: str | None) -> bool:
    wanted = requirement.values or ()
    match requirement.operator:
        case "In":
            return value is not None and value in wanted
        case "NotIn":
            return value is None or value not in wanted
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compares(requirement.operator, value, wanted)
        case _:
            return False


def _compares(operator: str, value: str | None, wanted: Iterable[str]) -> bool:
    try:
        (bound,) = wanted
        left, right = int(value or ""), int(bound)
    except ValueError:
        return False
    return left > right if operator == "Gt" else left < right
