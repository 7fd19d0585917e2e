"""Resource structs of PlacementPolicy and ClusterPlacementPolicy, for v1 and v1alpha1.

The definitions for the API server are made from them, so that both accept the same objects; what
these say of each field stands in tests/support/definitions.txt. Every length is bounded: the API
server estimates the cost of its checks from the bounds, and refuses a schema whose checks could
cost too much.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from grammar.syntax.parser import MAX_BYTES
from grammar.tree.clause_parts import MOST_REPAIRS

STORED, ALPHA = "v1", "v1alpha1"
VERSIONS = (STORED, ALPHA)

# Weights up to this one are reserved.
RESERVED_WEIGHT = 100

# A prefix of at most 253 characters, a slash, and a name of at most 63.
_Key = Annotated[str, Meta(min_length=1, max_length=317)]
# The value of a label has at most 63 characters; that of an annotation may be longer.
_Value = Annotated[str, Meta(max_length=253)]
_Values = Annotated[tuple[_Value, ...], Meta(max_length=64)]
_Matches = Annotated[dict[_Key, _Value], Meta(max_length=64)]
_Rules = Annotated[str, Meta(max_length=MAX_BYTES)]
_Name = Annotated[str, Meta(min_length=1, max_length=63)]
# The whole numbers that every reader of JSON keeps exact.
_Int = Annotated[int, Meta(ge=-(2**53), le=2**53)]
_Parameter = bool | _Int | float | Annotated[str, Meta(max_length=253)]
_Parameters = Annotated[
    dict[_Name, _Parameter | Annotated[tuple[_Parameter, ...], Meta(max_length=32)]],
    Meta(max_length=64),
]
_Count = Annotated[int, Meta(ge=0, le=2**31 - 1)]


def read_json(data: bytes | str | msgspec.Raw, kind: Any = Any) -> Any:
    """The value of a JSON, None for what is no JSON of this kind, and for null."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


