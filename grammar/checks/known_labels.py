"""Known labels: labels, kinds and states of pods that Kubernetes has, but not with these values.

A node has `amd64` and not `x86_64`, a label of a role has no value, the old labels of zones are
gone, a pod of a Deployment has no workload of the kind `ReplicaSet`, and the pod that is being
placed does not run yet. The checks look at policies that are written out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches

from grammar.checker.macro_types import inside
from grammar.checker.parameters import is_example
from grammar.checker.policy_checker import Checked
from grammar.checks.known_words import LABELS, compared, constants, key_of, unwrapped
from grammar.checks.references import glob_as_pattern
from grammar.meaning.environment import Environment
from grammar.meaning.schema import print_as_written
from grammar.messages.diagnostics import Diagnostic, Fix, write_instead
from grammar.messages.plain_words import of_taint
from grammar.tree import ast
from grammar.tree.printer import print_expression, print_string
from grammar.tree.source import Span
from grammar.tree.walk import walk

_MAPS = frozenset({"labels", "nodeSelector", "matchLabels"})
# The former keys of labels of nodes, and those that nodes have now.
FORMER: Mapping[str, str] = {
    "beta.kubernetes.io/arch": "kubernetes.io/arch",
    "beta.kubernetes.io/instance-type": "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/os": "kubernetes.io/os",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "node-role.kubernetes.io/master": "node-role.kubernetes.io/control-plane",
}
# Keys of labels that nodes have by themselves.
KEYS = frozenset(
    (
        *(key for key in FORMER.values()),
        "kubernetes.io/hostname",
        "node.kubernetes.io/exclude-from-external-load-balancers",
        "karpenter.sh/capacity-type",
        "karpenter.sh/nodepool",
        "eks.amazonaws.com/capacityType",
        "eks.amazonaws.com/nodegroup",
        "cloud.google.com/gke-nodepool",
        "cloud.google.com/gke-spot",
        "kubernetes.azure.com/scalesetpriority",
        "nvidia.com/gpu.product",
        "nvidia.com/gpu.present",
    )
)
# Keys of taints that Kubernetes itself sets.
TAINTS = frozenset(
    "node-role.kubernetes.io/control-plane node.cloudprovider.kubernetes.io/shutdown"
    " node.cloudprovider.kubernetes.io/uninitialized node.kubernetes.io/disk-pressure"
    " node.kubernetes.io/memory-pressure node.kubernetes.io/network-unavailable"
    " node.kubernetes.io/not-ready node.kubernetes.io/out-of-service"
    " node.kubernetes.io/pid-pressure node.kubernetes.io/unreachable"
    " node.kubernetes.io/unschedulable".split()
)
# Annotations that are known by their keys.
ANNOTATIONS = frozenset(
    "cluster-autoscaler.kubernetes.io/safe-to-evict"
    " cluster-autoscaler.kubernetes.io/scale-down-disabled"
    " controller.kubernetes.io/pod-deletion-cost karpenter.sh/do-not-disrupt"
    " kubectl.kubernetes.io/restartedAt node.alpha.kubernetes.io/ttl"
    " volumes.kubernetes.io/controller-managed-attach-detach".split()
)
# Keys that differ in a letter or two.
_NEARLY = 0.93
_SHORT = {
    "topology.kubernetes.io/region": "node.region",
    "topology.kubernetes.io/zone": "node.zone",
}
_RECOMMENDED = "app.kubernetes.io/"
_ROLE = "node-role.kubernetes.io/"
_FORMER_ROLE = "kubernetes.io/role"
ARCHITECTURES: Mapping[str, str] = {
    "x86_64": "amd64",
    "x86-64": "amd64",
    "x64": "amd64",
    "x86": "amd64",
    "intel": "amd64",
    "aarch64": "arm64",
    "armv8": "arm64",
    "i386": "386",
    "i686": "386",
}
_OF_ARCHITECTURE = ("kubernetes.io/arch", "beta.kubernetes.io/arch")
_WORKLOADS = ("PeerWorkload", "Workload")
_OWNED = {"ReplicaSet": "Deployment"}
# What owns the pods of a workload, which it owns itself.
_OWNERS = {"Deployment": "ReplicaSet", "CronJob": "Job"}
_PENDING, _RUNNING = "Pending", ("Running", "Succeeded", "Failed")
_CONDITIONS = frozenset({"ContainersReady", "Initialized", "Ready"})
# What the pod that is being placed has not yet.
_AFTER_PLACEMENT = frozenset(
    {"startTime", "podIP", "podIPs", "hostIP", "hostIPs", "containerStatuses"}
)


def known_otherwise(expr: ast.Expr, environment: Environment) -> Iterator[Diagnostic]:
    """A warning (P0346) for a label or a kind that is known under another name or value."""
    match expr:
        case ast.Index(ast.Select(_, holder), ast.Literal(str() as key)) if holder in _MAPS:
            yield from _former(expr, key)
        case ast.Binary("in", ast.Literal(str() as key) as found, ast.Select(_, holder)) if (
            holder in _MAPS and key in FORMER
        ):
            edit = Fix(found.span, print_string(FORMER[key]))
            yield _warning(f"the label `{key}` is gone", found, edit)
        case ast.Binary("==" | "!=", ast.Select(_, holder) as labels, ast.MapLiteral(entries)) if (
            holder in _MAPS and entries
        ):
            yield _whole_map(expr, labels, entries, environment)
        case ast.Binary(
            "==" | "!=", ast.Select(holder, "key"), ast.Literal(str() as key) as found
        ) if inside(holder.type).name in ("Taint", "Toleration"):
            if re.search(r"[=:]", key) is not None:
                meant = of_taint(print_as_written(holder, environment.schema), key)
                meant = f"({meant})" if expr.op == "==" else f"!({meant})"
                message = f"`{key}` is no key of a taint, but a whole one"
                yield write_instead("P0333", message, expr.span, meant)
            elif (close := FORMER.get(key) or _close_key(key, TAINTS)) is not None:
                gone = "gone" if key in FORMER else "not one of Kubernetes"
                edit = Fix(found.span, print_string(close))
                yield _warning(f"the taint `{key}` is {gone}", found, edit)
        case ast.Binary():
            for read, values in compared(expr, environment, items=True):
                yield from _value(expr, read, values, environment)
        case _:
            return


def _whole_map(
    expr: ast.Binary, read: ast.Expr, entries: Sequence[ast.MapEntry], environment: Environment
) -> Diagnostic:
    """`node.labels == {"a": "b"}`, which no node with another label is."""
    shown = print_as_written(read, environment.schema)
    parts = (f"{shown}[{print_expression(e.key)}] == {print_expression(e.value)}" for e in entries)
    meant = " && ".join(parts)
    meant = meant if expr.op == "==" else f"!({meant})"
    message = f"this compares all of `{shown}`, with its other keys"
    return _warning(message, expr, Fix(expr.span, meant))


def misplaced_keys(expr: ast.Expr, environment: Environment) -> Iterator[Diagnostic]:
    """A warning (P0346) for a label that is read as an annotation, and for the opposite."""
    match expr:
        case ast.Index(ast.Select(holder, name) as found, ast.Literal(str() as key)) | ast.Binary(
            "in", ast.Literal(str() as key), ast.Select(holder, name) as found
        ):
            is_node = any(isinstance(e, ast.Ident) and e.name == "node" for e in walk(holder))
            of_node = is_node and (key in KEYS or key.startswith(_ROLE))
            if name == "annotations" and (of_node or key.startswith(_RECOMMENDED)):
                meant = "labels"
            elif name == "labels" and key in ANNOTATIONS:
                meant = "annotations"
            else:
                return
            assert isinstance(found, ast.Select), "the pattern says so"
            text = print_as_written(replace(found, name=meant), environment.schema)
            edit = Fix(found.span, text)
            said = _warning(f"`{key}` is one of the {meant}", expr, edit, f"read it from `{text}`")
            yield replace(said, other_hint="leave it out: this policy may not read annotations")
        case _:
            return


def _former(expr: ast.Index, key: str) -> Iterator[Diagnostic]:
    if key not in FORMER:
        if (close := _close_key(key, KEYS)) is not None:
            edit = Fix(expr.index.span, print_string(close))
            message = f"the label `{key}` is not one of Kubernetes"
            yield _warning(message, expr.index, edit)
        return
    now, root = FORMER[key], expr.operand
    while isinstance(root, ast.Select):
        root = root.operand
    is_node = isinstance(root, ast.Ident) and root.name == "node"
    short = _SHORT.get(now) if is_node and not expr.optional else None
    edit = Fix(expr.span if short else expr.index.span, short or print_string(now))
    yield _warning(f"the label `{key}` is gone", expr.index, edit)


def _close_key(key: str, known: frozenset[str]) -> str | None:
    """The known key that is nearly this one, or has its name behind another domain."""
    if key in known or is_example(key):
        return None
    if close := get_close_matches(key, known, 1, _NEARLY):
        return close[0]
    domain, _, name = key.rpartition("/")
    same = (k for k in sorted(known) if _is_of_kubernetes(k) and k.rpartition("/")[2] == name)
    return next(same, None) if domain.endswith("kubernetes.io") else None


def _is_of_kubernetes(key: str) -> bool:
    return "kubernetes.io/" in key


def _value(
    expr: ast.Binary,
    written: ast.Expr,
    values: Sequence[ast.Literal],
    environment: Environment,
) -> Iterator[Diagnostic]:
    """The warnings for the constants that a label or a kind is compared with."""
    read = unwrapped(written)
    key = key_of(read, _MAPS)
    for found in values:
        text = found.value
        if not isinstance(text, str):
            continue
        if key is not None and key.startswith(_ROLE) and text:
            assert isinstance(read, ast.Index | ast.Select), "it has a key"
            shown = print_as_written(replace(read, optional=False), environment.schema)
            is_there = (expr.op != "!=") is (text.lower() not in ("false", "no"))
            meant = f"{'' if is_there else '!'}has({shown})"
            edit = Fix(expr.span, meant)
            yield _warning("a label of a role has no value", expr, edit)
            return
        if key == _FORMER_ROLE and text and expr.op in ("==", "!="):
            role = "control-plane" if text == "master" else text
            meant = f"{'!' * (expr.op == '!=')}has(node.labels[{print_string(_ROLE + role)}])"
            message = f"the label `{_FORMER_ROLE}` is gone: a role is a label of its own"
            yield _warning(message, expr, Fix(expr.span, meant))
        elif key in _OF_ARCHITECTURE or _reads(read, "architecture", "NodeSystemInfo"):
            if (name := ARCHITECTURES.get(text.lower())) is not None:
                edit = Fix(found.span, print_string(name))
                message = f"`{text}` is called `{name}` in Kubernetes"
                yield _warning(message, found, edit)
        elif text == "OutOfDisk" and _reads(read, "type", "NodeCondition"):
            edit = Fix(found.span, '"DiskPressure"')
            yield _warning(f"the condition `{text}` is gone", found, edit)
        elif text == "Pod" and _reads(read, "kind", *_WORKLOADS) and expr.op in ("==", "!="):
            meant = f"{'!' if expr.op == '==' else ''}has({_workload(read, environment)})"
            message = "a pod without a controller has no workload"
            yield _warning(message, found, Fix(expr.span, meant))
        elif text in _OWNERS and _reads(read, "kind", "OwnerReference"):
            message = f"a pod of a {text} is owned by its {_OWNERS[text]}"
            hint = f"write `pod.workload.kind == {print_string(text)}`"
            yield Diagnostic("P0346", "warning", message, found.span, hint=hint)
        elif text in _OWNED and _reads(read, "kind", *_WORKLOADS):
            edit = Fix(found.span, print_string(_OWNED[text]))
            message = f"the workload of a pod of a Deployment is the `{_OWNED[text]}`"
            yield _warning(message, found, edit)


def _workload(read: ast.Expr, environment: Environment) -> str:
    return print_as_written(read, environment.schema).removesuffix(".kind")


def _reads(read: ast.Expr, field: str, *records: str) -> bool:
    """Whether an expression reads this field of one of these records."""
    match read:
        case ast.Select(operand, name):
            return name == field and inside(operand.type).name in records
        case _:
            return False


def _warning(message: str, where: ast.Expr, edit: Fix, hint: str = "") -> Diagnostic:
    hint = hint or f"write `{edit.text}`"
    return Diagnostic("P0346", "warning", message, where.span, hint=hint, remedy=edit)


# ---- labels that cannot be

_LABEL_KEY = re.compile(
    r"(?:[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?\Z", re.ASCII
)
_LABEL_VALUE = re.compile(r"(?:[A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?)?\Z", re.ASCII)


def impossible_labels(expr: ast.Expr, environment: Environment) -> Iterator[Diagnostic]:
    """A warning (P0333) for a key or a value that Kubernetes accepts for no label."""
    match expr:
        case ast.Index(ast.Select(_, "labels"), ast.Literal(str() as key) as where) | ast.Binary(
            "in", ast.Literal(str() as key) as where, ast.Select(_, "labels")
        ):
            if not is_example(key) and not _LABEL_KEY.match(key):
                yield _pair(expr, key, environment) or _no_label("key", key, where)
        case ast.Binary(op):
            for read, values in compared(expr, environment):
                label = key_of(unwrapped(read), ("labels",))
                for where in values if label is not None and label not in LABELS else ():
                    text = where.value
                    # Patterns and templates have warnings of their own.
                    if not isinstance(text, str) or is_example(text) or _PATTERN.search(text):
                        continue
                    if _LISTED.match(text) and op != "in":
                        yield _listed(expr, read, text, environment)
                    elif not _LABEL_VALUE.match(text):
                        yield _no_label("value", text, where)
        case _:
            return


_PATTERN = re.compile(r"[*?^${}<>|\[\]\\%]")
_LISTED = re.compile(r"[\w.-]+(?:, ?[\w.-]+)+\Z")


def _listed(expr: ast.Binary, read: ast.Expr, text: str, environment: Environment) -> Diagnostic:
    """`node.zone == "a,b"`, where a list is meant."""
    texts = ", ".join(print_string(each.strip()) for each in text.split(","))
    shown = f"{print_as_written(read, environment.schema)} in [{texts}]"
    meant = f"!({shown})" if expr.op == "!=" else shown
    return write_instead("P0333", f"`{text}` is one text, and no list", expr.span, meant)


# The records of objects that have names, and the fields that name others.
_NAMED = frozenset(
    "Container Namespace Node ObjectMeta Peer PeerWorkload Pod Volume Workload".split()
)
_OF_OTHERS = frozenset(
    "namespace nodeName priorityClassName runtimeClassName serviceAccountName".split()
)
_LABELS_OF_NAMES = ("kubernetes.io/hostname", "kubernetes.io/metadata.name")
_LOWER = re.compile(r"[a-z0-9.-]*\Z", re.ASCII)


def impossible_names(expr: ast.Expr, environment: Environment) -> Iterator[Diagnostic]:
    """A warning (P0333) for a text with signs that no name of an object has."""
    pairs = [*compared(expr, environment, items=True)]
    match expr:
        case ast.Call("startsWith" | "endsWith" | "contains", read, (arg,)) if read is not None:
            pairs = [(read, constants(arg, environment))]
        case _:
            pass
    for read, values in pairs:
        match unwrapped(read):
            case ast.Select(operand, name) if name in _OF_OTHERS or (
                name == "name" and inside(operand.type).name in _NAMED
            ):
                pass
            case other if key_of(other, ("labels",)) in _LABELS_OF_NAMES:
                pass
            case _:
                continue
        for where in values:
            text = where.value
            # Patterns and templates have warnings of their own.
            if not isinstance(text, str) or is_example(text) or _PATTERN.search(text):
                continue
            if not _LOWER.match(text):
                yield _no_name(text, where.span)


def impossible_namespaces(checked: Checked) -> Iterator[Diagnostic]:
    """A warning (P0333) for a policy that is in no namespace that can be."""
    policy = checked.policy
    if policy.namespace and not is_example(policy.namespace) and not _LOWER.match(policy.namespace):
        yield replace(_no_name(policy.namespace, policy.name_span), remedy=None)


def _no_name(text: str, span: Span) -> Diagnostic:
    # `HighPriority` is `high-priority`.
    meant = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", text)
    meant = re.sub(r"[ _]+", "-", meant.lower())
    message = f"`{text}` is in no name: these have lower-case letters, digits, `-` and `.`"
    if _LOWER.match(meant):
        return write_instead("P0333", message, span, print_string(meant))
    return Diagnostic("P0333", "warning", message, span, hint="correct it")


def _pair(expr: ast.Expr, key: str, environment: Environment) -> Diagnostic | None:
    """`"gpu=true" in node.labels`, which asks for a key and its value."""
    if not isinstance(expr, ast.Binary):
        return None
    holder = print_as_written(expr.right, environment.schema)
    if (glob := glob_as_pattern(key)) is not None:
        meant = f"{holder}.exists(k, k.matches({print_string(glob)}))"
        return write_instead("P0344", f"`{key}` is a pattern, and no key", expr.span, meant)
    found = re.fullmatch(r"([\w./-]+)\s*[=:]\s*([\w.-]*)", key)
    if found is None:
        return None
    meant = f"{holder}[{print_string(found[1])}] == {print_string(found[2])}"
    message = f"`{key}` is no key of a label, but a key and its value"
    return write_instead("P0333", message, expr.span, meant)


def _no_label(what: str, text: str, where: ast.Expr) -> Diagnostic:
    message = f"`{text}` is no {what} of a label: it has letters, digits, `-`, `_` and `.`"
    hint = "correct it, or read it from `annotations`"
    return Diagnostic("P0333", "warning", message, where.span, hint=hint)


# ---- the pod that is being placed


def states_after_placement(expr: ast.Expr, environment: Environment) -> Iterator[Diagnostic]:
    """A warning (P0349) for a state that the pod which is being placed does not have yet."""
    match expr:
        case ast.Binary(op, left, right):
            for read, found in compared(expr, environment):
                values = [each.value for each in found]
                if _reads(unwrapped(read), "phase", "PodStatus"):
                    yield from _phase(expr, values)
                if _reads(read, "type", "PodCondition") and set(values) & _CONDITIONS:
                    message = f"the pod that is being placed is not `{values[0]}` yet"
                    hint = "leave it out: only pods that run are"
                    yield Diagnostic("P0349", "warning", message, expr.span, hint=hint)
                if _reads(unwrapped(read), "nodeName", "PodSpec"):
                    yield _node_of_pod(expr, values, environment)
            is_of_node = any(_reads(e, "nodeName", "PodSpec") for e in (left, right))
            if op in ("==", "!=") and is_of_node and not [*compared(expr, environment)]:
                message = "the pod that is being placed has no node yet"
                hint = "leave it out; `peer.nodeName` is the node of a pod that is there"
                yield Diagnostic("P0349", "warning", message, expr.span, hint=hint)
        case ast.Call(_, ast.Select() as target) if _reads(target, "nodeName", "PodSpec"):
            message = "the pod that is being placed has no node yet"
            yield write_instead("P0349", message, target.span, "node.name")
        case ast.Has(operand) if _reads(operand, "nodeName", "PodSpec"):
            message = "the pod that is being placed has no node yet, so this is always false"
            yield Diagnostic("P0349", "warning", message, expr.span, hint="leave it out")
        case ast.Select(ast.Select(ast.Ident("pod"), "status"), name) if name in _AFTER_PLACEMENT:
            message = f"the pod that is being placed has no `{name}` yet"
            hint = "leave it out: only pods that run have it"
            yield Diagnostic("P0349", "warning", message, expr.span, hint=hint)
        case _:
            return


def phases_of_nodes(expr: ast.Expr, environment: Environment) -> Iterator[Diagnostic]:
    """A warning (P0346) for `node.status.phase`, which no kubelet writes any more."""
    del environment
    match expr:
        case ast.Binary(
            "==" | "!=" as op, ast.Select(ast.Select(ast.Ident("node"), "status"), "phase")
        ):
            meant = "node.ready" if op == "==" else "!node.ready"
            edit = Fix(expr.span, meant)
            yield _warning("no node has a phase any more", expr, edit)
        case _:
            return


# What every node has, if it has the label at all.
_NEVER_EMPTY = frozenset(
    {
        "kubernetes.io/arch",
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
    }
)


def empty_labels(expr: ast.Expr, environment: Environment) -> Iterator[Diagnostic]:
    """A warning (P0330) for a label of Kubernetes that is compared with an empty text."""
    match expr:
        case ast.Binary("==" | "!=" as op, ast.Index() as read, ast.Literal("")) if (
            key_of(read, _MAPS) in _NEVER_EMPTY
        ):
            shown = print_as_written(read, environment.schema)
            meant = f"{'!' * (op == '==')}has({shown})"
            message = f"`{shown}` is never empty: where it is absent, it is missing"
            yield write_instead("P0330", message, expr.span, meant)
        case _:
            return


def _node_of_pod(
    expr: ast.Binary, values: Sequence[object], environment: Environment
) -> Diagnostic:
    """`pod.spec.nodeName == "worker-1"`, where the node that is asked about is meant."""
    message = "the pod that is being placed has no node yet"
    if not all(values):
        holds = "false" if expr.op == "!=" else "true"
        message, hint = f"{message}, so this is always {holds}", "leave it out"
        return Diagnostic("P0349", "warning", message, expr.span, hint=hint)
    sides = (print_as_written(e, environment.schema) for e in (expr.left, expr.right))
    meant = f" {expr.op} ".join(sides).replace("pod.spec.nodeName", "node.name")
    edit, hint = Fix(expr.span, meant), f"write `{meant}` for the node that is asked about"
    return Diagnostic("P0349", "warning", message, expr.span, hint=hint, remedy=edit)


def _phase(expr: ast.Binary, values: Sequence[object]) -> Iterator[Diagnostic]:
    # That a pod is pending is true, and says what is meant.
    is_true = set(values) == {_PENDING} and expr.op != "!="
    if not is_true and all(value in (*_RUNNING, _PENDING) for value in values):
        holds = str((_PENDING in values) is (expr.op != "!=")).lower()
        message = f"the pod that is being placed is pending, so this is always {holds}"
        hint = "leave it out; `peer.phase` is that of a pod on a node"
        yield Diagnostic("P0349", "warning", message, expr.span, hint=hint)
