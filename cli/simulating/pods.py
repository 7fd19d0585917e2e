"""Pods to schedule, from what kubectl wrote or from a trace: as they were before they had nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from cli.exits import CommandError
from cli.render import counted
from cli.simulating import openb
from engine.cache.documents import ClusterFileError, documents
from engine.cache.snapshot import ENDED

_NAMESPACE = "default"

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PodFile:
    """The JSON of each pod by `namespace/name`, in order, and sentences about what was read."""

    file: Path
    bodies: Mapping[str, bytes]
    notices: tuple[str, ...]


@dataclass(slots=True)
class _Found:
    """What there is so far; `beyond` counts the pods that want what the model leaves out."""

    bodies: dict[str, bytes] = field(default_factory=dict)
    others: int = 0
    gone: int = 0
    beyond: Counter[str] = field(default_factory=Counter)


def read_pods(file: Path) -> PodFile:
    """The pods of a file that still have to run, wherever they run now. Raises CommandError."""
    found = _Found()
    for item in _items(file):
        _take(item, file, found)
    if not found.bodies:
        gone = f": {_gone(found.gone)}" if found.gone else ""
        raise CommandError(f"there are no pods to schedule in `{file}`{gone}", _hint(file))
    return PodFile(file, found.bodies, tuple(_notices(found)))


def _items(file: Path) -> Iterator[Any]:
    """Every object, those of lists one by one."""
    try:
        contents = [openb.pods(file)] if openb.is_trace(file) else list(documents(file))
    except ClusterFileError as error:
        raise CommandError(error.message, _hint(file)) from None
    for content in contents:
        try:
            document = msgspec.json.decode(content)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise CommandError(f"`{file}` is not JSON: {error}", _hint(file)) from None
        inside = document.get("items") if isinstance(document, dict) else document
        if not isinstance(inside, list):
            yield document
            continue
        kind = (isinstance(document, dict) and document.get("kind")) or ""
        for item in inside:
            # The items of a PodList do not repeat what they are.
            known = isinstance(item, dict) and not item.get("kind") and kind == "PodList"
            yield {**item, "kind": "Pod"} if known else item


def _take(item: Any, file: Path, found: _Found) -> None:
    if not isinstance(item, dict) or not isinstance(item.get("kind"), str):
        raise CommandError(f"`{file}` is no list of pods", _hint(file))
    if item["kind"] != "Pod":
        found.others += 1
        return
    metadata, spec, status = (item.get(part) or {} for part in ("metadata", "spec", "status"))
    if not all(isinstance(part, dict) for part in (metadata, spec, status)):
        raise CommandError(f"a pod in `{file}` has a part that is no object", _hint(file))
    if not isinstance(metadata.get("name"), str):
        raise CommandError(f"a pod in `{file}` has no name", "give each pod a `metadata.name`")
    if status.get("phase") in ENDED or metadata.get("deletionTimestamp") is not None:
        found.gone += 1
        return
    key = f"{metadata.get('namespace') or _NAMESPACE}/{metadata['name']}"
    if key in found.bodies:
        raise CommandError(f"`{file}` has two pods `{key}`", "give each pod a name of its own")
    found.bodies[key] = _fresh(item, metadata, spec)
    found.beyond.update({what for what, wants in _BEYOND.items() if wants(spec)})


def _fresh(pod: Object, metadata: Object, spec: Object) -> bytes:
    """The pod as the API server would have it when it has just been made."""
    namespace = metadata.get("namespace") or _NAMESPACE
    uid = metadata.get("uid") or f"{namespace}/{metadata['name']}"
    named = {**metadata, "namespace": namespace, "uid": uid}
    unplaced = {k: v for k, v in spec.items() if k != "nodeName"}
    return msgspec.json.encode(
        {**pod, "metadata": named, "spec": unplaced, "status": {"phase": "Pending"}}
    )


def _notices(found: _Found) -> Iterator[str]:
    if found.others:
        others = counted(found.others, "object that is no pod", "objects that are no pods")
        yield f"skipped {others}"
    if found.gone:
        yield f"skipped {_gone(found.gone)}"
    if found.beyond:
        wanted = ", ".join(
            f"{what} ({counted(count, 'pod')})" for what, count in sorted(found.beyond.items())
        )
        yield f"the model leaves out what some pods ask for: {wanted}"


def _gone(count: int) -> str:
    one = "pod that has ended or is being deleted"
    return counted(count, one, "pods that have ended or are being deleted")


def _hint(file: Path) -> str:
    return f"write one with `kubectl get pods -A -o json > {file.with_suffix('.json')}`"


def _affinity(kind: str) -> Callable[[Object], bool]:
    def wants(spec: Object) -> bool:
        affinity = _part(spec, "affinity")
        return bool(_part(affinity, kind).get("requiredDuringSchedulingIgnoredDuringExecution"))

    return wants


def _spreads(spec: Object) -> bool:
    constraints = _parts(spec, "topologySpreadConstraints")
    return any(c.get("whenUnsatisfiable") == "DoNotSchedule" for c in constraints)


def _has_host_port(spec: Object) -> bool:
    ports = (port for c in _parts(spec, "containers") for port in _parts(c, "ports"))
    return any(port.get("hostPort") for port in ports)


def _has_claim(spec: Object) -> bool:
    return any(v.get("persistentVolumeClaim") for v in _parts(spec, "volumes"))


def _part(value: Object, name: str) -> Object:
    """What is of another type is told when the pod is decoded."""
    part = value.get(name)
    return part if isinstance(part, dict) else {}


def _parts(value: Object, name: str) -> list[Object]:
    parts = value.get(name)
    return [p for p in parts if isinstance(p, dict)] if isinstance(parts, list) else []


_BEYOND: Mapping[str, Callable[[Object], bool]] = {
    "pod affinity": _affinity("podAffinity"),
    "pod anti-affinity": _affinity("podAntiAffinity"),
    "topology spread": _spreads,
    "host ports": _has_host_port,
    "volume claims": _has_claim,
    "resource claims": lambda spec: bool(spec.get("resourceClaims")),
}
