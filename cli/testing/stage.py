"""The fields that a test gives of a node or a pod: from the map in the text to the API's JSON."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from cli.render import render
from cli.testing.collection import Suite
from cli.world import Cluster, NamedPod, PodBodies
from engine.cache.cluster_file import ClusterFileError, ClusterFileReader, documents
from engine.errors import BadObjectError
from engine.objects.codec import ObjectCodec
from grammar import catalogue as mistakes
from grammar.ast import Expr, ListLiteral, MapLiteral
from grammar.clauses import At, ClusterFile, Test, TestNode, TestPod
from grammar.diagnostics import Diagnostic
from grammar.environment import Environment
from grammar.errors import EvaluationError
from grammar.evaluator import evaluate
from grammar.policy_checker import VARIABLES
from grammar.schema import Schema
from grammar.source import Source, Span
from grammar.types import DYN, STRING, Type, map_of
from grammar.values.maps import key_values
from grammar.values.quantity import Quantity
from grammar.values.time import Duration, Timestamp


def _first_line(found: Diagnostic, source: Source) -> Diagnostic:
    end = source.text.find("\n", found.span.start)
    if 0 <= end < found.span.end:
        return replace(found, span=Span(found.span.start, end))
    return found


def complaint(
    message: str, span: Span, *, label: str = "", hint: str | None = None, notes: Sequence[str] = ()
) -> Diagnostic:
    """What a test says has no code: it is not about the language."""
    return Diagnostic("", "error", message, span, label=label, hint=hint, notes=tuple(notes))


def shown(found: Diagnostic, source: Source, *, colour: bool = False) -> str:
    """The message, the line that it is about with a caret, and what helps.

    A stretch of several lines is shown by its first.
    """
    text = next(render([(_first_line(found, source), source)], "human", colour=colour))
    return text.replace("error[]", "error", 1)


class TestMistakeError(Exception):
    """A test that cannot run as it is written."""

    def __init__(self, found: Diagnostic) -> None:
        super().__init__(found.message)
        self.found = found


Json = Any


@dataclass(frozen=True, slots=True)
class Given:
    """One field of a node or a pod, as its test gives it."""

    key: Expr
    value: Expr


class FieldReader:
    """Evaluates fields. They are constants but for `now`, and API objects know their fields."""

    def __init__(self, schema: Schema, now: Timestamp) -> None:
        self._schema = schema
        self._environment = Environment(variables=VARIABLES, schema=schema)
        self.now = now

    def fields(self, body: MapLiteral | None) -> dict[str, Given]:
        """By name. Raises TestMistakeError for a name that is no text, or is there twice."""
        found: dict[str, Given] = {}
        for entry in body.entries if body is not None else ():
            name = self._evaluated(entry.key)
            if not isinstance(name, str):
                raise _mistake("the name of a field is a text", entry.key)
            if name in found:
                raise _mistake(f"`{name}` is given twice", entry.key)
            found[name] = Given(entry.key, entry.value)
        return found

    def json(self, value: Expr, wanted: Type = DYN) -> Json:
        """A value as the API has it. Raises TestMistakeError, also for an unknown field."""
        if isinstance(value, MapLiteral) and wanted.is_record:
            known = self._schema.records[wanted.name].fields
            made = {}
            for name, given in self.fields(value).items():
                if name not in known:
                    found = mistakes.unknown_field(wanted, name, known, given.key.span)
                    raise TestMistakeError(found)
                made[name] = self.json(given.value, known[name].type)
            return made
        if isinstance(value, MapLiteral):
            inner = wanted.args[-1] if wanted.name == "map" else DYN
            return {n: self.json(g.value, inner) for n, g in self.fields(value).items()}
        if isinstance(value, ListLiteral) and wanted.name == "list":
            return [self.json(element, wanted.args[0]) for element in value.elements]
        return _plain(self._evaluated(value), value)

    def text(self, given: Given, what: str) -> str:
        """Raises TestMistakeError for a value that is no text."""
        found = self.json(given.value)
        if not isinstance(found, str):
            raise _mistake(f"{what} is a text", given.value)
        return found

    def age(self, given: Given) -> Duration:
        """A length of time, as in `"15m"`. Raises TestMistakeError."""
        found = self._evaluated(given.value)
        if isinstance(found, Duration):
            return found
        try:
            return Duration.parse(self.text(given, "an age"))
        except EvaluationError as error:
            raise _mistake(f"this is no age: {error}", given.value) from None

    def _evaluated(self, expr: Expr) -> object:
        try:
            return evaluate(expr, {"now": self.now}, self._environment)
        except EvaluationError as error:
            hint = "a test gives constants, which may read `now`"
            raise TestMistakeError(
                complaint(f"this has no value here: {error}", expr.span, hint=hint)
            ) from None


def _plain(value: object, expr: Expr) -> Json:
    """A value of the language as JSON."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case list() | tuple():
            return [_plain(item, expr) for item in value]
        case Mapping():
            return {str(k): _plain(v, expr) for k, v in key_values(value)}
        case Quantity() | Duration() | Timestamp():
            return str(value)
        case _:
            raise _mistake("an object's field is no value of this kind", expr)


