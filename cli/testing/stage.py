"""The cluster of a test: that of its `cluster` file, and the nodes and pods of its text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from cli.objects import PodBodies
from cli.testing.collection import Suite
from cli.testing.complaint import TestMistakeError, complaint
from cli.testing.objects import NAMESPACE, Object, ObjectMaker, namespace
from cli.world import AskedPod, Cluster
from engine.cache.cluster_file import ClusterFileReader
from engine.cache.documents import ClusterFileError, documents
from engine.errors import BadObjectError
from engine.objects import ObjectCodec
from grammar.clauses import At, ClusterFile, Test, TestNode, TestPod
from grammar.errors import EvaluationError
from grammar.schema import Schema
from grammar.values.timestamp import Timestamp

# What `now` is where neither the test nor its cluster says: the same on every day.
NOW = Timestamp.parse("2026-01-01T00:00:00Z")

_Document = tuple[Path, bytes]


@dataclass(frozen=True, slots=True)
class Stage:
    """A cluster at one time, and the pod that is asked about in it."""

    cluster: Cluster
    now: Timestamp
    pod: AskedPod
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
        names = sorted(cluster.snapshot().table.places)
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


def _tested(test: Test, cluster: Cluster, snapshot: Sequence[_Document]) -> AskedPod:
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
