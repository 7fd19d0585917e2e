"""Portable form: what a pod was told of portable policies when it was created, as lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from engine.decision.registry import Registry
from engine.objects.form_annotation import versions

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def form_lines(body: bytes, registry: Registry) -> Iterator[str]:
    """The policies, whether they are the same still, and what the spec of the pod says."""
    pod = msgspec.json.decode(body)
    told = versions(pod.get("metadata", {}).get("annotations") or {})
    if not told:
        return
    now = {program.address: program.digest for program in registry.programs}
    for address, digest in told.items():
        if now.get(address) == digest:
            yield f"others know policy {address} from the spec of the pod"
        else:
            what = "another version of policy" if address in now else "policy"
            why = "" if address in now else ", which is not in force,"
            yield f"others know {what} {address}{why} from the spec of the pod; create it again"
    yield from (f"  {line}" for line in _spec_lines(pod.get("spec") or {}))


def _spec_lines(spec: Mapping[str, Any]) -> Iterator[str]:
    affinity = spec.get("affinity") or {}
    required = {kind: (affinity.get(kind) or {}).get(_REQUIRED) or {} for kind in _KINDS}
    if terms := required["nodeAffinity"] and required["nodeAffinity"].get("nodeSelectorTerms"):
        fields = ("matchExpressions", "matchFields")
        each = ([r for name in fields for r in term.get(name) or ()] for term in terms)
        yield f"node affinity: {' or '.join(', '.join(_requirements(r)) for r in each)}"
    for kind in ("podAffinity", "podAntiAffinity"):
        for term in required[kind]:
            yield f"{_KINDS[kind]}, per {term['topologyKey']}: {_selector(term)}"
    for each in spec.get("topologySpreadConstraints") or ():
        if each.get("whenUnsatisfiable") == "DoNotSchedule":
            over = f"over {each['topologyKey']}, skew at most {each['maxSkew']}"
            yield f"topology spread {over}: {_selector(each)}"


_KINDS = {
    "nodeAffinity": "node affinity",
    "podAffinity": "pod affinity",
    "podAntiAffinity": "pod anti-affinity",
}


def _selector(term: Mapping[str, Any]) -> str:
    selector = term.get("labelSelector") or {}
    labels = [f"{key} In [{value}]" for key, value in (selector.get("matchLabels") or {}).items()]
    found = [*labels, *_requirements(selector.get("matchExpressions") or ())]
    return ", ".join(found) or "all pods"


def _requirements(expressions: Any) -> list[str]:
    return [
        f"{each['key']} {each['operator']}"
        + (f" [{', '.join(each['values'])}]" if each.get("values") else "")
        for each in expressions
    ]