def _mistake(message: str, at: Expr) -> TestMistakeError:
    return TestMistakeError(complaint(message, at.span))


# ---- The nodes and pods of a test as API objects: what it gives of them, and for the rest
# defaults.

Object = dict[str, Any]

NAMESPACE = "default"
_DAY = Duration.parse("1d")
_AMOUNTS = {"cpu": "8", "memory": "32Gi", "pods": "110"}
_ZONES = {"zone": "topology.kubernetes.io/zone", "region": "topology.kubernetes.io/region"}
_TEXTS = map_of(STRING, STRING)
_PARTS = ("metadata", "spec", "status")
_NODE_FIELDS = ("labels", "annotations", "uid", "age", *_ZONES, "ready", "allocatable", *_PARTS)
_POD_FIELDS = (
    *("labels", "annotations", "uid", "age", "priority", "requests", "limits", "workload"),
    *_PARTS,
)
# Computed members that a test cannot give, for they follow from something else that it can.
_FOLLOWS = {
    "name": "it stands before the fields",
    "namespace": "it stands before the fields, as in `shop/web-1`",
    **dict.fromkeys(("requested", "free", "usage", "pods"), "it follows from the pods on the node"),
}


# Of an object's own fields, those that stand outside of the map.
_STAND_OUTSIDE = {
    "metadata": {"name": _FOLLOWS["name"], "namespace": _FOLLOWS["namespace"]},
    "spec": {"nodeName": 'write `on "NODE"` behind the pod'},
}
# What would hide the one container that has them.
_CONTAINERS = {"containers": "give it here with its `resources`, or `requests` and `limits` alone"}
_NAME = re.compile(r"[^/]+")
_QUALIFIED_NAME = re.compile(r"(?:[^/]+/)?[^/]+")


