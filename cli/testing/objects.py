"""The nodes and pods of a test as API objects: what it gives of them, and for the rest defaults."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from cli.testing.complaint import TestMistakeError, complaint
from cli.testing.values import FieldReader, Given, Json
from grammar import mistakes
from grammar.ast import MapLiteral
from grammar.clauses import TestNode, TestPod
from grammar.schema import Schema
from grammar.types import STRING, Type, map_of
from grammar.values.duration import Duration
from grammar.values.timestamp import Timestamp

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
