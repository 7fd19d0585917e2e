"""Cluster files: the JSON and YAML that kubectl writes of a cluster, and the cache of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from engine.cache.cache import Cache
from engine.cache.node_table import Snapshot
from engine.errors import BadObjectError
from engine.objects.api_types import ObjectHead
from engine.objects.disruption_budget import decode_budget
from engine.objects.peer import ENDED, Peer, decode_controller
from engine.objects.pod_group import GROUP_VERSIONS, GroupName, decode_group
from engine.objects.request_pod import ObjectCodec, decode_namespace
from engine.objects.resources import decode_quota
from engine.objects.workload_pods import (
    ANY_CLUSTER,
    WORKLOAD_KINDS,
    ClusterDefaults,
    as_stored,
)
from grammar.messages.diagnostics import UserError
from grammar.messages.texts import os_hint, os_reason
from policies.disk import MOST_OF_SNAPSHOT, contents, standard_input
from policies.documents import DocumentError, as_json

SUFFIXES = frozenset({".json", ".yaml", ".yml"})
_YAML = frozenset({".yaml", ".yml"})
STANDARD_INPUT = Path("-")


class ClusterFileError(UserError):
    """A cluster in files that cannot be read, or that lacks what is asked of it."""


def files_of(paths: Sequence[Path]) -> list[Path]:
    """The files behind the paths: a folder stands for the JSON and YAML files in it, by name.

    Raises ClusterFileError for a path that is not there, and for a folder without snapshots.
    """
    files: list[Path] = []
    for path in paths:
        try:
            if not path.is_dir():
                files.append(path)
                continue
            inside = sorted(p for p in path.iterdir() if p.suffix in SUFFIXES and p.is_file())
        except OSError as error:
            raise _unreadable(path, error) from None
        if not inside:
            raise ClusterFileError(
                f"the folder `{path}` has no JSON or YAML files",
                how_to_write(path / "cluster.json"),
            )
        files.extend(inside)
    return files


def documents(path: Path, beside: ClusterDefaults = ANY_CLUSTER) -> Iterator[bytes]:
    """The documents of a file, or of standard input for `-`, by what is in it.

    Pods and nodes have what the API server would give them, in the cluster `beside`.

    Raises ClusterFileError for a file that cannot be read, is empty, or is neither JSON nor YAML.
    """
    try:
        is_stdin = path == STANDARD_INPUT
        data = standard_input(MOST_OF_SNAPSHOT) if is_stdin else contents(path, MOST_OF_SNAPSHOT)
        if not data.strip():
            raise ClusterFileError(f"`{path}` is empty", how_to_write(path))
        yield from as_stored(as_json(data, is_yaml=path.suffix in _YAML), beside)
    except UnicodeDecodeError:
        raise ClusterFileError("standard input is not UTF-8 text", how_to_write(path)) from None
    except OSError as error:
        raise _unreadable(path, error) from None
    except DocumentError as error:
        raise ClusterFileError(f"`{path}` {error}", how_to_write(path)) from None


def _unreadable(path: Path, error: OSError) -> ClusterFileError:
    hint = os_hint(error, how_to_write(path))
    return ClusterFileError(f"cannot read `{path}`: {os_reason(error)}", hint)


def how_to_write(path: Path) -> str:
    """The command that makes a snapshot with this path."""
    form = "yaml" if path.suffix in _YAML else "json"
    if path == STANDARD_INPUT:
        return f"pipe in what `kubectl get nodes,pods,replicasets -A -o {form}` prints"
    return f"write one with `kubectl get nodes,pods,replicasets -A -o {form} > {path}`"


# ---- the cluster

_CORE = "v1"
_KINDS = {
    "Node": _CORE,
    "Pod": _CORE,
    "Namespace": _CORE,
    "Deployment": "apps/v1",
    "ReplicaSet": "apps/v1",
    "StatefulSet": "apps/v1",
    "DaemonSet": "apps/v1",
    "Job": "batch/v1",
    "PodDisruptionBudget": "policy/v1",
    "ResourceQuota": _CORE,
    **{f"PodGroup of {api}": api for api in GROUP_VERSIONS},
}


@dataclass(frozen=True, slots=True)
class Reading:
    """A reading of a cluster: its cache, and notices about it."""

    cache: Cache
    notices: tuple[str, ...]


@dataclass(slots=True)
class ClusterObjects:
    """The objects of a cluster that were read so far; of two of one name the later counts.

    The pods, each with its JSON, come into the cache at the end, where all else is known. `nodes`
    is the number of nodes that were read.
    """

    codec: ObjectCodec
    nodes: int = 0
    pods: list[tuple[Peer, bytes | msgspec.Raw]] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    _cache: Cache = field(default_factory=Cache)

    def add(self, file: Path, document: bytes) -> None:
        """Adds the objects of a JSON document. Raises ClusterFileError, which names the file."""
        for head, data in objects_in(document, file):
            self._object(data, head, file)

    def cache(self) -> Cache:
        """The cache of these objects."""
        for pod, body in self.pods:
            self._cache.put_pod(pod, body=body)
        return self._cache

    def _object(self, data: bytes | msgspec.Raw, head: ObjectHead, file: Path) -> None:
        kind = head.kind or "object without a kind"
        group = head.apiVersion or _CORE
        if kind == "PodGroup":
            # Two APIs have this kind, one of them in several versions.
            api, _, version = group.partition("/")
            kind = f"PodGroup of {api if version in GROUP_VERSIONS.get(api, ()) else group}"
        elif _KINDS.get(kind, group) != group:
            kind = f"{kind} of {group}"  # a kind of the same name in another group
        if kind not in _KINDS:
            # Of any kind that wants pods, as its scale would say; its pods know it by its own kind.
            with suppress(BadObjectError):
                if (found := decode_controller("Scale", data)).workload.replicas is not None:
                    its = msgspec.structs.replace(found.workload, kind=head.kind or "")
                    self._cache.put_controller(msgspec.structs.replace(found, workload=its))
                    return
            self.skipped[kind] += 1
            return
        if head.metadata is None or not head.metadata.name:
            raise _not_a_cluster(file, f"a {kind} in it has no name")
        try:
            namespace, name, cache = head.metadata.namespace or "", head.metadata.name, self._cache
            match kind:
                case "Node":
                    self.nodes += 1
                    cache.put_node(self.codec.node(data))
                case "Pod":
                    self.pods.append((self.codec.peer(data), data))
                case "Namespace":
                    cache.put_namespace(decode_namespace(data))
                case "PodDisruptionBudget":
                    cache.budgets[f"{namespace}/{name}"] = decode_budget(data)
                case "ResourceQuota":
                    cache.quotas[f"{namespace}/{name}"] = decode_quota(data)
                case str() if kind.startswith("PodGroup"):
                    named = GroupName(group.partition("/")[0], name)
                    cache.put_group(namespace, named, decode_group(data))
                case _:
                    cache.put_controller(decode_controller(kind, data))
        except BadObjectError as error:
            raise ClusterFileError(
                f"{kind} `{head.metadata.name}` in `{file}` cannot be read: {error}",
                how_to_write(file),
            ) from None


def read_cluster(
    codec: ObjectCodec, files: Sequence[Path], contents: Iterable[tuple[Path, bytes]]
) -> Reading:
    """The cluster of JSON documents, each with its file.

    Raises ClusterFileError, whose message is one line and names the file.
    """
    found = ClusterObjects(codec)
    for file, document in contents:
        found.add(file, document)
    if not found.nodes and not found.pods:
        names = ", ".join(f"`{file}`" for file in files)
        raise ClusterFileError(f"there are no nodes in {names}", how_to_write(files[0]))
    cache = found.cache()
    return Reading(cache, tuple(_notices(found, cache.snapshot())))


def objects_in(document: bytes, file: Path) -> Iterator[tuple[ObjectHead, bytes | msgspec.Raw]]:
    """Each object of a JSON document, with its kind. Raises ClusterFileError."""
    outer = _open(document, file)
    if outer.kind is None:
        raise _not_a_cluster(file, "it has no `kind`")
    if not outer.kind.endswith("List"):
        yield outer, document
        return
    # An API server may write null for a list without objects.
    if outer.items is None and outer.metadata is None:
        raise _not_a_cluster(file, f"its {outer.kind} has no `items`")
    # The items of a NodeList do not repeat their kind.
    kind = outer.kind.removesuffix("List") or None
    for item in outer.items or ():
        inner = _open(item, file)
        named = msgspec.structs.replace(
            inner, kind=inner.kind or kind, apiVersion=inner.apiVersion or outer.apiVersion
        )
        yield named, item


def _open(data: bytes | msgspec.Raw, file: Path) -> ObjectHead:
    try:
        return msgspec.json.decode(data, type=ObjectHead)
    except RecursionError:
        raise ClusterFileError(f"`{file}` is nested too deeply", how_to_write(file)) from None
    except UnicodeDecodeError:
        raise ClusterFileError(f"`{file}` is not UTF-8 text", how_to_write(file)) from None
    except msgspec.ValidationError:
        raise _not_a_cluster(file, "it is not a Kubernetes object") from None
    except msgspec.DecodeError as error:
        detail = str(error).lower().removeprefix("json is malformed: ")
        raise ClusterFileError(f"`{file}` is not JSON: {detail}", how_to_write(file)) from None


def _not_a_cluster(file: Path, reason: str) -> ClusterFileError:
    return ClusterFileError(f"`{file}` is not a cluster file: {reason}", how_to_write(file))


def _notices(found: ClusterObjects, snapshot: Snapshot) -> Iterator[str]:
    if found.skipped:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(found.skipped.items()))
        yield f"skipped objects that no rule reads: {kinds}"
    if not found.pods:
        yield "it has no pods, so every node counts as empty"
    living = sum(pod.phase not in ENDED for pod, _ in found.pods)
    kept = len(snapshot.table.rows) + len(snapshot.pods())
    if twice := found.nodes + living - kept:
        yield f"{twice} of the nodes and pods appear twice; the later ones count"
    strays = len(snapshot.strays)
    if strays:
        yield f"{strays} of the pods are on unknown nodes and are not counted"


def parts(document: bytes, most: int) -> Iterator[bytes]:
    """A list in lists of at most so many objects; any other document as it is.

    Raises msgspec.MsgspecError.
    """
    head = msgspec.json.decode(document, type=ObjectHead)
    if head.items is None or len(head.items) <= most:
        yield document
        return
    outer = {"kind": head.kind, "apiVersion": head.apiVersion}
    for first in range(0, len(head.items), most):
        yield msgspec.json.encode({**outer, "items": head.items[first : first + most]})


def bodies(
    documents: Iterable[bytes], kind: str, file: Path = STANDARD_INPUT
) -> dict[str, msgspec.Raw | bytes]:
    """The JSON of every object of a kind, by `namespace/name`; the last one of a key counts.

    Raises ClusterFileError.
    """
    return {
        f"{named.namespace or ''}/{named.name}": body
        for document in documents
        for head, body in objects_in(document, file)
        if head.kind == kind and (named := head.metadata) is not None
    }


def workload_uids(documents: Iterable[bytes]) -> Mapping[tuple[str, str], str]:
    """The uids of workloads in a cluster, by kind and `namespace/name`. Raises ClusterFileError."""
    return {
        (kind, f"{named.namespace or ''}/{named.name}"): named.uid
        for document in documents
        for head, _ in objects_in(document, STANDARD_INPUT)
        if (kind := head.kind) is not None and kind in WORKLOAD_KINDS
        if head.apiVersion in (None, WORKLOAD_KINDS[kind][0])
        if (named := head.metadata) is not None and named.uid
    }
