"""Fixture: the cluster of one test, and the pod that the test is about.

The cluster has the objects of the test's `cluster` files, and the nodes and pods that the test
itself lists. An object of the test is an API object with defaults, and with the fields that the
test gives. A fixture lives as long as its test.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, assert_never

import msgspec

from engine.cache.cluster_copy import ClusterCopy, ClusterDocuments, DataText, NamedPod
from engine.cache.cluster_file import ClusterFileError, ClusterFileReader, bodies, documents
from engine.errors import BadObjectError
from engine.objects.codec import ObjectCodec, decode_namespace
from engine.objects.defaulting import default_node, default_pod
from engine.objects.peer import ENDED
from grammar.checker.policy_checker import VARIABLES
from grammar.meaning.environment import Environment
from grammar.meaning.evaluator import evaluate
from grammar.meaning.schema import Schema
from grammar.messages import catalogue
from grammar.messages.diagnostics import Diagnostic
from grammar.tree.ast import Expr, ListLiteral, MapEntry, MapLiteral
from grammar.tree.source import Span
from grammar.tree.types import DYN, STRING, Type, map_of
from grammar.tree.written_tests import (
    At,
    ClusterFile,
    Test,
    TestData,
    TestNamespace,
    TestNode,
    TestPod,
)
from grammar.values.errors import EvaluationError
from grammar.values.maps import key_values
from grammar.values.quantity import Quantity
from grammar.values.time import Duration, Timestamp

Json = Any
Object = dict[str, Any]
_Document = tuple[Path, bytes]
TestObject = TestNamespace | TestNode | TestPod

NAMESPACE = "default"
# `now` of a test without a time: the same on every day.
NOW = Timestamp.parse("2026-01-01T00:00:00Z")


class BadTestError(Exception):
    """A test that cannot run as it is written."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


def bad_test(message: str, span: Span, hint: str | None = None) -> BadTestError:
    """An error in a test. It has no code, because it is not about the language."""
    return BadTestError(Diagnostic("", "error", message, span, hint=hint))


@dataclass(frozen=True, slots=True)
class Fixture:
    """A cluster at one time, the names of its nodes, and the pod that a test is about."""

    cluster: ClusterCopy
    pod: NamedPod
    nodes: Sequence[str]


class FixtureBuilder:
    """Builds the fixtures of tests, one after the other."""

    def __init__(
        self, schema: Schema, codec: ObjectCodec, running: ClusterDocuments | None = None
    ) -> None:
        """`running` is a running cluster, which stands for the `cluster` files of all tests."""
        self._schema = schema
        self._codec = codec
        self._running = running
        self._reader = ClusterFileReader(codec)

    def build(self, test: Test, file: Path) -> Fixture:
        """The fixture of a test in a file. Raises BadTestError."""
        _check_duplicates(test)
        snapshot = _snapshot(test, file.parent, self._running)
        now = self._now(test, snapshot)
        objects = ObjectBuilder(self._schema, now)
        items = [item for item in test.items if isinstance(item, TestObject)]
        built = [self._object(objects, item) for item in items]
        if not snapshot and not any(isinstance(item, TestNode) for item in items):
            raise bad_test("the test has no node", test.name_span, 'add one, as in `node "node-1"`')
        pods = (item for item in items if isinstance(item, TestPod))
        namespaces = dict.fromkeys(_namespace(pod.name) for pod in pods)
        # Of two objects with one name the later counts: a namespace of the cluster file before one
        # that only a pod names, and an object that the test lists before one of the cluster file.
        contents = [
            *((file, msgspec.json.encode(namespace_object(name))) for name in namespaces),
            *snapshot,
            *(
                (file, msgspec.json.encode(o))
                for o in (*built, *objects.controllers, *objects.groups)
            ),
        ]
        cluster = self._cluster(contents, test, now)
        nodes = sorted(cluster.snapshot().table.rows)
        for item in items:
            if isinstance(item, TestPod) and item.on is not None and item.on not in nodes:
                raise bad_test(f"there is no node `{item.on}` in this test", item.span)
        return Fixture(cluster, _tested_pod(test, cluster, snapshot), nodes)

    def _now(self, test: Test, snapshot: Sequence[_Document]) -> Timestamp:
        for item in test.items:
            if isinstance(item, At):
                try:
                    return Timestamp.parse(item.time)
                except EvaluationError as error:
                    hint = "as in 2026-01-31T12:00:00Z"
                    raise bad_test(f"this is not a time: {error}", item.span, hint) from None
        return (self._cluster(snapshot, test).snapshot().newest() if snapshot else None) or NOW

    def _cluster(
        self, contents: Sequence[_Document], test: Test, now: Timestamp | None = None
    ) -> ClusterCopy:
        files = list(dict.fromkeys(file for file, _ in contents))
        try:
            reading = self._reader.take(files, contents)
        except ClusterFileError as error:
            spans = (item.span for item in test.items if isinstance(item, ClusterFile))
            raise bad_test(error.message, next(spans, test.name_span), error.hint) from None
        bodies = [document for _, document in contents]
        return ClusterCopy(reading.cache, bodies, files, now, self._data(test, now))

    def _data(self, test: Test, now: Timestamp | None) -> Mapping[str, DataText]:
        """The tables of the test, by their names. Raises BadTestError."""
        reader, found = FieldReader(self._schema, now or NOW), dict[str, DataText]()
        for item in test.items:
            if isinstance(item, TestData):
                if item.name in found:
                    raise bad_test(f"`{item.name}` is given twice", item.span)
                rows = msgspec.json.encode(reader.json(item.body))
                found[item.name] = DataText(f"data {item.name}", rows, "json")
        return found

    def _object(self, objects: ObjectBuilder, item: TestObject) -> Object:
        try:
            match item:
                case TestNamespace():
                    built = objects.namespace(item)
                    decode_namespace(msgspec.json.encode(built))
                case TestNode():
                    built = objects.node(item)
                    default_node(built)
                    self._codec.node(msgspec.json.encode(built))
                case TestPod():
                    built = objects.pod(item)
                    default_pod(built)
                    self._codec.pod(msgspec.json.encode(built))
                case _:
                    assert_never(item)
        except BadObjectError as error:
            raise bad_test(str(error), item.span) from None
        return built


