"""Sugar: the fields of a manifest and Kubernetes' selectors, as texts of the policy language.

A selector is true or false for every object, never missing. As in Kubernetes, NotIn and
DoesNotExist are true for an object without the key; all other operators are false.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import assert_never

from grammar.messages import catalogue
from grammar.messages.diagnostics import Diagnostic
from grammar.syntax.parser import parse_expression, parse_rules
from grammar.tree.clause_parts import AnyClause, Repair, minute_of
from grammar.tree.policy import Argument, ForPods, Item, Policy, Setting
from grammar.tree.printer import print_string
from grammar.tree.source import Source
from grammar.values.nodes import all_hold
from policies.manifest_text import ManifestText, put
from policies.resource import (
    BoundedTarget,
    ClusterSpec,
    LabelRequirement,
    Manifest,
    NodeRequirement,
    NodeSelector,
    Selector,
    Spec,
)

# At most 18 digits fit in an int. As with strconv.ParseInt, the requirement is false for any other
# text.
_WHOLE = 'r"^[+-]?0*[0-9]{1,18}$"'


def conditions(selector: Selector | NodeSelector | None, values: str) -> Iterator[str]:
    """The requirements of a selector, each an operand of `&&`; none for an empty selector.

    `values` is the map that it reads, such as `node.labels`.
    """
    if selector is None:
        return
    for key, value in (selector.matchLabels or {}).items():
        yield f"{_has(key, values)} && {_at(key, values)} == {print_string(value)}"
    requirements: tuple[LabelRequirement | NodeRequirement, ...] = selector.matchExpressions
    for requirement in requirements:
        yield _condition(requirement, values)


def _condition(requirement: LabelRequirement | NodeRequirement, values: str) -> str:
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
    """Whether a selector of pods or namespaces selects an object with these labels."""
    if selector is None:
        return True
    wanted = selector.matchLabels or {}
    are_equal = all(labels.get(key) == value for key, value in wanted.items())
    return are_equal and all_hold(selector.matchExpressions, labels)


# ---- a manifest as a policy
#
# The fields become a text, which is parsed like any other. So no tree is built by hand, which could
# be one that no text has. The text has no spans of its own: its items get the span of their field.

# The name of the declarative part in messages, in metrics and in `expect`.
CLAUSE = "placementPolicy"
_AND = " && "
# The longest text of a field whose items are kept.
_MOST_KEPT_TEXT = 256
# The namespace of an object that names none.
DEFAULT_NAMESPACE = "default"
_BOUNDS = {"Exactly": "exactly", "AtMost": "at most", "AtLeast": "at least"}
# The bounds of MustNot: all but 3 pods on these nodes are 3 on the others, and at most all but 3 on
# these are at least 3 on the others.
_TURNED = {"Exactly": "exactly", "AtMost": "at least", "AtLeast": "at most"}
# The items of the language that a field replaces.
_FIELDS = {
    "weight": "spec.weight",
    "mode": "spec.enforcementMode",
    "missing": "spec.failurePolicy",
    "portable": "spec.portable",
    "repair": "spec.repair",
    "for": "spec.podSelector",
}


def policy_of(manifest: Manifest, page: ManifestText) -> tuple[Policy, list[Diagnostic]]:
    """The policy of a manifest, not yet checked, and the diagnostics of parts that do not parse.

    All spans are spans of the page.
    """
    items: list[Item] = []
    found: list[Diagnostic] = []
    for field, text in parts(manifest):
        place = page.place(field)
        made, wrong = items_of(text)
        items.extend(put(_narrowed(item, manifest), place) for item in made)
        found.extend(replace(d, span=place, fix=None) for d in wrong)
    written, wrong = parse_rules(Source("rules", manifest.spec.rules or ""))
    for item in written:
        if (repeated := _repeated_field(item)) is None:
            items.append(page.here(item))
        else:
            wrong.append(repeated)
    found.extend(page.here(d) for d in wrong)
    policy = Policy(
        name=manifest.metadata.name,
        items=tuple(items),
        namespace=_namespace(manifest),
        cluster=isinstance(manifest.spec, ClusterSpec),
        values=tuple(_values(manifest.spec, page, found)),
        strict=manifest.spec.enforcementMode == "Strict",
        span=page.place(""),
        name_span=page.place("metadata.name"),
    )
    return policy, found


def items_of(text: str) -> tuple[Sequence[Item], Sequence[Diagnostic]]:
    """The items of a field. Most objects say the same there, in few words: these are kept."""
    return _parsed(text) if len(text) > _MOST_KEPT_TEXT else _items_of_short(text)


@lru_cache(maxsize=256)
def _items_of_short(text: str) -> tuple[Sequence[Item], Sequence[Diagnostic]]:
    return _parsed(text)


def _parsed(text: str) -> tuple[Sequence[Item], Sequence[Diagnostic]]:
    items, found = parse_rules(Source("spec", text))
    return items, tuple(found)


def _values(spec: Spec, page: ManifestText, found: list[Diagnostic]) -> Iterator[Argument]:
    """The values for the policies that the rules use, as if they were written there."""
    for name, value in (spec.parameters or {}).items():
        place = page.place(f"spec.parameters.{name}")
        expr, wrong = parse_expression(Source("spec.parameters", _constant(value)))
        found.extend(replace(d, span=place, fix=None) for d in wrong)
        if expr is not None:
            yield Argument(name, put(expr, place), span=place)


def _constant(value: object) -> str:
    """A value of JSON as a literal of the language."""
    match value:
        case str():
            return print_string(value)
        case tuple():
            return f"[{', '.join(map(_constant, value))}]"
        case _:
            return json.dumps(value)


def parts(manifest: Manifest) -> Iterator[tuple[str, str]]:
    """The fields of a manifest, each with the text of the item that it stands for."""
    spec = manifest.spec
    mode = "audit" if spec.enforcementMode == "Audit" else "enforce"
    yield ("spec.weight", f"weight {spec.weight}")
    yield ("spec.enforcementMode", f"mode {mode}")
    if spec.failurePolicy == "Ignore":
        yield ("spec.failurePolicy", "missing pass")
    if spec.portable:
        yield ("spec.portable", "portable")
    if (repair := spec.repair) is not None:
        window = repair.between
        times = (minute_of(window.begins), minute_of(window.ends)) if window is not None else (0, 0)
        found = Repair(
            repair.perMinute, repair.atOnce, repair.evictsLocalData, times[0] or 0, times[1] or 0
        )
        yield ("spec.repair", f"repair {found}")
    selected = [*conditions(spec.podSelector, "pod.labels"), *_of_namespace(manifest)]
    if selected:
        yield ("spec.podSelector", f"for pods where {_AND.join(selected)}")
    if spec.target is not None:
        field = "spec.placementPolicy" if spec.placementPolicy is not None else "spec.policy"
        yield (field, _share(manifest, spec.target))


def _share(manifest: Manifest, target: BoundedTarget) -> str:
    """The clause that a target means: how many of the selected pods go on the selected nodes."""
    spec = manifest.spec
    labels = conditions(spec.nodeSelector, "node.labels")
    nodes = _AND.join((*labels, *conditions(spec.annotationSelector, "node.annotations")))
    bound, size = _BOUNDS[target.bound], str(target.targetSize)
    said = size
    if target.action == "MustNot" and isinstance(target.targetSize, int):
        said = f"all but {size}"
        nodes, bound = f"!({nodes})", _TURNED[target.bound]
    elif target.action == "MustNot":
        # N - ceil(p * N) is the rest of the percentage, rounded down.
        said = size = f"{100 - int(size.removesuffix('%'))}%"
    if target.rounding is not None and size.endswith("%"):
        size += f" rounding {target.rounding.lower()}"
    strength = "weight 100" if spec.enforcementMode == "BestEffort" else "strict"
    reason = f"{_BOUNDS[target.bound]} {said} of its pods on the selected nodes"
    message = print_string(f"policy {manifest.metadata.name}: {reason}")
    return (
        f'share "{CLAUSE}" {{ of {_pods(manifest)} on nodes where {nodes}'
        f" {bound} {size} {strength} message {message} }}"
    )


def _pods(manifest: Manifest) -> str:
    """The pods that the policy selects, as the `of` of a share."""
    selected = [*conditions(manifest.spec.podSelector, "peer.labels")]
    scope = "all pods" if _namespace(manifest) is None else "pods"
    return f"{scope} where {_AND.join(selected or ['true'])}"


def _narrowed(item: Item, manifest: Manifest) -> Item:
    """The item; a count of the pods of all namespaces gets the namespaceSelector."""
    selected = [*_of_namespace(manifest)]
    if not isinstance(item, AnyClause) or item.counted is None or not selected:
        return item
    namespaces, _ = parse_expression(Source("spec.namespaceSelector", _AND.join(selected)))
    return item.counting(replace(item.counted, namespaces=namespaces))


def _of_namespace(manifest: Manifest) -> Iterator[str]:
    if isinstance(manifest.spec, ClusterSpec):
        yield from conditions(manifest.spec.namespaceSelector, "namespaceObject.labels")


def _namespace(manifest: Manifest) -> str | None:
    if isinstance(manifest.spec, ClusterSpec):
        return None
    return manifest.metadata.namespace or DEFAULT_NAMESPACE


def _repeated_field(item: Item) -> Diagnostic | None:
    """The error for an item in the rules that a field already sets."""
    name = "for" if isinstance(item, ForPods) else item.name
    if not isinstance(item, ForPods | Setting) or name not in _FIELDS:
        return None
    error = catalogue.twice(name, "the policy", item.span)
    return replace(error, label="", hint=f"remove it: `{_FIELDS[name]}` sets it")
