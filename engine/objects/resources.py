"""What a pod asks for, summed exactly as kube-scheduler 1.36 does.

The rules are those of resourcehelper.PodRequests and PodLimits (k8s.io/component-helpers/resource)
with the options of kube-scheduler's NodeInfo: sidecars (KEP-753), pod-level resources (KEP-2837),
in-place resize (KEP-1287, KEP-5419). `tests/contract/pod_resources.json` holds both to the same
answers. Left out, as its gate is off by default: resources of DRA claims in the pod's status
(KEP-5517).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from engine.objects.api_types import Amounts, Container, ContainerStatus, Requirements, Spec, Status
from grammar.values.quantity import Quantity

_ONE = Quantity.parse("1")


class Resources(dict[str, Quantity]):
    """Amounts by resource name; one that is not named reads as 0.

    Shared between objects: never written to once handed out.
    """

    __slots__ = ()

    def __missing__(self, resource: str) -> Quantity:
        return Quantity.ZERO


class PodRequests(Resources):
    """A pod's requests. As every pod also takes up one of the node's `pods`, that reads as 1.

    It is not among the keys, as it is not in what kube-scheduler sums: a pod that asks for nothing
    has an empty map.
    """

    __slots__ = ()

    def __missing__(self, resource: str) -> Quantity:
        return _ONE if resource == "pods" else Quantity.ZERO


def pod_requests(spec: Spec | None, status: Status | None) -> PodRequests:
    """What the pod asks for, overhead included; no defaults for what it does not name.

    Takes the slim form, or any objects with the same attributes. The status tells of a resize in
    place.
    """
    total = PodRequests()
    if spec is not None:
        _Sum("requests", status).fill(total, spec)
        _add(total, spec.overhead or {})
    return total


def pod_limits(spec: Spec | None, status: Status | None) -> dict[str, Quantity]:
    """The most that the pod may use. Overhead is added to limits that are there and not zero."""
    total: dict[str, Quantity] = {}
    if spec is not None:
        _Sum("limits", status).fill(total, spec)
        overhead = spec.overhead or {}
        _add(total, {r: more for r, more in overhead.items() if r in total and total[r].nanos})
    return total


def total_requests(pods: Iterable[Mapping[str, Quantity]]) -> Resources:
    """What pods with these requests ask for together; `pods` is how many they are."""
    total = Resources()
    count = 0
    for requests in pods:
        count += 1
        _add(total, requests)
    total["pods"] = Quantity.parse(str(count))
    return total


class _Sum:
    """Sums one side of a pod, its requests or its limits."""

    def __init__(self, side: Literal["requests", "limits"], status: Status | None) -> None:
        self._requests = side == "requests"
        self._status = status
        self._containers: dict[str | None, ContainerStatus] = {}
        self._is_infeasible = False
        if status is not None:
            both = (status.containerStatuses or (), status.initContainerStatuses or ())
            self._containers = {container.name: container for part in both for container in part}
            self._is_infeasible = _is_resize_infeasible(status)

    def fill(self, total: Amounts, spec: Spec) -> None:
        """Add up the containers, and replace what the pod says for itself where it may."""
        self._add_containers(total, spec)
        wanted = self._amounts(spec.resources)
        in_force = self._in_force(wanted, self._status)
        for resource in wanted:
            if resource in {"cpu", "memory"} or resource.startswith("hugepages-"):
                total[resource] = in_force.get(resource, Quantity.ZERO)

    def _add_containers(self, total: Amounts, spec: Spec) -> None:
        """The larger of what runs for good and what runs during any one init container.

        An init container runs beside the sidecars that were started before it.
        """
        for container in spec.containers or ():
            _add(total, self._counted(container))
        sidecars: Amounts = {}
        peak: Amounts = {}
        for container in spec.initContainers or ():
            if container.restartPolicy == "Always":
                amounts = self._counted(container)
                _add(total, amounts)
                _add(sidecars, amounts)
                _raise(peak, sidecars)
            else:
                during = dict(self._amounts(container.resources))
                _add(during, sidecars)
                _raise(peak, during)
        _raise(total, peak)

    def _counted(self, container: Container) -> Amounts:
        return self._in_force(
            self._amounts(container.resources), self._containers.get(container.name)
        )

    def _in_force(self, wanted: Amounts, status: ContainerStatus | Status | None) -> Amounts:
        """While a resize is under way the larger amounts count; but not what can never be had."""
        if status is None or status.resources is None:
            return wanted
        largest = {} if self._is_infeasible else dict(wanted)
        _raise(largest, self._amounts(status.resources))
        if self._requests:  # the kubelet grants no limits
            _raise(largest, status.allocatedResources or {})
        return largest

    def _amounts(self, own: Requirements | None) -> Amounts:
        if own is None:
            return {}
        return (own.requests if self._requests else own.limits) or {}


def _is_resize_infeasible(status: Status) -> bool:
    for condition in status.conditions or ():
        if condition.type == "PodResizePending":
            return condition.reason == "Infeasible"
    return False


def _add(total: Amounts, amounts: Mapping[str, Quantity]) -> None:
    for resource, more in amounts.items():
        there = total.get(resource)
        if there is None:
            total[resource] = more
        else:  # shown with the suffix of the first that is not zero, as Go's Quantity.Add has it
            suffix = there.suffix if there.nanos else more.suffix
            total[resource] = Quantity(there.nanos + more.nanos, suffix)


def _raise(largest: Amounts, amounts: Mapping[str, Quantity]) -> None:
    for resource, amount in amounts.items():
        there = largest.get(resource)
        if there is None or there < amount:
            largest[resource] = amount