def example_objects(test: Test, schema: Schema) -> list[Object]:
    """The namespaces, nodes, pods and workloads that a test lists, as the API server shows them."""
    objects = ObjectBuilder(schema, NOW)
    found: list[Object] = []
    for item in test.items:
        match item:
            case TestNamespace():
                found.append(objects.namespace(item))
            case TestNode():
                found.append(objects.node(item))
            case TestPod():
                found.append(objects.pod(item))
            case _:
                continue
    return [*found, *objects.controllers, *objects.groups]


def _check_duplicates(test: Test) -> None:
    """Raises BadTestError for two objects with one name, and for two times."""
    seen: set[tuple[type, str]] = set()
    for item in test.items:
        if not isinstance(item, TestObject | At):
            continue
        name = "" if isinstance(item, At) else item.name
        if (type(item), name) in seen:
            what = "the time" if isinstance(item, At) else f"`{name}`"
            raise bad_test(f"{what} is given twice", item.span)
        seen.add((type(item), name))


def _snapshot(test: Test, folder: Path, running: ClusterDocuments | None) -> list[_Document]:
    found: list[_Document] = []
    if running is not None and any(isinstance(item, ClusterFile) for item in test.items):
        return list(running.contents)
    for item in test.items:
        if isinstance(item, ClusterFile):
            file = folder / item.path
            try:
                found.extend((file, document) for document in documents(file))
            except ClusterFileError as error:
                raise bad_test(error.message, item.span, error.hint) from None
    return found


def _tested_pod(test: Test, cluster: ClusterCopy, snapshot: Sequence[_Document]) -> NamedPod:
    """The last pod without a node: of the test, else of its `cluster` files."""
    pods = [item for item in test.items if isinstance(item, TestPod) and item.on is None]
    if pods:
        return cluster.pod(key_in_test(pods[-1].name))
    pending = cluster.snapshot().pending
    waiting = [k for k in bodies([d for _, d in snapshot], "Pod") if k in pending]
    if not waiting:
        hint = 'add a pod that is not `on` a node, as in `pod "shop/web-1"`'
        raise bad_test("the test has no pod to test", test.name_span, hint)
    return cluster.pod(waiting[-1])


def key_in_test(pod: str) -> str:
    """The `namespace/name` of a pod by its name in a test."""
    return pod if "/" in pod else f"{NAMESPACE}/{pod}"


def _namespace(pod: str) -> str:
    return pod.rpartition("/")[0] or NAMESPACE


def namespace_object(name: str) -> Object:
    """A Namespace with the label that the API server gives it."""
    labels = {"kubernetes.io/metadata.name": name}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


# ---- nodes and pods as API objects