class ObjectMaker:
    """Makes the objects of one test; `controllers` has the workloads that its pods name."""

    def __init__(self, schema: Schema, now: Timestamp) -> None:
        self._schema = schema
        self._reader = FieldReader(schema, now)
        self._wanted: dict[str, int | None] = {}
        self._named: dict[str, int] = {}
        self._workloads: dict[str, Object] = {}

    @property
    def controllers(self) -> list[Object]:
        """Each wants as many pods as its pods say, or as there are of them."""
        found = []
        for uid, workload in self._workloads.items():
            wanted = self._wanted[uid]
            replicas = self._named[uid] if wanted is None else wanted
            field = "parallelism" if workload["kind"] == "Job" else "replicas"
            found.append({**workload, "spec": {field: replicas}})
        return found

    def node(self, item: TestNode) -> Object:
        """Ready, a day old, with 8 cpu, 32Gi and 110 pods. Raises TestMistakeError."""
        _named(item, _NAME, "as in `node-1`")
        given = self._given("Node", item, _NODE_FIELDS)
        reader = self._reader
        labels = {"kubernetes.io/hostname": item.name}
        for name, key in _ZONES.items():
            if name in given:
                labels[key] = reader.text(given[name], f"a {name}")
        ready = "True" if self._flag(given.get("ready"), default=True) else "False"
        amounts = _AMOUNTS | self._map(given.get("allocatable"))
        made = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": self._metadata(item.name, f"node:{item.name}", given, labels, _DAY),
            "spec": {},
            "status": {
                "capacity": amounts,
                "allocatable": amounts,
                "conditions": [{"type": "Ready", "status": ready}],
            },
        }
        return self._with_parts(made, "Node", given)

    def pod(self, item: TestPod) -> Object:
        """One container; pending unless it is `on` a node, and then running for a day.

        Raises TestMistakeError.
        """
        _named(item, _QUALIFIED_NAME, "as in `shop/web-1`")
        given = self._given("Pod", item, _POD_FIELDS)
        namespace, _, name = item.name.rpartition("/")
        namespace = namespace or NAMESPACE
        age = Duration(0) if item.on is None else _DAY
        metadata = self._metadata(name, f"pod:{namespace}/{name}", given, {}, age)
        metadata["namespace"] = namespace
        if "requests" in given or "limits" in given:
            self._refuse(_CONTAINERS, given.get("spec"))
        if "workload" in given:
            metadata["ownerReferences"] = [self._owner(namespace, given["workload"])]
        amounts = {n: self._map(given[n]) for n in ("requests", "limits") if n in given}
        spec: Object = {"containers": [{"name": "main", "image": "main", "resources": amounts}]}
        if "priority" in given:
            spec["priority"] = self._reader.json(given["priority"].value)
        if item.on is not None:
            spec["nodeName"] = item.on
        made = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": spec,
            "status": {"phase": "Pending" if item.on is None else "Running"},
        }
        return self._with_parts(made, "Pod", given)

    def _given(
        self, record: str, item: TestNode | TestPod, known: tuple[str, ...]
    ) -> Mapping[str, Given]:
        given = self._reader.fields(item.body)
        for name, field in given.items():
            if name in known:
                continue
            if name in _FOLLOWS:
                raise _not_given(name, field, _FOLLOWS[name])
            found = mistakes.unknown_field(Type(record), name, known, field.key.span)
            raise TestMistakeError(found)
        return given

    def _metadata(
        self,
        name: str,
        uid: str,
        given: Mapping[str, Given],
        labels: Mapping[str, str],
        age: Duration,
    ) -> Object:
        reader = self._reader
        if "age" in given:
            age = reader.age(given["age"])
        return {
            "name": name,
            "uid": reader.text(given["uid"], "a uid") if "uid" in given else uid,
            "labels": {**labels, **self._map(given.get("labels"))},
            "annotations": self._map(given.get("annotations")),
            "creationTimestamp": str(Timestamp.of(reader.now.nanos - age.nanos)),
        }

    def _with_parts(self, made: Object, record: str, given: Mapping[str, Given]) -> Object:
        """With what is given by its path in the API, which wins."""
        for part in _PARTS:
            if part in given:
                self._refuse(_STAND_OUTSIDE.get(part, {}), given[part])
                field = self._schema.field(record, part)
                assert field is not None, "both kinds have these"
                value = self._reader.json(given[part].value, field.type)
                made = _merged(made, {part: value})
        return made

    def _refuse(self, outside: Mapping[str, str], given: Given | None) -> None:
        if given is not None and isinstance(given.value, MapLiteral):
            for name, inner in self._reader.fields(given.value).items():
                if name in outside:
                    raise _not_given(name, inner, outside[name])

    def _map(self, given: Given | None) -> Object:
        if given is None:
            return {}
        return self._object(given, self._reader.json(given.value, _TEXTS))

    def _object(self, given: Given, value: Json) -> Object:
        if not isinstance(value, dict):
            raise TestMistakeError(complaint("this is no map", given.value.span))
        return value

    def _flag(self, given: Given | None, *, default: bool) -> bool:
        value = default if given is None else self._reader.json(given.value)
        if not isinstance(value, bool):
            assert given is not None, "the default is one"
            raise TestMistakeError(complaint("this is neither true nor false", given.value.span))
        return value

    def _owner(self, namespace: str, given: Given) -> Object:
        """The reference to a workload, which is remembered."""
        value = self._object(given, self._reader.json(given.value, Type("Workload")))
        kind, name = value.get("kind", "Deployment"), value.get("name")
        if not isinstance(name, str) or not isinstance(kind, str):
            hint = 'as in {"name": "web", "replicas": 5}'
            raise TestMistakeError(
                complaint("the workload has no name", given.value.span, hint=hint)
            )
        replicas = value.get("replicas")
        if replicas is not None and (type(replicas) is not int or replicas < 0):
            message = "the workload wants no such number of pods"
            raise TestMistakeError(complaint(message, given.value.span))
        uid = f"{kind}:{namespace}/{name}"
        version = "batch/v1" if kind == "Job" else "apps/v1"
        metadata = {"name": name, "namespace": namespace, "uid": uid}
        self._workloads[uid] = {"apiVersion": version, "kind": kind, "metadata": metadata}
        self._wanted[uid] = replicas if replicas is not None else self._wanted.get(uid)
        self._named[uid] = self._named.get(uid, 0) + 1
        return {"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": True}


