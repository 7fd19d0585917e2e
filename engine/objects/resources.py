"""Resources: requests and limits of a pod, summed exactly as kube-scheduler 1.36 does; and quotas.

The rules come from resourcehelper.PodRequests and PodLimits (k8s.io/component-helpers/resource)
with the options of kube-scheduler's NodeInfo: sidecars (KEP-753), pod-level resources (KEP-2837),
in-place resize (KEP-1287, KEP-5419). `tests/contract/pod_resources.json` has the answers of both.
Resources of DRA claims in the pod's status (KEP-5517) are left out, because their feature gate is
off by default.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec

from engine.objects.api_types import (
    Amounts,
    Container,
    ContainerStatus,
    PodSpec,
    PodStatus,
    ResourceRequirements,
)
from engine.objects.decoding import ObjectDecoder
from grammar.values.quantity import NANO, Quantity, Resources

CPU, MEMORY, PODS = "cpu", "memory", "pods"
# 64 PiB of memory; a hundred times as much is still an int64.
MOST_AMOUNT = 2**56
_ONE = Quantity.parse("1")


class PodRequests(Resources):
    """The requests of a pod. `pods` reads as 1, because a pod takes one of the node's `pods`.

    `pods` is not a key, because kube-scheduler does not sum it: a pod without requests has an empty
    map.
    """

    __slots__ = ()

    def __missing__(self, resource: str) -> Quantity:
        return _ONE if resource == "pods" else Quantity.ZERO


def amount(resource: str, quantity: Quantity) -> int:
    """The amount in kube-scheduler's units: cpu in thousandths, others in ones, rounded up."""
    unit = NANO // 1000 if resource == CPU else NANO
    return max(0, min(-(-quantity.nanos // unit), MOST_AMOUNT))


def needs(requests: Mapping[str, Quantity]) -> dict[str, int]:
    """What a pod with these requests takes of each resource, with one of `pods`."""
    amounts = {name: amount(name, each) for name, each in requests.items()}
    return {name: taken for name, taken in amounts.items() if taken} | {PODS: 1}


def pod_requests(spec: PodSpec | None, status: PodStatus | None) -> PodRequests:
    """The requests of a pod, overhead included, without defaults for absent resources.

    Takes the slim structs, or any objects with the same attributes. The status has the amounts of
    a resize in place.
    """
    total = PodRequests()
    if spec is not None:
        _Sum("requests", status).fill(total, spec)
        add_amounts(total, spec.overhead or {})
    return total


def pod_limits(spec: PodSpec | None, status: PodStatus | None) -> dict[str, Quantity]:
    """The limits of a pod. Overhead is added to limits that are present and not zero."""
    total: dict[str, Quantity] = {}
    if spec is not None:
        _Sum("limits", status).fill(total, spec)
        overhead = spec.overhead or {}
        add_amounts(
            total, {r: more for r, more in overhead.items() if r in total and total[r].nanos}
        )
    return total


def total_requests(pods: Iterable[Mapping[str, Quantity]]) -> Resources:
    """The sum of the requests of several pods; `pods` is the number of pods."""
    total, counted = Resources(), [*pods]
    for requests in counted:
        add_amounts(total, requests)
    total["pods"] = Quantity.parse(str(len(counted)))
    return total


class _Sum:
    """The sum of the requests or of the limits of one pod."""

    def __init__(self, side: Literal["requests", "limits"], status: PodStatus | None) -> None:
        self._requests = side == "requests"
        self._status = status
        self._containers: dict[str | None, ContainerStatus] = {}
        self._is_infeasible = False
        if status is not None:
            both = (status.containerStatuses or (), status.initContainerStatuses or ())
            self._containers = {container.name: container for part in both for container in part}
            self._is_infeasible = any(
                each.type == "PodResizePending" and each.reason == "Infeasible"
                for each in status.conditions or ()
            )

    def fill(self, total: Amounts, spec: PodSpec) -> None:
        """Write the sum of the containers to `total`; pod-level amounts replace it where allowed.

        Pod-level amounts are allowed for cpu, memory and huge pages.
        """
        # The larger of two sums: all containers with all sidecars, or the peak during init. An init
        # container runs beside the sidecars that were started before it, so the peak is the maximum
        # over init containers of their own amounts and those sidecars.
        for container in spec.containers or ():
            add_amounts(total, self._counted(container))
        sidecars: Amounts = {}
        peak: Amounts = {}
        for container in spec.initContainers or ():
            if container.restartPolicy == "Always":
                amounts = self._counted(container)
                add_amounts(total, amounts)
                add_amounts(sidecars, amounts)
                _raise(peak, sidecars)
            else:
                during = dict(self._amounts(container.resources))
                add_amounts(during, sidecars)
                _raise(peak, during)
        _raise(total, peak)
        declared = self._amounts(spec.resources)
        in_force = self._in_force(declared, self._status)
        for resource in declared:
            if resource in {"cpu", "memory"} or resource.startswith("hugepages-"):
                total[resource] = in_force.get(resource, Quantity.ZERO)

    def _counted(self, container: Container) -> Amounts:
        status = self._containers.get(container.name)
        return self._in_force(self._amounts(container.resources), status)

    def _in_force(self, declared: Amounts, status: ContainerStatus | PodStatus | None) -> Amounts:
        """The amounts that count: during a resize the larger of the declared and the actual ones.

        The declared amounts of an infeasible resize do not count.
        """
        if status is None or status.resources is None:
            return declared
        largest = {} if self._is_infeasible else dict(declared)
        _raise(largest, self._amounts(status.resources))
        if self._requests:  # the kubelet grants no limits
            _raise(largest, status.allocatedResources or {})
        return largest

    def _amounts(self, resources: ResourceRequirements | None) -> Amounts:
        if resources is None:
            return {}
        return (resources.requests if self._requests else resources.limits) or {}


def add_amounts(total: Amounts, amounts: Mapping[str, Quantity], sign: int = 1) -> None:
    """Adds amounts to sums, or takes away what was added before."""
    for resource, more in amounts.items():
        if (sum_ := total.get(resource)) is None:
            total[resource] = more
        else:  # as in Go's Quantity.Add, the first amount that is not zero gives the suffix
            suffix = sum_.suffix if sum_.nanos else more.suffix
            total[resource] = Quantity(sum_.nanos + sign * more.nanos, suffix)


def _raise(largest: Amounts, amounts: Mapping[str, Quantity]) -> None:
    for resource, amount in amounts.items():
        if (known := largest.get(resource)) is None or known < amount:
            largest[resource] = amount


# ---- quotas


class _QuotaStatus(msgspec.Struct, frozen=True, gc=False):
    hard: Amounts | None = None
    used: Amounts | None = None


class Quota(msgspec.Struct, frozen=True, gc=False):
    """Quota of a namespace: a ResourceQuota. With scopes it may be about other pods."""

    spec: dict[str, Any] | None = None
    status: _QuotaStatus = _QuotaStatus()

    def lacks(self, requests: PodRequests, limits: Mapping[str, Quantity]) -> str:
        """The resource without room for another pod, as `4 of 4 pods`; empty for none or scopes."""
        has_scopes = any(map((self.spec or {}).get, ("scopes", "scopeSelector")))
        hard = {} if has_scopes else self.status.hard or {}
        more = {**requests, PODS: _ONE, **{f"limits.{name}": each for name, each in limits.items()}}
        for name, most in sorted(hard.items()):
            taken = more.get(name.removeprefix("count/").removeprefix("requests."), Quantity.ZERO)
            used = (self.status.used or {}).get(name, Quantity.ZERO)
            if taken.nanos and used.nanos + taken.nanos > most.nanos:
                return f"{used} of {most} {name}"
        return ""


# The quota of an object's JSON. Raises BadObjectError, naming the path.
decode_quota = ObjectDecoder("ResourceQuota", Quota).decode