_DAY = Duration.parse("1d")
_AMOUNTS = {"cpu": "8", "memory": "32Gi", "pods": "110"}
_ZONES = {"zone": "topology.kubernetes.io/zone", "region": "topology.kubernetes.io/region"}
_STRING_MAP = map_of(STRING, STRING)
_PARTS = ("metadata", "spec", "status")
_NODE_FIELDS = ("labels", "annotations", "uid", "age", *_ZONES, "ready", "allocatable", *_PARTS)
_NAMESPACE_FIELDS = ("labels", "annotations")
_POD_FIELDS = (
    *("labels", "annotations", "uid", "age", "priority", "requests", "limits", "workload"),
    *("group", "ready"),
    *_PARTS,
)
# Fields of the language that a test cannot set, each with a hint.
_UNSETTABLE = {
    "name": "write it before the fields",
    "namespace": "write it before the fields, as in `shop/web-1`",
    "hostPorts": "set `ports` of a container in `spec`",
    **dict.fromkeys(
        ("requested", "free", "usage", "pods"), "it is computed from the pods on the node"
    ),
}
# Fields of the API that a test sets outside of the map.
_SET_OUTSIDE = {
    "metadata": {name: _UNSETTABLE[name] for name in ("name", "namespace")},
    "spec": {"nodeName": 'write `on "NODE"` after the pod'},
}
# This field would hide the container that has the requests and limits.
_CONTAINERS = {
    "containers": "set `resources` in `containers`, or set `requests` and `limits` without it"
}
_NAME = re.compile(r"[^/]+")
_QUALIFIED_NAME = re.compile(r"(?:[^/]+/)?[^/]+")