def namespace(name: str) -> Object:
    """A namespace as the API server makes it."""
    labels = {"kubernetes.io/metadata.name": name}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def _named(item: TestNode | TestPod, form: re.Pattern[str], hint: str) -> None:
    if not form.fullmatch(item.name):
        message = f"`{item.name}` is no name" if item.name else "the name is empty"
        raise TestMistakeError(complaint(message, item.span, hint=hint))


def _not_given(name: str, field: Given, hint: str) -> TestMistakeError:
    return TestMistakeError(complaint(f"a test gives no `{name}`", field.key.span, hint=hint))


def _merged(under: Json, over: Json) -> Json:
    """Maps are put together; of anything else the second counts."""
    if isinstance(under, dict) and isinstance(over, dict):
        return under | {k: _merged(under.get(k), v) for k, v in over.items()}
    return over


# ---- The cluster of a test: that of its `cluster` file, and the nodes and pods of its text.

# What `now` is where neither the test nor its cluster says: the same on every day.
NOW = Timestamp.parse("2026-01-01T00:00:00Z")

_Document = tuple[Path, bytes]


@dataclass(frozen=True, slots=True)
class Stage:
    """A cluster at one time, and the pod that is asked about in it."""

    cluster: Cluster
    now: Timestamp
    pod: NamedPod
    names: Sequence[str]


