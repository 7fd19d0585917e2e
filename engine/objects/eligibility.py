"""Node eligibility as in kube-scheduler: what its own plugins have against a node.

Cordons, taints, the node selector, required node affinity, ports of the node and resources are
known from nodes and pods. Volumes, devices, pod affinity and topology spread are not looked at.
Pods and nodes are records of the schema, or any objects with the same attributes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

from engine.objects.peer import EVERY_ADDRESS, HostPort
from engine.objects.resources import PODS, amount

Record = Any
# Taints with another effect are preferences.
_FORBIDDING = frozenset({"NoSchedule", "NoExecute"})
_CHOOSING = frozenset({"In", "NotIn"})
# A value that a label can have, and a number. A node's label has at most 63 characters.
_LABEL = re.compile(r"(?:(?:[A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_LONGEST = 63
_INTEGER = re.compile(r"[+-]?[0-9]{1,63}")

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
    if pod.hostPorts and _are_taken(pod.hostPorts, node):
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


def _are_taken(wanted: Iterable[HostPort], node: Record) -> bool:
    """Whether a pod on the node has one of these ports, of the same address or of every one."""
    taken = {(t.hostPort, t.protocol, t.hostIP) for each in node.pods or () for t in each.hostPorts}
    for port, protocol, address in taken:
        for each in wanted:
            if (each.hostPort, each.protocol) == (port, protocol) and (
                EVERY_ADDRESS in (address, each.hostIP) or address == each.hostIP
            ):
                return True
    return False


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


def bars(node: Record) -> frozenset[tuple[str, str]]:
    """What keeps pods from a node that do not tolerate it: a cordon, and taints."""
    spec = node.spec
    if spec is None:
        return frozenset()
    found = {(t.key, t.value or "") for t in spec.taints or () if t.effect in _FORBIDDING}
    return frozenset(found | {(_CORDON.key, "")} if spec.unschedulable else found)


# ---- whether the domain of a node counts


def is_eligible(pod: Record, node: Record) -> bool:
    """Whether the node's domain counts for the pod (PodTopologySpread, both policies Honor).

    A cordoned node never counts, whatever the pod tolerates.
    """
    spec = node.spec
    if spec is not None and spec.unschedulable:
        return False
    return matches_affinity(pod, node) and tolerates(pod, node)


def eligible_for(pod: Record) -> Callable[[Record], bool]:
    """`is_eligible` for one pod: most pods select no nodes, and most nodes have no taints."""
    spec = pod.spec
    if spec is not None and (spec.nodeSelector or (spec.affinity and spec.affinity.nodeAffinity)):
        return partial(is_eligible, pod)

    def counts(node: Record) -> bool:
        spec = node.spec
        if spec is None or not (spec.taints or spec.unschedulable):
            return True
        return is_eligible(pod, node)

    return counts


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
    operator = toleration.operator or "Equal"
    if operator == "Exists":
        return True
    # Gt and Lt have a feature gate, which is off by default: they tolerate nothing.
    if operator != "Equal":
        return False
    return bool(toleration.key) and (toleration.value or "") == (taint.value or "")


def _matches_term(term: Record, node: Record) -> bool:
    """Whether the node matches a term.

    A term without requirements matches no node, and neither does one with a requirement that is
    not valid: kube-scheduler drops the term and says nothing.
    """
    expressions = term.matchExpressions or ()
    fields = term.matchFields or ()
    if not expressions and not fields:
        return False
    if not all(_is_valid(each.operator, tuple(each.values or ())) for each in expressions):
        return False
    if not all(each.operator in _CHOOSING and len(each.values or ()) == 1 for each in fields):
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


def _is_valid(operator: str, values: tuple[str, ...]) -> bool:
    """Whether a requirement about labels can be (labels.NewRequirement).

    Every value must be one that a label can have, so `Gt` takes no negative number.
    """
    if operator in _CHOOSING:
        counts = bool(values)
    elif operator in ("Gt", "Lt"):
        counts = len(values) == 1 and _whole(values[0]) is not None
    else:
        counts = not values
    return counts and all(len(v) <= _LONGEST and _is_label(v) for v in values)


@lru_cache(4096)
def _is_label(value: str) -> bool:
    return _LABEL.fullmatch(value) is not None


def _compares(operator: str, value: str | None, wanted: Iterable[str]) -> bool:
    (bound,) = map(_whole, wanted)
    here = _whole(value or "")
    if here is None or bound is None:
        return False
    return here > bound if operator == "Gt" else here < bound


def _whole(text: str) -> int | None:
    """The int64 of a text as strconv.ParseInt reads it: no spaces, and no `_`."""
    if _INTEGER.fullmatch(text) is None:
        return None
    found = int(text)
    return found if -(2**63) <= found < 2**63 else None
