"""Resource structs of PlacementPolicy and ClusterPlacementPolicy, for v1 and v1alpha1.

The definitions for the API server are made from them, so that both accept the same objects. Every
length is bounded: the API server estimates the cost of its checks from the bounds, and refuses a
schema whose checks could cost too much.
"""

from __future__ import annotations

from typing import Annotated, Literal

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
_Matches = Annotated[
    dict[_Key, _Value], Meta(max_length=64, description="The required value of each key.")
]
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

    targetSize: Annotated[
        int | str, Meta(description="A count of pods, or a percentage of them: 3, 40%.")
    ]
    action: Annotated[
        Literal["Must", "MustNot"],
        Meta(description="Whether this number of pods must, or must not, be on the nodes."),
    ] = "Must"
    bound: Annotated[
        Literal["Exactly", "AtMost", "AtLeast"],
        Meta(
            description="Whether the number of pods on the nodes is exact, a maximum or a minimum."
        ),
    ] = "Exactly"
    rounding: Annotated[
        Literal["Up", "Down"] | None,
        Meta(
            description="How a percentage that is no whole number of pods on the nodes is rounded;"
            " by default Up for AtLeast, else Down."
        ),
    ] = None


_TIME_OF_DAY = Meta(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$", max_length=5)
_Repairs = Annotated[int, Meta(ge=1, le=MOST_REPAIRS, extra_json_schema={"format": "int32"})]


class RepairWindow(Base, frozen=True):
    """A window of each day, in UTC."""

    begins: Annotated[str, _TIME_OF_DAY]
    ends: Annotated[str, _TIME_OF_DAY]


class RepairSpec(Base, frozen=True):
    """The repair of drift: how pods may be evicted."""

    perMinute: Annotated[_Repairs, Meta(description="The most evictions of a minute.")]
    atOnce: Annotated[
        _Repairs, Meta(description="The most pods that are on their way to another node.")
    ] = 1
    evictsLocalData: Annotated[
        bool, Meta(description="Whether pods with an emptyDir or a hostPath may be evicted.")
    ] = False
    between: Annotated[
        RepairWindow | None, Meta(description="The time of the day when pods may be evicted.")
    ] = None


class Spec(Base, frozen=True):
    """The spec of a policy."""

    podSelector: Annotated[
        Selector | None, Meta(description="The pods that the policy is about.")
    ] = None
    nodeSelector: Annotated[
        NodeSelector | None,
        Meta(description="The nodes that placementPolicy is about, by their labels."),
    ] = None
    annotationSelector: Annotated[
        NodeSelector | None,
        Meta(
            description="The nodes that placementPolicy is about, by their annotations; with a"
            " nodeSelector, those that both select."
        ),
    ] = None
    placementPolicy: Annotated[
        BoundedTarget | None, Meta(description="How many of the pods go on the nodes.")
    ] = None
    policy: Annotated[
        BoundedTarget | None,
        Meta(description="The name of placementPolicy in v1alpha1. Give only one of them."),
    ] = None
    weight: Annotated[
        int,
        Meta(
            le=2**31 - 1,
            description="Of several policies that select a pod, the one with the greatest weight"
            " applies.",
            extra_json_schema={"format": "int32"},
        ),
    ] = RESERVED_WEIGHT + 1
    enforcementMode: Annotated[
        Literal["BestEffort", "Strict", "Audit"],
        Meta(
            description="Whether placementPolicy is a preference, or a condition that keeps pods"
            " pending. Audit only reports what placementPolicy and the rules would have done."
        ),
    ] = "BestEffort"
    failurePolicy: Annotated[
        Literal["Fail", "Ignore"],
        Meta(
            description="Whether a rule that cannot be evaluated rejects the nodes or is ignored."
        ),
    ] = "Fail"
    portable: Annotated[
        bool,
        Meta(
            description="Whether new pods get what can be said of the policy in Kubernetes' own"
            " words, such as node affinity, so that autoscalers see it."
        ),
    ] = False
    repair: Annotated[
        RepairSpec | None,
        Meta(
            description="Whether pods that break its clauses where they are may be evicted, once"
            " there is another node for each; without it, drift is only reported."
        ),
    ] = None
    parameters: Annotated[
        _Parameters | None,
        Meta(
            description="Values for parameters of the policies that the rules use, where a use"
            " does not set them."
        ),
    ] = None
    rules: Annotated[
        _Rules | None,
        Meta(description="Clauses of the policy language, each with its own strictness."),
    ] = None

    @property
    def target(self) -> BoundedTarget | None:
        """The declarative part, under either of its names."""
        return self.placementPolicy or self.policy


class ClusterSpec(Spec, frozen=True):
    """The spec of a guardrail."""

    namespaceSelector: Annotated[
        Selector | None,
        Meta(description="The namespaces whose pods the policy is about; without it, all of them."),
    ] = None


class StatusCondition(Base, frozen=True):
    """A condition of the status: true, false or unknown."""

    type: Annotated[str, Meta(max_length=316)]
    status: Literal["True", "False", "Unknown"]
    reason: Annotated[str, Meta(max_length=1024)]
    message: Annotated[str, Meta(max_length=32768)]
    lastTransitionTime: Annotated[
        str, Meta(max_length=64, extra_json_schema={"format": "date-time"})
    ]
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
    clause: Annotated[
        str, Meta(max_length=1024, description="The clause that rejects most of its nodes.")
    ]
    since: Annotated[str, Meta(max_length=64, extra_json_schema={"format": "date-time"})]
    node: Annotated[
        str,
        Meta(
            max_length=253,
            description="The node that the pod went to in spite of the policy, as far as known.",
        ),
    ]


class AuditStatus(Base, frozen=True):
    """What a policy in audit mode would have done. It is written at most once a minute."""

    since: Annotated[str, Meta(max_length=64, extra_json_schema={"format": "date-time"})]
    waitingPods: Annotated[
        _Count, Meta(description="The pods that the policy would have kept pending.")
    ]
    workloads: Annotated[_Count, Meta(description="The workloads of these pods.")]
    elsewherePods: Annotated[
        _Count, Meta(description="The pods on a node that the policy would have rejected.")
    ]
    lastPods: Annotated[
        tuple[AuditedPodStatus, ...],
        Meta(max_length=10, description="The last of all these pods, the newest first."),
    ]


class PolicyStatus(Base, frozen=True):
    """The status of a policy."""

    observedGeneration: int = 0
    conditions: Annotated[
        tuple[StatusCondition, ...],
        Meta(
            max_length=16,
            extra_json_schema={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"],
            },
        ),
    ] = ()
    inForce: VersionInForce | None = None
    mode: Annotated[
        str,
        Meta(
            max_length=64,
            description="Whether its clauses keep pods off nodes (Strict), prefer nodes"
            " (BestEffort), or both, or only report (Audit).",
        ),
    ] = ""
    target: Annotated[
        str,
        Meta(
            max_length=256,
            description="The bounds of its shares, and its other clauses by their kinds.",
        ),
    ] = ""
    matchedPods: Annotated[_Count | None, Meta(description="The pods that the policy selects.")] = (
        None
    )
    placedPods: Annotated[
        _Count | None, Meta(description="Those of them that are on the selected nodes.")
    ] = None
    targetPods: Annotated[
        _Count | None, Meta(description="The number of pods that placementPolicy asks for there.")
    ] = None
    violations: Annotated[
        _Count | None, Meta(description="The difference between the two, in pods.")
    ] = None
    driftedPods: Annotated[
        _Count | None,
        Meta(
            description="The pods on nodes that break one of its clauses now; a pod counts once for"
            " each kind of clause."
        ),
    ] = None
    ungatedPods: Annotated[
        _Count | None,
        Meta(
            description="Those of them that were created without the marker of the gate, so that"
            " kube-scheduler did not ask about them."
        ),
    ] = None
    earlyPods: Annotated[
        _Count | None,
        Meta(
            description="Those of them that were created after the policy, and placed before it was"
            " in force for the first time."
        ),
    ] = None
    outdatedPods: Annotated[
        _Count | None,
        Meta(
            description="Those of them that are pending, and were told of another version of the"
            " policy when they were created."
        ),
    ] = None
    waitingGangs: Annotated[
        _Count | None, Meta(description="The gangs of its pods that wait without a place.")
    ] = None
    gatheringGangs: Annotated[
        _Count | None,
        Meta(
            description="The gangs that have their places, whose members are held until all come."
        ),
    ] = None
    givenUpGangs: Annotated[
        _Count | None,
        Meta(description="The gangs that were given up last, and that are tried again."),
    ] = None
    audit: AuditStatus | None = None
    diagnostics: Annotated[
        tuple[Annotated[str, Meta(max_length=1024)], ...],
        Meta(
            max_length=64,
            description="The errors and warnings of the policy, with their positions.",
        ),
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
