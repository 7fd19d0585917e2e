"""Manifests: PlacementPolicy documents to structs and policies, with diagnostics for each field."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

import msgspec
from msgspec.inspect import (
    LiteralType,
    Metadata,
    NoneType,
    StructType,
    Type,
    UnionType,
    VarTupleType,
    type_info,
)

from grammar.clauses import CLAUSE_WORDS
from grammar.messages.catalogue import listed
from grammar.messages.diagnostics import Diagnostic, nearest
from grammar.tree.policy import File, Policy
from grammar.tree.source import Source, Span
from grammar.values.object_names import is_subdomain
from policies.documents import DocumentError, documents, file_page, join, literal_rules
from policies.manifest_text import GROUP, ManifestText
from policies.resource import (
    ALPHA,
    KINDS,
    RESERVED_WEIGHT,
    VERSIONS,
    BoundedTarget,
    ClusterPlacementPolicy,
    ClusterSpec,
    LabelRequirement,
    Manifest,
    NodeRequirement,
    NodeSelector,
    PlacementPolicy,
    Selector,
    Spec,
)
from policies.sugar import DEFAULT_NAMESPACE, policy_of

# ---- fields to structs: the errors of msgspec in the words of our messages

S = TypeVar("S", bound=msgspec.Struct)

# A message of msgspec: `Expected …, got … - at `$.spec.weight``; for a key, `- at `key` in `$.…``.
_SAID = re.compile(r"(?P<what>.*?)(?: - at (?:`key` in )?`\$\.?(?P<path>[^`]*)`)?\Z", re.DOTALL)
_EXPECTED = re.compile(r"Expected `(?P<wanted>[^`]*)`(?:, got `(?P<found>[^`]*)`| (?P<rest>.*))\Z")
_LACKING = re.compile(r"Object missing required field `(?P<name>[^`]*)`\Z")
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<name>[^`]*)`\Z")
_NO_VALUE = re.compile(r"Invalid enum value '?(?P<value>.*?)'?\Z", re.DOTALL)
# Values that the proposal of the API uses beside the values of its fields.
_FORMER = {("spec.enforcementMode", "Force"): "Strict"}
# What fields are called elsewhere.
_OTHER_NAMES = {
    **dict.fromkeys(("selector", "labelSelector"), "podSelector"),
    **dict.fromkeys(("mode", "enforcement", "enforcementAction"), "enforcementMode"),
    **dict.fromkeys(("priority", "order"), "weight"),
    **dict.fromkeys(("rule", "clauses", "spec", "filters", "validations"), "rules"),
}
_STEP = re.compile(r"\w+")
_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "a string",
    "bool": "a bool",
    "array": "a list",
    "object": "an object",
    "null": "nothing",
}


def decoded(value: object, wanted: type[S], page: ManifestText) -> S | Diagnostic:
    """The struct, or the diagnostic of the first field that does not fit it."""
    try:
        return msgspec.convert(value, wanted)
    except msgspec.ValidationError as error:
        said = _SAID.match(str(error))
        assert said is not None, "every part of it is optional"
        return _field_error(said["what"], said["path"] or "", wanted, page, value)
    except RecursionError:
        return page.error("object", "is nested too deeply")


def _field_error(
    what: str, path: str, wanted: type[msgspec.Struct], page: ManifestText, value: object
) -> Diagnostic:
    if (lacking := _LACKING.match(what)) is not None:
        other = _other_case(value, path, lacking["name"])
        if other is not None:
            hint = f"write `{lacking['name']}`"
            return page.error(join(path, other), "names of fields are case-sensitive", hint)
        return page.error(join(path, lacking["name"]), "is missing")
    if (unknown := _UNKNOWN.match(what)) is not None:
        here = _type_at(path, wanted)
        fields = [f.name for f in here.fields] if isinstance(here, StructType) else []
        close = nearest(unknown["name"], fields)
        hint = f"a similar name exists: `{close}`" if close is not None else ""
        if (other := _OTHER_NAMES.get(unknown["name"])) in fields:
            hint = f"write `{other}`"
        elif unknown["name"] in ("matchLabels", "matchExpressions", "match"):
            hint = "write `podSelector: {matchLabels: {…}}`"
        elif close is None and {"matchLabels", "matchExpressions"} <= set(fields):
            said = _value_at(value, join(path, unknown["name"]))
            if isinstance(said, str):
                hint = f"write `matchLabels: {{{unknown['name']}: {said}}}`"
        return page.error(join(path, unknown["name"]), "unknown field", hint)
    if (no_value := _NO_VALUE.match(what)) is not None:
        here = _type_at(path, wanted)
        values = [f"`{v}`" for v in here.values] if isinstance(here, LiteralType) else []
        message = f"`{no_value['value']}` is not allowed"
        former = _FORMER.get((path, no_value["value"]))
        hint = f"it is called `{former}`" if former else f"write {listed(values)}" if values else ""
        return page.error(path, message, hint)
    if (expected := _EXPECTED.match(what)) is not None:
        kinds = _in_words(expected["wanted"])
        if expected["found"] is not None:
            hint = ""
            if path.startswith("spec.rules"):
                hint = "write `rules: |`, and the rules indented below it"
            elif kinds == _KINDS["int"] and str(_value_at(value, path)).isdecimal():
                hint = "write it without quotes"
            elif kinds == _KINDS["str"] and expected["found"] in ("int", "float", "bool"):
                hint = "write it in quotes"
            return page.error(path, f"is {_in_words(expected['found'])}, not {kinds}", hint)
        return page.error(path, _out_of_bounds(expected["rest"]))
    return page.error(path or "object", what[:1].lower() + what[1:])


def _value_at(value: object, path: str) -> object:
    """What an object has at a path."""
    here = value
    for step in _STEP.findall(path):
        if isinstance(here, list) and step.isdecimal() and int(step) < len(here):
            here = here[int(step)]
        else:
            here = here.get(step) if isinstance(here, dict) else None
    return here


def _other_case(value: object, path: str, name: str) -> str | None:
    """The key that differs from a missing field only in its case."""
    here = _value_at(value, path)
    keys = map(str, here) if isinstance(here, dict) else ()
    return next((key for key in keys if key.lower() == name.lower()), None)


def _out_of_bounds(bound: str) -> str:
    """`<= 10`, `of length <= 64`, `of length >= 1`."""
    relation, limit = bound.split()[-2:]
    is_length = bound.startswith("of length")
    if relation == "<=":
        return f"is {'longer' if is_length else 'more'} than {limit}"
    return "is empty" if is_length else f"is less than {limit}"


def _in_words(names: str) -> str:
    """The type names of msgspec in words, without null, which means that a field is optional."""
    kinds = [name for name in names.split(" | ") if name != "null"] or ["null"]
    return listed([_KINDS.get(kind, kind) for kind in kinds])


def _type_at(path: str, root: type[msgspec.Struct]) -> Type | None:
    """The type at a path; None if the structs do not define it."""
    here: Type | None = bare(_inspected(root))
    for step in _STEP.findall(path):
        match here:
            case VarTupleType():
                here = bare(here.item_type)
            case StructType():
                found = (f.type for f in here.fields if f.encode_name == step)
                here = next(map(bare, found), None)
            case _:
                return None
    return here


@lru_cache(maxsize=8)
def _inspected(root: type[msgspec.Struct]) -> Type:
    """The type of a struct, of which there are a few: looking at it takes milliseconds."""
    return type_info(root)


def bare(kind: Type) -> Type:
    """A type without its metadata and without None."""
    if isinstance(kind, Metadata):
        return bare(kind.type)
    if isinstance(kind, UnionType):
        given = [t for t in kind.types if not isinstance(t, NoneType)]
        if len(given) == 1:
            return bare(given[0])
    return kind


# ---- checks of the structs

_PERCENTAGE = re.compile(r"(100|[0-9]{1,2})%\Z")
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}\Z")
_MOST = 2**31 - 1


@dataclass(frozen=True, slots=True)
class ManifestReading:
    """A manifest, or None if no policy can be made of it, and its diagnostics.

    `selecting` is what is left of a manifest with errors: its selectors, and how strict it is.
    """

    manifest: Manifest | None
    diagnostics: tuple[Diagnostic, ...]
    selecting: Manifest | None = None


def is_ours(value: object) -> bool:
    """Whether a parsed document has one of our kinds, in any version."""
    if not isinstance(value, dict):
        return False
    group = str(value.get("apiVersion")).partition("/")[0]
    return group == GROUP and value.get("kind") in tuple(KINDS)


def manifest_from(value: object, page: ManifestText, *, stored: bool = False) -> ManifestReading:
    """A manifest from its parsed fields.

    `stored` is true for an object of the API server. That shows each object in every version, so a
    weight that only v1alpha1 allows can appear in a v1 object.
    """
    if not is_ours(value):
        kinds = listed([f"`{kind}`" for kind in KINDS])
        return ManifestReading(None, (page.error("kind", f"must be {kinds} of `{GROUP}`"),))
    assert isinstance(value, dict), "it has a kind"
    version = str(value["apiVersion"]).partition("/")[2]
    if version not in VERSIONS:
        message = f"unknown version `{version}`"
        return ManifestReading(
            None, (page.error("apiVersion", message, f"write `{GROUP}/{VERSIONS[0]}`"),)
        )
    manifest = decoded(value, KINDS[value["kind"]], page)
    if isinstance(manifest, Diagnostic):
        return ManifestReading(None, (manifest,), _left(value, page))
    found = (
        *_metadata(manifest, page),
        *_about_pods(manifest, page),
        *_weight(manifest.spec.weight, page, lenient=stored or version == ALPHA),
        *_spec(manifest.spec, page),
    )
    if all(d.severity != "error" for d in found):
        return ManifestReading(manifest, found)
    return ManifestReading(None, found, _left(value, page))


def _left(value: dict[str, Any], page: ManifestText) -> Manifest | None:
    """What is left of a manifest with errors: where its selectors have some, it has none."""
    given, strictness = value.get("spec"), ("enforcementMode", "failurePolicy")
    head = {key: value.get(key) for key in ("apiVersion", "kind", "metadata")}
    for kept in ((*strictness, "podSelector", "namespaceSelector"), strictness):
        spec = {key: given[key] for key in kept if key in given} if isinstance(given, dict) else {}
        left = decoded({**head, "spec": spec}, KINDS[value["kind"]], page)
        if isinstance(left, Diagnostic) or any(_metadata(left, page)):
            continue
        if kept is strictness or not any(_about_pods(left, page)):
            return left
    return None


def selecting(manifest: Manifest) -> Manifest:
    """The manifest without what it demands of nodes: all that is left is which pods it selects."""
    spec = msgspec.structs.replace(
        manifest.spec, rules=None, parameters=None, placementPolicy=None, policy=None
    )
    return msgspec.structs.replace(manifest, spec=spec)


def _about_pods(manifest: Manifest, page: ManifestText) -> Iterator[Diagnostic]:
    """The errors in what says which pods a manifest selects."""
    spec = manifest.spec
    if spec.podSelector is None:
        yield page.error("spec.podSelector", "is missing", "`{}` selects every pod")
    yield from _selector(spec.podSelector, "spec.podSelector", page)
    if isinstance(spec, ClusterSpec):
        yield from _selector(spec.namespaceSelector, "spec.namespaceSelector", page)


def _metadata(manifest: Manifest, page: ManifestText) -> Iterator[Diagnostic]:
    name, namespace = manifest.metadata.name, manifest.metadata.namespace
    if not name:
        yield page.error("metadata.name", "is missing")
    elif not is_subdomain(name):
        hint = "lower-case letters, digits, `-` and `.`, at most 253"
        yield page.error("metadata.name", f"`{name}` is not a name", hint)
    if isinstance(manifest, ClusterPlacementPolicy) and namespace:
        hint = "select namespaces with `spec.namespaceSelector`"
        yield page.error("metadata.namespace", "a ClusterPlacementPolicy has no namespace", hint)


def _weight(weight: int, page: ManifestText, *, lenient: bool) -> Iterator[Diagnostic]:
    if weight > RESERVED_WEIGHT:
        return
    field, hint = "spec.weight", f"0 to {RESERVED_WEIGHT} are reserved"
    message = f"`{weight}` must be greater than {RESERVED_WEIGHT}"
    if lenient and weight == RESERVED_WEIGHT:
        yield page.warning(field, message, hint)
    else:
        yield page.error(field, message, hint)


def _spec(spec: Spec, page: ManifestText) -> Iterator[Diagnostic]:
    if spec.placementPolicy is not None and spec.policy is not None:
        message = "is the same field as `spec.placementPolicy`"
        yield page.error("spec.policy", message, "keep one of them")
    if spec.target is None and spec.rules is None:
        yield page.error("spec", "has no effect", "set `spec.placementPolicy` or `spec.rules`")
    if spec.target is not None:
        field = "spec.placementPolicy" if spec.placementPolicy is not None else "spec.policy"
        yield from _target(spec.target, field, page)
        if spec.nodeSelector is None and spec.annotationSelector is None:
            hint = f"`{field}` needs the nodes that it selects"
            yield page.error("spec.nodeSelector", "is missing", hint)
    yield from _selector(spec.nodeSelector, "spec.nodeSelector", page)
    yield from _selector(spec.annotationSelector, "spec.annotationSelector", page)


def _target(target: BoundedTarget, field: str, page: ManifestText) -> Iterator[Diagnostic]:
    size = target.targetSize
    if isinstance(size, int):
        if not 0 <= size <= _MOST:
            yield page.error(f"{field}.targetSize", f"`{size}` is not a number of pods")
    elif not _PERCENTAGE.match(size):
        hint = "write a number such as `3`, or a percentage such as `40%`"
        message = f"`{size}` is not a percentage from 0% to 100%"
        yield page.error(f"{field}.targetSize", message, hint)
    if target.rounding is not None and isinstance(size, int):
        message = f"`{size}` pods are not rounded"
        yield page.error(f"{field}.rounding", message, "remove it: only a percentage is rounded")


def _selector(
    selector: Selector | NodeSelector | None, field: str, page: ManifestText
) -> Iterator[Diagnostic]:
    if selector is None:
        return
    if isinstance(selector, NodeSelector) and not is_selective(selector):
        message = "is empty and would select every node"
        yield page.error(field, message, "select nodes by their labels")
    requirements: tuple[LabelRequirement | NodeRequirement, ...] = selector.matchExpressions
    for number, requirement in enumerate(requirements):
        where, values = f"{field}.matchExpressions[{number}].values", requirement.values
        match requirement.operator:
            case "In" | "NotIn":
                if not values:
                    yield page.error(where, f"`{requirement.operator}` needs a value")
            case "Gt" | "Lt":
                if len(values) != 1 or not _WHOLE.match(values[0]):
                    yield page.error(where, f"`{requirement.operator}` needs one whole number")
            case "Exists" | "DoesNotExist":
                if values:
                    yield page.error(where, f"`{requirement.operator}` takes no values")


def is_selective(selector: Selector | NodeSelector | None) -> bool:
    """Whether a selector has any requirement."""
    return selector is not None and bool(selector.matchLabels or selector.matchExpressions)


# ---- manifest files to policies


# The mistakes in a file after which nothing more is read.
_MOST_WRONG = 1_000


def parse_manifests(source: Source) -> tuple[File, list[Diagnostic], int]:
    """The policies of a manifest file that could be read, and the diagnostics of the rest.

    The policies are not checked yet. For a text of the language, `parse_file` does the same. The
    number is that of the objects of other kinds, which stand beside policies in rendered charts.
    """
    try:
        found = documents(source)
    except DocumentError as error:
        hint = _kind_of_text(source)
        return File(()), [Diagnostic("P0501", "error", f"this {error}", Span(0, 0), hint=hint)], 0
    others = 0
    policies: list[Policy] = []
    wrong: list[Diagnostic] = []
    strangers: list[tuple[object, ManifestText]] = []
    for document in found:
        if _is_of_others(document.value):
            others += 1
            continue
        page = file_page(source, document)
        if len(wrong) + len(strangers) >= _MOST_WRONG:
            message = f"after {_MOST_WRONG:,} mistakes the file is read no further"
            hint = "correct those above"
            wrong.append(Diagnostic("P0504", "error", message, page.place(""), hint=hint))
            break
        wrong.extend(page.error(path, "is given twice", "keep one") for path in document.twice())
        if not is_ours(document.value):
            strangers.append((document.value, page))
            continue
        read = manifest_from(document.value, page)
        wrong.extend(read.diagnostics)
        if read.manifest is not None:
            if isinstance(read.manifest, PlacementPolicy) and not read.manifest.metadata.namespace:
                message = f"metadata.namespace: is missing, so `{DEFAULT_NAMESPACE}` is used"
                wrong.append(Diagnostic("P0322", "warning", message, page.place("metadata.name")))
            policy, found_in_rules = policy_of(read.manifest, page)
            policies.append(policy)
            wrong.extend(found_in_rules)
        elif read.selecting is not None:
            policies.append(policy_of(read.selecting, page)[0])
    if strangers:
        # It looks through the whole text.
        hint = _kind_of_text(source)
        wrong.extend(_not_a_policy(value, page, hint) for value, page in strangers)
    return File(tuple(policies)), sorted(wrong, key=lambda d: d.span.start), others


def _is_of_others(value: object) -> bool:
    """Whether an object has a group and a kind that are not ours, and not ours misspelt."""
    if not isinstance(value, dict) or is_ours(value):
        return False
    version, kind = value.get("apiVersion"), value.get("kind")
    if not (isinstance(version, str) and isinstance(kind, str) and version and kind):
        return False
    group = version.partition("/")[0]
    return nearest(group, (GROUP,)) is None and nearest(kind, tuple(KINDS)) is None


def mendable(source: Source) -> tuple[Span, ...]:
    """The spans of a file in which fixes of diagnostics can be applied, in order."""
    try:
        found = (literal_rules(document) for document in documents(source))
        # An alias stands after the rules that it repeats.
        return tuple(sorted({span for span in found if span is not None}, key=lambda s: s.start))
    except DocumentError:
        return ()


# Rules that begin behind their key, so that YAML reads the signs in them.
_RULES_IN_LINE = re.compile(r"(?m)^[ \t]*rules:[ \t]*(?![|>\"'\s])\S")
_OF_LANGUAGE = re.compile(
    r"(?m)^(?:(?:cluster[ \t]+)?policy[ \t]+[\w\"]|test[ \t]+\"[^\"\n]*\"[ \t]*\{)"
)
# A clause that YAML reads: its rules are not indented, or have no key.
_CLAUSE = re.compile(rf"(?m)^[ \t]*(?:{'|'.join(CLAUSE_WORDS)})[ \t]+\"[^\"\n]*\"[^\n]*\{{")


def _kind_of_text(source: Source) -> str | None:
    """The hint for a text that is no YAML, or no object."""
    if _OF_LANGUAGE.search(source.text) is not None:
        return "give the file the ending `.policy`: this is the language, and not a manifest"
    if re.search(r"(?m)^\s*\{\{", source.text):
        return "render the template first: `helm template CHART | placet check -`"
    if re.search(r"(?m)^ *\t", source.text):
        return "write blanks in place of the tab"
    if any(sign.search(source.text) is not None for sign in (_RULES_IN_LINE, _CLAUSE)):
        return "write `rules: |`, and the rules indented below it"
    return None


def _not_a_policy(value: object, page: ManifestText, hint: str | None) -> Diagnostic:
    known = value if isinstance(value, dict) else {}
    what = f"`{known['kind']}` of `{known.get('apiVersion', '')}`" if "kind" in known else "this"
    kinds = listed([f"`{kind}`" for kind in KINDS])
    hint = hint or f"a policy is a {kinds} of `{GROUP}`"
    return Diagnostic("P0502", "error", f"{what} is not a policy", page.place("kind"), hint=hint)