class ObjectBuilder:
    """Builds the API objects of one test, and the workloads that its pods name."""

    def __init__(self, schema: Schema, now: Timestamp) -> None:
        self._schema = schema
        self._reader = FieldReader(schema, now)
        self._workloads: dict[str, Object] = {}
        self._groups: dict[str, Object] = {}
        self._replicas: dict[str, int | None] = {}
        self._pods: dict[str, int] = {}

    @property
    def controllers(self) -> list[Object]:
        """The workloads. Without `replicas`, one wants as many pods as the test has of it."""
        found = []
        for uid, workload in self._workloads.items():
            given = self._replicas[uid]
            field = "parallelism" if workload["kind"] == "Job" else "replicas"
            spec = {field: self._pods[uid] if given is None else given}
            found.append({**workload, "spec": spec})
        return found

    @property
    def groups(self) -> list[Object]:
        """The PodGroups that say a number; of one name the last."""
        return list(self._groups.values())

    def namespace(self, item: TestNamespace) -> Object:
        """The namespace with its labels and annotations. Raises BadTestError."""
        _check_name(item, _NAME, "as in `shop`")
        fields = self._fields("Namespace", item, _NAMESPACE_FIELDS)
        given = {name: self._map(fields, name) for name in _NAMESPACE_FIELDS}
        built = namespace_object(item.name)
        return built | {"metadata": _merged(built["metadata"], given)}

    def node(self, item: TestNode) -> Object:
        """Ready, a day old, with 8 cpu, 32Gi and 110 pods. Raises BadTestError."""
        _check_name(item, _NAME, "as in `node-1`")
        fields = self._fields("Node", item, _NODE_FIELDS)
        labels = {"kubernetes.io/hostname": item.name}
        for name, key in _ZONES.items():
            if name in fields:
                labels[key] = self._reader.string(fields[name], f"a {name}")
        ready = self._is_ready(fields)
        amounts = _AMOUNTS | self._map(fields, "allocatable")
        built = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": self._metadata(item.name, f"node:{item.name}", fields, labels, _DAY),
            "spec": {},
            "status": {
                "capacity": amounts,
                "allocatable": amounts,
                "conditions": [{"type": "Ready", "status": str(ready)}],
            },
        }
        return self._with_parts(built, "Node", fields)

    def pod(self, item: TestPod) -> Object:
        """One container. Pending, or running and ready for a day if it is `on` a node.

        Raises BadTestError.
        """
        _check_name(item, _QUALIFIED_NAME, "as in `shop/web-1`")
        fields = self._fields("Pod", item, _POD_FIELDS)
        namespace, name = _namespace(item.name), item.name.rpartition("/")[2]
        age = Duration(0) if item.on is None else _DAY
        metadata = self._metadata(name, f"pod:{namespace}/{name}", fields, {}, age)
        metadata["namespace"] = namespace
        if "requests" in fields or "limits" in fields:
            self._refuse(_CONTAINERS, fields.get("spec"))
        if "workload" in fields:
            metadata["ownerReferences"] = [self._owner(namespace, fields["workload"])]
        amounts = {n: self._map(fields, n) for n in ("requests", "limits") if n in fields}
        spec: Object = {"containers": [{"name": "main", "image": "main", "resources": amounts}]}
        if "group" in fields:
            spec["schedulingGroup"] = {"podGroupName": self._group(namespace, fields["group"])}
        if "priority" in fields:
            spec["priority"] = self._reader.json(fields["priority"].value)
        status = {"phase": "Pending"}
        if item.on is not None:
            spec["nodeName"] = item.on
            status = {"phase": "Running", "startTime": metadata["creationTimestamp"]}
        built = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": spec,
            "status": status,
        }
        whole = self._with_parts(built, "Pod", fields)
        if item.on is not None and "conditions" not in whole["status"]:
            ended = whole["status"].get("phase") in ENDED
            ready = not ended and self._is_ready(fields)
            since = str(self._reader.now) if ended else metadata["creationTimestamp"]
            condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": since}
            whole["status"]["conditions"] = [condition]
        return whole

    def _is_ready(self, fields: Mapping[str, MapEntry]) -> bool:
        ready = self._reader.json(fields["ready"].value) if "ready" in fields else True
        if not isinstance(ready, bool):
            raise bad_test("this must be true or false", fields["ready"].value.span)
        return ready

    def _fields(
        self, record: str, item: TestObject, known: tuple[str, ...]
    ) -> Mapping[str, MapEntry]:
        fields = self._reader.fields(item.body)
        for name, field in fields.items():
            if name in known:
                continue
            if name in _UNSETTABLE:
                raise _unsettable(name, field, _UNSETTABLE[name])
            raise BadTestError(catalogue.unknown_field(Type(record), name, known, field.key.span))
        return fields

    def _metadata(
        self,
        name: str,
        uid: str,
        fields: Mapping[str, MapEntry],
        labels: Mapping[str, str],
        age: Duration,
    ) -> Object:
        reader = self._reader
        if "age" in fields:
            age = reader.age(fields["age"])
        return {
            "name": name,
            "uid": reader.string(fields["uid"], "a uid") if "uid" in fields else uid,
            "labels": {**labels, **self._map(fields, "labels")},
            "annotations": self._map(fields, "annotations"),
            "creationTimestamp": str(Timestamp.of(reader.now.nanos - age.nanos)),
        }

    def _with_parts(self, built: Object, record: str, fields: Mapping[str, MapEntry]) -> Object:
        """The object with the parts that the test gives by their path in the API: they win."""
        for part in _PARTS:
            if part in fields:
                self._refuse(_SET_OUTSIDE.get(part, {}), fields[part])
                field = self._schema.field(record, part)
                assert field is not None, "both kinds have these"
                value = self._reader.json(fields[part].value, field.type)
                built = _merged(built, {part: value})
        return built

    def _refuse(self, outside: Mapping[str, str], field: MapEntry | None) -> None:
        """Raises BadTestError if a map has a field that a test sets outside of it."""
        if field is not None and isinstance(field.value, MapLiteral):
            for name, inner in self._reader.fields(field.value).items():
                if name in outside:
                    raise _unsettable(name, inner, outside[name])

    def _map(self, fields: Mapping[str, MapEntry], name: str) -> Object:
        return self._object(fields[name], _STRING_MAP) if name in fields else {}

    def _object(self, field: MapEntry, type_: Type) -> Object:
        value = self._reader.json(field.value, type_)
        if not isinstance(value, dict):
            raise bad_test("this is not a map", field.value.span)
        return value

    def _group(self, namespace: str, field: MapEntry) -> str:
        """The name of a PodGroup, which is kept for `groups`."""
        value, span = self._object(field, Type("PodGroup")), field.value.span
        name, number = value.get("name"), value.get("minCount")
        if not isinstance(name, str):
            raise bad_test("the group has no name", span, 'as in {"name": "bert", "minCount": 4}')
        if number is not None and (type(number) is not int or number < 1):
            raise bad_test("`minCount` must be a whole number from 1", span)
        if number is not None:
            self._groups[f"{namespace}/{name}"] = {
                "apiVersion": "scheduling.k8s.io/v1alpha2",
                "kind": "PodGroup",
                "metadata": {"name": name, "namespace": namespace},
                "spec": {"schedulingPolicy": {"gang": {"minCount": number}}},
            }
        return name

    def _owner(self, namespace: str, field: MapEntry) -> Object:
        """The reference to a workload, which is kept for `controllers`."""
        value, span = self._object(field, Type("Workload")), field.value.span
        kind, name = value.get("kind", "Deployment"), value.get("name")
        if not isinstance(name, str) or not isinstance(kind, str):
            hint = 'as in {"name": "web", "replicas": 5}'
            raise bad_test("the workload has no name", span, hint)
        replicas = value.get("replicas")
        if replicas is not None and (type(replicas) is not int or replicas < 0):
            raise bad_test("`replicas` must be a whole number from 0", span)
        uid = f"{kind}:{namespace}/{name}"
        version = "batch/v1" if kind == "Job" else "apps/v1"
        metadata = {"name": name, "namespace": namespace, "uid": uid}
        self._workloads[uid] = {"apiVersion": version, "kind": kind, "metadata": metadata}
        self._replicas[uid] = replicas if replicas is not None else self._replicas.get(uid)
        self._pods[uid] = self._pods.get(uid, 0) + 1
        return {"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": True}


