"""Written objects: the namespaces, nodes and pods of a `test` block, as API objects.

An object has defaults, and the fields that are written. The demo, the conformance kit and
`placet new` write their clusters in these words too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from engine.objects.peer import ENDED
from grammar.checker.policy_checker import VARIABLES
from grammar.meaning.environment import Environment
from grammar.meaning.evaluator import evaluate
from grammar.meaning.schema import Schema
from grammar.messages import catalogue
from grammar.messages.diagnostics import Diagnostic
from grammar.tree.ast import Expr, ListLiteral, MapEntry, MapLiteral
from grammar.tree.policy import Test, TestObject
from grammar.tree.source import Span
from grammar.tree.types import DYN, STRING, Type, map_of
from grammar.values.errors import EvaluationError
from grammar.values.maps import key_values
from grammar.values.quantity import Quantity
from grammar.values.time import Duration, Timestamp

Json = Any
Object = dict[str, Any]

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


def objects_of(test: Test, schema: Schema, now: Timestamp = NOW) -> list[Object]:
    """The objects that a test writes, and their workloads and groups. Raises BadTestError."""
    builder = ObjectBuilder(schema, now)
    items = [item for item in test.items if isinstance(item, TestObject)]
    return [*map(builder.built, items), *builder.named]


def namespace_of(pod: str) -> str:
    return pod.rpartition("/")[0] or NAMESPACE


def namespace_object(name: str) -> Object:
    """A Namespace with the label that the API server gives it."""
    labels = {"kubernetes.io/metadata.name": name}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


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
    """Builds the API objects of one test, and the workloads and PodGroups that its pods name."""

    def __init__(self, schema: Schema, now: Timestamp) -> None:
        self._schema = schema
        self._reader = FieldReader(schema, now)
        self._workloads: dict[str, Object] = {}
        self._groups: dict[str, Object] = {}
        # The workloads with `replicas`; any other one wants as many pods as the test has of it.
        self._sized: set[str] = set()

    @property
    def named(self) -> list[Object]:
        """The workloads, and the PodGroups that say a number; of one name the last."""
        return [*self._workloads.values(), *self._groups.values()]

    def built(self, item: TestObject) -> Object:
        """The object of an item. Raises BadTestError."""
        match item.kind:
            case "namespace":
                return self._namespace(item)
            case "node":
                return self._node(item)
            case "pod":
                return self._pod(item)

    def _namespace(self, item: TestObject) -> Object:
        """The namespace with its labels and annotations. Raises BadTestError."""
        _check_name(item, _NAME, "as in `shop`")
        fields = self._fields("Namespace", item, _NAMESPACE_FIELDS)
        given = {name: self._map(fields, name) for name in _NAMESPACE_FIELDS}
        built = namespace_object(item.name)
        return built | {"metadata": merged(built["metadata"], given)}

    def _node(self, item: TestObject) -> Object:
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

    def _pod(self, item: TestObject) -> Object:
        """One container. Pending, or running and ready for a day if it is `on` a node.

        Raises BadTestError.
        """
        _check_name(item, _QUALIFIED_NAME, "as in `shop/web-1`")
        fields = self._fields("Pod", item, _POD_FIELDS)
        namespace, name = namespace_of(item.name), item.name.rpartition("/")[2]
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
                built = merged(built, {part: value})
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
        """The name of a PodGroup, which is kept for `named`."""
        value = self._object(field, Type("PodGroup"))
        name, number = value.get("name"), _number(value, "minCount", 1, field)
        if not isinstance(name, str):
            hint = 'as in {"name": "bert", "minCount": 4}'
            raise bad_test("the group has no name", field.value.span, hint)
        if number is not None:
            self._groups[f"{namespace}/{name}"] = {
                "apiVersion": "scheduling.k8s.io/v1alpha2",
                "kind": "PodGroup",
                "metadata": {"name": name, "namespace": namespace},
                "spec": {"schedulingPolicy": {"gang": {"minCount": number}}},
            }
        return name

    def _owner(self, namespace: str, field: MapEntry) -> Object:
        """The reference to a workload, which is kept for `named`."""
        value = self._object(field, Type("Workload"))
        kind, name = value.get("kind", "Deployment"), value.get("name")
        if not isinstance(name, str) or not isinstance(kind, str):
            hint = 'as in {"name": "web", "replicas": 5}'
            raise bad_test("the workload has no name", field.value.span, hint)
        replicas = _number(value, "replicas", 0, field)
        uid, version = f"{kind}:{namespace}/{name}", "batch/v1" if kind == "Job" else "apps/v1"
        metadata = {"name": name, "namespace": namespace, "uid": uid}
        made = {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": {}}
        spec = self._workloads.setdefault(uid, made)["spec"]
        size = "parallelism" if kind == "Job" else "replicas"
        if replicas is not None:
            spec[size] = replicas
            self._sized.add(uid)
        elif uid not in self._sized:
            spec[size] = spec.get(size, 0) + 1
        return {"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": True}


def _check_name(item: TestObject, form: re.Pattern[str], hint: str) -> None:
    if not form.fullmatch(item.name):
        message = f"`{item.name}` is not a valid name" if item.name else "the name is empty"
        raise bad_test(message, item.span, hint)


def _number(value: Object, key: str, least: int, field: MapEntry) -> int | None:
    number: int | None = value.get(key)
    if number is not None and (type(number) is not int or number < least):
        raise bad_test(f"`{key}` must be a whole number from {least}", field.value.span)
    return number


def _unsettable(name: str, field: MapEntry, hint: str) -> BadTestError:
    return bad_test(f"a test cannot set `{name}`", field.key.span, hint)


def merged(under: Any, over: Any) -> Any:
    """A value after a JSON merge patch, RFC 7396."""
    if not isinstance(over, dict):
        return over
    made = dict(under) if isinstance(under, dict) else {}
    made |= {key: merged(made.get(key), each) for key, each in over.items()}
    return {key: each for key, each in made.items() if key not in over or each is not None}


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