class Base(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The base of all parts. An unknown field is an error."""


class LabelRequirement(Base, frozen=True):
    """A requirement for the label of a key."""

    key: _Key
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: _Values = ()


class NodeRequirement(Base, frozen=True, order=True):
    """A requirement for a label of a node. Gt and Lt compare it with one whole number."""

    key: _Key
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    values: _Values = ()


class Selector(Base, frozen=True):
    """A selector: requirements that must all hold. An empty one selects everything."""

    matchLabels: _Matches | None = None
    matchExpressions: Annotated[tuple[LabelRequirement, ...], Meta(max_length=32)] = ()


class NodeSelector(Base, frozen=True):
    """A selector of nodes, whose requirements must all hold. An empty one is an error."""

    matchLabels: _Matches | None = None
    matchExpressions: Annotated[tuple[NodeRequirement, ...], Meta(max_length=32)] = ()


class BoundedTarget(Base, frozen=True):
    """A bound on the selected pods that run on the selected nodes."""

    targetSize: int | str
    action: Literal["Must", "MustNot"] = "Must"
    bound: Literal["Exactly", "AtMost", "AtLeast"] = "Exactly"
    rounding: Literal["Up", "Down"] | None = None


_TIME_OF_DAY = Meta(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$", max_length=5)
_Repairs = Annotated[int, Meta(ge=1, le=MOST_REPAIRS)]


class RepairWindow(Base, frozen=True):
    """A window of each day, in UTC."""

    begins: Annotated[str, _TIME_OF_DAY]
    ends: Annotated[str, _TIME_OF_DAY]


class RepairSpec(Base, frozen=True):
    """The repair of drift: how pods may be evicted."""

    perMinute: _Repairs
    atOnce: _Repairs = 1
    evictsLocalData: bool = False
    between: RepairWindow | None = None


class Spec(Base, frozen=True):
    """The spec of a policy."""

    podSelector: Selector | None = None
    nodeSelector: NodeSelector | None = None
    annotationSelector: NodeSelector | None = None
    placementPolicy: BoundedTarget | None = None
    policy: BoundedTarget | None = None
    weight: Annotated[int, Meta(le=2**31 - 1)] = RESERVED_WEIGHT + 1
    enforcementMode: Literal["BestEffort", "Strict", "Audit"] = "BestEffort"
    failurePolicy: Literal["Fail", "Ignore"] = "Fail"
    portable: bool = False
    repair: RepairSpec | None = None
    parameters: _Parameters | None = None
    rules: _Rules | None = None

    @property
    def target(self) -> BoundedTarget | None:
        """The declarative part, under either of its names."""
        return self.placementPolicy or self.policy


class ClusterSpec(Spec, frozen=True):
    """The spec of a guardrail."""

    namespaceSelector: Selector | None = None


class StatusCondition(Base, frozen=True):
    """A condition of the status: true, false or unknown."""

    type: Annotated[str, Meta(max_length=316)]
    status: Literal["True", "False", "Unknown"]
    reason: Annotated[str, Meta(max_length=1024)]
    message: Annotated[str, Meta(max_length=32768)]
    lastTransitionTime: Annotated[str, Meta(max_length=64)]
    observedGeneration: int = 0


class VersionInForce(Base, frozen=True):
    """The last valid version."""

    generation: int
    rules: _Rules = ""
    parameters: _Parameters | None = None


class AuditedPodStatus(Base, frozen=True):
    """A pod that a policy in audit mode would have rejected.

    Like the fields of AuditStatus, these have no defaults: a merge patch then has all of them.
    """

    pod: Annotated[str, Meta(max_length=512)]
    workload: Annotated[str, Meta(max_length=316)]
    clause: Annotated[str, Meta(max_length=1024)]
    since: Annotated[str, Meta(max_length=64)]
    node: Annotated[str, Meta(max_length=253)]


class AuditStatus(Base, frozen=True):
    """What a policy in audit mode would have done. It is written at most once a minute."""

    since: Annotated[str, Meta(max_length=64)]
    waitingPods: _Count
    workloads: _Count
    elsewherePods: _Count
    lastPods: Annotated[tuple[AuditedPodStatus, ...], Meta(max_length=10)]


class PolicyStatus(Base, frozen=True):
    """The status of a policy."""

    observedGeneration: int = 0
    conditions: Annotated[tuple[StatusCondition, ...], Meta(max_length=16)] = ()
    inForce: VersionInForce | None = None
    mode: Annotated[str, Meta(max_length=64)] = ""
    target: Annotated[str, Meta(max_length=256)] = ""
    matchedPods: _Count | None = None
    placedPods: _Count | None = None
    targetPods: _Count | None = None
    violations: _Count | None = None
    driftedPods: _Count | None = None
    ungatedPods: _Count | None = None
    outdatedPods: _Count | None = None
    waitingGangs: _Count | None = None
    gatheringGangs: _Count | None = None
    givenUpGangs: _Count | None = None
    audit: AuditStatus | None = None
    diagnostics: Annotated[
        tuple[Annotated[str, Meta(max_length=1024)], ...], Meta(max_length=64)
    ] = ()


class Metadata(Struct, frozen=True):
    """The metadata of an object, as far as Placet reads it."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    generation: int = 0
    resourceVersion: str = ""
    creationTimestamp: str = ""


class PlacementPolicy(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A policy of one namespace."""

    apiVersion: str
    kind: Literal["PlacementPolicy"]
    metadata: Metadata
    spec: Spec
    status: PolicyStatus | None = None


class ClusterPlacementPolicy(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A guardrail: a policy of all namespaces, or of the namespaces that it selects."""

    apiVersion: str
    kind: Literal["ClusterPlacementPolicy"]
    metadata: Metadata
    spec: ClusterSpec
    status: PolicyStatus | None = None


Manifest = PlacementPolicy | ClusterPlacementPolicy
KINDS: dict[str, type[Manifest]] = {
    "PlacementPolicy": PlacementPolicy,
    "ClusterPlacementPolicy": ClusterPlacementPolicy,
}
