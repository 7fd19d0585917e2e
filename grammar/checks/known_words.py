"""Known words: constants that no field has, and names that no resource has.

These checks look at one expression of a policy that is written out. A table has the words
that Kubernetes 1.36 writes into fields, by record and field of `grammar/meaning/schema.txt`, and
another those of labels, by key. A closed field takes no other word. An open one may, so there only
a word that is nearly a known one is a mistake.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass

from grammar.checker.parameters import is_example
from grammar.meaning.environment import Environment
from grammar.meaning.folding import constants
from grammar.meaning.macro_types import inside
from grammar.messages import catalogue
from grammar.messages.diagnostics import Diagnostic, Fix, nearest
from grammar.tree import ast
from grammar.tree.printer import print_string
from grammar.tree.source import Span
from grammar.tree.types import QUANTITY, STRING, Type, map_of

_RESOURCES = map_of(STRING, QUANTITY)
_MAPS = frozenset({"labels", "annotations", "nodeSelector", "matchLabels", "namespaceLabels"})
# Functions whose result is the value, or one of the values, of what they are called on.
_KEEPING = frozenset({"orValue", "value", "or"})
_CHOOSING = frozenset({"distinct", "sort", "reverse", "slice", "flatten"})


def compared(
    expr: ast.Expr, environment: Environment, *, items: bool = False
) -> Iterator[tuple[ast.Expr, tuple[ast.Literal, ...]]]:
    """What `==`, `!=` or `in` compares with constants, and these; `items` are those of lists."""
    if not isinstance(expr, ast.Binary) or expr.op not in ("==", "!=", "in"):
        return
    for read, other in ((expr.left, expr.right), (expr.right, expr.left)):
        listed = other.elements if isinstance(other, ast.ListLiteral) else (other,)
        found = tuple(c for each in listed for c in constants(each, environment))
        if found and (expr.op != "in" or read is expr.left):
            yield read, found
        if found and items:
            inner = read.elements if isinstance(read, ast.ListLiteral) else ()
            yield from ((each, found) for each in (*inner, *_items(read)))


def key_of(read: ast.Expr, maps: Container[str]) -> str | None:
    """The constant key of what an expression reads of one of these maps, of labels for example."""
    match read:
        case ast.Index(ast.Select(_, holder), ast.Literal(str() as key)) if holder in maps:
            return key
        case ast.Select(ast.Select(_, holder), key) if holder in maps:
            return key
        case _:
            return None


def unwrapped(expr: ast.Expr) -> ast.Expr:
    """What an expression reads, without what keeps its value, as `orValue` does."""
    match expr:
        case ast.Call(name, target) if target is not None and name in _KEEPING:
            return unwrapped(target)
        case ast.Call("optional.of" | "dyn" | "string", None, (value,)):
            return unwrapped(value)
        case _:
            return expr


# ---- words of fields


def unknown_words(expr: ast.Expr, environment: Environment) -> Iterator[Diagnostic]:
    """A warning (P0333) for each constant in a comparison that the field there never has.

    The constant is compared with the field, or with the items of a list of fields.
    """
    for read, values in compared(expr, environment, items=True):
        if (known := _words(read)) is None:
            continue
        for constant in values:
            assert isinstance(expr, ast.Binary), "it compares"
            if (found := _kind_of_owner(read, constant, expr)) is not None:
                yield found
            else:
                yield from _unknown_word(*known, constant)


def _kind_of_owner(read: ast.Expr, constant: ast.Literal, expr: ast.Binary) -> Diagnostic | None:
    """`pod.kind == "Deployment"`, which asks for the workload of the pod."""
    match read:
        case ast.Select(ast.Ident("pod"), "kind") if constant.value in _CONTROLLERS.values:
            meant = f"pod.workload.kind {expr.op} {print_string(str(constant.value))}"
            message = f"`{constant.value}` is no `kind` of a Pod, but one of its workload"
            edit = Fix(expr.span, meant) if expr.op in ("==", "!=") else None
            return Diagnostic(
                "P0333",
                "warning",
                message,
                constant.span,
                hint=f"write `{meant}`" if edit is not None else "write `pod.workload.kind`",
                remedy=edit,
            )
        case _:
            return None


def _unknown_word(name: str, words: Words, constant: ast.Literal) -> Iterator[Diagnostic]:
    text = constant.value
    # An absent field is an empty text.
    if not isinstance(text, str) or text in ("", *words.values) or is_example(text):
        return
    if not text.startswith(words.reserved):
        return
    folded = {alphanumeric(word): word for word in words.values}
    close = folded.get(alphanumeric(text)) or nearest(text, words.values)
    opposite = text.removeprefix("Not")
    if close is None and opposite != text and opposite in words.values:
        hint = f'write `"{opposite}"`, and another `status`'
        yield Diagnostic("P0333", "warning", f"`{text}` is no {name}", constant.span, hint=hint)
        return
    if close is None and words.open:
        return
    meant = (close,) if close is not None else words.values
    hint = f"write {catalogue.listed(f'`{print_string(word)}`' for word in meant)}"
    message = f"`{text}` is no {'known ' if words.open else ''}{name}"
    yield Diagnostic("P0333", "warning", message, constant.span, hint=hint)


def alphanumeric(text: str) -> str:
    """A word in small letters and without signs, so that `ON_DEMAND` is `on-demand`."""
    return re.sub(r"[^a-z0-9]", "", text.lower())


def _words(written: ast.Expr) -> tuple[str, Words] | None:
    """The field or label that an expression reads, as a message names it, with its words."""
    read = unwrapped(written)
    if (key := key_of(read, _MAPS)) is not None:
        return (f"value of `{key}`", LABELS[key]) if key in LABELS else None
    match read:
        case ast.Select(operand, name) if (record := inside(operand.type)).is_record:
            words = FIELDS.get((record.name, name))
            return (f"`{name}` of {catalogue.an(record)}", words) if words is not None else None
        case ast.Index(listed) if inside(listed.type).name == "list":
            return next(filter(None, map(_words, _items(listed))), None)
        case ast.Call("first" | "last", target) if target is not None:
            return next(filter(None, map(_words, _items(target))), None)
        case _:
            return None


def _items(expr: ast.Expr) -> tuple[ast.Expr, ...]:
    """An expression for the items of a list; none if the list is not one of fields."""
    match expr:
        case ast.Comprehension("map" | "transformList", _, _, (*_, made)):
            return (made,)
        case ast.Comprehension("filter" | "sortBy", target):
            return _items(target)
        case ast.Call(function, target) if target is not None and function in _CHOOSING:
            return _items(target)
        case ast.Select(operand, name) if inside(operand.type).is_record:
            # A list of words has them under its own name.
            return (expr,) if (inside(operand.type).name, name) in FIELDS else ()
        case _:
            return ()


# ---- names of resources


def unknown_resources(expr: ast.Expr, environment: Environment) -> Iterator[Diagnostic]:
    """A warning (P0331) for the constant name of a resource that no pod and no node can have.

    A resource is one of Kubernetes, or has a domain in its name, as `example.com/gpu` has.
    """
    match expr:
        case ast.Index(holder, key) | ast.Binary("in", key, holder) if _of_resources(holder):
            names = constants(key, environment)
            found = [(name.value, name.span, True) for name in names]
        case ast.Select(holder, field) if _of_resources(holder):
            found = [(field, expr.name_span, False)]
        case _:
            return
    for name, span, quoted in found:
        if isinstance(name, str) and not _is_resource(name, holder):
            yield _unknown_resource(name, span, quoted=quoted)


def _of_resources(expr: ast.Expr) -> bool:
    """Whether an expression is the requests of a pod, what a node offers, or the like."""
    return (
        isinstance(expr, ast.Select)
        and expr.type.name in ("map", "optional")
        and inside(expr.type) == _RESOURCES
        and inside(expr.operand.type).is_record
    )


def _is_resource(name: str, holder: ast.Expr) -> bool:
    claims = Type("VolumeResourceRequirements")
    if isinstance(holder, ast.Select) and inside(holder.operand.type) == claims:
        return name == OF_CLAIMS or "/" in name
    if "/" in name:
        return name in OF_VENDORS or _of_vendor(name) is None
    return name in RESOURCES or name.startswith(RESOURCE_PREFIXES)


def _of_vendor(name: str) -> str | None:
    """The resource of a vendor that is meant by `nvidia.com/gpus` or `nvidia/GPU`."""
    written = alphanumeric(name).removesuffix("s")
    forms = ((known, alphanumeric(known)) for known in OF_VENDORS)
    return next((k for k, form in forms if written in (form, form.replace("com", ""))), None)


def _unknown_resource(name: str, span: Span, *, quoted: bool) -> Diagnostic:
    meant = RESOURCE_HABITS.get(name.lower()) or _of_vendor(name)
    meant = meant or nearest(name, (*RESOURCES, *RESOURCE_PREFIXES))
    hint = "a resource that is not of Kubernetes has a domain, as in `example.com/gpu`"
    if meant is not None:
        key = print_string(meant)
        hint = f"write `{key}`" if quoted else f"write `{meant}`"
        if not quoted and not meant.isidentifier():
            hint = f"write `[{key}]`"
    message = f"no pod and no node has a resource `{name}`"
    return Diagnostic("P0331", "warning", message, span, hint=hint)


@dataclass(frozen=True, slots=True)
class Words:
    """The words of a field; `open` says that others are possible.

    If a beginning is `reserved` for them, all that begin otherwise are possible.
    """

    values: tuple[str, ...]
    open: bool = False
    reserved: str = ""


def _closed(words: str) -> Words:
    return Words(tuple(words.split()))


def _open(words: str) -> Words:
    return Words(tuple(words.split()), open=True)


_STATUS = _closed("True False Unknown")
_EFFECTS = _closed("NoSchedule PreferNoSchedule NoExecute")
_PHASES = _closed("Pending Running Succeeded Failed Unknown")
_RESTART = _closed("Always OnFailure Never")
_PULL = _closed("Always IfNotPresent Never")
_PROTOCOLS = _closed("TCP UDP SCTP")
_HONOR = _closed("Honor Ignore")
_SELECTS = _closed("In NotIn Exists DoesNotExist")
_READ_ONLY = _closed("Disabled IfPossible Enabled")
_PROFILES = _closed("Unconfined RuntimeDefault Localhost")
_CONTROLLERS = _open("Deployment ReplicaSet StatefulSet DaemonSet Job CronJob Node")
_TERMINATION = _closed("File FallbackToLogsOnError")

FIELDS: Mapping[tuple[str, str], Words] = {
    ("AppArmorProfile", "type"): _PROFILES,
    ("AzureDiskVolumeSource", "cachingMode"): _closed("None ReadOnly ReadWrite"),
    ("AzureDiskVolumeSource", "kind"): _closed("Shared Dedicated Managed"),
    ("Container", "imagePullPolicy"): _PULL,
    ("Container", "restartPolicy"): _RESTART,
    ("Container", "terminationMessagePolicy"): _TERMINATION,
    ("ContainerPort", "protocol"): _PROTOCOLS,
    ("ContainerResizePolicy", "resourceName"): _closed("cpu memory"),
    ("ContainerResizePolicy", "restartPolicy"): _closed("NotRequired RestartContainer"),
    ("ContainerRestartRule", "action"): _closed("Restart RestartAllContainers"),
    ("ContainerRestartRuleOnExitCodes", "operator"): _closed("In NotIn"),
    ("EphemeralContainer", "imagePullPolicy"): _PULL,
    ("EphemeralContainer", "terminationMessagePolicy"): _TERMINATION,
    ("HTTPGetAction", "scheme"): _closed("HTTP HTTPS"),
    ("HostPathVolumeSource", "type"): _closed(
        "DirectoryOrCreate Directory FileOrCreate File Socket CharDevice BlockDevice"
    ),
    ("HostPort", "protocol"): _PROTOCOLS,
    ("ImageVolumeSource", "pullPolicy"): _PULL,
    ("LabelSelectorRequirement", "operator"): _SELECTS,
    ("Node", "kind"): _closed("Node"),
    ("NodeAddress", "type"): _open("Hostname InternalIP ExternalIP InternalDNS ExternalDNS"),
    ("NodeCondition", "status"): _STATUS,
    ("NodeCondition", "type"): _open(
        "Ready MemoryPressure DiskPressure PIDPressure NetworkUnavailable"
    ),
    ("NodeSelectorRequirement", "operator"): _closed("In NotIn Exists DoesNotExist Gt Lt"),
    ("NodeStatus", "phase"): _closed("Pending Running Terminated"),
    ("NodeSystemInfo", "architecture"): _open("amd64 arm64 arm 386 ppc64le riscv64 s390x"),
    ("NodeSystemInfo", "operatingSystem"): _closed("linux windows"),
    ("OwnerReference", "kind"): _CONTROLLERS,
    ("Peer", "phase"): _PHASES,
    ("PeerWorkload", "kind"): _CONTROLLERS,
    ("PersistentVolumeClaimSpec", "accessModes"): _closed(
        "ReadWriteOnce ReadOnlyMany ReadWriteMany ReadWriteOncePod"
    ),
    ("PersistentVolumeClaimSpec", "volumeMode"): _closed("Filesystem Block"),
    ("Pod", "kind"): _closed("Pod"),
    ("PodCondition", "status"): _STATUS,
    ("PodCondition", "type"): _open(
        "PodScheduled Initialized ContainersReady Ready PodReadyToStartContainers DisruptionTarget"
        " PodResizePending PodResizeInProgress"
    ),
    ("PodOS", "name"): _closed("linux windows"),
    ("PodSecurityContext", "fsGroupChangePolicy"): _closed("OnRootMismatch Always"),
    ("PodSecurityContext", "seLinuxChangePolicy"): _closed("MountOption Recursive"),
    ("PodSecurityContext", "supplementalGroupsPolicy"): _closed("Merge Strict"),
    ("PodSpec", "dnsPolicy"): _closed("ClusterFirst ClusterFirstWithHostNet Default None"),
    ("PodSpec", "preemptionPolicy"): _closed("PreemptLowerPriority Never"),
    ("PodSpec", "priorityClassName"): Words(
        ("system-cluster-critical", "system-node-critical"), reserved="system-"
    ),
    ("PodSpec", "restartPolicy"): _RESTART,
    ("PodStatus", "phase"): _PHASES,
    ("PodStatus", "qosClass"): _closed("Guaranteed Burstable BestEffort"),
    ("PodStatus", "resize"): _closed("Proposed InProgress Deferred Infeasible"),
    ("ResourceHealth", "health"): _closed("Healthy Unhealthy Unknown"),
    ("SeccompProfile", "type"): _PROFILES,
    ("SecurityContext", "procMount"): _closed("Default Unmasked"),
    ("Taint", "effect"): _EFFECTS,
    ("Toleration", "effect"): _EFFECTS,
    ("Toleration", "operator"): _closed("Exists Equal Lt Gt"),
    ("TopologySpreadConstraint", "nodeAffinityPolicy"): _HONOR,
    ("TopologySpreadConstraint", "nodeTaintsPolicy"): _HONOR,
    ("TopologySpreadConstraint", "whenUnsatisfiable"): _closed("DoNotSchedule ScheduleAnyway"),
    ("VolumeMount", "mountPropagation"): _closed("None HostToContainer Bidirectional"),
    ("VolumeMount", "recursiveReadOnly"): _READ_ONLY,
    ("VolumeMountStatus", "recursiveReadOnly"): _READ_ONLY,
    ("Workload", "kind"): _CONTROLLERS,
}

LABELS: Mapping[str, Words] = {
    "cloud.google.com/gke-preemptible": _closed("true false"),
    "cloud.google.com/gke-provisioning": _open("spot preemptible standard"),
    "cloud.google.com/gke-spot": _closed("true false"),
    "kubernetes.azure.com/mode": _open("system user gateway"),
    "kubernetes.azure.com/scalesetpriority": _open("regular spot"),
    "nvidia.com/gpu.present": _closed("true false"),
    "eks.amazonaws.com/capacityType": _closed("ON_DEMAND SPOT CAPACITY_BLOCK"),
    "karpenter.sh/capacity-type": _open("on-demand reserved spot"),
    "kubernetes.io/arch": _open("amd64 arm64 arm 386 ppc64le riscv64 s390x"),
    "kubernetes.io/os": _closed("linux windows"),
}

# The resources without a domain, and the beginnings of the names of others.
OF_VENDORS = ("amd.com/gpu", "aws.amazon.com/neuron", "google.com/tpu", "nvidia.com/gpu")
RESOURCES = ("cpu", "memory", "ephemeral-storage", "pods")
OF_CLAIMS = "storage"
RESOURCE_PREFIXES = ("hugepages-", "attachable-volumes-")
# What people call them.
RESOURCE_HABITS: Mapping[str, str] = {
    "core": "cpu",
    "cores": "cpu",
    "disk": "ephemeral-storage",
    "gpu": "nvidia.com/gpu",
    "gpus": "nvidia.com/gpu",
    "mem": "memory",
    "pod": "pods",
    "ram": "memory",
    "storage": "ephemeral-storage",
    "vcpu": "cpu",
}
