"""Pod shape: the parts of a pod that rules read. Pods of one shape are decided alike.

Node parts are the single values that expressions read of a node, as a label or an amount. Nodes
with equal values of the parts of a clause are alike to it (`engine.program.columns`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import msgspec

from engine.objects.pod_group import LABEL
from engine.program.compiler import Compiler, Stages
from engine.program.frame import Evaluate, Frame
from grammar.tree import ast
from grammar.tree.printer import print_expression
from grammar.tree.types import Type
from grammar.tree.walk import Definitions, children
from grammar.values.errors import EvaluationError
from grammar.values.quantity import Quantity
from grammar.values.time import Duration, Timestamp

Path = tuple[str, ...]
# Every item of a list.
EACH = "*"
# Not a field: as the path of an item it means that the item exists.
_NOTHING = ""
_OF_NODE = frozenset({"node"})
# The types whose values tell nodes apart.
_VALUES = frozenset({"string", "bool", "int", "double", "quantity", "duration", "timestamp"})
# The paths that a computed member is computed from.
_REQUESTED: tuple[Path, ...] = (
    ("spec", "containers", EACH, "name"),
    ("spec", "containers", EACH, "resources"),
    ("spec", "initContainers", EACH, "name"),
    ("spec", "initContainers", EACH, "resources"),
    ("spec", "initContainers", EACH, "restartPolicy"),
    ("spec", "overhead"),
    ("spec", "resources"),
    ("status", "containerStatuses"),
    ("status", "initContainerStatuses"),
    ("status", "resources"),
    ("status", "allocatedResources"),
    ("status", "conditions", EACH, "type"),
    ("status", "conditions", EACH, "reason"),
)
_PORTS: tuple[Path, ...] = (
    ("spec", "containers", EACH, "ports"),
    ("spec", "initContainers", EACH, "ports"),
    ("spec", "initContainers", EACH, "restartPolicy"),
)
COMPUTED: Mapping[str, tuple[Path, ...]] = {
    "hostPorts": _PORTS,
    "requests": _REQUESTED,
    "limits": _REQUESTED,
    "workload": (("metadata", "ownerReferences"),),
    "failures": (("metadata", "ownerReferences"),),
    "group": (("spec", "schedulingGroup"), ("metadata", "labels", LABEL)),
}


# Where a pod has the fields of a peer that stand elsewhere. Its namespace has its labels.
_OF_PEER: Mapping[str, tuple[Path, ...]] = {
    **{key: (("metadata", key),) for key in ("name", "namespace", "uid", "labels", "annotations")},
    "created": (("metadata", "creationTimestamp"),),
    "priority": (("spec", "priority"),),
    "containers": (("spec", "containers"),),
    "nodeName": (("spec", "nodeName"),),
    "phase": (("status", "phase"),),
    "namespaceLabels": (),
}


def paths_as_peer(path: Path) -> tuple[Path, ...]:
    """The paths of a pod that are read where it is a peer itself, for a path of the peer."""
    if not path:
        return (path,)
    field, *below = path
    if (computed := COMPUTED.get(field)) is not None:
        return computed
    return tuple((*found, *below) for found in _OF_PEER[field])


class PodReads:
    """The paths below `pod` that the expressions of one policy read; () is the whole pod.

    Another name may stand in the place of `pod`, such as `peer`.
    """

    def __init__(self, definitions: Definitions, name: str = "pod") -> None:
        self._definitions = definitions
        self._name = name
        self._roots: Roots = {name: _PodPart(())}
        self._known: dict[str, frozenset[Path]] = {}

    def paths(self, expr: ast.Expr) -> frozenset[Path]:
        """The paths, with the paths that computed members are computed from."""
        computed = (COMPUTED.get(p[0], (p,)) if p else (p,) for p in self.written(expr))
        return frozenset(chain.from_iterable(computed))

    def written(self, expr: ast.Expr) -> frozenset[Path]:
        """The paths as they are written, computed members included."""
        return frozenset(self._paths(expr, self._roots))

    def _paths(self, expr: ast.Expr, roots: Roots) -> Iterator[Path]:
        """The paths that an expression reads; `roots` are the names for parts of the pod."""
        part = _pod_part(expr, roots)
        if part is not None:
            yield part.path
            yield from self._indexes(expr, roots)
            return
        match expr:
            case ast.Binary("in", ast.Literal(str() as key), within) if (
                held := _pod_part(within, roots)
            ) is not None:
                yield held.below(key, within.type).path
            case ast.Comprehension():
                yield from self._comprehension(expr, roots)
            case _:
                if isinstance(expr, ast.LetReference | ast.DefCall):
                    yield from self._named(expr.name)
                for child in children(expr):
                    yield from self._paths(child, roots)

    def _comprehension(self, expr: ast.Comprehension, roots: Roots) -> Iterator[Path]:
        held = _pod_part(expr.target, roots)
        inner = {name: part for name, part in roots.items() if name not in expr.variables}
        if held is not None and expr.target.type.name == "list" and len(expr.variables) == 1:
            inner[expr.variables[0]] = held.below(EACH, expr.target.type)
            # The number of items is read even if no field of them is.
            yield (*held.path, EACH, _NOTHING)
            yield from self._indexes(expr.target, roots)
        else:
            yield from self._paths(expr.target, roots)
        for part in expr.body:
            yield from self._paths(part, inner)

    def _indexes(self, expr: ast.Expr, roots: Roots) -> Iterator[Path]:
        """The paths that the indexes within a path read: `pod.labels[pod.name]`."""
        while isinstance(expr, ast.Select | ast.Index):
            if isinstance(expr, ast.Index):
                yield from self._paths(expr.index, roots)
            expr = expr.operand

    def _named(self, name: str) -> frozenset[Path]:
        if name not in self._known:
            self._known[name] = frozenset()  # the checker has ruled out circles
            body, parameters = self._definitions.body(name)
            roots = {} if self._name in parameters else self._roots
            self._known[name] = frozenset(self._paths(body, roots))
        return self._known[name]


@dataclass(frozen=True, slots=True)
class _PodPart:
    """A part of the pod. A `whole` part is read completely, whatever is selected from it."""

    path: Path
    whole: bool = False

    def below(self, name: str, of: Type) -> _PodPart:
        """An item of a list, a value of a map, or a field."""
        if self.whole:
            return self
        return _PodPart((*self.path, EACH if of.name == "list" else name))


Roots = Mapping[str, _PodPart]


def _pod_part(expr: ast.Expr, roots: Roots) -> _PodPart | None:
    """The part of the pod that an expression names; None for any other expression."""
    match expr:
        case ast.Ident(name):
            return roots.get(name)
        case ast.Select(operand, name):
            held = _pod_part(operand, roots)
            return held and held.below(name, operand.type)
        case ast.Index(operand, index):
            held = _pod_part(operand, roots)
            if held is None or operand.type.name == "list":
                return held and held.below(EACH, operand.type)
            if isinstance(index, ast.Literal) and isinstance(index.value, str):
                return held.below(index.value, operand.type)
            return _PodPart(held.path, whole=True)
        case _:
            return None


class Shapes:
    """The shapes of pods: the JSON of the parts that are read. The rest is not decoded.

    Two pods of one shape have the same values in these parts. If the same values are written in
    different ways, they may count as two shapes, which costs only time.
    """

    def __init__(self, paths: Iterable[Path]) -> None:
        tree: dict[str, Any] = {}
        for path in paths:
            part = tree
            for name in path:
                part = part.setdefault(name, {})
            part[_WHOLE] = {}
        self._decoder = msgspec.json.Decoder(_type(tree, "Pod"))
        self._encoder = msgspec.json.Encoder()

    def of(self, body: bytes) -> bytes:
        """The shape of a pod's JSON. A body that is not a pod is a shape of its own."""
        try:
            return self._encoder.encode(self._decoder.decode(body))
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            return bytes(body)


