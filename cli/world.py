"""Objects as the JSON they came in: the engine keeps less of a pod than a rule may read."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from cli.command import CommandError
from cli.render import counted, render, wants_colour
from engine.cache.cache import Cache
from engine.cache.cluster_file import ClusterFileError, ClusterFileReader, documents, files_of
from engine.cache.informers import Needs
from engine.cache.node_table import NodeView
from engine.cache.snapshot import Snapshot
from engine.decision.registry import Registry
from engine.engine import Engine
from engine.errors import EngineError
from engine.objects.codec import Node, ObjectCodec
from engine.objects.request_pod import SYSTEM_NAMESPACES, Exemptions
from engine.program.frame import Frame
from engine.program.needs import needs
from engine.program.policy_compiler import compile_policy
from grammar.checks import references as labels
from grammar.diagnostics import nearest
from grammar.policy_checker import Checked
from grammar.schema import Schema, load_schema
from grammar.values.time import Timestamp
from policies.loader import load
from policies.validation import CheckedFile, Validation, Validator

_NAMESPACE = "default"


class _Meta(msgspec.Struct, frozen=True, gc=False):
    name: str | None = None
    namespace: str | None = None


class _Object(msgspec.Struct, frozen=True, gc=False):
    kind: str | None = None
    metadata: _Meta | None = None
    items: list[msgspec.Raw] | None = None


class PodBodies:
    """The JSON of every pod in some documents, by `namespace/name`; looked for when asked for.

    Nodes are found by their names too.
    """

    def __init__(self, documents: Sequence[bytes]) -> None:
        self._documents = documents

    def all_keys(self) -> list[str]:
        return list(self._found)

    def all_bodies(self) -> Iterable[bytes | msgspec.Raw]:
        return self._found.values()

    def node(self, name: str) -> bytes | msgspec.Raw:
        """The JSON of a node. Raises KeyError."""
        return bodies(self._documents, "Node")[f"/{name}"]

    def keys(self, name: str) -> list[str]:
        """The keys that a name can mean: itself, or those of every namespace."""
        if "/" in name:
            return [name] if name in self._found else []
        return sorted(key for key in self._found if key.partition("/")[2] == name)

    def body(self, key: str) -> tuple[bytes, str]:
        """The pod as kube-scheduler would send it, without its node, and that node."""
        pod = msgspec.json.decode(self._found[key])
        node = (pod.get("spec") or {}).pop("nodeName", None)
        return msgspec.json.encode(pod), node or ""

    @cached_property
    def _found(self) -> dict[str, msgspec.Raw | bytes]:
        return bodies(self._documents, "Pod")


def bodies(documents: Sequence[bytes], kind: str) -> dict[str, msgspec.Raw | bytes]:
    """The JSON of every object of a kind, by `namespace/name`; of two the later counts."""
    decoder = msgspec.json.Decoder(_Object)
    found: dict[str, msgspec.Raw | bytes] = {}
    for document in documents:
        outer = decoder.decode(document)
        default = (outer.kind or "").removesuffix("List") or None
        for item in outer.items if outer.items is not None else [document]:
            inner = decoder.decode(item)
            if (inner.kind or default) == kind and inner.metadata is not None:
                found[f"{inner.metadata.namespace or ''}/{inner.metadata.name}"] = item
    return found


def read_pod(file: Path) -> tuple[str, str, bytes]:
    """Namespace, name and JSON of the one pod in a manifest. Raises CommandError."""
    hint = (
        "give it the manifest of one Pod, as `kubectl run NAME --image=… --dry-run=client -o yaml`"
    )
    try:
        found = [msgspec.json.decode(document) for document in documents(file)]
    except ClusterFileError as error:
        raise CommandError(error.message, hint) from None
    except msgspec.DecodeError:
        raise CommandError(f"`{file}` is not JSON", hint) from None
    kinds = [str(item.get("kind")) if isinstance(item, dict) else "no object" for item in found]
    if kinds != ["Pod"]:
        there = ", ".join(kinds) or "nothing"
        raise CommandError(f"`{file}` is no manifest of one pod: it has {there}", hint)
    return _completed(found[0], file, hint)


def _completed(pod: dict[str, Any], file: Path, hint: str) -> tuple[str, str, bytes]:
    """With the namespace that the API server would give it, and a uid that no other pod has."""
    metadata, spec = pod.get("metadata") or {}, pod.get("spec") or {}
    for name, part in (("metadata", metadata), ("spec", spec)):
        if not isinstance(part, dict):
            raise CommandError(f"`{file}` is no manifest of one pod: its {name} is no object", hint)
    namespace = str(metadata.get("namespace") or _NAMESPACE)
    name = str(metadata.get("name") or metadata.get("generateName") or "pod")
    known = {"name": name, "namespace": namespace, "uid": metadata.get("uid") or f"file:{file}"}
    unplaced = {k: v for k, v in spec.items() if k != "nodeName"}
    body = {**pod, "metadata": {**metadata, **known}, "spec": unplaced}
    return namespace, name, msgspec.json.encode(body)


# ---- What a terminal command looks at: a cluster in files, policies, and the names of their
# things.

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Policies:
    """Policies without errors: as they were written, and compiled."""

    validation: Validation
    registry: Registry
    needs: Needs


@dataclass(frozen=True, slots=True)
class Documents:
    """A snapshot as JSON, with the files that it is from: what a cluster is read from."""

    files: Sequence[Path]
    contents: Sequence[tuple[Path, bytes]]

    def cluster(self, codec: ObjectCodec) -> Cluster:
        """Raises CommandError for what is no snapshot."""
        try:
            reading = ClusterFileReader(codec).take(self.files, self.contents)
        except ClusterFileError as error:
            raise CommandError(error.message, error.hint) from None
        return Cluster(reading.cache, PodBodies([d for _, d in self.contents]), self.files)


@dataclass(frozen=True, slots=True)
class NamedPod:
    """A pod that somebody asks about: its JSON as kube-scheduler would send it.

    `node` is where it is in the snapshot, empty for one that waits or is not in it. The body names
    no node: it is asked about as if it had none.
    """

    namespace: str
    name: str
    body: bytes
    node: str = ""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


class Cluster:
    """A cluster in files, which never changes; also an engine's view of it.

    `now` is its newest timestamp, so that ages do not depend on when somebody looks.
    """

    def __init__(self, cache: Cache, bodies: PodBodies, files: Sequence[Path]) -> None:
        self._cache = cache
        self._bodies = bodies
        self._files = ", ".join(f"`{file}`" for file in files)

    @cached_property
    def now(self) -> Timestamp:
        return self.snapshot().newest() or Timestamp.now()

    def snapshot(self) -> Snapshot:
        return self._cache.snapshot()

    @property
    def pods(self) -> Cache:
        return self._cache

    def node(self, name: str) -> NodeView:
        """Raises CommandError for a name that no node has."""
        found = self.snapshot().node(name)
        if found is None:
            names = sorted(self.snapshot().table.rows)
            raise CommandError(f"there is no node `{name}` in {self._files}", _similar(name, names))
        return found

    def pod(self, name: str) -> NamedPod:
        """The pod of a `NAMESPACE/NAME`, or of a name that only one pod has.

        Raises CommandError for a name that none has, or several have.
        """
        keys = self._bodies.keys(name)
        if not keys:
            known = self._bodies.all_keys()
            names = known if "/" in name else {key.partition("/")[2] for key in known}
            hint = _similar(name, sorted(names))
            raise CommandError(f"there is no pod `{name}` in {self._files}", hint)
        if len(keys) > 1:
            listed = ", ".join(f"`{key}`" for key in keys[:_SHOWN])
            more = f" and {len(keys) - _SHOWN} more" if len(keys) > _SHOWN else ""
            hint = f"give the namespace too, as in `{keys[0]}`"
            raise CommandError(f"several pods are called `{name}`: {listed}{more}", hint)
        namespace, _, short = keys[0].partition("/")
        body, node = self._bodies.body(keys[0])
        return NamedPod(namespace, short, body, node)

    def node_body(self, name: str) -> bytes | msgspec.Raw:
        """The JSON of a node that is there."""
        return self._bodies.node(name)

    def pod_bodies(self) -> Iterable[bytes | msgspec.Raw]:
        """The JSON of every pod, as it is there."""
        return self._bodies.all_bodies()

    def pod_keys(self) -> list[str]:
        """`NAMESPACE/NAME` of every pod, those that have ended among them."""
        return self._bodies.all_keys()

    @contextmanager
    def changing(self, node: Node, back: Node) -> Iterator[None]:
        """The cluster with another state of a node, for a while."""
        self._cache.put_node(node)
        try:
            yield
        finally:
            self._cache.put_node(back)

    @contextmanager
    def asking(self, pod: NamedPod) -> Iterator[None]:
        """The cluster as it was before the pod had a node: for a while, it is off that node."""
        known = self._cache.pod(pod.key)
        if known is None or not known.nodeName:
            yield
            return
        self._cache.put_pod(msgspec.structs.replace(known, nodeName=""))
        try:
            yield
        finally:
            self._cache.put_pod(known)


@dataclass(frozen=True, slots=True)
class World:
    """All of it: what decides, and about what."""

    schema: Schema
    codec: ObjectCodec
    cluster: Cluster
    policies: Policies

    def engine(self) -> Engine:
        return engine(self.policies.registry, self.cluster, self.codec)


def engine(registry: Registry, cluster: Cluster, codec: ObjectCodec) -> Engine:
    """An engine that decides at the time of the snapshot, and has told nobody anything yet."""
    return Engine(
        registry,
        cluster,
        codec,
        Silent(),
        exemptions=Exemptions(SYSTEM_NAMESPACES, by_annotation=True),
        now=lambda: cluster.now,
    )


class Silent:
    """An observer of an engine whose answers say all that somebody wants to know."""

    def rejected(self, policy: str, clause: str, nodes: int) -> None:
        """Nothing."""

    def failed(self, policy: str, clause: str, error: str) -> None:
        """Nothing."""

    def would_reject(self, policy: str, clause: str, nodes: int) -> None:
        """Nothing."""

    def conflict(self, winner: str, loser: str) -> None:
        """Nothing."""

    def bypassed(self, pod: str, uid: str, reason: str) -> None:
        """Nothing."""


def add_arguments(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """The flags that name a world: each takes one path, so that names may come after it."""
    parser.add_argument(
        "--cluster",
        metavar="SNAPSHOT",
        action="append",
        required=required,
        type=Path,
        help="what `kubectl get nodes,pods -A -o json` (or yaml) wrote; may be given again",
    )
    parser.add_argument(
        "--policies",
        metavar="PATH",
        action="append",
        required=required,
        type=Path,
        help="a policy file, or a folder of them; may be given again",
    )


def add_pod_arguments(parser: argparse.ArgumentParser) -> None:
    """The two ways to say which pod."""
    parser.add_argument(
        "pod", metavar="POD", nargs="?", help="NAMESPACE/NAME, or a name that only one pod has"
    )
    parser.add_argument(
        "--pod-file", metavar="FILE", type=Path, help="the manifest of a pod that is not there yet"
    )


def read_world(args: argparse.Namespace) -> World:
    """What the flags of `add_arguments` name. Raises CommandError."""
    schema = load_schema()
    policies = read_policies(args.policies, schema)
    codec = ObjectCodec(schema, policies.needs.annotations)
    return World(schema, codec, read_cluster(args.cluster, codec), policies)


def read_policies(paths: Sequence[Path], schema: Schema) -> Policies:
    """Reads and compiles. Raises CommandError, after the errors of policies that have some."""
    loaded = load(paths)
    for problem in loaded.problems:
        raise CommandError(problem.message, problem.hint)
    validation = Validator(schema).validate(loaded.sources)
    errors = [(d, source) for d, source in validation.findings() if d.severity == "error"]
    if errors:
        for line in render(errors, "human", colour=wants_colour(sys.stderr)):
            print(line, file=sys.stderr)
        found = counted(len(errors), "error")
        raise CommandError(
            f"the policies have {found}", "mend them first: `placet check` shows the same"
        )
    return compiled(validation, validation.policies)


def compiled(validation: Validation, deciding: Sequence[Checked]) -> Policies:
    """Policies without errors, of which some decide."""
    registry = Registry(compile_policy(c) for c in deciding)
    read = needs(part.policy for c in validation.policies for part in (c, *c.uses))
    return Policies(validation, registry, read)


def read_cluster(paths: Sequence[Path], codec: ObjectCodec) -> Cluster:
    """Reads a snapshot. Raises CommandError for what is none."""
    return read_documents(paths).cluster(codec)


def read_documents(paths: Sequence[Path]) -> Documents:
    """The texts of a snapshot. Raises CommandError for a file that cannot be read."""
    try:
        files = files_of(paths)
        return Documents(files, [(file, d) for file in files for d in documents(file)])
    except ClusterFileError as error:
        raise CommandError(error.message, error.hint) from None


def frame(asked: NamedPod | None, cluster: Cluster | None, codec: ObjectCodec) -> Frame:
    """What an expression reads, as an engine would have it read. Raises CommandError."""
    if asked is None:
        now = cluster.now if cluster is not None else Timestamp.now()
        return Frame(None, now, slots=0)
    try:
        if cluster is None:
            return Frame(codec.pod(asked.body), Timestamp.now(), slots=0)
        return engine(Registry(), cluster, codec).inspect(asked.body).frame
    except EngineError as error:
        raise CommandError(str(error), "mend the pod") from None


def named_pod(cluster: Cluster, name: str | None, file: Path | None) -> NamedPod:
    """The pod that either of the two names. Raises CommandError."""
    if (name is None) == (file is None):
        problem = "no pod is named" if name is None else "two pods are named"
        raise CommandError(problem, "give either POD or --pod-file FILE")
    if name is not None:
        return cluster.pod(name)
    assert file is not None, "one of the two is given"
    return NamedPod(*read_pod(file))


def _similar(name: str, names: Sequence[str]) -> str:
    close = nearest(name, names)
    if close is not None:
        return f"a similar name exists: `{close}`"
    some = [n for n in names if name in n] or list(names)
    shown = ", ".join(f"`{n}`" for n in some[:_SHOWN])
    return f"there is {shown}{' …' if len(some) > _SHOWN else ''}" if some else ""


# ---- The label keys of a cluster's nodes, from a snapshot of it, for `placet check --cluster`.
#
# Brings the engine, which a plain check starts without: imported only where it is needed.


@dataclass(frozen=True, slots=True)
class LabelKeys:
    """How many of the nodes have each key, and how many nodes there are."""

    known: Counter[str]
    nodes: int

    def looked_up(self, validation: Validation) -> Validation:
        """With a warning for each key that a policy reads and no node has."""
        return Validation(tuple(self._file(file) for file in validation.files))

    def _file(self, file: CheckedFile) -> CheckedFile:
        return replace(file, policies=tuple(map(self._policy, file.policies)))

    def _policy(self, checked: Checked) -> Checked:
        found = labels.unknown_labels(checked, self.known, self.nodes)
        return replace(checked, diagnostics=(*checked.diagnostics, *found))


def read(paths: Sequence[Path], schema: Schema) -> LabelKeys:
    """The keys of a snapshot's nodes; raises CommandError for what is no snapshot."""
    try:
        nodes = ClusterFileReader(ObjectCodec(schema)).read(paths).cache.snapshot().nodes
    except ClusterFileError as error:
        raise CommandError(error.message, error.hint) from None
    keys = Counter(key for node in nodes.values() for key in node.metadata.labels or {})
    return LabelKeys(keys, len(nodes))
