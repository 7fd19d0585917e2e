"""From a manifest's bytes or parsed fields to its structs, with what is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from grammar.mistakes import listed
from policies.decoding import Problem, decoded
from policies.forms import GROUP
from policies.resource import (
    ALPHA,
    KINDS,
    RESERVED_WEIGHT,
    VERSIONS,
    ClusterPlacementPolicy,
    ClusterSpec,
    Manifest,
    NodeRequirement,
    NodeSelector,
    Requirement,
    Selector,
    Spec,
    Target,
)

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\Z")
_PERCENTAGE = re.compile(r"(100|[0-9]{1,2})%\Z")
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}\Z")
_MOST = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Read:
    """A manifest, if there is one that a policy can be made of, and what is wrong with it."""

    manifest: Manifest | None
    problems: tuple[Problem, ...]


def is_ours(value: object) -> bool:
    """Whether a parsed document says that it is one of ours, in whatever version."""
    if not isinstance(value, dict):
        return False
    group = str(value.get("apiVersion")).partition("/")[0]
    return group == GROUP and value.get("kind") in tuple(KINDS)


def manifest_from_json(raw: bytes, *, stored: bool = False) -> Read:
    """A manifest from the JSON of an object; see `manifest_from`."""
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return Read(None, (Problem("object", f"is not JSON: {str(error).lower()}"),))
    return manifest_from(value, stored=stored)


def manifest_from(value: object, *, stored: bool = False) -> Read:
    """A manifest from parsed fields.

    `stored` says that the API server has it. It shows an object in each version, whichever it was
    written in, so that a weight which only v1alpha1 takes can stand in a v1 one.
    """
    if not is_ours(value):
        kinds = listed([f"`{kind}`" for kind in KINDS])
        return Read(None, (Problem("kind", f"is none of {GROUP}: {kinds}"),))
    assert isinstance(value, dict), "it has a kind"
    version = str(value["apiVersion"]).partition("/")[2]
    if version not in VERSIONS:
        message = f"there is no version `{version}`"
        return Read(None, (Problem("apiVersion", message, f"write `{GROUP}/{VERSIONS[0]}`"),))
    manifest = decoded(value, KINDS[value["kind"]])
    if isinstance(manifest, Problem):
        return Read(None, (manifest,))
    problems = (
        *_metadata(manifest),
        *_weight(manifest.spec.weight, lenient=stored or version == ALPHA),
        *_spec(manifest.spec),
    )
    broken = any(p.severity == "error" for p in problems)
    return Read(None if broken else manifest, problems)


def _metadata(manifest: Manifest) -> Iterator[Problem]:
    name, namespace = manifest.metadata.name, manifest.metadata.namespace
    if not name:
        yield Problem("metadata.name", "is missing")
    elif not _NAME.match(name) or len(name) > 253:
        hint = "lower-case letters, digits, `-` and `.`, at most 253"
        yield Problem("metadata.name", f"`{name}` is not a name", hint)
    if isinstance(manifest, ClusterPlacementPolicy) and namespace:
        hint = "select namespaces with `spec.namespaceSelector`"
        yield Problem("metadata.namespace", "a ClusterPlacementPolicy is in no namespace", hint)


def _weight(weight: int, *, lenient: bool) -> Iterator[Problem]:
    if weight > RESERVED_WEIGHT:
        return
    field, hint = "spec.weight", f"0 to {RESERVED_WEIGHT} are reserved"
    message = f"`{weight}` is not more than {RESERVED_WEIGHT}"
    is_allowed = lenient and weight == RESERVED_WEIGHT
    yield Problem(field, message, hint, "warning" if is_allowed else "error")


def _spec(spec: Spec) -> Iterator[Problem]:
    if spec.podSelector is None:
        hint = "an empty one, `{}`, selects every pod"
        yield Problem("spec.podSelector", "is missing", hint)
    if spec.placementPolicy is not None and spec.policy is not None:
        message = "is what `spec.placementPolicy` is too"
        yield Problem("spec.policy", message, "keep one of them")
    if spec.target is None and spec.rules is None:
        hint = "say in `spec.placementPolicy` or `spec.rules` where the pods go"
        yield Problem("spec", "decides nothing", hint)
    if spec.target is not None:
        field = "spec.placementPolicy" if spec.placementPolicy is not None else "spec.policy"
        yield from _target(spec.target, field)
        if spec.nodeSelector is None and spec.annotationSelector is None:
            hint = f"`{field}` is about the nodes that it selects"
            yield Problem("spec.nodeSelector", "is missing", hint)
    for field in ("podSelector", "nodeSelector", "annotationSelector"):
        yield from _selector(getattr(spec, field), f"spec.{field}")
    if isinstance(spec, ClusterSpec):
        yield from _selector(spec.namespaceSelector, "spec.namespaceSelector")


def _target(target: Target, field: str) -> Iterator[Problem]:
    size = target.targetSize
    if isinstance(size, int):
        if not 0 <= size <= _MOST:
            yield Problem(f"{field}.targetSize", f"`{size}` is not a count of pods")
    elif not _PERCENTAGE.match(size):
        hint = "write a count, as `3`, or a percentage, as `40%`"
        yield Problem(f"{field}.targetSize", f"`{size}` is not 0% to 100%", hint)


def _selector(selector: Selector | NodeSelector | None, field: str) -> Iterator[Problem]:
    if selector is None:
        return
    if isinstance(selector, NodeSelector) and not is_selective(selector):
        yield Problem(field, "is empty, and would select every node", "name the nodes' labels")
    requirements: tuple[Requirement | NodeRequirement, ...] = selector.matchExpressions
    for number, requirement in enumerate(requirements):
        where, values = f"{field}.matchExpressions[{number}].values", requirement.values
        match requirement.operator:
            case "In" | "NotIn":
                if not values:
                    yield Problem(where, f"`{requirement.operator}` needs a value")
            case "Gt" | "Lt":
                if len(values) != 1 or not _WHOLE.match(values[0]):
                    yield Problem(where, f"`{requirement.operator}` needs one whole number")
            case "Exists" | "DoesNotExist":
                if values:
                    yield Problem(where, f"`{requirement.operator}` has no values")


def is_selective(selector: Selector | NodeSelector | None) -> bool:
    """Whether a selector asks for anything."""
    return selector is not None and bool(selector.matchLabels or selector.matchExpressions)
