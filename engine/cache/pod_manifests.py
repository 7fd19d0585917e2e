"""Pods of manifests: pods to be created, by themselves or by the workloads of a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from engine.cache.cluster_copy import NamedPod
from engine.cache.cluster_file import ClusterFileError, documents
from engine.objects.api_types import mapping
from engine.objects.workload_pods import (
    ANY_CLUSTER,
    MOST_PODS,
    ClusterDefaults,
    Json,
    KnownUid,
    WorkloadError,
    WorkloadPods,
    defaults_in,
    is_workload,
    kind_called,
    nothing_known,
    pods_of,
)
from grammar.messages.texts import named

DEFAULT_NAMESPACE = "default"
_SHOWN = 5
_HINT = "`kubectl run NAME --image=… --dry-run=client -o yaml` writes the manifest of one Pod"


@dataclass(frozen=True, slots=True)
class PodQuery:
    """Which pod of a file is meant: that of the workload `TYPE/NAME`, if one is named.

    `namespace` is that of objects without one. `known` has the uids of the cluster's workloads, and
    `defaults` what the cluster gives to new pods.
    """

    workload: str | None = None
    namespace: str = DEFAULT_NAMESPACE
    known: KnownUid = nothing_known
    defaults: ClusterDefaults = ANY_CLUSTER


ANY = PodQuery()


def read_pod(file: Path, query: PodQuery = ANY) -> NamedPod:
    """The only pod in a file, or a pod of the only workload; more objects may stand beside it.

    Raises ClusterFileError.
    """
    try:
        contents = list(documents(file, query.defaults))
    except ClusterFileError as error:
        raise ClusterFileError(error.message, _HINT) from None
    return pod_in(contents, file, query)


def pod_in(contents: Sequence[bytes], file: Path, query: PodQuery = ANY) -> NamedPod:
    """As `read_pod`, of the JSON documents of a file. Raises ClusterFileError."""
    items = list(objects(contents, file, _HINT))
    found = [each for each in items if each.get("kind") == "Pod" or is_workload(each)]
    if query.workload is not None:
        word, _, name = query.workload.rpartition("/")
        kind = "Pod" if word in POD_TYPES else kind_called(word)
        found = [each for each in found if each.get("kind") == kind and _name_of(each) == name]
        if not found:
            there = _listed(items) or "nothing"
            text = f"there is no `{query.workload}` in `{file}`: it has {there}"
            raise ClusterFileError(text, "")
    if len(found) != 1:
        raise _not_one(file, items, found)
    item = found[0]
    for part in ("metadata", "spec"):
        if not isinstance(item.get(part) or {}, dict):
            text = f"`{file}` is not a manifest of one pod: its {part} is not an object"
            raise ClusterFileError(text, _HINT)
    defaults = defaults_in(contents, query.defaults)
    if item.get("kind") == "Pod":
        return _completed(item, file, query.namespace, defaults)
    made = expanded(item, file, query.namespace, query.known)
    return NamedPod.created(made.example, made.controllers, defaults)


def objects(contents: Sequence[bytes], file: Path, hint: str) -> Iterator[Json]:
    """The objects of JSON documents, and of the lists among them. Raises ClusterFileError."""
    for content in contents:
        try:
            document = msgspec.json.decode(content)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise ClusterFileError(f"`{file}` is not JSON", hint) from None
        items = document.get("items") if isinstance(document, dict) else document
        if not isinstance(items, list):
            items = [document]
        listed = document.get("kind") if isinstance(document, dict) else None
        for item in items:
            if not isinstance(item, dict):
                raise ClusterFileError(f"`{file}` has something that is not an object", hint)
            # The items of a PodList do not repeat their kind.
            is_pod = listed == "PodList" and not item.get("kind")
            yield {**item, "kind": "Pod"} if is_pod else item


def expanded(
    item: Json, file: Path, namespace: str, known: KnownUid, most: int = MOST_PODS
) -> WorkloadPods:
    """The pods of a workload in a file, at most so many. Raises ClusterFileError."""
    try:
        return pods_of(item, namespace, known, most)
    except WorkloadError as error:
        raise ClusterFileError(f"`{file}` cannot be read: {error}", "correct the file") from None


# What kubectl accepts before the name of a pod.
POD_TYPES = ("pod", "pods", "po")


def _not_one(file: Path, items: Sequence[Json], found: Sequence[Json]) -> ClusterFileError:
    there = _listed(found or items) or "nothing"
    if not found:
        text = f"`{file}` has neither a pod nor a workload: it has {there}"
        return ClusterFileError(text, _HINT)
    text = f"`{file}` has several pods and workloads: {there}"
    named_ones = [each for each in found if _name_of(each)]
    if not named_ones:
        return ClusterFileError(text, "leave one of them")
    first = next((each for each in named_ones if each["kind"] != "Pod"), named_ones[0])
    name = f"{str(first['kind']).lower()}/{_name_of(first)}"
    return ClusterFileError(text, f"name one of them, as in `{name}`")


def _listed(items: Sequence[Json]) -> str:
    kinds = [str(each.get("kind") or "an object without a kind") for each in items]
    names = [f" `{name}`" if (name := _name_of(each)) else "" for each in items]
    return named([kind + name for kind, name in zip(kinds, names, strict=True)], _SHOWN)


def _name_of(item: Json) -> str:
    """The name of an object; empty for one without a name."""
    return str(mapping(item, "metadata").get("name") or "")


def _completed(
    pod: dict[str, Any], file: Path, namespace: str, defaults: ClusterDefaults
) -> NamedPod:
    """The pod with the namespace that the API server would set, and a unique uid."""
    metadata = mapping(pod, "metadata")
    namespace = str(metadata.get("namespace") or namespace)
    name = str(metadata.get("name") or metadata.get("generateName") or "pod")
    known = {"name": name, "namespace": namespace, "uid": metadata.get("uid") or f"file:{file}"}
    return NamedPod.created({**pod, "metadata": {**metadata, **known}}, defaults=defaults)
