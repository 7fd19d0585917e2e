"""PodGroup: a group of pods of an API, with the number of them that is to be placed together.

Two APIs have such objects. Kubernetes has one behind a feature gate (scheduling.k8s.io: v1alpha2 of
1.36, v1beta1 and v1alpha3 of 1.37), which a pod names in `spec.schedulingGroup`. coscheduling of
scheduler-plugins has a definition of its own (scheduling.x-k8s.io/v1alpha1), which a pod names by a
label. A cluster may serve none of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from engine.objects.api_types import ObjectMeta, SchedulingGroup
from engine.objects.decoding import JsonInt, ObjectDecoder

KUBERNETES, COSCHEDULING = "scheduling.k8s.io", "scheduling.x-k8s.io"
# The versions that have it, in which the fields that count are the same; the newest first.
GROUP_VERSIONS = {KUBERNETES: ("v1beta1", "v1alpha3", "v1alpha2"), COSCHEDULING: ("v1alpha1",)}
# The label of a pod with the name of its group of coscheduling.
LABEL = "scheduling.x-k8s.io/pod-group"


class GroupName(NamedTuple):
    """The group that a pod names: an API group of those above, and a name in its namespace."""

    api: str
    name: str


class PodGroup(msgspec.Struct, frozen=True, gc=False):
    """A group as policies see it: attributes are the fields of the schema's PodGroup.

    `minCount` is None where the group is not known, or is no gang. `topology` is the key of a label
    of nodes: all members share its value; empty without one. `priority` is None where it says none.
    Its members go together or not at all where it is disrupted `whole`. `parent` is the group of
    groups that has it, or empty. `deleted` says that only finalizers keep the group.
    """

    name: str
    minCount: int | None = None
    topology: str = ""
    priority: int | None = None
    whole: bool = False
    parent: str = ""
    deleted: bool = False


class _Gang(msgspec.Struct, frozen=True, gc=False):
    minCount: JsonInt | None = None


class _SchedulingPolicy(msgspec.Struct, frozen=True, gc=False):
    gang: _Gang | None = None


class _Topology(msgspec.Struct, frozen=True, gc=False):
    key: str | None = None


class _Constraints(msgspec.Struct, frozen=True, gc=False):
    topology: tuple[_Topology, ...] | None = None


class _GroupSpec(msgspec.Struct, frozen=True, gc=False):
    """Spec of a group, with the fields of both APIs."""

    schedulingPolicy: _SchedulingPolicy | None = None
    schedulingConstraints: _Constraints | None = None
    priority: JsonInt | None = None
    # A word in 1.36, and an object since.
    disruptionMode: str | dict[str, msgspec.Raw] | None = None
    parentCompositePodGroupName: str | None = None
    minMember: JsonInt | None = None


class _SlimGroup(msgspec.Struct, frozen=True, gc=False):
    metadata: ObjectMeta | None = None
    spec: _GroupSpec | None = None


_GROUP = ObjectDecoder("PodGroup", _SlimGroup)


def group_name(group: SchedulingGroup | None, labels: Mapping[str, str]) -> GroupName | None:
    """The group that a pod names by its `spec.schedulingGroup`, else by its label."""
    if group is not None and group.podGroupName:
        return GroupName(KUBERNETES, group.podGroupName)
    named = labels.get(LABEL)
    return GroupName(COSCHEDULING, named) if named else None


def own_group(namespace: str, group: GroupName | None) -> str:
    """The group of Kubernetes that a pod names, as `namespace/name`; empty without one."""
    return f"{namespace}/{group.name}" if group is not None and group.api == KUBERNETES else ""


def decode_group(data: bytes | msgspec.Raw) -> PodGroup:
    """The group of an object's JSON, of either API. Raises BadObjectError, naming the path."""
    slim = _GROUP.decode(data)
    metadata, spec = slim.metadata or ObjectMeta(), slim.spec or _GroupSpec()
    gang = spec.schedulingPolicy.gang if spec.schedulingPolicy is not None else None
    number = gang.minCount if gang is not None else spec.minMember
    constraints = spec.schedulingConstraints or _Constraints()
    # kube-scheduler goes by the first one; the API allows no more.
    keys = [each.key for each in constraints.topology or () if each.key]
    number = number if number and number > 0 else None
    return PodGroup(
        name=metadata.name or "",
        minCount=number,
        topology=next(iter(keys), ""),
        priority=spec.priority,
        whole=spec.disruptionMode == "PodGroup" or "all" in (spec.disruptionMode or ()),
        parent=spec.parentCompositePodGroupName or "",
        deleted=metadata.deletionTimestamp is not None,
    )
