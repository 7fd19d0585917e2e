"""Fixture: the cluster of one test, and the pod that the test is about.

The cluster has the objects of the test's `cluster` files, and the nodes and pods that the test
itself lists. A fixture lives as long as its test.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from cli.written_objects import (
    NAMESPACE,
    NOW,
    FieldReader,
    Object,
    ObjectBuilder,
    bad_test,
    namespace_object,
    namespace_of,
)
from engine.cache.cluster_copy import ClusterCopy, DataText, NamedPod
from engine.cache.cluster_file import ClusterFileError, bodies, documents, read_cluster
from engine.errors import BadObjectError
from engine.objects.codec import ObjectCodec, decode_namespace
from engine.objects.defaulting import default_node, default_pod
from grammar.meaning.schema import Schema
from grammar.tree.clauses import ClusterFile, Test, TestData, TestObject, TestTime
from grammar.values.errors import EvaluationError
from grammar.values.time import Timestamp

_Document = tuple[Path, bytes]


@dataclass(frozen=True, slots=True)
class Fixture:
    """A fixture: a cluster at one time, the names of its nodes, and the pod of a test."""

    cluster: ClusterCopy
    pod: NamedPod
    nodes: Sequence[str]


class FixtureBuilder:
    """Builds the fixtures of tests, one after the other."""

    def __init__(self, schema: Schema, codec: ObjectCodec) -> None:
        self._schema = schema
        self._codec = codec

    def build(self, test: Test, file: Path) -> Fixture:
        """The fixture of a test in a file. Raises BadTestError."""
        _check_duplicates(test)
        snapshot = _snapshot(test, file.parent)
        now = self._now(test, snapshot)
        objects = ObjectBuilder(self._schema, now)
        items = [item for item in test.items if isinstance(item, TestObject)]
        built = [self._object(objects, item) for item in items]
        if not snapshot and not any(item.kind == "node" for item in items):
            raise bad_test("the test has no node", test.name_span, 'add one, as in `node "node-1"`')
        pods = (item.name for item in items if item.kind == "pod")
        namespaces = dict.fromkeys(map(namespace_of, pods))
        # Of two objects with one name the later counts: a namespace of the cluster file before one
        # that only a pod names, and an object that the test lists before one of the cluster file.
        contents = [
            *((file, msgspec.json.encode(namespace_object(name))) for name in namespaces),
            *snapshot,
            *((file, msgspec.json.encode(o)) for o in (*built, *objects.named)),
        ]
        cluster = self._cluster(contents, test, now)
        nodes = sorted(cluster.snapshot().table.rows)
        for item in items:
            if item.on is not None and item.on not in nodes:
                raise bad_test(f"there is no node `{item.on}` in this test", item.span)
        return Fixture(cluster, _tested_pod(test, cluster, snapshot), nodes)

    def _now(self, test: Test, snapshot: Sequence[_Document]) -> Timestamp:
        for item in test.items:
            if isinstance(item, TestTime):
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
            reading = read_cluster(self._codec, files, contents)
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
                found[item.name] = DataText(f"data {item.name}", rows, "yaml")
        return found

    def _object(self, objects: ObjectBuilder, item: TestObject) -> Object:
        built = objects.built(item)
        try:
            if item.kind == "node":
                default_node(built)
                self._codec.node(msgspec.json.encode(built))
            elif item.kind == "pod":
                default_pod(built)
                self._codec.pod(msgspec.json.encode(built))
            else:
                decode_namespace(msgspec.json.encode(built))
        except BadObjectError as error:
            raise bad_test(str(error), item.span) from None
        return built


def _check_duplicates(test: Test) -> None:
    """Raises BadTestError for two objects with one name, and for two times."""
    seen: set[tuple[str, str]] = set()
    for item in test.items:
        if isinstance(item, TestTime):
            key, what = ("time", ""), "the time"
        elif isinstance(item, TestObject):
            key, what = (item.kind, item.name), f"`{item.name}`"
        else:
            continue
        if key in seen:
            raise bad_test(f"{what} is given twice", item.span)
        seen.add(key)


def _snapshot(test: Test, folder: Path) -> list[_Document]:
    found: list[_Document] = []
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
    objects = [item for item in test.items if isinstance(item, TestObject)]
    if pods := [each.name for each in objects if each.kind == "pod" and each.on is None]:
        return cluster.pod(key_in_test(pods[-1]))
    pending = cluster.snapshot().pending
    waiting = [k for k in bodies([d for _, d in snapshot], "Pod") if k in pending]
    if not waiting:
        hint = 'add a pod that is not `on` a node, as in `pod "shop/web-1"`'
        raise bad_test("the test has no pod to test", test.name_span, hint)
    return cluster.pod(waiting[-1])


def key_in_test(pod: str) -> str:
    """The `namespace/name` of a pod by its name in a test."""
    return pod if "/" in pod else f"{NAMESPACE}/{pod}"
