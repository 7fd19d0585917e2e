"""Plugins of kube-scheduler 1.36: their extension points and defaults, and what came before them.

The source of the predicates and priorities is kube-scheduler 1.22, the last one that reads a
Policy: it turns each of them into plugins (pkg/scheduler/framework/plugins/legacy_registry.go).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

# The extension points of each plugin, besides `multiPoint`, which has all of them.
POINTS_OF: Mapping[str, frozenset[str]] = {
    name: frozenset(points.split())
    for name, points in {
        "SchedulingGates": "preEnqueue",
        "PrioritySort": "queueSort",
        "NodeUnschedulable": "filter",
        "NodeName": "filter",
        "TaintToleration": "filter preScore score",
        "NodeAffinity": "preFilter filter preScore score",
        "NodePorts": "preFilter filter",
        "NodeResourcesFit": "preFilter filter preScore score placementScore",
        "VolumeRestrictions": "preFilter filter",
        "NodeVolumeLimits": "preFilter filter",
        "VolumeBinding": "preFilter filter preScore score reserve preBind",
        "VolumeZone": "preFilter filter",
        "PodTopologySpread": "preFilter filter preScore score",
        "InterPodAffinity": "preFilter filter preScore score",
        "DynamicResources": "preEnqueue preFilter filter postFilter score reserve preBind",
        "DefaultPreemption": "preEnqueue postFilter",
        "NodeResourcesBalancedAllocation": "preScore score",
        "ImageLocality": "score",
        "DefaultBinder": "bind",
        "NodeDeclaredFeatures": "preFilter filter",
        "GangScheduling": "preEnqueue permit",
        "TopologyPlacementGenerator": "placementGenerate",
        "PodGroupPodsCount": "placementScore",
    }.items()
}
# The plugins that are on by default, in their order, with the weight of each that scores.
DEFAULTS: Mapping[str, int] = {
    "SchedulingGates": 0,
    "PrioritySort": 0,
    "NodeUnschedulable": 0,
    "NodeName": 0,
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodePorts": 0,
    "NodeResourcesFit": 1,
    "VolumeRestrictions": 0,
    "NodeVolumeLimits": 0,
    "VolumeBinding": 0,
    "VolumeZone": 0,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "DynamicResources": 2,
    "DefaultPreemption": 0,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
    "DefaultBinder": 0,
    "NodeDeclaredFeatures": 0,
}
# The first minor version that has one of these, if there are earlier ones that read version v1.
FIRST_MINOR: Mapping[str, int] = {"NodeDeclaredFeatures": 35}
MULTI_POINT = "multiPoint"
POINTS = (
    "preEnqueue queueSort preFilter filter postFilter preScore score reserve permit preBind bind "
    "postBind placementGenerate placementScore"
).split()

# ---- predicates, priorities and plugins of earlier versions

# The plugins that a Policy turns off by not naming their predicate or priority. Other plugins came
# later, or a Policy always has them.
FILTERS = (
    "NodeName",
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "VolumeRestrictions",
    "NodeVolumeLimits",
    "VolumeBinding",
    "VolumeZone",
    "PodTopologySpread",
    "InterPodAffinity",
)
SCORES = (
    "TaintToleration",
    "NodeAffinity",
    "NodeResourcesFit",
    "PodTopologySpread",
    "InterPodAffinity",
    "NodeResourcesBalancedAllocation",
    "ImageLocality",
)

_LIMITS = "NodeVolumeLimits counts the volumes of CSI drivers, to which in-tree volumes have moved"
_TAINTS = "the node controller has made the condition a taint since 1.12"
_NO_PLUGIN = "kube-scheduler 1.36 has no plugin for it"


@dataclass(frozen=True, slots=True)
class Successor:
    """The plugins that do the work today, possibly none; `strategy` is that of NodeResourcesFit.

    `why` says what is different. `clause` is what a policy of Placet can say instead.
    """

    plugins: tuple[str, ...] = ()
    strategy: str = ""
    why: str = ""
    clause: str = ""


PREDICATES: Mapping[str, Successor] = {
    "CheckNodeUnschedulable": Successor(("NodeUnschedulable",)),
    "GeneralPredicates": Successor(("NodeResourcesFit", "NodeName", "NodePorts", "NodeAffinity")),
    "HostName": Successor(("NodeName",)),
    "PodFitsHostPorts": Successor(("NodePorts",)),
    "PodFitsPorts": Successor(("NodePorts",)),
    "MatchNodeSelector": Successor(("NodeAffinity",)),
    "PodFitsResources": Successor(("NodeResourcesFit",)),
    "NoDiskConflict": Successor(("VolumeRestrictions",)),
    "PodToleratesNodeTaints": Successor(("TaintToleration",)),
    "CheckNodeCondition": Successor(("TaintToleration",), why=_TAINTS),
    "CheckNodeMemoryPressure": Successor(("TaintToleration",), why=_TAINTS),
    "CheckNodeDiskPressure": Successor(("TaintToleration",), why=_TAINTS),
    "CheckNodePIDPressure": Successor(("TaintToleration",), why=_TAINTS),
    "MaxEBSVolumeCount": Successor(("NodeVolumeLimits",), why=_LIMITS),
    "MaxGCEPDVolumeCount": Successor(("NodeVolumeLimits",), why=_LIMITS),
    "MaxAzureDiskVolumeCount": Successor(("NodeVolumeLimits",), why=_LIMITS),
    "MaxCinderVolumeCount": Successor(("NodeVolumeLimits",), why=_LIMITS),
    "MaxCSIVolumeCountPred": Successor(("NodeVolumeLimits",)),
    "CheckVolumeBinding": Successor(("VolumeBinding",)),
    "NoVolumeZoneConflict": Successor(("VolumeZone",)),
    "EvenPodsSpread": Successor(("PodTopologySpread",)),
    "MatchInterPodAffinity": Successor(("InterPodAffinity",)),
    "CheckNodeLabelPresence": Successor(
        ("NodeAffinity",), why="the labels are in `addedAffinity`, of which DaemonSets know nothing"
    ),
    "CheckServiceAffinity": Successor(
        why=_NO_PLUGIN, clause='filter "same" { require node.labels["KEY"] == "VALUE" }'
    ),
}
PRIORITIES: Mapping[str, Successor] = {
    "LeastRequestedPriority": Successor(("NodeResourcesFit",), strategy="LeastAllocated"),
    "MostRequestedPriority": Successor(("NodeResourcesFit",), strategy="MostAllocated"),
    "RequestedToCapacityRatioPriority": Successor(
        ("NodeResourcesFit",), strategy="RequestedToCapacityRatio"
    ),
    "BalancedResourceAllocation": Successor(("NodeResourcesBalancedAllocation",)),
    "SelectorSpreadPriority": Successor(
        ("PodTopologySpread",), why="its default constraints spread the pods of a workload"
    ),
    "ServiceSpreadingPriority": Successor(
        ("PodTopologySpread",), why="its default constraints spread the pods of a workload"
    ),
    "EvenPodsSpreadPriority": Successor(("PodTopologySpread",)),
    "InterPodAffinityPriority": Successor(("InterPodAffinity",)),
    "NodeAffinityPriority": Successor(("NodeAffinity",)),
    "TaintTolerationPriority": Successor(("TaintToleration",)),
    "ImageLocalityPriority": Successor(("ImageLocality",)),
    "EqualPriority": Successor(why="it gives every node the same"),
    "NodePreferAvoidPodsPriority": Successor(
        why=_NO_PLUGIN,
        clause='score "avoid" weight -100 '
        '{ value has(node.annotations["scheduler.alpha.kubernetes.io/preferAvoidPods"]) }',
    ),
    "LabelPreference": Successor(
        why=_NO_PLUGIN, clause='score "label" weight 10 { value has(node.labels["KEY"]) }'
    ),
    "ServiceAntiAffinity": Successor(
        why=_NO_PLUGIN,
        clause='spread "apart" { over node.labels["KEY"] skew at most 1 best effort weight 10 }',
    ),
}
# Plugins of the framework that 1.36 does not have.
PLUGINS: Mapping[str, Successor] = {
    "NodeResourcesLeastAllocated": PRIORITIES["LeastRequestedPriority"],
    "NodeResourcesMostAllocated": PRIORITIES["MostRequestedPriority"],
    "RequestedToCapacityRatio": PRIORITIES["RequestedToCapacityRatioPriority"],
    "SelectorSpread": PRIORITIES["SelectorSpreadPriority"],
    "DefaultPodTopologySpread": PRIORITIES["SelectorSpreadPriority"],
    "NodePreferAvoidPods": PRIORITIES["NodePreferAvoidPodsPriority"],
    "NodeLabel": PRIORITIES["LabelPreference"],
    "ServiceAffinity": PREDICATES["CheckServiceAffinity"],
    "EBSLimits": PREDICATES["MaxEBSVolumeCount"],
    "GCEPDLimits": PREDICATES["MaxGCEPDVolumeCount"],
    "AzureDiskLimits": PREDICATES["MaxAzureDiskVolumeCount"],
    "CinderLimits": PREDICATES["MaxCinderVolumeCount"],
}
