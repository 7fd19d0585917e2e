"""The gate: kube-scheduler asks Placet only about the pods of namespaces that opt in.

A new pod of a namespace that has opted in gets a marker: a request and a limit of 0 of an extended
resource, which kube-scheduler's `managedResources` name (C9). No node needs to have the resource,
because kube-scheduler and the kubelet skip an amount of 0. The marker cannot be added to a pod that
exists.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from engine.objects.peer import Peer

# The extended resource of the marker.
GATE = "placet.dev/gate"
# The label of a namespace that opts in. With the second value, its pods are not created unmarked.
OPT_IN = "placet.dev/scheduling"
ENABLED, STRICT = "enabled", "strict"
# A slash in a key is `~1` in a JSON pointer.
_ESCAPED = GATE.replace("/", "~1")


class _Resources(msgspec.Struct):
    requests: dict[str, msgspec.Raw] | None = None
    limits: dict[str, msgspec.Raw] | None = None

    @property
    def sides(self) -> Iterable[tuple[str, dict[str, msgspec.Raw] | None]]:
        return ("requests", self.requests), ("limits", self.limits)


class _Container(msgspec.Struct):
    resources: _Resources | None = None

    @property
    def is_marked(self) -> bool:
        sides = () if self.resources is None else self.resources.sides
        return any(GATE in (amounts or ()) for _, amounts in sides)


class _GatedSpec(msgspec.Struct, rename="camel"):
    scheduler_name: str = ""
    containers: tuple[_Container, ...] | None = None
    init_containers: tuple[_Container, ...] | None = None


class NewPod(msgspec.Struct):
    """New pod that is to be created, as far as it is read."""

    spec: _GatedSpec


def is_marked(pod: Peer) -> bool:
    """Whether kube-scheduler asks about the pod: the amount is not looked at."""
    return GATE in pod.requests or GATE in pod.limits


def marking(pod: NewPod) -> list[dict[str, Any]]:
    """The JSON patch that marks a pod in its first container; empty where it is marked already."""
    containers, others = pod.spec.containers or (), pod.spec.init_containers or ()
    if not containers or any(each.is_marked for each in (*containers, *others)):
        return []
    at, resources = "/spec/containers/0/resources", containers[0].resources
    if resources is None:
        return [_add(at, {side: {GATE: "0"} for side, _ in _Resources().sides})]
    return [
        _add(f"{at}/{side}", {GATE: "0"})
        if amounts is None
        else _add(f"{at}/{side}/{_ESCAPED}", "0")
        for side, amounts in resources.sides
    ]


def _add(path: str, value: object) -> dict[str, Any]:
    return {"op": "add", "path": path, "value": value}