def _check_name(item: TestObject, form: re.Pattern[str], hint: str) -> None:
    if not form.fullmatch(item.name):
        message = f"`{item.name}` is not a valid name" if item.name else "the name is empty"
        raise bad_test(message, item.span, hint)


def _unsettable(name: str, field: MapEntry, hint: str) -> BadTestError:
    return bad_test(f"a test cannot set `{name}`", field.key.span, hint)


def _merged(under: Json, over: Json) -> Json:
    """Maps are merged, key by key; of other values the second counts."""
    if isinstance(under, dict) and isinstance(over, dict):
        return under | {k: _merged(under.get(k), v) for k, v in over.items()}
    return over


# ---- the values of fields


class FieldReader:
    """Evaluates the fields of a test to JSON. They are constants, and may read `now`."""

    def __init__(self, schema: Schema, now: Timestamp) -> None:
        self._schema = schema
        self._environment = Environment(variables=VARIABLES, schema=schema)
        self.now = now

    def fields(self, body: MapLiteral | None) -> dict[str, MapEntry]:
        """The fields of a map by name. Raises BadTestError for a bad name, and for two of one."""
        found: dict[str, MapEntry] = {}
        for entry in body.entries if body is not None else ():
            name = self._evaluated(entry.key)
            if not isinstance(name, str):
                raise bad_test("a field name must be a string", entry.key.span)
            if name in found:
                raise bad_test(f"`{name}` is given twice", entry.key.span)
            found[name] = entry
        return found

    def json(self, value: Expr, type_: Type = DYN) -> Json:
        """A value as the API has it. Raises BadTestError, also for a field that the API lacks."""
        match value:
            case MapLiteral() if type_.is_record:
                known = self._schema.records[type_.name].fields
                found = {}
                for name, field in self.fields(value).items():
                    if name not in known:
                        span = field.key.span
                        raise BadTestError(catalogue.unknown_field(type_, name, known, span))
                    found[name] = self.json(field.value, known[name].type)
                return found
            case MapLiteral():
                inner = type_.args[-1] if type_.name == "map" else DYN
                return {n: self.json(f.value, inner) for n, f in self.fields(value).items()}
            case ListLiteral(elements) if type_.name == "list":
                return [self.json(element, type_.args[0]) for element in elements]
        try:
            return to_json(self._evaluated(value))
        except TypeError as error:
            raise bad_test(str(error), value.span) from None

    def string(self, field: MapEntry, what: str) -> str:
        """Raises BadTestError for a value of another type."""
        found = self.json(field.value)
        if not isinstance(found, str):
            raise bad_test(f"{what} must be a string", field.value.span)
        return found

    def age(self, field: MapEntry) -> Duration:
        """A duration, as in `"15m"`. Raises BadTestError."""
        found = self._evaluated(field.value)
        if isinstance(found, Duration):
            return found
        try:
            return Duration.parse(self.string(field, "an age"))
        except EvaluationError as error:
            raise bad_test(f"this is not an age: {error}", field.value.span) from None

    def _evaluated(self, expr: Expr) -> object:
        try:
            return evaluate(expr, {"now": self.now}, self._environment)
        except EvaluationError as error:
            hint = "use constants, which may read `now`"
            raise bad_test(f"this cannot be evaluated: {error}", expr.span, hint) from None


def to_json(value: object) -> Json:
    """A value of the language as JSON. Raises TypeError, with a message, for other values."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case list() | tuple():
            return [to_json(item) for item in value]
        case Mapping():
            return {str(k): to_json(v) for k, v in key_values(value)}
        case Quantity() | Duration() | Timestamp():
            return str(value)
        case _:
            raise TypeError("a field cannot have a value of this type")