_WHOLE = "\0whole"


def _type(tree: dict[str, Any], name: str) -> Any:
    """The type that decodes the parts of a JSON value that are in the tree."""
    if _WHOLE in tree:
        return msgspec.Raw
    if EACH in tree:
        return list[_type(tree[EACH], name)] | None  # type: ignore[misc]
    fields = [(f"f{i}", _type(tree[key], key), None) for i, key in enumerate(tree)]
    names = {f"f{i}": key for i, key in enumerate(tree)}
    made = msgspec.defstruct(name, fields, rename=names, gc=False, omit_defaults=True)
    return made | None


# ---- the values of a pod


_OF_THE_POD = frozenset({"pod", "namespaceObject"})
_PLAIN = frozenset({str, bool, int, type(None), Duration, Timestamp})
# Values that are equal may be written in different ways: `1` and `1000m`, `0.0` and `-0.0`.
_WRITTEN = frozenset({float, Quantity})
# The items of lists and maps in all values of a clause.
_MOST_ITEMS = 256


def pod_parts(compiler: Compiler, exprs: Iterable[ast.Expr]) -> tuple[Evaluate, ...]:
    """The closures of the largest parts that read the pod, or its namespace, and nothing else."""
    parts = (part for each in exprs for part in _largest(compiler.stages, each, _OF_THE_POD))
    return _compiled(compiler, (part for part in parts if part is not None))


