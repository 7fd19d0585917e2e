"""Objects as the JSON they came in: the engine keeps less of a pod than a rule may read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from cli.exits import CommandError
from engine.cache.documents import ClusterFileError, documents

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