class StageBuilder:
    """Sets up tests, one after the other."""

    def __init__(self, schema: Schema, codec: ObjectCodec) -> None:
        self._schema = schema
        self._codec = codec
        self._reader = ClusterFileReader(codec)

    def build(self, test: Test, suite: Suite) -> Stage:
        """Raises TestMistakeError for a test that cannot be set up."""
        _once(test)
        text = Path(suite.source.name)
        snapshot = self._snapshot(test, suite.folder)
        now = self._now(test, snapshot)
        maker = ObjectMaker(self._schema, now)
        given = [item for item in test.items if isinstance(item, TestNode | TestPod)]
        written = [self._object(maker, item) for item in given]
        if not snapshot and not any(isinstance(item, TestNode) for item in given):
            hint = 'give it one, as in `node "node-1"`'
            raise TestMistakeError(complaint("the test has no node", test.name_span, hint=hint))
        namespaces = [namespace(n) for n in _namespaces(test)]
        objects = [*written, *maker.controllers]
        # Of two objects of one name the later counts: the file's own namespaces, the test's nodes.
        contents = [
            *((text, msgspec.json.encode(o)) for o in namespaces),
            *snapshot,
            *((text, msgspec.json.encode(o)) for o in objects),
        ]
        cluster = self._cluster(contents, test)
        names = sorted(cluster.snapshot().table.rows)
        for item in given:
            if isinstance(item, TestPod) and item.on is not None and item.on not in names:
                message = f"there is no node `{item.on}` in this test"
                raise TestMistakeError(complaint(message, item.span))
        return Stage(cluster, now, _tested(test, cluster, snapshot), names)

    def _snapshot(self, test: Test, folder: Path) -> list[_Document]:
        found: list[_Document] = []
        for item in test.items:
            if isinstance(item, ClusterFile):
                file = folder / item.path
                try:
                    found.extend((file, document) for document in documents(file))
                except ClusterFileError as error:
                    raise _unreadable(error, item) from None
        return found

    def _now(self, test: Test, snapshot: Sequence[_Document]) -> Timestamp:
        for item in test.items:
            if isinstance(item, At):
                try:
                    return Timestamp.parse(item.time)
                except EvaluationError as error:
                    hint = "as in 2026-01-31T12:00:00Z"
                    raise TestMistakeError(
                        complaint(f"this is no time: {error}", item.span, hint=hint)
                    ) from None
        if not snapshot:
            return NOW
        return self._cluster(snapshot, test).snapshot().newest() or NOW

    def _cluster(self, contents: Sequence[_Document], test: Test) -> Cluster:
        files = list(dict.fromkeys(file for file, _ in contents))
        try:
            reading = self._reader.take(files, contents)
        except ClusterFileError as error:
            file = next((i for i in test.items if isinstance(i, ClusterFile)), None)
            raise _unreadable(error, file or test) from None
        return Cluster(reading.cache, PodBodies([document for _, document in contents]), files)

    def _object(self, maker: ObjectMaker, item: TestNode | TestPod) -> Object:
        made = maker.node(item) if isinstance(item, TestNode) else maker.pod(item)
        decode = self._codec.node if isinstance(item, TestNode) else self._codec.pod
        try:
            decode(msgspec.json.encode(made))
        except BadObjectError as error:
            raise TestMistakeError(complaint(str(error), item.span)) from None
        return made


def _once(test: Test) -> None:
    """Raises TestMistakeError for what is given twice; of clusters there may be several."""
    seen: set[tuple[type, str]] = set()
    known: tuple[type, str]
    for item in test.items:
        match item:
            case TestNode(name) | TestPod(name):
                known, what = (type(item), name), f"`{name}`"
            case At():
                known, what = (At, ""), "the time"
            case _:
                continue
        if known in seen:
            raise TestMistakeError(complaint(f"{what} is given twice", item.span))
        seen.add(known)


def _namespaces(test: Test) -> Sequence[str]:
    pods = (item for item in test.items if isinstance(item, TestPod))
    return list(dict.fromkeys(pod.name.rpartition("/")[0] or NAMESPACE for pod in pods))


def _tested(test: Test, cluster: Cluster, snapshot: Sequence[_Document]) -> NamedPod:
    """The last pod without a node: of the text, else of the cluster's file."""
    pods = [item for item in test.items if isinstance(item, TestPod) and item.on is None]
    if pods:
        name = pods[-1].name
        return cluster.pod(name if "/" in name else f"{NAMESPACE}/{name}")
    pending = cluster.snapshot().pending
    waiting = [k for k in PodBodies([d for _, d in snapshot]).all_keys() if k in pending]
    if not waiting:
        hint = 'the last pod that is not `on` a node is, as in `pod "shop/web-1"`'
        raise TestMistakeError(complaint("the test has no pod to test", test.name_span, hint=hint))
    return cluster.pod(waiting[-1])


def _unreadable(error: ClusterFileError, at: ClusterFile | Test) -> TestMistakeError:
    span = at.span if isinstance(at, ClusterFile) else at.name_span
    return TestMistakeError(complaint(error.message, span, hint=error.hint))