def _compiled(compiler: Compiler, parts: Iterable[ast.Expr]) -> tuple[Evaluate, ...]:
    """The closures of parts, of equal ones the first."""
    return tuple(map(compiler.compile, {print_expression(part): part for part in parts}.values()))


def _largest(
    stages: Stages,
    expr: ast.Expr,
    names: frozenset[str],
    types: frozenset[str] | None = None,
    hidden: frozenset[str] = frozenset(),
) -> Iterator[ast.Expr | None]:
    """The largest parts that read these names and nothing else, of these types if there are some.

    None stands for each place where something else is read of the names. `hidden` are the variables
    and parameters around the expression.
    """
    read = stages.roots(expr)
    if read.isdisjoint(names):
        return
    is_whole = read <= names and not stages.is_local(expr) and read.isdisjoint(hidden)
    if is_whole and (types is None or expr.type.name in types):
        yield expr
    elif isinstance(expr, ast.Ident):
        yield None
    else:
        for part, inside in stages.scoped(expr, hidden):
            yield from _largest(stages, part, names, types, inside)


def pod_values(parts: Iterable[Evaluate], frame: Frame) -> Hashable | None:
    """The values of parts, for a comparison; None where they cannot be compared.

    Raises what the frame's `check` raises.
    """
    room = [_MOST_ITEMS]
    found: list[Hashable] = []
    for part in parts:
        try:
            value = part(frame)
        except EvaluationError as error:
            found.append((error.__class__, str(error)))
            continue
        try:
            found.append(_comparable(value, room))
        except TypeError:
            return None
    return tuple(found)


def _comparable(value: object, room: list[int]) -> Hashable:
    """A value of which another type is another value. Raises TypeError if it is too large."""
    if value.__class__ in _PLAIN:
        return value.__class__, value
    if value.__class__ in _WRITTEN:
        return value.__class__, str(value)
    if not isinstance(value, Mapping | list | tuple):
        raise TypeError
    room[0] -= len(value)
    if room[0] < 0:
        raise TypeError
    if isinstance(value, Mapping):
        items = value.items()
        return dict, frozenset((_comparable(k, room), _comparable(v, room)) for k, v in items)
    return list, tuple(_comparable(each, room) for each in value)


def node_parts(compiler: Compiler, exprs: Iterable[ast.Expr]) -> tuple[Evaluate, ...] | None:
    """The closures of the largest parts that are single values; None if more of a node is read."""
    stages, found = compiler.stages, list[ast.Expr]()
    for part in (part for each in exprs for part in _largest(stages, each, _OF_NODE, _VALUES)):
        if part is None:
            return None
        found.append(part)
    return _compiled(compiler, found)
