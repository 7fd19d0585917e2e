"""Words: constants that no field, label, resource or time has, and what Kubernetes has.

A closed field takes no other word. An open one may, so there only a word that is nearly a known one
is a mistake. CEL counts months, days of a month and days of a week from 0, which is Sunday.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Container, Iterator, Mapping
from dataclasses import replace
from zoneinfo import available_timezones

from grammar.checker.declarations import is_example
from grammar.meaning.constants import constants
from grammar.meaning.environment import Environment, inside
from grammar.meaning.schema import Field
from grammar.messages import catalogue, plain_words
from grammar.messages.diagnostics import Diagnostic, Fix, nearest
from grammar.rules.ranges import PARTS_OF_TIME
from grammar.rules.rule import Tree, finding, instead, on, rule
from grammar.tree import ast
from grammar.tree.policy import Data, FromMetrics, FromPrometheus, usual_stale
from grammar.tree.printer import print_length, print_string
from grammar.tree.source import Span
from grammar.tree.types import QUANTITY, STRING, TIMESTAMP, Type, map_of
from grammar.values.errors import EvaluationError
from grammar.values.time import Timestamp

# ---- what Kubernetes has

# The resources without a domain, and the beginnings of the names of others.
RESOURCES = ("cpu", "memory", "ephemeral-storage", "pods")
OF_CLAIMS = "storage"
RESOURCE_PREFIXES = ("hugepages-", "attachable-volumes-")


# ---- what is compared

# The maps of labels.
LABEL_MAPS = frozenset({"labels", "nodeSelector", "matchLabels"})
# Functions whose result is the value, or one of the values, of what they are called on.
_KEEPING = frozenset({"orValue", "value", "or"})


def compared(
    expr: ast.Expr, environment: Environment
) -> Iterator[tuple[ast.Expr, tuple[ast.Literal, ...]]]:
    """What `==`, `!=` or `in` compares with constants, and these."""
    if not isinstance(expr, ast.Binary) or expr.op not in ("==", "!=", "in"):
        return
    for read, other in ((expr.left, expr.right), (expr.right, expr.left)):
        listed = other.elements if isinstance(other, ast.ListLiteral) else (other,)
        found = tuple(c for each in listed for c in constants(each, environment))
        if found and (expr.op != "in" or read is expr.left):
            yield read, found


def _keys(expr: ast.Expr, tree: Tree) -> Iterator[tuple[ast.Expr, str, Span]]:
    """The keys that `m[k]`, `m.k` or `k in m` can read: the map, and each key with its place."""
    match expr:
        case ast.Index(holder, key) | ast.Binary("in", key, holder):
            for each in constants(key, tree.environment):
                if isinstance(each.value, str):
                    yield holder, each.value, each.span
        case ast.Select(holder, name):
            yield holder, name, expr.name_span
        case _:
            return


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
    """The read of an expression, without calls that keep its value, as `orValue` does."""
    match expr:
        case ast.Call(name, target) if target is not None and name in _KEEPING:
            return unwrapped(target)
        case ast.Call("optional.of" | "dyn" | "string", None, (value,)):
            return unwrapped(value)
        case _:
            return expr


def reads_field(read: ast.Expr, field: str, *records: str) -> bool:
    """Whether an expression reads this field of one of these records."""
    match read:
        case ast.Select(operand, name):
            return name == field and inside(operand.type).name in records
        case _:
            return False


# ---- unknown ones

_RESOURCES, _NODE = map_of(STRING, QUANTITY), Type("Node")
_MAPS = LABEL_MAPS | {"annotations", "namespaceLabels"}

# ---- words of fields

# The labels with the words of a field of a node.
_OF_LABELS = {"kubernetes.io/arch": "architecture", "kubernetes.io/os": "operatingSystem"}
_WORKLOAD, _SYSTEM = Type("Workload"), Type("NodeSystemInfo")


@on("P0333", ast.Binary)
def unknown_word(expr: ast.Binary, tree: Tree) -> Iterator[Diagnostic]:
    """A word that a field never has."""
    for read, values in compared(expr, tree.environment):
        if (known := _words(read, tree.environment)) is None:
            continue
        of_workloads = tree.environment.field(_WORKLOAD, "kind")
        for constant in values:
            is_kind = tree.shown(read) == "pod.kind"
            if is_kind and of_workloads is not None and constant.value in of_workloads.words:
                message = f"`{constant.value}` is no `kind` of a Pod, but one of its workload"
                meant = f'pod.workload.kind {expr.op} "{constant.value}"'
                if expr.op == "in":
                    yield finding(message, constant.span, "write `pod.workload.kind`")
                else:
                    yield instead(message, expr.span, meant)
            else:
                yield from _unknown(*known, constant)


def _unknown(name: str, field: Field, constant: ast.Literal) -> Iterator[Diagnostic]:
    text = constant.value
    # An absent field is an empty text.
    if not isinstance(text, str) or text in ("", *field.words) or is_example(text):
        return
    folded = {_alphanumeric(word): word for word in field.words}
    close = folded.get(_alphanumeric(text)) or nearest(text, field.words)
    if field.open and close is not None and close[0].lower() != text[0].lower():
        # `node-critical`, which is not meant as `system-node-critical`.
        close = None
    message = f"`{text}` is no {'known ' if field.open else ''}{name}"
    if close is not None or not field.open:
        meant = (close,) if close is not None else field.words
        hint = f"write {catalogue.listed(f'`{print_string(word)}`' for word in meant)}"
        yield finding(message, constant.span, hint)


def _alphanumeric(text: str) -> str:
    """A word in small letters and without signs."""
    return re.sub(r"[^a-z0-9]", "", text.lower())


def _words(written: ast.Expr, environment: Environment) -> tuple[str, Field] | None:
    """The field or label with known words that an expression reads, as a message names it."""
    read, field = unwrapped(written), None
    if (key := key_of(read, _MAPS)) is not None:
        name = f"value of `{key}`"
        field = environment.field(_SYSTEM, _OF_LABELS[key]) if key in _OF_LABELS else None
        return None if field is None else (name, field)
    match read:
        case ast.Select(operand, selected) if (record := inside(operand.type)).is_record:
            field = environment.field(record, selected)
            return (
                (f"`{selected}` of {catalogue.an(record)}", field)
                if field is not None and field.words
                else None
            )
        case _:
            return None


# ---- names of resources


@on("P0331", ast.Binary, ast.Index, ast.Select)
def unknown_resource(expr: ast.Expr, tree: Tree) -> Iterator[Diagnostic]:
    """A resource that no pod and no node has.

    A resource is one of Kubernetes, or has a domain in its name, as `example.com/gpu` has.
    """
    for holder, name, span in _keys(expr, tree):
        if not _of_resources(holder) or _is_resource(name, holder):
            continue
        meant = plain_words.RESOURCES.get(name.lower()) or nearest(name, RESOURCES)
        hint = "a resource that is not of Kubernetes has a domain, as in `example.com/gpu`"
        if meant is not None and isinstance(expr, ast.Select):
            hint = f"write `{meant if meant.isidentifier() else f'[{print_string(meant)}]'}`"
        elif meant is not None:
            hint = f"write `{print_string(meant)}`"
        yield finding(f"no pod and no node has a resource `{name}`", span, hint)


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
    return "/" in name or name in RESOURCES or name.startswith(RESOURCE_PREFIXES)


# ---- labels that no node has


@on("P0320", ast.Binary, ast.Index, ast.Select)
def unknown_label(expr: ast.Expr, tree: Tree) -> Iterator[Diagnostic]:
    """A label key that no node of the given cluster has."""
    known, nodes = (tree.cluster.labels, tree.cluster.nodes) if tree.cluster else ({}, 0)
    for holder, key, span in _keys(expr, tree):
        match holder:
            case ast.Select(ast.Select(node, "metadata"), "labels") if node.type == _NODE:
                pass
            case _:
                continue
        if key in known:
            continue
        hint = remedy = None
        if (close := nearest(key, known)) is not None:
            remedy = Fix(span, print_string(close)) if not isinstance(expr, ast.Select) else None
            hint = f"a similar label exists: {known[close]:,} of {nodes:,} nodes have `{close}`"
        found = finding(f"0 of {nodes:,} nodes have the label `{key}`", span, hint, remedy)
        yield replace(found, label="no node has it")


# ---- labels under another name

# The former keys of labels and taints of nodes, and those that nodes have now.
_FORMER: Mapping[str, str] = {
    "beta.kubernetes.io/arch": "kubernetes.io/arch",
    "beta.kubernetes.io/instance-type": "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/os": "kubernetes.io/os",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "node-role.kubernetes.io/master": "node-role.kubernetes.io/control-plane",
}
# The keys of labels that nodes have by themselves.
_KEYS = (*_FORMER.values(), "kubernetes.io/hostname")
_ROLE = "node-role.kubernetes.io/"
_ARCHITECTURES: Mapping[str, str] = {
    **dict.fromkeys(("x86_64", "x86-64", "x64", "x86", "intel"), "amd64"),
    **dict.fromkeys(("aarch64", "armv8"), "arm64"),
    **dict.fromkeys(("i386", "i686"), "386"),
}
_ARCH = "kubernetes.io/arch"


@on("P0346", ast.Binary, ast.Index)
def label_of_other_name(expr: ast.Expr, tree: Tree) -> Iterator[Diagnostic]:
    """A label or a value that Kubernetes has under another name."""
    for holder, key, span in _keys(expr, tree):
        if isinstance(holder, ast.Select) and holder.name in LABEL_MAPS:
            yield from _of_key("label", key, span)
    for read, values in compared(expr, tree.environment):
        for found in values:
            if not isinstance(found.value, str):
                continue
            if reads_field(read, "key", "Taint", "Toleration"):
                yield from _of_key("taint", found.value, found.span)
            else:
                yield from _of_value(expr, unwrapped(read), found, tree)


def _of_key(what: str, key: str, span: Span) -> Iterator[Diagnostic]:
    if (now := _FORMER.get(key)) is not None:
        yield instead(f"the {what} `{key}` is gone", span, print_string(now))
    elif what == "label" and key not in _KEYS:
        domain, _, name = key.rpartition("/")
        meant = next((known for known in _KEYS if known.rpartition("/")[2] == name), None)
        if meant is not None and domain.endswith("kubernetes.io"):
            yield instead(f"the label `{key}` is not one of Kubernetes", span, print_string(meant))


def _of_value(
    expr: ast.Expr, read: ast.Expr, found: ast.Literal, tree: Tree
) -> Iterator[Diagnostic]:
    """The name of a constant that a label or a field has in its place."""
    text, key = str(found.value), key_of(read, LABEL_MAPS)
    if key is not None and key.startswith(_ROLE) and text:
        assert isinstance(read, ast.Index | ast.Select), "it has a key"
        assert isinstance(expr, ast.Binary), "it compares"
        shown = tree.shown(replace(read, optional=False))
        is_there = (expr.op != "!=") is (text.lower() not in ("false", "no"))
        meant = f"{'' if is_there else '!'}has({shown})"
        yield instead("a label of a role has no value", expr.span, meant)
    elif key == _ARCH or reads_field(read, "architecture", "NodeSystemInfo"):
        if (name := _ARCHITECTURES.get(text.lower())) is not None:
            message = f"`{text}` is called `{name}` in Kubernetes"
            yield instead(message, found.span, print_string(name))
    elif text == "ReplicaSet" and reads_field(read, "kind", "PeerWorkload", "Workload"):
        message = "the workload of a pod of a Deployment is the `Deployment`"
        yield instead(message, found.span, '"Deployment"')


# ---- rows

# What is named by the values of a label of series; an instance is an address with a port.
_NAMED = {"node.name": "node", "pod.name": "pod", "pod.namespace": "namespace", "": "instance"}


@on("P0364", ast.Binary, ast.Index)
def row_of_another_name(expr: ast.Expr, tree: Tree) -> Iterator[Diagnostic]:
    """A row of data that is never there, or often not."""
    match expr:
        case ast.Index(ast.Ident(table), key) | ast.Binary("in", key, ast.Ident(table)):
            source = getattr(tree.environment.tables.get(table), "source", None)
        case _:
            return
    # A function of the query can make a label of any values.
    if not isinstance(source, FromMetrics | FromPrometheus) or "label_" in str(source):
        return
    read, label = tree.shown(key), getattr(source, "key", "node")
    meant = _NAMED.get(read, label)
    if label in _NAMED.values() and meant != label:
        message = f"rows are named by `{label}`, which is no `{read}` unless it is relabelled"
        hint = f'write `by "{meant}"`, with a query whose series have this label'
        yield finding(message, key.span, "write `node.name`" if label == "node" else hint)


@rule("P0364")
def stale_before_the_next(tree: Tree) -> Iterator[Diagnostic]:
    """A table whose rows are stale before the next ones come."""
    for data in tree.clauses(Data):
        if not data.source.is_watched and data.stale < data.every:
            better = f"for at most {print_length(usual_stale(data.source, data.every))}"
            message = f"rows are stale before the next ones, after {print_length(data.every)}"
            yield instead(message, data.stale_span, better)


# ---- times


@on("P0333", ast.Binary)
def unknown_time(expr: ast.Expr, tree: Tree) -> Iterator[Diagnostic]:
    """An unknown time: a number that no hour, day or the like is ever equal to."""
    for read, found in compared(expr, tree.environment):
        match read:
            case ast.Call(part, moment) if part in PARTS_OF_TIME and moment is not None:
                least, most = PARTS_OF_TIME[part]
            case _:
                continue
        for constant in found if moment.type == TIMESTAMP else ():
            number = constant.value
            if isinstance(number, int) and not least <= number <= most:
                hint = f"write a number from {least} to {most}"
                yield finding(f"`{part}()` is never {number}", constant.span, hint)


# ---- time zones

_SOME_ZONES = 'write an IANA name such as `"Europe/Berlin"`, or an offset such as `"+01:00"`'


@on("P0156", ast.Call)
def unknown_zone(expr: ast.Expr, tree: Tree) -> Iterator[Diagnostic]:
    """A constant time zone of a call that does not exist."""
    match expr:
        case ast.Call(function, moment, (zone,)) if (
            function.startswith("get") and moment is not None and moment.type == TIMESTAMP
        ):
            for constant in constants(zone, tree.environment):
                name = constant.value
                if isinstance(name, str) and not _is_zone(name):
                    meant = _zones().get(name.replace(" ", "_").lower())
                    hint = _SOME_ZONES if meant is None else f"write `{print_string(meant)}`"
                    yield catalogue.unknown_zone(name, hint, constant.span)


def _is_zone(name: str) -> bool:
    if not name or is_example(name):
        return True
    try:
        Timestamp(0).local(name)
    except EvaluationError:
        return False
    return True


@functools.lru_cache(maxsize=1)
def _zones() -> Mapping[str, str]:
    """All time zones by name and by city; finding them takes the time of hundreds of files."""
    # The sign of `Etc/GMT+1` is that of the other direction.
    names = sorted(z for z in available_timezones() if "/" in z and not z.startswith("Etc/"))
    return {part.lower(): name for name in names for part in (name, name.rpartition("/")[2])}
