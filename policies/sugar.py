"""Kubernetes' selectors as expressions of the language.

They say yes or no of every object: a key that an object does not have is never missing. As in
Kubernetes, NotIn and DoesNotExist hold without the key, and everything else does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import assert_never

from grammar import catalogue as mistakes
from grammar.clauses import ForPods, Item, Policy, Setting, Share
from grammar.diagnostics import Diagnostic
from grammar.parser import parse_expression, parse_rules
from grammar.printer import print_string
from grammar.source import Source
from policies.page import Page, put
from policies.resource import (
    ClusterSpec,
    Manifest,
    NodeRequirement,
    NodeSelector,
    Requirement,
    Selector,
    Target,
)

# As many digits as certainly fit an int: strconv.ParseInt refuses what is no whole number, and the
# requirement does not hold then.
_WHOLE = 'r"^[+-]?0*[0-9]{1,18}$"'


def conditions(selector: Selector | NodeSelector | None, values: str) -> Iterator[str]:
    """What a selector asks for, each an operand of `&&`.

    `values` is where it looks, such as `node.labels`. Nothing is asked for by an empty selector.
    """
    if selector is None:
        return
    for key, value in (selector.matchLabels or {}).items():
        yield f"{_has(key, values)} && {_at(key, values)} == {print_string(value)}"
    requirements: tuple[Requirement | NodeRequirement, ...] = selector.matchExpressions
    for requirement in requirements:
        yield _condition(requirement, values)


def _condition(requirement: Requirement | NodeRequirement, values: str) -> str:
    has, at = _has(requirement.key, values), _at(requirement.key, values)
    wanted = ", ".join(map(print_string, requirement.values))
    match requirement.operator:
        case "In":
            return f"{has} && {at} in [{wanted}]"
        case "NotIn":
            return f"!({has} && {at} in [{wanted}])"
        case "Exists":
            return has
        case "DoesNotExist":
            return f"!({has})"
        case "Gt" | "Lt":
            relation = ">" if requirement.operator == "Gt" else "<"
            number = int(requirement.values[0])
            return f"{has} && {at}.matches({_WHOLE}) && int({at}) {relation} {number}"
        case _:
            assert_never(requirement.operator)


def _has(key: str, values: str) -> str:
    return f"{print_string(key)} in {values}"


def _at(key: str, values: str) -> str:
    return f"{values}[{print_string(key)}]"


def matches(selector: Selector | None, labels: Mapping[str, str]) -> bool:
    """Whether labels are what a selector of pods or namespaces asks for."""
    if selector is None:
        return True
    wanted = selector.matchLabels or {}
    return all(labels.get(key) == value for key, value in wanted.items()) and all(
        _matches(requirement, labels.get(requirement.key))
        for requirement in selector.matchExpressions
    )


def _matches(requirement: Requirement, value: str | None) -> bool:
    match requirement.operator:
        case "In":
            return value is not None and value in requirement.values
        case "NotIn":
            return value is None or value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case _:
            assert_never(requirement.operator)


# ---- A manifest as a policy of the language: its declarative part is a share, its rules are
# clauses.
#
# The fields become a text, which is parsed like any other. A tree built by hand would need a node
# for
# every operator of every selector, and could be one that no text has; a text can be read, and
# nothing
# is lost but places, which are no use here: what a field means stands where the field does.

# What messages, metrics and `expect` call the declarative part.
CLAUSE = "placementPolicy"
# Where kubectl puts an object that names no namespace.
DEFAULT_NAMESPACE = "default"
_BOUNDS = {"Exactly": "exactly", "AtMost": "at most", "AtLeast": "at least"}
# All but three on these nodes is three on the others, and at most all but three at least three.
_TURNED = {"Exactly": "exactly", "AtMost": "at least", "AtLeast": "at most"}
# What only a field says of the policy as a whole.
_FIELDS = {
    "weight": "spec.weight",
    "mode": "spec.enforcementMode",
    "failure": "spec.failurePolicy",
    "for": "spec.podSelector",
}


@dataclass(frozen=True, slots=True)
class Part:
    """What a field says, as an item of a policy."""

    field: str
    text: str


def policy_of(manifest: Manifest, page: Page) -> tuple[Policy, list[Diagnostic]]:
    """The policy, not yet checked, and what is wrong with that of it which could not be read.

    All places are places of the page.
    """
    items: list[Item] = []
    found: list[Diagnostic] = []
    for part in parts(manifest):
        place = page.place(part.field)
        made, wrong = parse_rules(Source(part.field, part.text))
        items.extend(put(_narrowed(item, manifest), place) for item in made)
        found.extend(replace(d, span=place, fix=None) for d in wrong)
    written, wrong = parse_rules(Source("rules", manifest.spec.rules or ""))
    for item in written:
        if (foreign := _foreign(item)) is None:
            items.append(page.here(item))
        else:
            wrong.append(foreign)
    found.extend(page.here(d) for d in wrong)
    policy = Policy(
        name=manifest.metadata.name,
        items=tuple(items),
        namespace=_namespace(manifest),
        cluster=isinstance(manifest.spec, ClusterSpec),
        span=page.place(""),
        name_span=page.place("metadata.name"),
    )
    return policy, found


def parts(manifest: Manifest) -> Iterator[Part]:
    """The items of the policy that the fields stand for, each a text of the language."""
    spec = manifest.spec
    mode = "audit" if spec.enforcementMode == "Audit" else "enforce"
    yield Part("spec.weight", f"weight {spec.weight}")
    yield Part("spec.enforcementMode", f"mode {mode}")
    yield Part("spec.failurePolicy", f"failure {spec.failurePolicy.lower()}")
    selected = [*conditions(spec.podSelector, "pod.labels"), *_of_namespace(manifest)]
    if selected:
        yield Part("spec.podSelector", f"for pods where {_all(selected)}")
    if spec.target is not None:
        field = "spec.placementPolicy" if spec.placementPolicy is not None else "spec.policy"
        yield Part(field, _share(manifest, spec.target))


def _share(manifest: Manifest, target: Target) -> str:
    """The clause that a target means: how many of the selected pods go on the selected nodes."""
    spec = manifest.spec
    nodes = _all(
        [
            *conditions(spec.nodeSelector, "node.labels"),
            *conditions(spec.annotationSelector, "node.annotations"),
        ]
    )
    bound, size = _BOUNDS[target.bound], str(target.targetSize)
    said = size
    if target.action == "MustNot" and isinstance(target.targetSize, int):
        said = f"all but {size}"
        nodes, bound = f"!({nodes})", _TURNED[target.bound]
    elif target.action == "MustNot":
        # N - ceil(p * N) is the rest of the percentage, rounded down.
        said = size = f"{100 - int(size.removesuffix('%'))}%"
    strength = "best effort weight 100" if spec.enforcementMode == "BestEffort" else "strict"
    reason = f"{_BOUNDS[target.bound]} {said} of its pods on the selected nodes"
    message = print_string(f"policy {manifest.metadata.name}: {reason}")
    return (
        f'share "{CLAUSE}" {{ of {_pods(manifest)} on nodes where {nodes}'
        f" {bound} {size} {strength} message {message} }}"
    )


def _pods(manifest: Manifest) -> str:
    """The pods that the policy selects, as a share counts them."""
    selected = [*conditions(manifest.spec.podSelector, "peer.labels")]
    # A set of pods needs a condition, and one that is always true would be taken for a mistake.
    if (namespace := _namespace(manifest)) is None:
        return f"all pods where {_all(selected or ['size(peer.namespace) > 0'])}"
    here = f"peer.namespace == {print_string(namespace)}"
    return f"pods where {_all(selected or [here])}"


def _narrowed(item: Item, manifest: Manifest) -> Item:
    """A share of pods everywhere counts those of the selected namespaces."""
    selected = [*_of_namespace(manifest)]
    if not isinstance(item, Share) or item.pods is None or not selected:
        return item
    namespaces, _ = parse_expression(Source("spec.namespaceSelector", _all(selected)))
    return replace(item, pods=replace(item.pods, namespaces=namespaces))


def _of_namespace(manifest: Manifest) -> Iterator[str]:
    if isinstance(manifest.spec, ClusterSpec):
        yield from conditions(manifest.spec.namespaceSelector, "namespaceObject.labels")


def _namespace(manifest: Manifest) -> str | None:
    if isinstance(manifest.spec, ClusterSpec):
        return None
    return manifest.metadata.namespace or DEFAULT_NAMESPACE


def _all(operands: list[str]) -> str:
    return " && ".join(operands)


def _foreign(item: Item) -> Diagnostic | None:
    """The mistake of saying in the rules what a field says."""
    name = "for" if isinstance(item, ForPods) else item.name
    if not isinstance(item, ForPods | Setting) or name not in _FIELDS:
        return None
    mistake = mistakes.twice(name, "the policy", item.span)
    return replace(mistake, label="", hint=f"remove it: `{_FIELDS[name]}` sets it")
