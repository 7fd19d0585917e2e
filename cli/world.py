"""World of a command: the cluster in snapshot files and the policies that it is asked about.

A command reads it once from its arguments. The cluster never changes but for the time of a
`with cluster.asking` or `with cluster.changing`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from cli.command import CommandError
from cli.render import counted, print_findings
from engine.cache.cache import Cache
from engine.cache.cluster_file import (
    CLUSTER_KINDS,
    ClusterFileError,
    ClusterFileReader,
    bodies,
    documents,
    files_of,
)
from engine.cache.informers import Needs
from engine.cache.node_table import NodeView
from engine.cache.snapshot import Snapshot
from engine.decision.after import AfterDecision
from engine.decision.journal import Journal
from engine.decision.registry import Registry
from engine.engine import Engine
from engine.errors import EngineError
from engine.objects.codec import Node, ObjectCodec
from engine.objects.request_pod import SYSTEM_NAMESPACES, Exemptions
from engine.program.frame import Frame
from engine.program.needs import needs
from engine.program.policy_compiler import compile_policy
from engine.program.policy_time import DecisionTime
from grammar.checker.policy_checker import Checked
from grammar.checks.cluster_costs import UNKNOWN_SIZE
from grammar.meaning.schema import Schema, load_schema
from grammar.messages.diagnostics import Diagnostic, nearest, plain
from grammar.messages.texts import named
from grammar.tree.source import Source
from grammar.values.time import Timestamp
from policies.admission import StoredObject, check_stored
from policies.loader import load
from policies.manifest_names import is_manifest
from policies.manifest_text import report
from policies.resource import KINDS as POLICY_KINDS
from policies.resource import PolicyStatus
from policies.validation import (
    ActivePolicy,
    CheckedFile,
    Identity,
    InForce,
    Validation,
    Validator,
    identity,
    succeed,
)

# The most names that a message lists.
_SHOWN = 5
_NAMESPACE = "default"


@dataclass(frozen=True, slots=True)
class World:
    """A cluster and the policies that decide about its pods."""

    schema: Schema
    codec: ObjectCodec
    cluster: Cluster
    policies: Policies


@dataclass(frozen=True, slots=True)
class BrokenPolicy:
    """A policy with errors, by its address or the name of its file, and what holds instead of it.

    `line` is its first error with the place, on one line. `namespace` is empty for one that can
    concern all pods.
    """

    name: str
    line: str
    instead: str
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class Policies:
    """The policies in force: the validated sources, the compiled programs, and their needs.

    `broken` are those that are not in force as they are written.
    """

    validation: Validation
    registry: Registry
    needs: Needs
    broken: tuple[BrokenPolicy, ...] = ()

    def broken_in(self, namespace: str) -> list[BrokenPolicy]:
        """Those that can concern the pods of a namespace; all of them without one."""
        return [b for b in self.broken if not namespace or b.namespace in ("", namespace)]


def add_cluster_argument(parser: argparse.ArgumentParser, *, required: bool = False) -> None:
    """The flag that names snapshot files. It takes one path, so that names may come after it."""
    parser.add_argument(
        "--cluster",
        metavar="SNAPSHOT",
        action="append",
        required=required,
        type=Path,
        help="the output of `kubectl get nodes,pods -A -o json` (or yaml); may be given again",
    )


def add_arguments(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """The flags that name a world, each with one path."""
    add_cluster_argument(parser, required=required)
    parser.add_argument(
        "--policies",
        metavar="PATH",
        action="append",
        required=required,
        type=Path,
        help="a policy file or a folder of them; may be given again",
    )


def add_pod_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "pod", metavar="POD", nargs="?", help="NAMESPACE/NAME, or the name alone if it is unique"
    )
    parser.add_argument(
        "--pod-file", metavar="FILE", type=Path, help="the manifest of a pod to be created"
    )


def read_world(args: argparse.Namespace) -> World:
    """The world that the flags of `add_arguments` name, with the policies that are in force.

    Policies are those of `--policies`, and those in the snapshot. Prints the errors of the others.
    Raises CommandError.
    """
    schema, read = load_schema(), read_documents(args.cluster)
    sources, objects = policy_files(args.policies or ())
    objects = {**read.policies(), **objects}
    if not args.policies and not objects:
        hint = "give --policies PATH, or a snapshot that has policies too"
        raise CommandError("there are no policies", hint)
    policies = in_force(sources, objects, schema)
    codec = ObjectCodec(schema, policies.needs.annotations)
    return World(schema, codec, read.cluster(codec), policies)


def read_policies(paths: Sequence[Path], schema: Schema) -> Policies:
    """The compiled policies of files and folders.

    Prints the errors of invalid policies, and raises CommandError.
    """
    validation = Validator(schema).validate(_loaded(paths))
    errors = [(d, source) for d, source in validation.findings() if d.severity == "error"]
    if errors:
        print_findings(errors)
        found = counted(len(errors), "error")
        raise CommandError(f"the policies have {found}", "fix them; `placet check` shows them too")
    return compiled(validation, validation.policies)


def _loaded(paths: Sequence[Path]) -> tuple[Source, ...]:
    loaded = load(paths)
    for problem in loaded.problems:
        raise CommandError(problem.message, problem.hint)
    return loaded.sources


def policy_files(paths: Sequence[Path]) -> tuple[list[Source], Mapping[str, bytes]]:
    """The policy files at the paths, and the objects of files that have nodes and pods, too.

    Raises CommandError.
    """
    sources: list[Source] = []
    objects: dict[str, bytes] = {}
    for source in _loaded(paths):
        if (mixed := _mixed(source)) is None:
            sources.append(source)
        else:
            objects |= mixed.policies()
    return sources, objects


def _mixed(source: Source) -> Documents | None:
    """The documents of a file if some of them are objects that a snapshot has."""
    if not is_manifest(source.name):
        return None
    file = Path(source.name)
    try:
        read = Documents([file], [(file, document) for document in documents(file)])
        has_others = any(bodies([d for _, d in read.contents], kind) for kind in CLUSTER_KINDS)
    except (ClusterFileError, msgspec.DecodeError):
        return None  # its diagnostics say why
    return read if has_others else None


def in_force(
    sources: Sequence[Source],
    objects: Mapping[str, bytes],
    schema: Schema,
    unused: Collection[Identity] = (),
) -> Policies:
    """The policies of files and of objects that a server would enforce, as it decides that.

    Of an object with errors that is its last valid version, which its status has. A strict one
    without a valid version keeps its pods waiting. Prints the errors of files. `objects` has the
    JSON by `resource/key`. `unused` policies decide nothing.
    """
    stored = {n: check_stored(n, raw, schema, UNKNOWN_SIZE) for n, raw in objects.items()}
    files = [each.checked.file for each in stored.values()]
    every = Validator(schema).validate(sources, files)
    active = succeed(InForce(), every).active
    known = {identity(each.checked.policy) for each in active}
    of_files = (f for f in every.files if f.source.name not in stored)
    errors = ((d, f.source) for f in of_files for d in f.diagnostics if d.severity == "error")
    print_findings(list(errors))
    found = [replace(f, policies=_those(f, active)) for f in every.files if not f.private]
    refusing: list[Checked] = []
    instead: dict[str, str] = {}
    for name, each in stored.items():
        last = [p for p in each.remembered if identity(p.policy) not in known]
        refused = [] if last else [p for p in each.refusing if identity(p.policy) not in known]
        refusing += refused
        if last and (status := _status(each)) is not None and (good := status.inForce) is not None:
            source = Source(name, good.rules)
            found.append(CheckedFile(source, whole=True, policies=tuple(last), tests=(), unread=()))
            instead[name] = f"its generation {good.generation} is in force instead"
        elif refused:
            instead[name] = "it is strict, so the pods that it selects wait"
    shown = Validation(tuple(found))
    made = compiled(shown, [c for c in shown.policies if identity(c.policy) not in unused])
    programs = made.registry.programs
    registry = Registry(programs, refusing=map(compile_policy, refusing))
    broken = _broken(every, {name: instead.get(name, "") for name in stored})
    return replace(made, registry=registry, broken=tuple(broken))


def _those(file: CheckedFile, active: Sequence[ActivePolicy]) -> tuple[Checked, ...]:
    """The policies of a file that are in force."""
    here = {id(each.checked) for each in active if each.file == file.source.name}
    return tuple(checked for checked in file.policies if id(checked) in here)


def _status(stored: StoredObject) -> PolicyStatus | None:
    manifest = stored.checked.manifest
    return manifest.status if manifest is not None else None


def _broken(every: Validation, objects: Mapping[str, str]) -> Iterator[BrokenPolicy]:
    """`objects` has what holds instead of each object, by name."""
    for file in every.files:
        if file.private:
            continue
        name, unread = file.source.name, _errors(file.unread)
        write = report if name in objects else plain
        broken = [(p.policy.address, p.policy.namespace, p.diagnostics) for p in file.policies]
        if unread and not broken:
            # Of an object that cannot be read, `resource/namespace/name` or `resource/name`.
            address = name.partition("/")[2] if name in objects else name
            scope = address.rpartition("/")[0] if name in objects else ""
            broken = [(address, scope, ())]
        for address, namespace, diagnostics in broken:
            if found := [*_errors(diagnostics), *unread]:
                line = write(found[0], file.source).partition("\n")[0]
                instead = objects.get(name) or "it is not enforced"
                yield BrokenPolicy(address, line, instead, namespace or "")


def _errors(found: Iterable[Diagnostic]) -> list[Diagnostic]:
    return [d for d in found if d.severity == "error"]


def compiled(validation: Validation, deciding: Sequence[Checked]) -> Policies:
    """Policies without errors; only the `deciding` ones are compiled."""
    registry = Registry(compile_policy(c) for c in deciding)
    read = needs(part.policy for c in validation.policies for part in (c, *c.uses))
    return Policies(validation, registry, read)


def read_cluster(paths: Sequence[Path], codec: ObjectCodec) -> Cluster:
    """The cluster of snapshot files. Raises CommandError."""
    return read_documents(paths).cluster(codec)


def read_documents(
    paths: Sequence[Path], read: Callable[[Path], Iterable[bytes]] = documents
) -> Documents:
    """The JSON documents of snapshot files. Raises CommandError for an unreadable file."""
    try:
        files = files_of(paths)
        return Documents(files, [(file, d) for file in files for d in read(file)])
    except ClusterFileError as error:
        raise CommandError(error.message, error.hint) from None


# ---- engines


def engine(
    registry: Registry, cluster: Cluster, codec: ObjectCodec, journal: Journal | None = None
) -> Engine:
    """A new engine, without in-flight pods, that decides at the time of the snapshot."""
    return Engine(
        registry,
        cluster,
        codec,
        Silent(),
        exemptions=Exemptions(SYSTEM_NAMESPACES, by_annotation=True),
        time=DecisionTime(now=lambda: cluster.now),
        after=AfterDecision(journal=journal),
    )


class Silent:
    """An observer that ignores everything: the answers of the engine are enough."""

    def rejected(self, *_: object, **__: object) -> None:
        pass

    failed = would_reject = conflict = bypassed = expensive = gave_up = shortened = rejected
    unnamed_scheduler = rejected


def frame(asked: NamedPod | None, cluster: Cluster | None, codec: ObjectCodec) -> Frame:
    """The frame in which an engine would evaluate rules for the pod. Raises CommandError."""
    if asked is None:
        now = cluster.now if cluster is not None else Timestamp.now()
        return Frame(None, now, slots=0)
    try:
        if cluster is None:
            return Frame(codec.pod(asked.body), Timestamp.now(), slots=0)
        return engine(Registry(), cluster, codec).inspect(asked.body).frame
    except EngineError as error:
        raise CommandError(str(error), "fix the pod") from None


# ---- the cluster


@dataclass(frozen=True, slots=True)
class Documents:
    """The JSON documents of a snapshot, each with its file.

    `read_at` is the time of a running cluster. That of files is the newest timestamp in them.
    `objects` are the policy objects of a running cluster. Those of files are in the documents.
    """

    files: Sequence[Path]
    contents: Sequence[tuple[Path, bytes]]
    read_at: Timestamp | None = None
    objects: Mapping[str, bytes] | None = None

    def policies(self) -> Mapping[str, bytes]:
        """The JSON of the policy objects, by `resource/key`."""
        if self.objects is not None:
            return self.objects
        every = [document for _, document in self.contents]
        found: dict[str, bytes] = {}
        for kind in POLICY_KINDS:
            resource = f"{kind.lower()[:-1]}ies"
            for key, body in bodies(every, kind).items():
                found[f"{resource}/{key.removeprefix('/')}"] = bytes(body)
        return found

    def cluster(self, codec: ObjectCodec) -> Cluster:
        """The cluster in the documents. Raises CommandError if they have no nodes."""
        try:
            reading = ClusterFileReader(codec).take(self.files, self.contents)
        except ClusterFileError as error:
            raise CommandError(error.message, error.hint) from None
        bodies = [document for _, document in self.contents]
        return Cluster(reading.cache, bodies, self.files, self.read_at)


@dataclass(frozen=True, slots=True)
class NamedPod:
    """A pod to decide about: its JSON as kube-scheduler would send it, without a node.

    `node` is its node in the snapshot; empty for a pending pod and for one outside the snapshot.
    """

    namespace: str
    name: str
    body: bytes
    node: str = ""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


class Cluster:
    """A cluster in snapshot files; also an engine's view of it.

    `now` is the newest timestamp in it, so that ages do not depend on the time of the command, or
    the time when it was read from a running cluster. `documents` are the JSON of the files.
    """

    def __init__(
        self,
        cache: Cache,
        documents: Sequence[bytes],
        files: Sequence[Path],
        read_at: Timestamp | None = None,
    ) -> None:
        self._cache = cache
        self._documents = documents
        self._read_at = read_at
        self._files = ", ".join(f"`{file}`" for file in files)

    @cached_property
    def now(self) -> Timestamp:
        return self._read_at or self.snapshot().newest() or Timestamp.now()

    def snapshot(self) -> Snapshot:
        return self._cache.snapshot()

    @property
    def pods(self) -> Cache:
        return self._cache

    def node(self, name: str) -> NodeView:
        """The node of this name. Raises CommandError if there is none."""
        found = self.snapshot().node(name)
        if found is None:
            names = sorted(self.snapshot().table.rows)
            raise CommandError(f"there is no node `{name}` in {self._files}", _similar(name, names))
        return found

    def pod(self, name: str, namespace: str = "") -> NamedPod:
        """The pod of a `NAMESPACE/NAME`, or of a name that only one pod has, or one of a namespace.

        Raises CommandError for an unknown or ambiguous name.
        """
        known = self.pod_bodies
        if namespace:
            name = f"{namespace}/{name}"
        keys = sorted(key for key in known if name in (key, key.partition("/")[2]))
        if not keys:
            names = known if "/" in name else {key.partition("/")[2] for key in known}
            hint = _similar(name, sorted(names))
            raise CommandError(f"there is no pod `{name}` in {self._files}", hint)
        if len(keys) > 1:
            raise ambiguous(name, keys)
        namespace, _, short = keys[0].partition("/")
        pod = msgspec.json.decode(self.pod_bodies[keys[0]])
        node = (pod.get("spec") or {}).pop("nodeName", None)
        return NamedPod(namespace, short, msgspec.json.encode(pod), node or "")

    def node_body(self, name: str) -> bytes | msgspec.Raw:
        """The JSON of a node. Raises KeyError."""
        return bodies(self._documents, "Node")[f"/{name}"]

    @cached_property
    def pod_bodies(self) -> Mapping[str, bytes | msgspec.Raw]:
        """The JSON of every pod, including finished ones, by `NAMESPACE/NAME`."""
        return bodies(self._documents, "Pod")

    @contextmanager
    def changing(self, node: Node, back: Node) -> Iterator[None]:
        """The cluster with a changed node inside the `with`, and with `back` after it."""
        self._cache.put_node(node)
        try:
            yield
        finally:
            self._cache.put_node(back)

    @contextmanager
    def asking(self, pod: NamedPod) -> Iterator[None]:
        """The cluster without the pod on its node inside the `with`, as before it was bound."""
        known = self._cache.pod(pod.key)
        if known is None or not known.nodeName:
            yield
            return
        self._cache.put_pod(msgspec.structs.replace(known, nodeName=""))
        try:
            yield
        finally:
            self._cache.put_pod(known)


def ambiguous(name: str, keys: Sequence[str]) -> CommandError:
    listed = named([f"`{key}`" for key in keys], _SHOWN)
    hint = f"give the namespace too, as in `{keys[0]}`"
    return CommandError(f"several pods are called `{name}`: {listed}", hint)


def _similar(name: str, names: Sequence[str]) -> str:
    """A hint for an unknown name: the nearest one, or some that exist."""
    close = nearest(name, names)
    if close is not None:
        return f"a similar name exists: `{close}`"
    some = [n for n in names if name in n] or list(names)
    shown = ", ".join(f"`{n}`" for n in some[:_SHOWN])
    return f"there is {shown}{' …' if len(some) > _SHOWN else ''}" if some else ""


# ---- pods to ask about


def named_pod(cluster: Cluster, name: str | None, file: Path | None) -> NamedPod:
    """The pod of exactly one of a name and a manifest. Raises CommandError."""
    if (name is None) == (file is None):
        problem = "no pod is given" if name is None else "two pods are given"
        raise CommandError(problem, "give either POD or --pod-file FILE")
    if name is not None:
        return cluster.pod(name)
    assert file is not None, "one of the two is given"
    return read_pod(file)


def read_pod(file: Path) -> NamedPod:
    """The one pod in a manifest. Raises CommandError."""
    hint = "`kubectl run NAME --image=… --dry-run=client -o yaml` writes the manifest of one Pod"
    try:
        found = [msgspec.json.decode(document) for document in documents(file)]
    except ClusterFileError as error:
        raise CommandError(error.message, hint) from None
    except msgspec.DecodeError:
        raise CommandError(f"`{file}` is not JSON", hint) from None
    kinds = [str(item.get("kind")) if isinstance(item, dict) else "no object" for item in found]
    if kinds != ["Pod"]:
        there = ", ".join(kinds) or "nothing"
        raise CommandError(f"`{file}` is not a manifest of one pod: it has {there}", hint)
    return _completed(found[0], file, hint)


def _completed(pod: dict[str, Any], file: Path, hint: str) -> NamedPod:
    """The pod with the namespace that the API server would set, a unique uid, and no node."""
    metadata, spec = pod.get("metadata") or {}, pod.get("spec") or {}
    for name, part in (("metadata", metadata), ("spec", spec)):
        if not isinstance(part, dict):
            message = f"`{file}` is not a manifest of one pod: its {name} is not an object"
            raise CommandError(message, hint)
    namespace = str(metadata.get("namespace") or _NAMESPACE)
    name = str(metadata.get("name") or metadata.get("generateName") or "pod")
    known = {"name": name, "namespace": namespace, "uid": metadata.get("uid") or f"file:{file}"}
    unplaced = {k: v for k, v in spec.items() if k != "nodeName"}
    body = {**pod, "metadata": {**metadata, **known}, "spec": unplaced}
    return NamedPod(namespace, name, msgspec.json.encode(body))
